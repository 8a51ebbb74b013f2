from itertools import pairwise


def energy_per_image(times, counter, launches, batch, idle_w):
    """mJ per image above idle power, from readings of a card's energy counter while it works.

    times: when each reading was taken, in s, ascending. counter: its values, in mJ since the
    driver was loaded. launches: how many launches of `batch` images had ended at each reading;
    the card is busy before the first reading and after the last. idle_w: idle power, in W.

    The counter changes only a few times per second. The first reading with a new value gives
    the energy, the time and the launches of one moment. Count from the first such reading to
    the last one. ValueError if there are fewer than two of them, or if the counter goes back.
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
