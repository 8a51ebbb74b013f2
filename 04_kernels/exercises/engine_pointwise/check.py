from common.check.engine_kernels import check_kernel
from common.check.kernels import target
from common.lab.operators import OPERATORS

REUSE = 8  # multiply-adds per number loaded from global memory
HINTS = {
    "out-of-bounds": "residual may be null, then there is nothing to add: test the pointer before you read. Every other"
    " index is compared with its array's size, because a tile at the edge has places beyond it"
}


def check(source):
    operator, traces = OPERATORS["pointwise"], check_kernel(source, "pointwise", HINTS)
    one = traces[0]
    most = 2 * operator.multiply_adds(one.dims) // REUSE
    target(
        one.report.global_loads.accesses,
        most,
        "numbers loaded from global memory",
        what=one.what,
        hint="stage a tile of both matrices in shared memory, so that each number loaded is used many times",
        picture=one.report,
    )
