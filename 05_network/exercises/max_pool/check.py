import numpy as np

from common.check import launch
from common.check.kernels import asked, beyond, compare
from common.check.trials import numpy_random

# images, H, W, k, stride, pad: no padding, squares and not, windows that overlap and that leave columns out, one pixel
SHAPES = (
    (1, 8, 12, 2, 2, 0),
    (3, 7, 5, 3, 2, 1),
    (2, 9, 17, 3, 1, 1),
    (5, 5, 8, 5, 3, 2),
    (4, 1, 1, 3, 2, 1),
    (2, 10, 7, 2, 3, 0),
)
HINTS = {
    "out-of-bounds": "a window at the border reaches beyond the image: look at a pixel only where"
    " 0 ≤ h < H and 0 ≤ w < W, and at all only in threads below images·oH·oW",
    "race-global": "two threads write the same output: a thread's output is the one at its own number i",
    "unwritten": "every output is written, also those at the right and lower border",
}


def windows(extent, k, stride, pad):
    return (extent + 2 * pad - k) // stride + 1


def reference(x, k, stride, pad, fill=-np.inf):
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    every = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (1, 2))
    return every[:, ::stride, ::stride].max((3, 4))


def mistakes(x, k, stride, pad):
    """What comes of some mistakes, by the hint that each deserves."""
    right = reference(x, k, stride, pad)
    hint = "the padding is not part of the image: at the border a 0 has won that is no pixel"
    yield reference(x, k, stride, pad, 0.0), hint
    hint = "what if all numbers of a window are below 0? Nothing may be in the game that is not a pixel"
    yield np.maximum(right, 0), f"{hint}: the largest so far begins at −infinity"
    hint = "the largest so far begins at −infinity, not at the smallest number above 0"
    yield np.maximum(right, np.finfo(np.float32).tiny), hint
    rows, columns = right.shape[1:]
    hint = "window (oh, ow) begins at oh·stride − pad and ow·stride − pad: where is the stride?"
    yield reference(x, k, 1, pad)[:, :rows, :columns], hint
    if pad:
        grown = np.pad(x, ((0, 0), (0, 2 * pad), (0, 2 * pad)), constant_values=-np.inf)
        hint = "window (oh, ow) begins at oh·stride − pad and ow·stride − pad: where is pad?"
        yield reference(grown, k, stride, 0), hint
    if k > 1:
        hint = "a window has k × k pixels: one row and one column are not looked at"
        yield (
            reference(np.pad(x, ((0, 0), (pad, pad), (pad, pad)), constant_values=-np.inf), k - 1, stride, 0)[
                :, :rows, :columns
            ],
            hint,
        )


def drawn(source, random):
    """Windows of which every one holds a pixel, and some with one size beyond a number in the answer."""
    for _ in range(5):
        k, stride, images = (int(n) for n in random.integers(1, (8, 5, 6)))
        height, width = (int(n) for n in random.integers(k, 40, 2))
        yield images, height, width, k, stride, int(random.integers(0, k))
    for number in beyond(source, 1100)[-3:]:
        yield 1, 3, number, 2, 1, 1
        yield 1, number, 3, 3, 2, 1
        yield number, 2, 2, 2, 1, 0
        yield 1, number, number, 1, number - 1, 0
        if number < 80:
            yield 1, number, number + 2, number, 3, number - 1


def run(source, x, k, stride, pad, threads, what):
    want = reference(x, k, stride, pad)
    (images, height, width), (rows, columns) = x.shape, want.shape[1:]
    out = np.full(want.shape, np.nan, np.float32)
    arguments, grid = (x, out, images, height, width, rows, columns, k, stride, pad), (-(-out.size // threads),)
    report = launch(source, "max_pool", grid, (threads,), arguments, what=what, hints=HINTS, outputs=(out,))
    hint = "take window (0, 1) and write down the pixels that it looks at: is ow the column, and W the row's length?"
    if (out <= want).all():
        hint = "each number is that of a window, or too small: are all k × k of its pixels looked at?"
    known = mistakes(x, k, stride, pad)
    compare(out, want, what=f"{what}: out", hint=hint, mistakes=known)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for images, height, width, k, stride, pad in (*SHAPES, *drawn(source, random)):
        what = f"max_pool of {images} × {height} × {width}, k = {k}, stride {stride}, pad {pad}"
        threads = int(random.choice((32, 64, 33, 256)))
        for mean in (0.5, -5.0):
            x = (random.standard_normal((images, height, width)) + mean).astype(np.float32)
            reports.append((what, run(source, x, k, stride, pad, threads, what)))
        if height == 9 and images == 2:
            x.flat[random.permutation(x.size)[:60]] = np.repeat(np.float32([np.inf, -np.inf, 3e38, -3e38, 1e-45]), 12)
            run(source, x, k, stride, pad, threads, f"{what}, infinities among the numbers")
    x = np.full((1, 4, 4), -np.inf, np.float32)
    run(source, x, 3, 1, 1, 32, "max_pool of 1 × 4 × 4, all −infinity, k = 3, stride 1, pad 1")

    for what, report in reports:
        stores = report.global_stores
        hint = "neighbouring threads take neighbouring columns of one row of outputs"
        said = f"{what} stores {stores.sectors} sectors, {stores.ideal} would hold the numbers"
        asked(stores.sectors <= stores.ideal + stores.requests, what=said, hint=hint, picture=report)
