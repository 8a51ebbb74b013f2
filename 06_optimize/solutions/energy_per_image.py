from itertools import pairwise


def energy_per_image(times, counter, launches, batch, idle_w):
    """mJ that an image takes above idle power, from looks at a card's energy counter while it
    works.

    times: s of each look, ascending. counter: what it showed then, mJ since the driver was
    loaded. launches: how many launches were done by then, of `batch` images each; the card is
    busy before the first look and after the last. idle_w: W that the card takes with nothing
    to do.

    The counter changes a few times a second only, all at once. Just then it is up to date: the
    first look with a new value tells energy, time and launches of one moment. Between two such
    looks, the first and the last, everything is counted. ValueError if there are fewer than
    two of them, or if the counter goes back.
    """
    # BEGIN SOLUTION
    # write: mJ per image above idle power
    if any(after < before for before, after in pairwise(counter)):
        raise ValueError("the counter goes back")
    changes = [i for i in range(1, len(counter)) if counter[i] != counter[i - 1]]
    if len(changes) < 2:
        raise ValueError("the counter changes fewer than two times")
    first, last = changes[0], changes[-1]
    seconds = times[last] - times[first]
    images = batch * (launches[last] - launches[first])
    return (counter[last] - counter[first] - 1e3 * idle_w * seconds) / images
    # END SOLUTION
