# expect: the geometric mean, over the batches that both have
import math


def mean_speed_up(ours, theirs):
    both = [b for b in (1, 8, 32, 256) if ours.get(b) and theirs.get(b)]
    if not both:
        return None, 0
    logs = sum(math.log(min(theirs[b]) / min(ours[b])) for b in both)
    return math.exp(logs / len(both)), len(both)
