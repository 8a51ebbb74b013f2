import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((5, 7, 33), (1, 1, 1), (49, 3, 17), (7, 16, 96), (33, 5, 64))  # P, C, O
HINTS = {
    "out-of-bounds": "the last block has threads without an element: compare p with P before anything is read",
    "race-global": "one thread an output: nobody else writes it",
    "unwritten": "each output of each pixel is computed, those of the last one too",
}


def fewest_sectors(pixels, channels, outs):
    """(of loads, of stores) when thread i has output i of y as it lies in memory."""
    loads = stores = 0
    for first in range(0, pixels * outs, 32):
        i = np.arange(first, min(first + 32, pixels * outs))
        stores += len(np.unique(i // 8))  # 8 floats in 32 bytes
        for c in range(channels):
            loads += len(np.unique((c * outs + i % outs) // 8)) + len(np.unique((i // outs * channels + c) // 8))
    return loads, stores


def mistakes(x, weight):
    """What comes of some mistakes, by the hint that each deserves."""
    right = x @ weight
    yield right.T.reshape(right.shape), "element [p][o] of y is at p · O + o"
    yield x @ weight.reshape(weight.shape[::-1]).T, "weight is (C, O): element [c][o] is at c · O + o"
    yield x.reshape(x.shape[::-1]).T @ weight, "element [p][c] of x is at p · C + c"
    yield x[:, :-1] @ weight[:-1], "every channel of the pixel takes part, the last one too"
    yield x[:, 1:] @ weight[1:], "every channel of the pixel takes part, the first one too"


def run(source, x, weight, what):
    (pixels, channels), outs = x.shape, weight.shape[1]
    y = np.full((pixels, outs), np.nan, np.float32)
    args = (x, weight, y, pixels, channels, outs)
    grid = (-(-pixels * outs // 256),)
    report = launch(source, "pointwise", grid, (256,), args, what=what, hints=HINTS, outputs=(y,))
    with np.errstate(invalid="ignore"):
        exact, known = x.astype(np.float64) @ weight, list(mistakes(x.astype(np.float64), weight))
    hint = "y[p][o] is the sum over c of weight[c][o] · x[p][c]"
    compare(y, exact, what=f"{what}: y", hint=hint, mistakes=known, rtol=1e-5, atol=1e-6 * channels**0.5)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for pixels, channels, outs in shapes(source, random, SIZES, (60, 60, 60)):
        what = f"pointwise of {pixels} pixels, {channels} > {outs} channels"
        shapes_of = (pixels, channels), (channels, outs)
        x, weight = ((random.standard_normal(shape) + 0.5).astype(np.float32) for shape in shapes_of)
        reports.append((what, (pixels, channels, outs), run(source, x, weight, what)))
        if pixels == 33:
            run(source, sprinkled(random, x), weight, f"{what}, NaN and infinities in x")

    for what, sizes, report in reports:  # right first, then fast
        loads, stores = fewest_sectors(*sizes)
        got = report.global_stores.sectors
        hint = "channels are the innermost in NHWC: 32 neighbouring threads should have neighbouring outputs of a"
        hint += " pixel, not neighbouring pixels; and the sum belongs in a register until it is complete"
        asked(got <= stores, what=f"{what} stores {got} sectors, {stores} would do", hint=hint, picture=report)
        got = report.global_loads.sectors
        asked(got <= loads, what=f"{what} loads {got} sectors, {loads} would do", hint=hint, picture=report)
