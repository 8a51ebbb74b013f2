import numpy as np

from common.check import expect, launch, require

# images, H, W, k, stride, pad: no padding, squares and not, windows that overlap and that leave columns out, one pixel
SHAPES = (
    (1, 8, 12, 2, 2, 0),
    (3, 7, 5, 3, 2, 1),
    (2, 9, 17, 3, 1, 1),
    (5, 5, 8, 5, 3, 2),
    (4, 1, 1, 3, 2, 1),
    (2, 10, 7, 2, 3, 0),
)
THREADS = 32


def windows(extent, k, stride, pad):
    return (extent + 2 * pad - k) // stride + 1


def reference(x, k, stride, pad, fill=-np.inf):
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    every = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (1, 2))
    return every[:, ::stride, ::stride].max((3, 4))


def origin(out, x, k, stride, pad):
    """What a wrong result is the right one of, as a hint."""
    if np.array_equal(out, reference(x, k, stride, pad, 0.0)):
        return "the padding is not part of the image: at the border a 0 has won that is no pixel"
    if np.array_equal(out, np.maximum(reference(x, k, stride, pad), 0)):
        hint = "what if all numbers of a window are below 0? Nothing may be in the game that is not a pixel"
        return f"{hint}: the largest so far begins at −infinity"
    rows, columns = out.shape[1:]
    if np.array_equal(out, reference(x, k, 1, pad)[:, :rows, :columns]):
        return "window (oh, ow) begins at oh·stride − pad and ow·stride − pad: where is the stride?"
    if pad and np.array_equal(out[:, :-1, :-1], reference(x, k, stride, 0)[:, : rows - 1, : columns - 1]):
        return "window (oh, ow) begins at oh·stride − pad and ow·stride − pad: where is pad?"
    if (out <= reference(x, k, stride, pad)).all():
        return "each number is that of a window, or too small: are all k × k of its pixels looked at?"
    return "take window (0, 1) and write down the pixels that it looks at: is ow the column, and W the row's length?"


def check(source):
    random = np.random.default_rng()
    for images, height, width, k, stride, pad in SHAPES:
        rows, columns = (windows(extent, k, stride, pad) for extent in (height, width))
        what = f"max_pool of {images} × {height} × {width}, k = {k}, stride {stride}, pad {pad}"
        for mean in (0.5, -5.0):
            x = (random.standard_normal((images, height, width)) + mean).astype(np.float32)
            out = np.full((images, rows, columns), np.nan, np.float32)
            hints = {
                "out-of-bounds": "a window at the border reaches beyond the image: look at a pixel only where"
                " 0 ≤ h < H and 0 ≤ w < W, and at all only in threads below images·oH·oW",
                "race": "two threads write the same output: a thread's output is the one at its own number i",
            }
            grid = (-(-out.size // THREADS),)
            arguments = (x, out, images, height, width, rows, columns, k, stride, pad)
            launch(source, "max_pool", grid, (THREADS,), arguments, what=what, hints=hints)
            empty = np.isnan(out)
            if empty.any():
                index = tuple(int(i) for i in np.argwhere(empty)[0])
                hint = "out holds NaN before the launch: is every output written, also at the right and lower border?"
                require(False, what=f"{what} leaves out{list(index)} unwritten", hint=hint)
            want = reference(x, k, stride, pad)
            expect(out, want, what=f"{what}: out", hint=origin(out, x, k, stride, pad))
