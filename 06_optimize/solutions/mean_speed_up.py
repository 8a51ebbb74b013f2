import math


def mean_speed_up(ours, theirs):
    """(ratio, count): how many times as fast ours is as theirs, over several batches, and over
    how many of them.

    ours, theirs: {batch: [µs, …]}, the times of one batch, one for each way to run it
    (layouts, launches). Of each engine the fastest way counts, batch by batch. A batch counts
    if both have a time for it; some have no entry, or an empty list. Above 1: ours is faster.
    Every batch counts as much as any other, and exchanging ours and theirs gives 1 / ratio. No
    batch at all: (None, 0).
    """
    # BEGIN SOLUTION
    # write: the mean ratio and the number of batches
    both = [batch for batch in ours if ours[batch] and theirs.get(batch)]
    if not both:
        return None, 0
    ratios = [min(theirs[batch]) / min(ours[batch]) for batch in both]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)), len(ratios)
    # END SOLUTION
