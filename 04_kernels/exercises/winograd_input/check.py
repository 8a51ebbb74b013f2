import numpy as np

from common.check import expect, launch, require

SIZES = ((7, 5), (1, 1), (2, 2), (9, 13), (17, 22))
BT = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float64)


def transformed(x, first=-1, apart=2, rows=BT, columns=BT):
    """V of an image: (16, tiles)."""
    h, w = -(-x.shape[0] // 2), -(-x.shape[1] // 2)
    wide = np.zeros((4 * h + 8, 4 * w + 8))
    wide[1 : 1 + x.shape[0], 1 : 1 + x.shape[1]] = x
    tiles = [wide[th * apart + first + 1 :, tw * apart + first + 1 :][:4, :4] for th in range(h) for tw in range(w)]
    return np.stack([(rows @ d @ columns.T).ravel() for d in tiles], axis=1)


def check(source):
    random = np.random.default_rng()
    for height, width in SIZES:
        what = f"winograd_input of {height} × {width} pixels"
        x = random.standard_normal((height, width)).astype(np.float32) + 0.5
        tiles_h, tiles_w = -(-height // 2), -(-width // 2)
        tiles = tiles_h * tiles_w
        kept, V = x.copy(), np.full((16, tiles), np.nan, np.float32)
        hints = {
            "out-of-bounds": "a tile on the border reaches beyond the image, where d is 0 without reading anything; and"
            " the last block has threads without a tile",
            "race": "every tile has places of its own in V: k · tiles + t",
        }
        args = (x, V, height, width, tiles_h, tiles_w)
        report = launch(source, "winograd_input", (-(-tiles // 32),), (32,), args, what=what, hints=hints)
        hint = "V holds NaN before the launch: all 16 elements of all tiles are to be written"
        require(not np.isnan(V).any(), what=f"{what} leaves NaN in V", hint=hint)
        expect(V, transformed(x).astype(np.float32), what=f"{what}: V", hint=mistake(V, x), rtol=1e-6)
        require(np.array_equal(x, kept), what=f"{what} changes its input", hint="x is to be read only")
    got, fewest = report.global_stores.sectors, 16 * sum(4 for _ in range(tiles // 32)) + 16 * 4
    hint = "in one store neighbouring threads should write neighbouring tiles"
    require(got <= fewest + 16, what=f"{what} stores {got} sectors, {fewest} would do", hint=hint, picture=report)


def mistake(V, x):
    """What was probably done: the hint for a V that is not right."""
    identity, upside_down = np.eye(4), np.diag([1, 1, -1, 1]) @ BT
    tiles = V.shape[1]
    cases = [
        (transformed(x, apart=4), "tiles overlap: they begin two pixels apart, as each gives 2 × 2 outputs"),
        (transformed(x, first=0), "the first tile begins at (-1, -1): one row and one column of padding"),
        (transformed(x, columns=identity), "Bᵀ goes down the columns and along the rows as well: Bᵀ d B"),
        (transformed(x, rows=identity), "Bᵀ goes along the rows and down the columns as well: Bᵀ d B"),
        (transformed(x).reshape(4, 4, tiles).swapaxes(0, 1).reshape(16, tiles), "element (r, s) is k = 4·r + s"),
        (transformed(x).T.reshape(16, tiles), "V[k][t] lies at k · tiles + t: the tiles side by side"),
        (
            transformed(x, rows=upside_down, columns=upside_down),
            "a sign: Bᵀ (a, b, c, d) = (a - c, b + c, c - b, b - d)",
        ),
    ]
    for wrong, hint in cases:
        if np.allclose(V, wrong, rtol=1e-5, atol=1e-5):
            return hint
    h, w = -(-x.shape[0] // 2), -(-x.shape[1] // 2)
    by_columns = transformed(x).reshape(16, h, w).swapaxes(1, 2).reshape(16, tiles)
    if min(h, w) > 1 and np.allclose(V, by_columns, rtol=1e-5, atol=1e-5):
        return "the tiles are counted row by row: tile t is in row t / tiles_w"
    return "Bᵀ (a, b, c, d) = (a - c, b + c, c - b, b - d), all from the numbers before: is one overwritten too early?"
