import statistics
from collections import defaultdict


def who_wins(records, batch):
    times, counts = defaultdict(list), {}
    for r in records:
        if r["batch"] == batch:
            times[r["case"], r["implementation"]].append(r["median_us"])
            counts[r["case"]] = r["count"]
    ratios = [
        min(times[case, "cudnn"]) / min(times[case, "ours"]) for case, count in counts.items() for _ in range(count)
    ]
    return statistics.geometric_mean(ratios)
