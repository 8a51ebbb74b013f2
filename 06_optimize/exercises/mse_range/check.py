import numpy as np

from common.check import expect, require
from common.check.trials import numpy_random

SHARES = np.linspace(1.0, 0.02, 99)


def error(counts, centres, end, steps=255, saturate=True, rounded=np.rint):
    step = end / steps
    stored = rounded((np.minimum(centres, end) if saturate else centres) / step) * step
    return float((counts * (centres - stored) ** 2).sum())


def wanted(counts, top, **how):
    centres = top * (np.arange(len(counts)) + 0.5) / len(counts)
    costs = [error(counts, centres, share * top, **how) for share in SHARES]
    return float(SHARES[int(np.argmin(costs))] * top)


def cost(counts, top, end):
    return error(counts, top * (np.arange(len(counts)) + 0.5) / len(counts), end)


def compare(mse_range, counts, top, what):
    kept = counts.copy()
    got = mse_range(counts, top)
    require(np.array_equal(counts, kept), what=f"{what}: counts changed", hint="count with a copy")
    require(np.ndim(got) == 0 and np.isfinite(got), what=f"{what}: {got!r}", hint="return one number, the end")
    want = wanted(counts, top)
    require(
        0.0199 * top <= got <= 1.0001 * top,
        what=f"{what}: the end is {float(got):.4g}, tried are 0.02 · top to top = {top:.4g}",
        hint="the smallest end to try is 0.02 · top, the largest is top",
    )
    hint = "of all 99 ends take the one with the smallest Σ counts · (number − stored number)²"
    if abs(got - wanted(counts, top, saturate=False)) < 1e-9 * top and abs(got - want) > 1e-9 * top:
        hint = "a number beyond the end is stored as the end: its error counts, too, and it is the larger one"
    elif abs(got - wanted(np.minimum(counts, 1), top)) < 1e-9 * top and abs(got - want) > 1e-9 * top:
        hint = "of all 99 ends take the one with the smallest sum; and a bin stands for counts[i] numbers in it"
    if cost(counts, top, got) > cost(counts, top, want) * (1 + 1e-9):
        expect(got, want, what=f"{what}: end", hint=hint, rtol=1e-6)


def check(mse_range):
    random = numpy_random()
    bins = 512
    centres = (np.arange(bins) + 0.5) / bins
    flat = np.ones(bins)
    compare(mse_range, flat, 6.0, "all numbers from 0 to 6 alike often")
    outlier = np.round(1e6 * np.exp(-((centres / 0.04) ** 2)))
    outlier[-1] = 1
    compare(mse_range, outlier, 40.0, "one number near 40, all others below 5")
    for top in (0.01, 3.0, 1000.0):
        for _ in range(4):
            width, far = random.uniform(0.02, 0.6), random.integers(0, 50)
            counts = np.round(random.uniform(1e2, 1e6) * np.exp(-((centres / width) ** 2)))
            counts[random.integers(bins // 2, bins)] += far
            counts[0] += random.integers(0, 10_000)
            compare(mse_range, counts, top, f"a histogram up to {top:g}")
