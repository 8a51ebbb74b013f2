# expect: per case cuDNN's best time over ours
import math


def who_wins(records, batch):
    best, counts = {}, {}
    for r in records:
        if r["batch"] == batch:
            key = r["case"][:1], r["implementation"]
            best[key] = min(r["median_us"], best.get(key, math.inf))
            counts[r["case"][:1]] = r["count"]
    logs = sum(count * math.log(best[case, "cudnn"] / best[case, "ours"]) for case, count in counts.items())
    return math.exp(logs / sum(counts.values()))
