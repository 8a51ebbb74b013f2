import numpy as np

from common.check import expect, launch, require

SIZES = ((7, 5), (1, 1), (2, 2), (9, 14), (17, 23))
AT = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float64)


def outputs(M, oh, ow):
    """Aᵀ m A of all tiles, side by side as an image (oh, ow)."""
    h, w = -(-oh // 2), -(-ow // 2)
    tiles = np.einsum("ir,rst,js->tij", AT, M.reshape(4, 4, -1).astype(np.float64), AT)
    return tiles.reshape(h, w, 2, 2).swapaxes(1, 2).reshape(2 * h, 2 * w)[:oh, :ow]


def check(source):
    random = np.random.default_rng()
    for oh, ow in SIZES:
        what = f"winograd_output of {oh} × {ow} outputs"
        tiles_w = -(-ow // 2)
        tiles = -(-oh // 2) * tiles_w
        M = random.standard_normal((16, tiles)).astype(np.float32) + 0.25
        bias, y = np.array([1.5], np.float32), np.full((oh, ow), np.nan, np.float32)
        hints = {
            "out-of-bounds": "the last block has threads without a tile, and a tile of the last row and column has"
            " outputs that do not exist where a size is odd",
            "race": "a tile of the last column has outputs beyond the row where the width is odd: at (r, oW) lies the"
            " first pixel of the next row, which belongs to another tile",
        }
        launch(
            source,
            "winograd_output",
            (-(-tiles // 32),),
            (32,),
            (M, bias, y, oh, ow, tiles_w, tiles),
            what=what,
            hints=hints,
        )
        hint = "y holds NaN before the launch: every output is to be written, not added to"
        require(not np.isnan(y).any(), what=f"{what} leaves NaN in y", hint=hint)
        want = (outputs(M, oh, ow) + 1.5).clip(0, 6).astype(np.float32)
        expect(y, want, what=f"{what}: y", hint=mistake(y, M, oh, ow), rtol=2e-6, atol=2e-6)


def mistake(y, M, oh, ow):
    """What was probably done: the hint for outputs that are not right."""
    plain = outputs(M, oh, ow)
    h, w = -(-oh // 2), -(-ow // 2)
    by_columns = np.einsum("krc->kcr", M.reshape(16, w, h)).reshape(16, -1) if h * w == M.shape[1] else M
    cases = [
        (plain.clip(0, 6) + 1.5, "the bias first, then the clamp: what is stored must lie in [0, 6]"),
        ((outputs(M + 1.5, oh, ow)).clip(0, 6), "the bias is added once to each output, after Aᵀ m A, not to M"),
        (plain + 1.5, "the result is clamped to [0, 6]"),
        (plain.clip(0, 6), "the bias is missing"),
        ((outputs(M.reshape(4, 4, -1).swapaxes(0, 1), oh, ow) + 1.5).clip(0, 6), "m[r][s] = M[4·r + s][t]: row first"),
        (
            (outputs(by_columns, oh, ow) + 1.5).clip(0, 6),
            "the tiles are counted row by row: tile t is in row t / tiles_w",
        ),
    ]
    for wrong, hint in cases:
        if np.allclose(y, wrong, rtol=1e-5, atol=1e-5):
            return hint
    return "Aᵀ (a, b, c, d) = (a + b + c, b - c - d): is a number overwritten that the next line still needs?"
