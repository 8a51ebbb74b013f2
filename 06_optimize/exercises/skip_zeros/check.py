import numpy as np

from common.check import expect, launch
from common.check.kernels import asked, calls, compare, shapes, use
from common.check.trials import numpy_random

CASES = (  # P, C, O, the share of zeros
    (7, 64, 20, 0.5), (9, 70, 20, 0.5), (8, 32, 32, 0.0), (3, 5, 8, 0.4), (6, 128, 32, 0.9), (5, 33, 1, 0.3),
    (4, 96, 7, 1.0), (1, 1, 1, 0.0), (13, 160, 32, 0.7), (2, 1100, 5, 0.6),
)  # fmt: skip
SHUFFLES = ("__shfl_sync", "__shfl_xor_sync", "__shfl_up_sync", "__shfl_down_sync")
ALL_LANES = (
    "all 32 lanes must come to the vote and to each shuffle, also those that have no channel, a zero or no output: what"
    " such a lane must not do is read or write"
)
HINTS = {
    "deadlock": ALL_LANES,
    "out-of-bounds": "the last 32 channels may be fewer: a lane without a channel reads nothing and holds 0; and a lane"
    " without an output reads no weight",
    "race-global": "lane o of the pixel's warp writes output o, and nobody else does",
}


def drawn(random, pixels, channels, outs, zeros):
    """(x, weight): numbers of both signs, some zeros with a minus; the last channel is small, its weights are large."""
    x = (random.standard_normal((pixels, channels)) + 0.3).astype(np.float32)
    weight = (random.standard_normal((channels, outs)) + 0.2).astype(np.float32)
    x[:, -1] *= np.float32(1e-7)
    weight[-1] *= np.float32(1e7)
    signs = random.choice([0.0, -0.0], x.shape).astype(np.float32)
    return np.where(random.random(x.shape) < zeros, signs, x), weight


def mistakes(x, weight):
    """What comes of some mistakes, by the hint that each deserves."""
    channels = x.shape[1]
    chunks = [slice(first, min(first + 32, channels)) for first in range(0, channels, 32)]

    def some(kept):
        return sum((x[:, c] @ weight[c] for c in chunks if kept(c)), np.zeros((len(x), weight.shape[1])))

    def where(kept):
        return np.where(kept, x, 0) @ weight

    hint = "the channels from 32 on belong to the sum as well: a loop over 32 channels at a time"
    yield hint, some(lambda c: not c.start)
    whole = some(lambda c: c.stop - c.start == 32)
    yield "the last channels, fewer than 32, belong to the sum as well: what do the lanes hold that have none?", whole
    yield "a negative number is not zero: what is left out is x == 0", where(x > 0)
    yield "a small number is not zero: what is left out is x == 0", where(np.abs(x) >= 1e-6)
    lanes = np.arange(weight.shape[1])
    yield ALL_LANES, np.where(np.arange(channels) % 32 < len(lanes), x, 0) @ weight
    none = np.zeros((len(x), len(lanes)))
    yield ALL_LANES, sum((x[:, c] @ weight[c] * (c.start + lanes < channels) for c in chunks), none)
    rows = np.arange(channels) % 32
    yield "channel first + i of the pixel has row first + i of the weights, not row i", x @ weight[rows]
    yield "element [c][o] of weight is at c · O + o", x @ weight.reshape(weight.shape[::-1]).T
    for skipped in ([c for c in chunks if c.stop - c.start == 32], chunks):
        kept = np.ones(x.shape, bool)
        for c in skipped:
            kept[:, c] = (x[:, c] != 0).all(1, keepdims=True) & (c.stop - c.start == 32)
        yield "one zero among 32 channels leaves out itself, and none of the others", where(kept)
    filled, rows = (np.zeros((size, 32 * len(chunks))) for size in (len(x), weight.shape[1]))
    filled[:, :channels], rows[:, :channels] = x, weight.T
    parts = filled.reshape(len(x), -1, 32)
    shifted = np.where(parts != 0, np.roll(parts, -1, 2), 0).reshape(filled.shape)
    turned = np.roll(rows.reshape(len(rows), -1, 32), -1, 2).reshape(rows.shape)
    yield "__ffs counts from 1: of the lowest bit it is 1, and 0 if there is none", shifted @ turned.T


def check(source):
    random = numpy_random()
    reports = []
    more = [(p, c, o, float(random.choice((0.2, 0.8)))) for p, c, o in shapes(source, random, (), (40, 300, (32,)))]
    for pixels, channels, outs, zeros in (*CASES, *more):
        what = f"skip_zeros of {pixels} pixels, {channels} > {outs} channels, {zeros:.0%} zeros"
        x, weight = drawn(random, pixels, channels, outs, zeros)
        y, warps = np.full((pixels, outs), np.nan, np.float32), int(random.choice((4, 1, 3, 8)))
        grid, args = (-(-pixels // warps),), (x, weight, y, pixels, channels, outs)
        report = launch(source, "skip_zeros", grid, (32 * warps,), args, what=what, hints=HINTS, outputs=(y,))
        exact, wide = x.astype(np.float64) @ weight, (x.astype(np.float64), weight.astype(np.float64))
        known = ((wrong, hint) for hint, wrong in mistakes(*wide))
        hint = "y[p][o] is the sum of x[p][c] · weight[c][o] over all c whose x[p][c] is not zero"
        compare(y, exact, what=f"{what}: y", hint=hint, mistakes=known, rtol=1e-5, atol=1e-6 * channels**0.5)
        reports.append((what, grid, warps, args, report))

    for name, number in (("a NaN", np.nan), ("an infinity", np.inf), ("the smallest number, 1e-45,", 1e-45)):
        what = f"skip_zeros with {name} in pixel 1"
        x, weight = drawn(random, 4, 40, 8, 0.5)
        x[1, 35], y = number, np.full((4, 8), np.nan, np.float32)
        if number < 1:
            x[:, 35], x[1], weight[35] = 0, 0, 1e38
            x[1, 35] = number
        launch(source, "skip_zeros", (1,), (128,), (x, weight, y, 4, 40, 8), what=what, hints=HINTS, outputs=(y,))
        hint = f"{name} is not zero: it has to come out, so that it is seen in y. Which comparison is true for it?"
        special = np.isnan(y) if np.isnan(number) else np.isinf(y) if np.isinf(number) else y != 0
        expect(special[1], np.ones(8, bool), what=f"{what}: where it shows in y[1]", hint=hint)
        expect(np.isfinite(y[[0, 2, 3]]).all(), True, what=f"{what}: the other pixels are finite", hint=hint)

    for what, grid, warps, args, report in reports:  # right first, then as little work as there are numbers
        x, _, _, pixels, channels, outs = args
        there, minus = int((x != 0).sum()), int(((x == 0) & np.signbit(x)).sum())
        read, of_weight = (use(report, number).counts.accesses for number in (0, 1))
        hint = "first ask, then load: a channel that is zero needs no weight. The vote says which lanes have another"
        if minus and of_weight == (there + minus) * outs:
            hint = "−0.0 is zero, though its bits are not: compare it as a float"
        said = f"{what}: rows of weights are read for channels that are zero,"
        said += f" {of_weight // outs} rows for {there} numbers that are not"
        asked(of_weight <= there * outs, what=said, hint=hint, picture=report)
        hint = "one lane reads a channel, 32 lanes 32 of them; from its register all others get it by __shfl_sync"
        said = f"{what}: threads read numbers of x {read} times, {pixels * channels} would do"
        asked(read <= pixels * channels, what=said, hint=hint, picture=report)
        made = sum(calls(source, "skip_zeros", grid, (32 * warps,), args, SHUFFLES).values()) // 32
        hint = "jump from one set bit to the next: __ffs finds the lowest one, set &= set − 1 clears it. A warp that"
        hint += " asks all 32 has saved loads, but no step"
        said = f"{what}: warps make {made} shuffles for {there} numbers that are not zero"
        asked(made <= there + 3 * pixels * -(-channels // 32), what=said, hint=hint)
