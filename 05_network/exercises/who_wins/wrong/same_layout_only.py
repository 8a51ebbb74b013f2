# expect: the better layout
import math


def who_wins(records, batch):
    """How many times as fast as cuDNN ours is over all layers of a network at one batch; above 1 ours is faster.

    records: dicts with "case", a layer's name; "count", how many layers of the network are like it;
    "implementation", "ours" or "cudnn"; "layout", "NCHW" or "NHWC"; "batch"; and "median_us". Every case has a record
    of both implementations at this batch, and may have one for each layout: the better one counts. The answer is the
    geometric mean of cuDNN's time over ours, in which every layer of the network, not every case, weighs the same.
    """
    times = {}
    for r in records:
        if r["batch"] == batch and r["layout"] == "NHWC":
            times[r["implementation"], r["case"]] = r["median_us"]
    counts = {r["case"]: r["count"] for r in records}
    cases = [case for one, case in times if one == "ours"]
    logs = sum(counts[case] * math.log(times["cudnn", case] / times["ours", case]) for case in cases)
    return math.exp(logs / sum(counts[case] for case in cases))
