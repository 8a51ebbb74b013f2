import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((7, 5), (1, 1), (2, 2), (9, 13), (17, 22))
BT = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float64)


def transformed(x, first=-1, apart=2, rows=BT, columns=BT):
    """V of an image: (16, tiles)."""
    h, w = -(-x.shape[0] // 2), -(-x.shape[1] // 2)
    wide = np.zeros((4 * h + 8, 4 * w + 8))
    wide[1 : 1 + x.shape[0], 1 : 1 + x.shape[1]] = x
    tiles = [wide[th * apart + first + 1 :, tw * apart + first + 1 :][:4, :4] for th in range(h) for tw in range(w)]
    return np.stack([(rows @ d @ columns.T).ravel() for d in tiles], axis=1)


def term_by_term(x):
    """The same, where a pixel that counts with factor 0 does not count, be it NaN or infinite."""

    def down(d):
        return np.stack([d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]])

    h, w = -(-x.shape[0] // 2), -(-x.shape[1] // 2)
    wide = np.zeros((2 * h + 2, 2 * w + 2))
    wide[1 : 1 + x.shape[0], 1 : 1 + x.shape[1]] = x
    tiles = [wide[2 * th :, 2 * tw :][:4, :4] for th in range(h) for tw in range(w)]
    return np.stack([down(down(d).T).T.ravel() for d in tiles], axis=1)


HINTS = {
    "out-of-bounds": "a tile on the border reaches beyond the image, where d is 0 without reading anything; and"
    " the last block has threads without a tile",
    "race-global": "every tile has places of its own in V: k · tiles + t",
    "unwritten": "all 16 elements of all tiles are to be written",
}


def check(source):
    random = numpy_random()
    reports = []
    for height, width in shapes(source, random, SIZES, (50, 60)):
        what = f"winograd_input of {height} × {width} pixels"
        x = random.standard_normal((height, width)).astype(np.float32) + 0.5
        tiles_h, tiles_w = -(-height // 2), -(-width // 2)
        tiles = tiles_h * tiles_w
        V, threads = np.full((16, tiles), np.nan, np.float32), int(random.choice((32, 64, 96)))
        args, grid = (x, V, height, width, tiles_h, tiles_w), (-(-tiles // threads),)
        report = launch(source, "winograd_input", grid, (threads,), args, what=what, hints=HINTS, outputs=(V,))
        hint = "which is the first to differ: d, Bᵀ d, or (Bᵀ d) B? Bᵀ (a, b, c, e) = (a - c, b + c, c - b, b - e)"
        compare(V, transformed(x), what=f"{what}: V", hint=hint, mistakes=mistakes(x), rtol=1e-6)
        if width == 13:
            x, V = sprinkled(random, x), np.full_like(V, np.nan)
            odd = f"{what}, NaN and infinities among them"
            launch(source, "winograd_input", grid, (threads,), (x, V, *args[2:]), what=odd, hints=HINTS, outputs=(V,))
            with np.errstate(invalid="ignore"):
                compare(V, term_by_term(x), what=f"{odd}: V", hint=hint, rtol=1e-6)
        reports.append((what, report))

    for what, report in reports:
        stores = report.global_stores
        hint = "in one store neighbouring threads should write neighbouring tiles"
        said = f"{what} stores {stores.sectors} sectors, {stores.ideal} would hold the numbers"
        asked(stores.sectors <= stores.ideal + stores.requests, what=said, hint=hint, picture=report)


def without(x, rows, columns):
    """A copy in which these rows and these columns are 0."""
    made = x.copy()
    made[rows], made[:, columns] = 0, 0
    return made


def mistakes(x):
    """What comes of some mistakes, by the hint that each deserves."""
    identity, upside_down = np.eye(4), np.diag([1, 1, -1, 1]) @ BT
    right = transformed(x)
    tiles = right.shape[1]
    yield transformed(x, apart=4), "tiles overlap: they begin two pixels apart, as each gives 2 × 2 outputs"
    yield transformed(x, first=0), "the first tile begins at (-1, -1): one row and one column of padding"
    yield transformed(x, columns=identity), "Bᵀ goes down the columns and along the rows as well: Bᵀ d B"
    yield transformed(x, rows=identity), "Bᵀ goes along the rows and down the columns as well: Bᵀ d B"
    yield right.reshape(4, 4, tiles).swapaxes(0, 1).reshape(16, tiles), "element (r, s) is k = 4·r + s"
    yield right.T.reshape(16, tiles), "V[k][t] lies at k · tiles + t: the tiles side by side"
    for rows, columns in ((upside_down, upside_down), (upside_down, BT), (BT, upside_down)):
        wrong = transformed(x, rows=rows, columns=columns)
        yield wrong, "a sign: Bᵀ (a, b, c, e) = (a - c, b + c, c - b, b - e)"
    early = np.array(
        [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 0, 0], [0, 1, 1, -1]], np.float64
    )  # c - (b + c), (b + c) - d
    for rows, columns in ((early, early), (early, BT), (BT, early)):
        hint = (
            "Bᵀ (a, b, c, e) = (a - c, b + c, c - b, b - e), all from the numbers before: is one overwritten too early?"
        )
        yield transformed(x, rows=rows, columns=columns), hint
    h, w = -(-x.shape[0] // 2), -(-x.shape[1] // 2)
    for top, left in ((1, 1), (1, 0), (0, 1)):
        hint = "row 0 and column 0 belong to the image: it ends before them"
        yield transformed(without(x, slice(top), slice(left))), hint
        hint = "row H - 1 and column W - 1 belong to the image: it ends behind them"
        yield transformed(without(x, slice(x.shape[0] - top, None), slice(x.shape[1] - left, None))), hint
    by_columns = right.reshape(16, h, w).swapaxes(1, 2).reshape(16, tiles)
    yield by_columns, "the tiles are counted row by row: tile t is in row t / tiles_w"
