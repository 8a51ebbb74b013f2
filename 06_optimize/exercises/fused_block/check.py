import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, use
from common.check.trials import numpy_random

# height, width: a single whole tile, several of them, sizes that no tile divides
SIZES = ((4, 8), (8, 16), (7, 7), (5, 19), (1, 1))


def relu6(v):
    return np.clip(v, 0, 6)


def block(x, expand, expand_bias, depthwise, depthwise_bias, project, project_bias, mistake=""):
    """The block in float64; mistake: what is done differently."""
    height, width, _ = x.shape
    hidden = x @ expand.T + expand_bias
    if mistake != "no activation after expand":
        hidden = relu6(hidden)
    padded = np.zeros((height + 2, width + 2, 16))
    if mistake == "padding of the bias":
        padded[:] = relu6(expand_bias)
    padded[1:-1, 1:-1] = hidden
    rows, columns = (1, 1) if mistake == "halo" else (0, 0)
    shifted = np.zeros((height + 3, width + 3, 16))
    shifted[: height + 2, : width + 2] = padded
    if mistake == "wraps":
        flat = np.concatenate([np.zeros((width + 1, 16)), hidden.reshape(-1, 16), np.zeros((width + 1, 16))])
    dw = np.zeros_like(hidden) + depthwise_bias
    for i in range(3):
        for j in range(3):
            tap = depthwise[:, j, i] if mistake == "turned" else depthwise[:, i, j]
            if mistake == "wraps":
                start = i * width + j
                dw += tap * flat[start : start + height * width].reshape(height, width, 16)
            else:
                dw += tap * shifted[i + rows : i + rows + height, j + columns : j + columns + width]
    if mistake != "no activation after depthwise":
        dw = relu6(dw)
    if mistake == "residual of hidden":
        dw = dw + hidden
    y = dw @ project.T + project_bias
    if mistake not in ("no residual", "residual of hidden"):
        y = y + x
    return relu6(y) if mistake == "activation after project" else y


MISTAKES = {
    "padding of the bias": "the depthwise convolution's padding is 0, not what expand makes of zeros, relu6(bias)",
    "halo": "hidden[0][0] belongs to pixel (first_h - 1, first_w - 1): the window of an output begins one row and one"
    " column before it",
    "wraps": "left of column 0 lies padding: an index into x alone leads from the end of one row to the next",
    "no residual": "the residual is the input of the block, added to its output: + x[o]",
    "residual of hidden": "the residual is the input of the block, added to its output: + x[o]",
    "activation after project": "the bottleneck is linear: nothing follows project but the residual",
    "no activation after expand": "relu6 follows expand, bounds on both sides",
    "no activation after depthwise": "relu6 follows the depthwise convolution, before project sums over channels",
    "turned": "rows first: tap i · 3 + j of depthwise[c][3][3] lies over row i, column j of the window",
}


HINTS = {
    "race": "hidden must be whole before the depthwise convolution reads them, and dw before project sums over"
    " it, of all 16 channels: threads of other warps write them",
    "uninitialised-read": "nobody wrote this place: hidden has 6 × 10 pixels, the rim of the tile included",
    "out-of-bounds": "where the image ends, x has nothing to read and y no place to write",
    "unwritten": "4 · 8 · 8 numbers of a tile are twice as many as there are threads",
}


def check(source):
    random = numpy_random()
    for height, width in shapes(source, random, SIZES, (20, 30)):
        what = f"fused_block of {height} × {width} pixels"
        # sums that leave [0, 6] on both sides, biases that relu6 does not make 0
        sizes = {"x": (height, width, 8), "expand": (16, 8), "expand_bias": 16, "depthwise": (16, 3, 3)}
        sizes |= {"depthwise_bias": 16, "project": (8, 16), "project_bias": 8}
        arrays = {name: random.standard_normal(shape).astype(np.float32) for name, shape in sizes.items()}
        arrays["expand"] *= 2
        arrays["expand_bias"] = (1 + np.abs(arrays["expand_bias"])).astype(np.float32)
        y = np.full((height, width, 8), np.nan, np.float32)
        args, grid = (*arrays.values(), y, height, width), (-(-width // 8), -(-height // 4))
        report = launch(source, "fused_block", grid, (128,), args, what=what, hints=HINTS, outputs=(y,))
        exact = [array.astype(np.float64) for array in arrays.values()]
        known = ((block(*exact, mistake), told) for mistake, told in MISTAKES.items())
        hint = "compare hidden, dw and y with the three lines at the top, one after the other"
        compare(y, block(*exact), what=f"{what}: y", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5)
        if (height, width) == (8, 16):
            of_whole_tiles = what, report

    what, report = of_whole_tiles  # right first, then as it was asked for
    hidden, stored = use(report, None, "store"), use(report, 7, "store")
    hint = "hidden and dw lie in shared memory, and all 128 threads share the work of each of the three steps"
    said = f"{what}: {hidden.warps * hidden.lanes} of 128 threads write to shared memory"
    asked(hidden.warps * hidden.lanes == 128, what=said, hint=hint, picture=report)
    said = f"{what}: {stored.warps * stored.lanes} of 128 threads write to y"
    asked(stored.warps * stored.lanes == 128, what=said, hint=hint, picture=report)
    got = (report.global_loads.bytes + report.shared_loads.bytes) // 4
    least = 4 * (  # for each tile 5 · 9 pixels of hidden that lie in the image, dw and y
        5 * 9 * 16 * 17 + 4 * 8 * 16 * 19 + 4 * 8 * 8 * 34
    )
    hint = "a number of hidden is computed once for each tile, and the nine outputs that need it read it from there"
    said = f"{what} loads {got} numbers, {least} would do: something is computed several times"
    asked(got <= 1.5 * least, what=said, hint=hint, picture=report)
