import math


def who_wins(records, batch):
    """How many times as fast as cuDNN ours is over all layers of a network at one batch; above
    1 ours is faster.

    records: dicts with "case", a layer's name; "count", how many layers of the network are
    like it; "implementation", "ours" or "cudnn"; "layout", "NCHW" or "NHWC"; "batch"; and
    "median_us". Every case has a record of both implementations at this batch, and may have
    one for each layout: the better one counts. The answer is the geometric mean of cuDNN's
    time over ours, in which every layer of the network, not every case, weighs the same.
    """
    # BEGIN SOLUTION
    # write: the mean speed-up over all layers
    ours, theirs = {}, {}
    for r in records:
        if r["batch"] == batch:
            best = ours if r["implementation"] == "ours" else theirs
            best[r["case"]] = min(r["median_us"], best.get(r["case"], math.inf))
    counts = {r["case"]: r["count"] for r in records}
    logs = sum(counts[case] * math.log(theirs[case] / ours[case]) for case in ours)
    return math.exp(logs / sum(counts[case] for case in ours))
    # END SOLUTION
