import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled, use
from common.check.trials import numpy_random

# the first one tells the slips apart: more numbers than a block of 8 warps has threads, and no multiple of 32
SIZES = ((7, 353), (7, 33), (1, 1), (17, 129), (9, 500), (5, 1024))


def fewest_sectors(rows, columns):
    """Sectors of the loads when each request takes the next 32 numbers of a row."""
    first = np.array([4 * (row * columns + c) for row in range(rows) for c in range(0, columns, 32)])
    last = np.array(
        [4 * (row * columns + min(c + 32, columns) - 1) for row in range(rows) for c in range(0, columns, 32)]
    )
    return int((last // 32 - first // 32 + 1).sum())


HINTS = {
    "out-of-bounds": "the last block has warps without a row, and a row's last request lanes without a number",
    "race-global": "one lane writes the row's sum, and nobody else",
    "unwritten": "one lane of each row's warp writes the sum",
    "deadlock": "all 32 lanes of a warp must come to the shuffle, those without a number too: they bring 0",
}


def mistakes(x, warps):
    """What comes of some mistakes, by the hint that each deserves."""
    rows, columns = x.shape
    wide = x.astype(np.float64)
    lanes = np.arange(columns) % 32
    yield wide[:, : columns // 32 * 32].sum(1), "the last numbers of a row, fewer than 32, belong to the sum too"
    if warps > 1:
        own = np.arange(columns) % (32 * warps) < 32
        yield wide[:, own].sum(1), "a warp has 32 lanes, however large its block: lane k takes k, k + 32, k + 64, …"
    yield wide[:, lanes > 0].sum(1), "lane 0 has a share of the row as well: the numbers 0, 32, 64, …"
    yield wide[:, lanes < 31].sum(1), "lane 31 has a share of the row as well: the numbers 31, 63, …"
    yield wide[:, lanes % 2 == 0].sum(1), "every lane has a share of the row, not only the even ones"
    yield wide[:, :-1].sum(1), "the last number of a row belongs to the sum"
    yield wide[:, 1:].sum(1), "the first number of a row belongs to the sum"
    yield wide[:, lanes == 0].sum(1), "this is lane 0's share alone"
    yield wide[:, :32].sum(1), "a lane takes more than one number of a row that is longer than 32"
    yield wide.reshape(columns, rows).sum(0), "the element [r][c] is at r · columns + c"


def run(source, x, warps, what):
    rows, columns = x.shape
    out = np.full(rows, np.nan, np.float32)
    args = (x, out, rows, columns)
    blocks = -(-rows // warps)
    report = launch(source, "row_sums", (blocks,), (32 * warps,), args, what=what, hints=HINTS, outputs=(out,))
    with np.errstate(invalid="ignore"):
        want, known = x.sum(axis=1, dtype=np.float64), list(mistakes(x, warps))
    hint = "every number of the row is added once, and the element [r][c] is at r · columns + c"
    compare(out, want, what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-5, atol=1e-6 * columns**0.5)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for rows, columns in shapes(source, random, SIZES, (60, 2000)):
        warps = int(random.choice((8, 1, 3, 8))) if reports else 8
        what = f"row_sums of {rows} × {columns}, {warps} warps a block"
        x = random.standard_normal((rows, columns)).astype(np.float32) + 0.5
        reports.append((what, rows, columns, run(source, x, warps, what)))
        if rows == 9:
            run(source, sprinkled(random, x), warps, f"{what}, NaN and infinities among them")

    for what, rows, columns, report in reports:  # right first, then fast
        got, fewest = report.global_loads.sectors, fewest_sectors(rows, columns)
        hint = "in one request neighbouring lanes should read neighbouring numbers: lane k takes k, k + 32, k + 64, …"
        asked(
            got <= 1.1 * fewest + 4 * (rows if columns > 96 else 0),
            what=f"{what} loads {got} sectors, {fewest} would do",
            hint=hint,
            picture=report,
        )
        got, least = use(report, 0).lanes, min(32, columns)
        hint = "all 32 lanes of the warp share the numbers of its row"
        asked(got >= least, what=f"{what}: {got} of 32 lanes read the row", hint=hint, picture=report)
        got = report.global_stores.requests
        hint = "lane 0 has the sum; one store is enough"
        asked(got <= rows, what=f"{what} stores {got} times for {rows} rows", hint=hint, picture=report)
