import numpy as np

from common.check import launch
from common.check.kernels import beyond, compare, sprinkled
from common.check.trials import numpy_random

# C, H, W, O, (kH, kW), stride, padding; what is new in each
CASES = (
    ((8, 5, 7, 8, (1, 1), 1, 0), "a 1×1 kernel: column[k, p] is x[k, p]"),
    (
        (2, 7, 9, 5, (2, 2), 1, 0),
        "k counts (c, kh, kw) and p counts (oh, ow), the last of them fastest; rows of y are oW long",
    ),
    ((2, 9, 6, 3, (2, 4), 1, 0), "rows of the kernel are kW long, rows of x are W long"),
    ((1, 9, 13, 9, (3, 3), 2, 0), "a window begins at oh · stride, ow · stride"),
    ((3, 5, 4, 2, (3, 3), 1, 1), "a window begins pad rows above the image and pad columns to its left"),
    ((3, 11, 9, 11, (3, 5), 3, 2), "stride and padding together, K = 45 is no multiple of 8"),
    ((1, 1, 1, 1, (3, 3), 1, 1), "nearly everything is padding"),
)


def reference(x, weight, stride, pad):
    """In float64, from the definition."""
    outs, _, kh, kw = weight.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad)))
    oh, ow = (padded.shape[1] - kh) // stride + 1, (padded.shape[2] - kw) // stride + 1
    y = np.zeros((outs, oh, ow))
    for i in range(kh):
        for j in range(kw):
            under = padded[:, i : i + (oh - 1) * stride + 1 : stride, j : j + (ow - 1) * stride + 1 : stride]
            y += np.tensordot(weight[:, :, i, j].astype(np.float64), under, 1)
    return y


HINTS = {
    "race": "the tiles are filled by all threads and read by all: a barrier between filling and reading, and"
    " one before they are filled again",
    "divergent-barrier": "every thread fills its element and comes to the barrier, also where the element is 0",
    "deadlock": "every thread fills its element and comes to the barrier, also where the element is 0",
    "uninitialised-read": "an element of xs that stands for padding, or for k beyond K, is read like the"
    " others: a 0 must be written there, and a thread that has no output still has an element to fill",
    "out-of-bounds": "x ends where k does: beyond K there is no channel; above, below, left and right of the"
    " image there is nothing to read either",
    "unwritten": "every output of every channel is written, those of the last block too",
}
ALL = "xs[ty][tx] is column[k0 + ty][p]: channel, row and column of x under that tap, or 0 outside of it"


def drawn(source, random):
    """A convolution whose every size is drawn, and some with one size beyond a number in the answer."""
    for _ in range(3):
        c, h, w, o, kh, kw, s, p = (
            int(n) for n in random.integers((1, 5, 5, 1, 1, 1, 1, 0), (6, 16, 40, 20, 5, 5, 4, 4))
        )
        yield c, h, w, o, (kh, kw), s, p
    for number in beyond(source, 1100)[-3:]:
        yield number, 2, 3, 2, (1, 1), 1, 0
        yield 1, 2, number + 1, 2, (1, 2), 1, 0
        yield 1, number + 1, 2, 2, (2, 1), 1, 0
        yield 2, 2, 2, number, (1, 2), 1, 1
        yield 1, 2, number + 1, 1, (1, number), 1, 0
        yield 1, number + 1, 2, 1, (number, 1), 1, 0
        yield 1, 2, number + 1, 1, (1, 1), number, 0
        if number < 100:
            yield 1, 2, 1, 1, (1, 1), 3, number


def run(source, case, hint, random, odd=False):
    channels, height, width, outs, kernel, stride, pad = case
    what = (
        f"a {kernel[0]}×{kernel[1]} convolution of {channels} × {height} × {width} to {outs} channels, stride"
        f" {stride}, padding {pad}{', NaN and infinities in x' if odd else ''}"
    )
    x = random.standard_normal((channels, height, width)).astype(np.float32) + 0.5
    weight = random.standard_normal((outs, channels, *kernel)).astype(np.float32) + 0.5
    x = sprinkled(random, x) if odd else x
    with np.errstate(invalid="ignore"):
        want = reference(x, weight, stride, pad)
    y = np.full(want.shape, np.nan, np.float32)
    grid = (-(-y[0].size // 32), -(-outs // 8))
    arguments = (x, weight, y, channels, height, width, outs, *want.shape[1:], *kernel, stride, pad)
    launch(source, "convolve", grid, (32, 8), arguments, what=what, hints=HINTS, outputs=(y,))
    compare(y, want, what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-5)


def check(source):
    random = numpy_random()
    for case, hint in (*CASES, *((case, ALL) for case in drawn(source, random))):
        run(source, case, hint, random)
    run(source, (2, 9, 13, 9, (3, 3), 1, 1), ALL, random, odd=True)
