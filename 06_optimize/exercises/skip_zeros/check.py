import numpy as np

from common.check import expect, launch, require
from common.cuda.simulator.module import SimulatedModule

CASES = (  # P, C, O, the share of zeros
    (7, 64, 20, 0.5), (9, 70, 20, 0.5), (8, 32, 32, 0.0), (3, 5, 8, 0.4), (6, 128, 32, 0.9), (5, 33, 1, 0.3),
    (4, 96, 7, 1.0), (1, 1, 1, 0.0), (13, 160, 32, 0.7),
)  # fmt: skip
WARPS = 4  # of a block
ALL_LANES = (
    "all 32 lanes must come to the vote and to each shuffle, also those that have no channel, a zero or no output: what"
    " such a lane must not do is read or write"
)
HINTS = {
    "deadlock": ALL_LANES,
    "out-of-bounds": "the last 32 channels may be fewer: a lane without a channel reads nothing and holds 0; and a lane"
    " without an output reads no weight",
    "race": "lane o of the pixel's warp writes output o, and nobody else does",
}
# What counts: a kernel around the learner's, for the simulator alone. The learner's first line stays line 1.
BEFORE = """static unsigned* shuffles;
#define __shfl_sync(...) (atomicAdd(shuffles, 1u), __shfl_sync(__VA_ARGS__))
#line 1
"""
AFTER = """
extern "C" __global__ void counting(const float* x, const float* weight, float* y, int P, int C, int O,
                                    unsigned* count) {
    shuffles = count;
    skip_zeros(x, weight, y, P, C, O);
}
"""


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


def shuffles(source, args):
    """How many shuffles the warps of a launch make."""
    count = np.zeros(1, np.uint32)
    kernel = SimulatedModule(BEFORE + source + AFTER, (), ()).get_function("counting")
    kernel((-(-args[3] // WARPS),), (32 * WARPS,), (*args, count))
    return int(count[0]) // 32


def check(source):
    random = np.random.default_rng()
    reports = []
    for pixels, channels, outs, zeros in CASES:
        what = f"skip_zeros of {pixels} pixels, {channels} > {outs} channels, {zeros:.0%} zeros"
        x, weight = drawn(random, pixels, channels, outs, zeros)
        y = np.full((pixels, outs), np.nan, np.float32)
        args = (x, weight, y, pixels, channels, outs)
        report = launch(source, "skip_zeros", (-(-pixels // WARPS),), (32 * WARPS,), args, what=what, hints=HINTS)
        exact, wide = x.astype(np.float64) @ weight, (x.astype(np.float64), weight.astype(np.float64))
        made = (h for h, wrong in mistakes(*wide) if np.allclose(y, wrong, 1e-4, 1e-4 + 1e-6 * np.abs(wrong).max()))
        hint = next(made, "y[p][o] is the sum of x[p][c] · weight[c][o] over all c whose x[p][c] is not zero")
        expect(y, exact.astype(np.float32), what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-6)
        reports.append((what, args, report))

    what = "skip_zeros with a NaN in pixel 1"
    x, weight = drawn(random, 4, 40, 8, 0.5)
    x[1, 35], y = np.nan, np.zeros((4, 8), np.float32)
    launch(source, "skip_zeros", (1,), (32 * WARPS,), (x, weight, y, 4, 40, 8), what=what, hints=HINTS)
    hint = "NaN is not zero: it has to come out, so that whoever reads y knows. Which comparison is true for it?"
    expect(np.isnan(y), np.repeat(np.arange(4) == 1, 8).reshape(4, 8), what=f"{what}: NaN in y", hint=hint)

    for what, args, report in reports:  # right first, then as little work as there are numbers
        x, _, _, pixels, channels, outs = args
        there, minus = int((x != 0).sum()), int(((x == 0) & np.signbit(x)).sum())
        read = {"x": 0, "weight": 0}
        for entry in report.lines:
            if entry.kind == "load" and entry.array in read:
                read[entry.array] += entry.counts.accesses
        hint = "first ask, then load: a channel that is zero needs no weight. The vote says which lanes have another"
        if minus and read["weight"] == (there + minus) * outs:
            hint = "−0.0 is zero, though its bits are not: compare it as a float"
        said = f"{what}: rows of weights are read for channels that are zero,"
        said += f" {read['weight'] // outs} rows for {there} numbers that are not"
        require(read["weight"] <= there * outs, what=said, hint=hint, picture=report)
        hint = "one lane reads a channel, 32 lanes 32 of them; from its register all others get it by __shfl_sync"
        said = f"{what}: threads read numbers of x {read['x']} times, {pixels * channels} would do"
        require(read["x"] <= pixels * channels, what=said, hint=hint, picture=report)
        made, chunks = shuffles(source, args), pixels * -(-channels // 32)
        hint = "jump from one set bit to the next: __ffs finds the lowest one, set &= set − 1 clears it. A warp that"
        hint += " asks all 32 has saved loads, but no step"
        said = f"{what}: warps make {made} shuffles for {there} numbers that are not zero"
        require(made <= there + 3 * chunks, what=said, hint=hint)
