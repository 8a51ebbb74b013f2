from common.check.engine_kernels import check_kernel, loaded_once
from common.check.kernels import target, use
from common.lab.operators import OPERATORS

IN, WEIGHT = 0, 1  # parameters
WIDE = {  # rows of 32 pixels: neighbours in a column are neighbours in memory
    "images": 1, "in_channels": 3, "height": 16, "width": 32, "out_channels": 32,
    "out_height": 16, "out_width": 32, "kernel": 3, "stride": 1, "padding": 1,
}  # fmt: skip
NEIGHBOURS = {  # hint, and sectors that a request may load beyond those of contiguous numbers
    WEIGHT: ("neighbouring k of an output channel are neighbours in weight: neighbouring threads should load them", 4),
    IN: ("neighbouring pixels under one tap are neighbours in `in`: neighbouring threads should load them", 2),
}
BANKS = (
    "which banks do the 32 lanes of a warp meet? Rows of 32 numbers begin in the same bank; rows of 32 + 2 begin two"
    " banks further each time"
)


def check(source):
    operator, traces = OPERATORS["conv"], check_kernel(source, "conv", more=[WIDE])
    loaded_once(traces[0], "conv")
    wide = traces[-1]
    for argument, (hint, beyond) in NEIGHBOURS.items():
        loads = use(wide.report, argument).counts
        most = loads.ideal + beyond * loads.requests
        name = list(operator.arrays)[argument]
        target(loads.sectors, most, f"sectors of {name} loaded", what=wide.what, hint=hint, picture=wide.report)
    for counts, kind in ((wide.report.shared_stores, "stores to"), (wide.report.shared_loads, "loads from")):
        wavefronts = f"wavefronts of {kind} shared memory"
        target(counts.wavefronts, 2 * counts.ideal, wavefronts, what=wide.what, hint=BANKS, picture=wide.report)
