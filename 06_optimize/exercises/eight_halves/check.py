import numpy as np

from common.check import expect, launch, require

SIZES = (1, 7, 8, 33, 256, 1000, 2047)
THREADS = 64


def check(source):
    random = np.random.default_rng()
    reports = []
    for n in SIZES:
        what = f"clamp_halves of {n} halves"
        x = (6 * random.standard_normal(n) + 3).astype(np.float16)
        kept, y = x.copy(), np.full(n, np.nan, np.float16)
        groups = -(-n // 8)
        hints = {
            "out-of-bounds": "a uint4 holds eight halves: there must be eight, 8·i + 8 ≤ n, else go one by one",
            "misaligned": "16 bytes start at a multiple of 16: cast the array to uint4 and take its element i, which is"
            " half number 8·i",
            "race": "the halves at the end belong to one thread, the one whose group they are in",
        }
        report = launch(source, "clamp_halves", (-(-groups // THREADS),), (THREADS,), (x, y, n), what=what, hints=hints)
        written = int(np.sum(~np.isnan(y)))
        hint = "y holds NaN before the launch; n need not be a multiple of 8: who writes the halves at the end?"
        require(written == n, what=f"{what} writes {written} of them", hint=hint)
        want = np.clip(kept, 0, 6)
        hint = "each of the eight halves is held between 0 and 6, and stays where it was"
        expect(y, want, what=f"{what}: y", hint=hint)
        require(np.array_equal(x, kept), what=f"{what} changes its input", hint="x is to be read only")
        reports.append((what, n, report))

    for what, n, report in reports:  # right first, then fast
        fewest = n // 8 + n % 8
        for name, counts in (("loads", report.global_loads), ("stores", report.global_stores)):
            got = counts.accesses
            hint = "all eight halves of a group in one access: a uint4 to and from memory, its parts in registers"
            said = f"{what}: threads make {got} {name}, {fewest} would do"
            require(got <= fewest, what=said, hint=hint, picture=report)
        most = -(-2 * n // 32) + n % 8
        got = report.global_loads.sectors
        hint = "neighbouring threads should take neighbouring groups"
        require(got <= most, what=f"{what} loads {got} sectors, {most} would do", hint=hint, picture=report)
