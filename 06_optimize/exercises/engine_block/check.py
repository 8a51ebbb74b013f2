from common.check.engine_kernels import check_kernel
from common.check.kernels import target
from common.lab.operators import OPERATORS

HINTS = {
    "race": "hidden must be whole before the depthwise convolution reads it, and dw before project reads it; and no"
    " thread may begin the next slice while another one still reads this slice",
    "uninitialised-read": "nobody wrote this place: is the slice shorter than SLICE, or the halo left out?",
    "unwritten": "is there a thread for each pixel of the tile, in each output channel?",
}


def check(source):
    traced = check_kernel(source, "block", HINTS)[0]
    report = traced.report
    loads = report.global_loads.accesses + report.shared_loads.accesses
    most = 4 * OPERATORS["block"].multiply_adds(traced.dims)
    hint = "a hidden value is computed once per tile of outputs; the nine outputs that need it read it from there"
    target(loads, most, "numbers loaded", what=traced.what, hint=hint, picture=report)
