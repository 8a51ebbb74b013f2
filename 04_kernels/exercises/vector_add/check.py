import numpy as np

from common.check import expect, launch, require

SIZES = (1, 3, 4, 7, 33, 130, 1000, 1021)


def check(source):
    random = np.random.default_rng()
    reports = []
    for n in SIZES:
        what = f"vector_add of {n} numbers"
        a, b = (random.standard_normal(n).astype(np.float32) + shift for shift in (0.5, 2.0))
        out = np.full(n, np.nan, np.float32)
        blocks = -(-max(n // 4, 1) // 128)
        hints = {
            "race": "of the last numbers each needs one thread, not all of them",
            "out-of-bounds": "only n / 4 fours are whole; what is behind them is not a float4 any more",
            "misaligned": "a float4 starts at a multiple of 16 bytes: at number 0, 4, 8, … and nowhere else",
        }
        report = launch(source, "vector_add", (blocks,), (128,), (a, b, out, n), what=what, hints=hints)
        require(
            not np.isnan(out).any(),
            what=f"{what} leaves NaN in out",
            hint="out holds NaN before the launch: are all four of a float4 written, and the n % 4 numbers at the end?",
        )
        hint = "x, y, z and w of thread t's float4 are the numbers 4t to 4t + 3, in this order"
        expect(out, a + b, what=f"{what}: out", hint=hint)
        reports.append((what, n, report))

    for what, n, report in reports:  # right first, then fast
        fewest = -(-(n // 4) // 32) + min(3, n % 4)  # whole warps of float4, then number by number if need be
        for name, counts, arrays in (("loads", report.global_loads, 2), ("stores", report.global_stores, 1)):
            require(
                counts.requests <= arrays * fewest,
                what=f"{what} makes {counts.requests} requests for its {name}, {arrays * fewest} would do",
                hint="neighbouring threads take neighbouring fours, and each asks for its four in one access",
                picture=report,
            )
