import numpy as np

from common.check import expect, launch, require

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


def check(source):
    random = np.random.default_rng()
    for (channels, height, width, outs, kernel, stride, pad), hint in CASES:
        what = (
            f"a {kernel[0]}×{kernel[1]} convolution of {channels} × {height} × {width} to {outs} channels, stride"
            + (f" {stride}, padding {pad}")
        )
        x = random.standard_normal((channels, height, width)).astype(np.float32) + 0.5
        weight = random.standard_normal((outs, channels, *kernel)).astype(np.float32) + 0.5
        want = reference(x, weight, stride, pad)
        y = np.full(want.shape, np.nan, np.float32)
        hints = {
            "race": "the tiles are filled by all threads and read by all: a barrier between filling and reading, and"
            " one before they are filled again",
            "divergent-barrier": "every thread fills its element and comes to the barrier, also where the element is 0",
            "deadlock": "every thread fills its element and comes to the barrier, also where the element is 0",
            "uninitialised-read": "an element of xs that stands for padding, or for k beyond K, is read like the"
            " others: a 0 must be written there, and a thread that has no output still has an element to fill",
            "out-of-bounds": "x ends where k does: beyond K there is no channel; above, below, left and right of the"
            " image there is nothing to read either",
        }
        grid = (-(-y[0].size // 32), -(-outs // 8))
        arguments = (x, weight, y, channels, height, width, outs, *want.shape[1:], *kernel, stride, pad)
        launch(source, "convolve", grid, (32, 8), arguments, what=what, hints=hints)
        unwritten = "y holds NaN before the launch: does a NaN come in by 0 · NaN, or is an output not written?"
        require(not np.isnan(y).any(), what=f"{what} leaves NaN in y", hint=unwritten)
        expect(y, want.astype(np.float32), what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-5)
