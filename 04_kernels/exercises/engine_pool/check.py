import math

from common.check.engine_kernels import check_kernel
from common.check.kernels import target

SHUFFLES = (
    "If numbers are missing in the mean, look at the shuffles: every lane that the mask names must come to each of"
    " them, also one that adds nothing"
)


def check(source):
    for one in check_kernel(source, "pool", also=SHUFFLES):
        channels, area = one.dims["channels"], one.dims["area"]
        most = channels * (area // 8 + area // 32 + 2)  # each request may begin in the middle of a sector
        target(
            one.report.global_loads.sectors,
            most,
            "sectors loaded",
            what=one.what,
            picture=one.report,
            hint="the 32 lanes of a warp should load neighbouring numbers of one channel",
        )
        target(
            math.prod(one.size.grid),
            channels // 4 + 1,
            "blocks",
            what=one.what,
            hint="starting a block takes longer than a channel's numbers: give a block several channels, one per warp",
        )
