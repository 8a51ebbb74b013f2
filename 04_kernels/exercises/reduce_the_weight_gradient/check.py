import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled, use
from common.check.trials import numpy_random

# images, channels, height, width, and the threads of a block
CASES = ((1, 1, 9, 41, 96), (2, 2, 5, 7, 64), (1, 1, 1, 1, 32), (1, 1, 17, 29, 512), (1, 1, 20, 60, 1024))


def gradient(grad, x):
    """In float64, and for each tap the sum of the products' magnitudes, by which rounding is judged."""
    height, width = grad.shape[2:]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    products = [grad * padded[:, :, kh : kh + height, kw : kw + width] for kh, kw in np.ndindex(3, 3)]
    return np.stack([p.sum((0, 2, 3)) for p in products], 1), np.abs(products).sum((1, 3, 4)).max()


def sectors(n, c, height, width, threads):
    """What neighbours that read neighbours touch, were each read of 32 numbers a line of its own: 5 sectors, for grad
    and for x, of each request; a request whose numbers lie in several rows or images touches more of x."""
    requests = -(-n * height * width // threads) * (threads // 32)
    return 9 * c * requests * (2 * 5 + 2 * (32 // width + 1) + 32 // (height * width) + 1)


HINTS = {
    "race": "one thread writes the element of out, and a barrier lies between a warp's write to sums and the"
    " read of another",
    "uninitialised-read": "a block has as many sums as warps, blockDim.x / 32: with 64 threads two, and sums[2]"
    " is not there",
    "out-of-bounds": "the pixel that a tap reads may lie outside the image; nor need N·H·W be full blocks",
    "deadlock": "shuffles and barriers are for all threads of the block, also for those without a pixel: they bring 0",
    "divergent-barrier": "shuffles and barriers are for all threads of the block, also for those without a"
    " pixel: they bring 0",
    "race-global": "one thread of the block writes the element of out",
    "unwritten": "one thread of each block writes the element of out that is its block's",
}


def mistakes(grad, x, threads):
    """What comes of some mistakes, by the hint that each deserves."""
    n, c, height, width = grad.shape
    total = gradient(grad, x)[0]
    yield gradient(grad[:1], x[:1])[0], "the products of all N images belong to the sum"
    yield total[:, ::-1], "tap (kh, kw) reads row h + kh − 1 and column w + kw − 1: yours are mirrored"
    yield total.reshape(c, 3, 3).swapaxes(1, 2).reshape(c, 9), "kh is the row of the tap and kw its column"
    order = np.arange(n * height * width).reshape(n, 1, height, width)
    whole = order < order.size // threads * threads
    yield gradient(grad * whole, x)[0], "the products beyond the last multiple of the block's threads count as well"
    yield gradient(grad * (order % threads < 32), x)[0], "every warp's sum belongs to the block's"
    yield gradient(grad * (order % threads < 256), x)[0], "a block may have up to 32 warps, and every one's sum counts"
    yield gradient(grad * (order < threads), x)[0], "a thread takes t, t + blockDim.x, … as long as there are products"


def run(source, grad, x, threads, what):
    n, c, height, width = grad.shape
    out = np.full((c, 9), np.nan, np.float32)
    args = (grad, x, out, n, c, height, width)
    report = launch(
        source, "weight_gradient", (9 * c,), (threads,), args, what=what, hints=HINTS, outputs=(out,)
    )  # fmt: skip
    with np.errstate(invalid="ignore"):
        (want, size), known = gradient(grad, x), list(mistakes(grad, x, threads))
    hint = (
        "every product counts once: those of all images, those beyond a multiple of the block's threads, for every"
        " number of warps; and tap (kh, kw) reads row h + kh - 1 and column w + kw - 1, or 0 outside the"
        " image; and every thread comes to the shuffles, with 0 if it has no product"
    )
    size = float(size) if np.isfinite(size) else 1e3
    compare(out, want, what=f"{what}: out", hint=hint, mistakes=known, atol=1e-6 * size)
    return report


def check(source):
    random = numpy_random()
    reports = []
    drawn = shapes(source, random, (), (4, 3, 30, 40, (32,)))
    for n, c, height, width, threads in (*CASES, *((n, c, h, w, 32 * warps) for n, c, h, w, warps in drawn)):
        what = f"weight_gradient of {n} × {c} × {height} × {width} with {threads} threads a block"
        grad, x = (random.standard_normal((n, c, height, width)).astype(np.float32) + 0.5 for _ in range(2))
        reports.append((what, (n, c, height, width, threads), run(source, grad, x, threads, what)))
    grad, x = (random.standard_normal((1, 4, 9, 9)).astype(np.float32) + 0.5 for _ in range(2))
    run(source, grad, sprinkled(random, x), 64, "weight_gradient of 1 × 4 × 9 × 9, NaN and infinities in x")

    for what, case, report in reports:  # right first, then as it was asked for
        atomics = sum(line.counts.accesses for line in report.lines if line.kind == "atomic")
        hint = "atomics leave the order of the additions to chance, and the last bits with it: shuffles and sums do"
        asked(atomics == 0, what=f"{what} makes {atomics} atomic additions", hint=hint, picture=report)
        got, enough = report.global_loads.sectors, sectors(*case)
        hint = "neighbouring threads should read neighbouring pixels: thread t takes t, t + blockDim.x, …"
        asked(got <= enough, what=f"{what} loads {got} sectors, {enough} are enough", hint=hint, picture=report)
        got, fewest = use(report, 0).warps, min(case[-1] // 32, -(-case[0] * case[2] * case[3] // 32))
        hint = "the threads of the block share the products: all of its warps"
        asked(
            got >= fewest, what=f"{what}: {got} warps read grad, there is work for {fewest}", hint=hint, picture=report
        )
