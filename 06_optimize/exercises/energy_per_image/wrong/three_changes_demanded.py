# expect: ValueError
from itertools import pairwise


def energy_per_image(times, counter, launches, batch, idle_w):
    if any(after < before for before, after in pairwise(counter)):
        raise ValueError("the counter goes back")
    changes = [i for i in range(1, len(counter)) if counter[i] != counter[i - 1]]
    if len(changes) < 3:
        raise ValueError("the counter changes too seldom")
    first, last = changes[0], changes[-1]
    images = batch * (launches[last] - launches[first])
    return (counter[last] - counter[first] - 1e3 * idle_w * (times[last] - times[first])) / images
