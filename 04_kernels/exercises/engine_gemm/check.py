from common.check.engine_kernels import check_kernel
from common.check.kernels import target
from common.lab.operators import OPERATORS

REUSE = 8  # multiply-adds per number loaded from global memory


def check(source):
    operator, traces = OPERATORS["gemm"], check_kernel(source, "gemm")
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
