import numpy as np

from common.check import launch
from common.check.kernels import compare, shapes
from common.check.trials import numpy_random

SIZES = ((7, 5), (1, 1), (2, 2), (9, 14), (17, 23))
AT = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float64)


def outputs(M, oh, ow):
    """Aᵀ m A of all tiles, side by side as an image (oh, ow)."""
    h, w = -(-oh // 2), -(-ow // 2)
    tiles = np.einsum("ir,rst,js->tij", AT, M.reshape(4, 4, -1).astype(np.float64), AT)
    return tiles.reshape(h, w, 2, 2).swapaxes(1, 2).reshape(2 * h, 2 * w)[:oh, :ow]


HINTS = {
    "out-of-bounds": "the last block has threads without a tile, and a tile of the last row and column has"
    " outputs that do not exist where a size is odd",
    "race-global": "a tile of the last column has outputs beyond the row where the width is odd: at (r, oW) lies the"
    " first pixel of the next row, which belongs to another tile",
    "unwritten": "every output is to be written, all four of a tile where they exist",
}


def mistakes(M, bias, oh, ow):
    """What comes of some mistakes, by the hint that each deserves."""
    plain = outputs(M, oh, ow)
    h, w = -(-oh // 2), -(-ow // 2)
    by_columns = np.einsum("krc->kcr", M.reshape(16, w, h)).reshape(16, -1)
    yield plain.clip(0, 6) + bias, "the bias first, then the clamp: what is stored must lie in [0, 6]"
    yield outputs(M + bias, oh, ow).clip(0, 6), "the bias is added once to each output, after Aᵀ m A, not to M"
    yield plain + bias, "the result is clamped to [0, 6]"
    yield np.maximum(plain + bias, 0), "the result is clamped to [0, 6]: above, too"
    yield plain.clip(0, 6), "the bias is missing"
    turned = outputs(M.reshape(4, 4, -1).swapaxes(0, 1), oh, ow)
    yield (turned + bias).clip(0, 6), "m[r][s] = M[4·r + s][t]: row first"
    yield (
        (outputs(by_columns, oh, ow) + bias).clip(0, 6),
        "the tiles are counted row by row: tile t is in row t / tiles_w",
    )


def check(source):
    random = numpy_random()
    for oh, ow in shapes(source, random, SIZES, (50, 60)):
        what = f"winograd_output of {oh} × {ow} outputs"
        tiles_w = -(-ow // 2)
        tiles = -(-oh // 2) * tiles_w
        M = random.standard_normal((16, tiles)).astype(np.float32) + 0.25
        bias, y = random.uniform(1, 2, 1).astype(np.float32), np.full((oh, ow), np.nan, np.float32)
        threads = int(random.choice((32, 64, 96)))
        args, grid = (M, bias, y, oh, ow, tiles_w, tiles), (-(-tiles // threads),)
        launch(source, "winograd_output", grid, (threads,), args, what=what, hints=HINTS, outputs=(y,))
        want, known = (outputs(M, oh, ow) + bias).clip(0, 6), mistakes(M, bias, oh, ow)
        hint = "Aᵀ (a, b, c, d) = (a + b + c, b - c - d): is a number overwritten that the next line still needs?"
        compare(y, want, what=f"{what}: y", hint=hint, mistakes=known, rtol=2e-6, atol=2e-6)
        if ow == 14:
            M[:, tiles // 2], y = np.nan, np.full_like(y, np.nan)
            odd = f"{what}, a tile of NaN among them"
            args = (M, bias, y, *args[3:])
            launch(source, "winograd_output", grid, (threads,), args, what=odd, hints=HINTS, outputs=(y,))
            hidden = "fminf and fmaxf hide a NaN: compare, and keep what is neither below nor above"
            compare(y, (outputs(M, oh, ow) + bias).clip(0, 6), what=f"{odd}: y", hint=hidden, rtol=2e-6, atol=2e-6)
