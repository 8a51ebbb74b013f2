import math
import random

from common.check import expect


def record(case, implementation, us, count=1, layout="NHWC", batch=1):
    return {
        "case": case, "implementation": implementation, "median_us": us, "count": count, "layout": layout,
        "batch": batch,
    }  # fmt: skip


def reference(records, batch):
    best, counts = {}, {}
    for r in records:
        if r["batch"] == batch:
            key = r["case"], r["implementation"]
            best[key] = min(r["median_us"], best.get(key, math.inf))
            counts[r["case"]] = r["count"]
    product = sum(n * (math.log(best[case, "cudnn"]) - math.log(best[case, "ours"])) for case, n in counts.items())
    return math.exp(product / sum(counts.values()))


def check(who_wins):
    def compare(records, batch, hint, what):
        expect(who_wins(records, batch), reference(records, batch), what=f"who_wins of {what}", hint=hint, rtol=1e-9)

    one = [record("a", "ours", 2.0), record("a", "cudnn", 6.0)]
    hint = "one layer: cuDNN's time over ours, 6 / 2; a mean of logarithms needs an exp at the end"
    compare(one, 1, hint, "one layer, 2 µs and 6 µs")
    two = [record("a", "ours", 1.0), record("a", "cudnn", 4.0), record("b", "ours", 4.0), record("b", "cudnn", 1.0)]
    hint = "4 times as fast once and 4 times as slow once is a draw: the mean of ratios is the geometric one"
    compare(two, 1, hint, "two layers with the ratios 4 and 1/4")
    uneven = [*two[:2], record("b", "ours", 400.0), record("b", "cudnn", 100.0)]
    hint = "each layer's ratio weighs the same, not the ratio of the sums, in which the slow layers weigh most"
    compare(uneven, 1, hint, "two layers with the ratios 4 and 1/4, one of them much slower")
    often = [
        record("a", "ours", 1.0, 3), record("a", "cudnn", 2.0, 3),
        record("b", "ours", 1.0), record("b", "cudnn", 5.0),
    ]  # fmt: skip
    hint = "a case stands for `count` layers of the network, each of which weighs the same"
    compare(often, 1, hint, "a case that occurs three times and one that occurs once")
    later = [*one, record("a", "ours", 1.0, batch=32), record("a", "cudnn", 1.5, batch=32)]
    compare(later, 1, "the records of another batch are about other work: leave them out", "records of two batches")
    compare(later, 32, "the records of another batch are about other work: leave them out", "records of two batches")
    hint = "per case the better layout, ours and cuDNN's each: a user would choose it, and a layer may want another one"
    layouts = [
        record("a", "ours", 2.0), record("a", "cudnn", 5.0), record("a", "cudnn", 3.0, layout="NCHW"),
        record("b", "ours", 2.0), record("b", "ours", 4.0, layout="NCHW"),
        record("b", "cudnn", 5.0, layout="NCHW"), record("b", "cudnn", 4.0),
    ]  # fmt: skip
    compare(layouts, 1, hint, "cases with several layouts")
    compare(layouts[::-1], 1, hint, "cases with several layouts")

    draw = random.Random()
    for _ in range(20):
        records = []
        for case in "abcdef"[: draw.randint(1, 6)]:
            count = draw.randint(1, 4)
            for batch in (1, 32):
                for implementation in ("ours", "cudnn"):
                    for layout in draw.choice([["NHWC"], ["NCHW"], ["NCHW", "NHWC"]]):
                        records.append(record(case, implementation, draw.uniform(1, 99), count, layout, batch))
        draw.shuffle(records)
        compare(records, draw.choice([1, 32]), "any records", f"{len(records)} random records")
