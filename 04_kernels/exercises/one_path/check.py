import numpy as np

from common.check import launch
from common.check.kernels import compare, target
from common.check.trials import numpy_random

HINTS = {
    "out-of-bounds: table": "table has 32 elements, 4 per segment: segment s begins at table[4 * s]",
    "unwritten": "every element of out has a thread",
}


def check(source):
    random = numpy_random()
    reports = []
    table = random.standard_normal((8, 4)).astype(np.float32)
    for n, kind in (
        (300, "mixed"),
        (256, "mixed"),
        (1, "mixed"),
        (128, "equal"),
        (int(random.integers(40, 99)), "mixed"),
    ):
        what = f"spline of {n} numbers in {kind} segments"
        x = (random.random(n) * (8 if kind == "mixed" else 1)).astype(np.float32)
        x = np.minimum(x, np.float32(7.9))
        out = np.full(n, np.nan, np.float32)
        blocks = -(-n // 128)
        report = launch(source, "spline", (blocks,), (128,), (x, table, out, n), what=what, hints=HINTS, outputs=(out,))
        segment = x.astype(int)
        t, c = x.astype(np.float64) - segment, table.astype(np.float64)[segment]

        def cubic(c, t):
            return c[:, 0] + t * (c[:, 1] + t * (c[:, 2] + t * c[:, 3]))

        known = [
            (cubic(c, x.astype(np.float64)), "x is the distance from the segment's start, in[i] - s"),
            (cubic(table.astype(np.float64)[np.zeros_like(segment)], t), "each segment has coefficients of its own"),
        ]
        hint = "c0 + c1 · x + c2 · x² + c3 · x³, with the coefficients of the segment that in[i] lies in"
        compare(out, cubic(c, t), what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-5, atol=1e-4)
        reports.append((what, -(-n // 32), report))

    for what, warps, report in reports:  # right first, then fast
        hint = "threads of one warp are in several segments, so the warp runs several arms: let the address depend on"
        hint += " the segment, and all threads run the same statements"
        loads = report.global_loads.requests
        target(loads, 6 * warps, "requests of loads", what=what, hint=hint, picture=report)
