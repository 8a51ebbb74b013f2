import numpy as np

from common.check import launch
from common.check.kernels import compare, shapes
from common.check.trials import numpy_random

SIZES = ((1,), (2,), (3,), (4,), (7,), (16,))  # chunks
HINTS = {
    "race": "the message names two lines: what must have happened between them, and who says so? An"
    " arrival speaks for the thread that arrives: which lines of other threads must come before it?",
    "uninitialised-read": "the wait went on before the copy had come: which phase did it wait for?",
    "deadlock": "the message says which mbarrier lacks what. Write down, for the first 7 chunks, stage and phase of the"
    " stage: a stage's phase changes when the ring has gone round once. If a phase's number is far too high, too"
    " many arrive",
    "divergent-barrier": "from the roles on, the threads meet at mbarriers only",
    "stopped": "write down, for the first 7 chunks, the stage and the phase of the stage: a phase is one turn of the"
    " ring. Per phase, as many arrive at empty as init said",
    "unwritten": "thread t writes place t of each chunk",
}


def check(source):
    random = numpy_random()
    for (chunks,) in shapes(source, random, SIZES, (24,)):
        what = f"backwards of {chunks} chunk{'s' * (chunks > 1)}"
        x = random.standard_normal(128 * chunks).astype(np.float32) + 0.5
        out = np.full(x.size, np.nan, np.float32)
        launch(source, "backwards", (1,), (160,), (x, out, chunks), what=what, hints=HINTS, outputs=(out,))
        want = x.reshape(-1, 128)[:, ::-1].ravel()
        hint = "NaN, or a chunk of an earlier turn: it was read before its copy had come. Which phase is waited for?"
        known = [(x, "the numbers of a chunk are to be reversed: place t gets number 127 − t")]
        compare(out, want, what=f"{what}: out", hint=hint, mistakes=known)
