import numpy as np

from common.check import expect, launch
from common.check.kernels import in_common, shapes, target
from common.check.trials import numpy_random

SIZES = ((1, 1), (3, 1), (4, 1), (9, 1), (40, 3), (7, 4), (2, 3))  # rows, blocks
INIT = (
    "mbarriers are initialised by one thread, and others may use them only afterwards: another __syncthreads is needed"
)
HINTS = {
    "race: full": INIT,
    "race: empty": INIT,
    "race": "two orders are needed for each stage: its copy has come before it is read (a wait at full), and all 128"
    " have read it before the next copy into it is asked for (a wait at empty, where the readers arrive)",
    "uninitialised-read": "a stage may be read only after the wait for its full barrier, in the phase of this turn",
    "deadlock": "the message says which mbarrier lacks what. Count per phase: how many arrive, how many bytes are"
    " expected and come? And which phase, of which parity, is waited for in turn i / 4?",
    "divergent-barrier": "__syncthreads is for the beginning, when the mbarriers are initialised: later the roles part",
    "stopped": "one thread initialises each mbarrier, before the others use it: mbarriers_ready() by the thread that"
    " initialised them, and a __syncthreads lie between. In each phase exactly as many arrive as init said, and the"
    " last copy is waited for. A bulk copy's addresses and bytes are multiples of 16",
    "out-of-bounds": "row r begins at x + r · 128, and only rows below `rows` exist",
    "misaligned": "a bulk copy's addresses and bytes are multiples of 16: give the ring __align__(16)",
    "unwritten": "thread t < 128 of block b writes y[b · 128 + t], also if the block has no row: then it is 0",
}


def check(source):
    random = numpy_random()
    for rows, blocks in shapes(source, random, SIZES, (60, (4,))):
        what = f"column_sums of {rows} rows in {blocks} block{'s' * (blocks > 1)}"
        x = random.standard_normal((rows, 128)).astype(np.float32) + 0.5
        y = np.full((blocks, 128), np.nan, np.float32)
        report = launch(source, "column_sums", (blocks,), (160,), (x, y, rows), what=what, hints=HINTS, outputs=(y,))
        want = np.stack([x[b::blocks].astype(np.float64).sum(0) for b in range(blocks)])
        hint = "each row once: block b has the rows b, b + gridDim.x, …, and number i of them goes to stage i % 4"
        if np.isnan(y).any():
            hint = "NaN is what a stage holds until its copy has come: wait for the right phase of its full barrier"
        seen = in_common(y, want.astype(np.float32), 1e-4, 1e-4)
        expect(y, want, what=f"{what}: y", hint=f"{seen}. {hint}" if seen else hint, rtol=1e-5, atol=1e-4)
        most = 512 * min(4, -(-rows // blocks))
        said = (
            "the producer should ask for rows as long as a stage is empty, without waiting for what it has asked for,"
            " and wait for the stage's *previous* readers only"
        )
        target(report.bytes_in_flight, most, "bytes in flight", what=what, hint=said, picture=report, least=True)
        sectors = report.global_loads.sectors
        target(sectors, 16 * rows, "sectors loaded", what=what, hint="each row once, by its bulk copy", picture=report)
