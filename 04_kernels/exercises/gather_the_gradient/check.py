import numpy as np

from common.check import Wrong, expect, launch, require

# images, channels, height, width: odd and even in each direction
SIZES = ((1, 1, 1, 1), (1, 1, 7, 5), (1, 1, 8, 6), (2, 3, 9, 17), (3, 2, 16, 33))


def gradient(grad, weight, height, width):
    """In float64, by scattering: what each output gives to the nine pixels that it read."""
    n, c, oh, ow = grad.shape
    padded = np.zeros((n, c, 2 * oh + 1, 2 * ow + 1))
    for kh, kw in np.ndindex(3, 3):
        padded[:, :, kh : kh + 2 * oh : 2, kw : kw + 2 * ow : 2] += grad * weight[:, kh, kw, None, None].astype(float)
    return padded[:, :, 1 : height + 1, 1 : width + 1]


def check(source):
    random = np.random.default_rng()

    def run(grad, weight, out, what, accumulate=0):
        n, c, h, w = out.shape
        kept = grad.copy(), weight.copy()
        hints = {
            "race": "each pixel belongs to one thread, and nobody else writes there. Do not go through the outputs and"
            " add to the pixels that they read: go through the taps and look for the output",
            "out-of-bounds": "h + 1 - kh = H is even if H is: then output H / 2 = oH would come out, which is not"
            " there. Halve both, row and column; and weight has one kernel a channel, not one a plane",
        }
        args = (grad, weight, out, n * c, c, h, w, *grad.shape[2:], accumulate)
        launch(source, "input_gradient", (-(-out.size // 128),), (128,), args, what=what, hints=hints)
        unchanged = np.array_equal(grad, kept[0]) and np.array_equal(weight, kept[1])
        require(unchanged, what=f"{what} changes its input", hint="grad and weight are to be read only")

    # one output that has a gradient, of 1: it gives each of its nine pixels the weight of the tap that read it
    grad, out = np.zeros((1, 1, 4, 4), np.float32), np.full((1, 1, 7, 7), np.nan, np.float32)
    grad[0, 0, 1, 2] = 1
    weight = np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3)
    what = "the gradient of 1 of output (1, 2), weights 1 to 9"
    run(grad, weight, out, what)
    require(
        not np.isnan(out).any(), what=f"{what} leaves NaN in out",
        hint="out holds NaN before the launch: every pixel must be written, and with accumulate = 0 what was there does"
        " not count",
    )  # fmt: skip
    around = out[0, 0, 1:4, 3:6]
    got = " ".join(f"{value:g}" for value in around.ravel())
    if np.array_equal(around, weight[0, ::-1, ::-1]) or np.array_equal(around, weight[0].T):
        raise Wrong(
            f"{what}: the pixels that it read get {got}",
            "the right pixels with the wrong taps: the one at the top left was read by tap (0, 0), which has weight 1",
        )
    if np.count_nonzero(out) > 9:
        raise Wrong(
            f"{what}: {np.count_nonzero(out)} pixels get something, but it read 9",
            "2·oh = h + 1 - kh has a solution only if the right-hand side is even: do not round it",
        )
    hint = "output (oh, ow) read the pixels (2·oh - 1 + kh, 2·ow - 1 + kw), of which the first is (1, 3) here"
    expect(out, gradient(grad, weight, 7, 7).astype(np.float32), what=f"{what}: out", hint=hint)

    for n, c, h, w in SIZES:
        for accumulate in (0, 1):
            what = f"input_gradient of {n} × {c} × {h} × {w}{', accumulated' if accumulate else ''}"
            grad = random.standard_normal((n, c, (h + 1) // 2, (w + 1) // 2)).astype(np.float32) + 0.5
            weight = random.standard_normal((c, 3, 3)).astype(np.float32)
            before = random.standard_normal((n, c, h, w)) if accumulate else np.full((n, c, h, w), np.nan)
            out = before.astype(np.float32)
            want = gradient(grad, weight, h, w) + (out if accumulate else 0)
            run(grad, weight, out, what, accumulate)
            hint = "out holds NaN before the launch: is every pixel written, those of the last row and column too?"
            require(not np.isnan(out).any(), what=f"{what} leaves NaN in out", hint=hint)
            hint = "is the sum added to what was in out, once?" if accumulate else "plane p has the weights of p % C"
            expect(out, want.astype(np.float32), what=f"{what}: out", hint=hint, rtol=1e-5, atol=1e-5)
