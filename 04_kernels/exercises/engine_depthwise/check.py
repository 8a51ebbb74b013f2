from common.check.engine_kernels import check_kernel
from common.check.kernels import target


def check(source):
    for one in check_kernel(source, "depthwise"):
        counts = one.report.global_stores
        rows = one.dims["images"] * one.dims["channels"] * one.dims["out_height"]
        most = counts.ideal + rows  # a row may begin in the middle of a sector
        target(
            counts.sectors,
            most,
            "sectors stored",
            what=one.what,
            picture=one.report,
            hint="neighbouring threads should compute neighbouring columns of a row",
        )
