import math

from common.check import expect
from common.check.trials import Slips, python_random


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


def weighted(mean):
    """An answer that makes something else of (count, ours, cudnn) of the cases, each in its better layout."""

    def slip(records, batch):
        rows = [r for r in records if r["batch"] == batch]
        cases = {r["case"]: r["count"] for r in rows}
        best = lambda case, of: min(r["median_us"] for r in rows if (r["case"], r["implementation"]) == (case, of))  # noqa: E731
        return mean([(count, best(case, "ours"), best(case, "cudnn")) for case, count in cases.items()])

    return slip


def all_batches(records, batch):
    return reference([{**r, "batch": batch} for r in records], batch)


SLIPS = {
    "cuDNN's time over ours: above 1 ours is faster. This is the other way round": lambda records, batch: (
        1 / reference(records, batch)
    ),
    "a mean of logarithms needs an exp at the end": lambda records, batch: math.log(reference(records, batch)),
    "the mean of ratios is the geometric one, not the arithmetic one": weighted(
        lambda cases: sum(n * b / a for n, a, b in cases) / sum(n for n, _, _ in cases)
    ),
    "each layer's ratio weighs the same, not the ratio of the sums, in which the slow layers weigh most": weighted(
        lambda cases: sum(n * b for n, _, b in cases) / sum(n * a for n, a, _ in cases)
    ),
    "a case stands for `count` layers of the network, each of which weighs the same": weighted(
        lambda cases: math.exp(sum(math.log(b / a) for _, a, b in cases) / len(cases))
    ),
    "the records of another batch are about other work: leave them out": all_batches,
}


def check(who_wins):
    slips = Slips(SLIPS)

    def compare(records, batch, hint, what):
        got = who_wins([dict(r) for r in records], batch)
        if len(records) < 5:
            what = f"{records}, batch {batch}"
        hint = slips.hint(got, (records, batch), hint)
        expect(got, reference(records, batch), what=f"who_wins of {what}", hint=hint, rtol=1e-9)

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

    draw = python_random()
    every = "per case cuDNN's best time over ours; of these the geometric mean, in which a case weighs `count`"
    for cases in (1, 2, 6, 6, 30) * 6:
        records, batches = [], draw.choice([(1, 32), (32, 1, 8), (256, 8, 1000), (5,)])
        scale = 10.0 ** draw.randint(-3, 6)
        for number in range(cases):
            count = draw.randint(1, 4) if cases > 6 else draw.randint(1, 30)
            for batch in batches[: 1 + (number > 0) * len(batches)]:  # not every case has every batch
                for implementation in ("ours", "cudnn"):
                    for layout in draw.choice([["NHWC"], ["NCHW"], ["NCHW", "NHWC"]]):
                        us = scale * 10.0 ** draw.uniform(-1, 2)
                        records.append(record(f"{number} ours", implementation, us, count, layout, batch))
        draw.shuffle(records)
        compare(records, batches[0], every, f"{len(records)} records of {cases} cases, batch {batches[0]}")
