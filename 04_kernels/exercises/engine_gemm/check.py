from common.check.engine_kernels import check_kernel, loaded_once
from common.check.kernels import target
from common.lab.operators import OPERATORS

HINTS = {
    "race": "a tile is read by threads that did not write it: a barrier stands between filling and reading, and another"
    " between reading and filling again",
    "uninitialised-read": "all places of a tile are read: those beyond a matrix hold 0",
}


def check(source):
    operator, traces = OPERATORS["gemm"], check_kernel(source, "gemm", HINTS)
    one = traces[0]
    products = operator.multiply_adds(one.dims)
    loaded_once(one, "gemm")
    target(
        one.report.shared_loads.wavefronts,
        products // 32 // 2,
        "wavefronts of loads from shared memory",
        what=one.what,
        hint="per k, take 4 numbers of a and 4 of b into registers without bank conflicts, and make 16 products",
        picture=one.report,
    )
    target(
        sum(load.report.global_stores.accesses for load in traces),
        sum(load.dims["M"] * load.dims["N"] for load in traces),
        "numbers stored to out",
        what="gemm, all sizes",
        hint="the sums stay in registers until all slices are done",
    )
