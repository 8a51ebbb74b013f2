from common.check.engine_kernels import check_kernel
from common.check.kernels import target

HINTS = {
    "race-global": "each of the last numbers needs one thread, not all of them",
    "out-of-bounds": "only n / 4 vectors of four are complete; the numbers after them are loaded one by one",
    "misaligned": "a float4 starts at a multiple of 16 bytes: at number 0, 4, 8, …",
    "unwritten": "all four numbers of a float4 are written, and the n % 4 numbers at the end",
}


def check(source):
    for one in check_kernel(source, "add", HINTS):
        n = one.dims["n"]
        fewest = -(-(n // 4) // 32) + min(3, n % 4)  # 32 vectors per request; the rest one by one at worst
        for name, counts, arrays in (("loads", one.report.global_loads, 2), ("stores", one.report.global_stores, 1)):
            target(
                counts.requests,
                arrays * fewest,
                f"requests of its {name}",
                what=one.what,
                picture=one.report,
                hint="neighbouring threads take neighbouring vectors of 16 bytes, each with a single access",
            )
