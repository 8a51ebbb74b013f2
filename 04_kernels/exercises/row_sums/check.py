import numpy as np

from common.check import expect, launch, require

SIZES = ((1, 1), (7, 33), (17, 129), (9, 500), (5, 1024))


def fewest_sectors(rows, columns):
    """Sectors of the loads when each request takes the next 32 numbers of a row."""
    first = np.array([4 * (row * columns + c) for row in range(rows) for c in range(0, columns, 32)])
    last = np.array(
        [4 * (row * columns + min(c + 32, columns) - 1) for row in range(rows) for c in range(0, columns, 32)]
    )
    return int((last // 32 - first // 32 + 1).sum())


def check(source):
    random = np.random.default_rng()
    reports = []
    for rows, columns in SIZES:
        what = f"row_sums of {rows} × {columns}"
        x = random.standard_normal((rows, columns)).astype(np.float32) + 0.5
        kept, out = x.copy(), np.full(rows, np.nan, np.float32)
        hints = {
            "out-of-bounds": "the last block has warps without a row, and a row's last request lanes without a number",
            "race": "one lane writes the row's sum, and nobody else",
        }
        report = launch(source, "row_sums", (-(-rows // 8),), (256,), (x, out, rows, columns), what=what, hints=hints)
        hint = "out holds NaN before the launch: does one lane write the whole sum, and not add to what is there?"
        require(not np.isnan(out).any(), what=f"{what} leaves NaN in out", hint=hint)
        hint = (
            "is every number of the row added once, also the last ones, and is the element [r][c] at r · columns + c?"
        )
        expect(out, x.sum(axis=1, dtype=np.float64).astype(np.float32), what=f"{what}: out", hint=hint, rtol=1e-5)
        require(np.array_equal(x, kept), what=f"{what} changes its input", hint="in is to be read only")
        reports.append((what, rows, columns, report))

    for what, rows, columns, report in reports:  # right first, then fast
        got, fewest = report.global_loads.sectors, fewest_sectors(rows, columns)
        hint = "in one request neighbouring lanes should read neighbouring numbers: lane k takes k, k + 32, k + 64, …"
        require(got <= fewest, what=f"{what} loads {got} sectors, {fewest} would do", hint=hint, picture=report)
        got = report.global_stores.requests
        hint = "lane 0 has the sum; one store is enough"
        require(got <= rows, what=f"{what} stores {got} times for {rows} rows", hint=hint, picture=report)
