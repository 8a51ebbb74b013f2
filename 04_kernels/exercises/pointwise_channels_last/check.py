import numpy as np

from common.check import expect, launch, require

SIZES = ((5, 7, 33), (1, 1, 1), (49, 3, 17), (7, 16, 96), (33, 5, 64))  # P, C, O
HINTS = {
    "out-of-bounds": "the last block has threads to spare: compare p with P before anything is read",
    "race": "one thread an output: nobody else writes it",
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
    yield "element [p][o] of y is at p · O + o", right.T.reshape(right.shape)
    yield "weight is (C, O): element [c][o] is at c · O + o", x @ weight.reshape(weight.shape[::-1]).T
    yield "element [p][c] of x is at p · C + c", x.reshape(x.shape[::-1]).T @ weight
    yield "every channel of the pixel takes part, the last one too", x[:, :-1] @ weight[:-1]


def check(source):
    random = np.random.default_rng()
    reports = []
    for pixels, channels, outs in SIZES:
        what = f"pointwise of {pixels} pixels, {channels} > {outs} channels"
        shapes = (pixels, channels), (channels, outs)
        x, weight = ((random.standard_normal(shape) + 0.5).astype(np.float32) for shape in shapes)
        y = np.full((pixels, outs), np.nan, np.float32)
        args = (x, weight, y, pixels, channels, outs)
        report = launch(source, "pointwise", (-(-pixels * outs // 256),), (256,), args, what=what, hints=HINTS)
        hint = "y holds NaN before the launch: is each output of each pixel computed, those of the last one too?"
        require(not np.isnan(y).any(), what=f"{what} leaves NaN in y", hint=hint)
        exact = x.astype(np.float64) @ weight
        made = (h for h, wrong in mistakes(x.astype(np.float64), weight) if np.allclose(y, wrong, 1e-4, 1e-4))
        hint = next(made, "y[p][o] is the sum over c of weight[c][o] · x[p][c]")
        expect(y, exact.astype(np.float32), what=f"{what}: y", hint=hint, rtol=1e-5)
        reports.append((what, (pixels, channels, outs), report))

    for what, sizes, report in reports:  # right first, then fast
        loads, stores = fewest_sectors(*sizes)
        got = report.global_stores.sectors
        hint = "channels are the innermost in NHWC: 32 neighbouring threads should have neighbouring outputs of a"
        hint += " pixel, not neighbouring pixels; and the sum belongs in a register until it is complete"
        require(got <= stores, what=f"{what} stores {got} sectors, {stores} would do", hint=hint, picture=report)
        got = report.global_loads.sectors
        require(got <= loads, what=f"{what} loads {got} sectors, {loads} would do", hint=hint, picture=report)
