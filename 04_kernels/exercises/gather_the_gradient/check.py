import numpy as np

from common.check import Wrong, launch
from common.check.kernels import beyond, compare, shapes, sprinkled, target
from common.check.trials import numpy_random

# images, channels, height, width: odd and even in each direction
SIZES = ((1, 1, 1, 1), (1, 1, 7, 5), (1, 1, 8, 6), (2, 3, 9, 17), (3, 2, 16, 33))


def gradient(grad, weight, height, width):
    """In float64, by scattering: what each output gives to the nine pixels that it read."""
    n, c, oh, ow = grad.shape
    padded = np.zeros((n, c, 2 * oh + 1, 2 * ow + 1))
    for kh, kw in np.ndindex(3, 3):
        padded[:, :, kh : kh + 2 * oh : 2, kw : kw + 2 * ow : 2] += grad * weight[:, kh, kw, None, None].astype(float)
    return padded[:, :, 1 : height + 1, 1 : width + 1]


HINTS = {
    "race-global": "each pixel belongs to one thread, and nobody else writes there. Do not go through the outputs and"
    " add to the pixels that they read: go through the taps and look for the output",
    "out-of-bounds": "h + 1 - kh = H is even if H is: then output H / 2 = oH would come out, which is not"
    " there. Halve both, row and column; and weight has one kernel a channel, not one a plane",
    "unwritten": "every pixel must be written, those of the last row and column too, and those whose sum is 0",
    "output-read": "with accumulate = 0 what was in out does not count",
}


def run(source, grad, weight, out, what, accumulate=0, threads=128):
    n, c, h, w = out.shape
    args = (grad, weight, out, n * c, c, h, w, *grad.shape[2:], accumulate)
    which = {"updated": (out,), "outputs": ()} if accumulate else {"outputs": (out,)}
    return launch(
        source, "input_gradient", (-(-out.size // threads),), (threads,), args, what=what, hints=HINTS, **which
    )


def check(source):
    random = numpy_random()
    reports = []

    # one output that has a gradient, of 1: it gives each of its nine pixels the weight of the tap that read it
    grad, out = np.zeros((1, 1, 4, 4), np.float32), np.full((1, 1, 7, 7), np.nan, np.float32)
    grad[0, 0, 1, 2] = 1
    weight = np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3)
    what = "the gradient of 1 of output (1, 2), weights 1 to 9"
    run(source, grad, weight, out, what)
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
    compare(out, gradient(grad, weight, 7, 7), what=f"{what}: out", hint=hint)

    far = [(1, 1, 2 * number, 3) for number in beyond(source, 1100)] + [(1, 2, 3, 2 * n) for n in beyond(source, 1100)]
    for n, c, h, w in (*shapes(source, random, SIZES, (4, 5, 20, 40)), *far):
        for accumulate in (0, 1):
            what = f"input_gradient of {n} × {c} × {h} × {w}{', accumulated' if accumulate else ''}"
            grad = random.standard_normal((n, c, (h + 1) // 2, (w + 1) // 2)).astype(np.float32) + 0.5
            weight = random.standard_normal((c, 3, 3)).astype(np.float32)
            if (h, w) == (9, 17):
                grad, what = sprinkled(random, grad), f"{what}, NaN and infinities in grad"
            before = random.standard_normal((n, c, h, w)) if accumulate else np.full((n, c, h, w), np.nan)
            out = before.astype(np.float32)
            with np.errstate(invalid="ignore"):
                sums = gradient(grad, weight, h, w)
                want = sums + (out if accumulate else 0)
                first = gradient(grad, np.repeat(weight[:1], c, 0), h, w) + (out if accumulate else 0)
            known = [(first, "plane p has the weights of channel p % C, not those of channel 0")]
            if accumulate:
                known = [
                    (sums, "with accumulate = 1 the sum is added to what was in out"),
                    (before, "with accumulate = 1 the sum is added to what was in out: nothing is"),
                    (before - sums, "the sum is added, not subtracted"),
                    (want + sums, "the sum is added twice"),
                ]
            threads = int(random.choice((128, 32, 33, 256)))
            reports.append((what, out.size, run(source, grad, weight, out, what, accumulate, threads)))
            hint = (
                "to out[p][h][w] goes weight[p % C][kh][kw] · grad[p][oh][ow] for each tap with 2·oh = h + 1 − kh and"
            )
            hint += " 2·ow = w + 1 − kw"
            hint += "; what was in out is added, once" if accumulate else ""
            compare(out, want, what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5)

    for what, pixels, report in reports:  # right first, then frugal
        stores = report.global_stores.accesses + sum(counts.accesses for counts in report.atomics.values())
        hint = "sum in a register; store the sum once, after the last tap"
        target(stores, pixels, "stores", what=what, hint=hint, picture=report)
