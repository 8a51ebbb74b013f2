import numpy as np

from common import cuda
from common.check import launch
from common.check.kernels import asked, compare, target
from common.check.trials import numpy_random

INPUTS, OUTPUTS, THREADS = 24, 128, 256
HINTS = {
    "out-of-bounds": "out has 128 rows of `pixels` elements: output o of pixel p is out[o * pixels + p]",
    "unwritten": "each thread writes 128 elements of out, one per output",
}


def check(source):
    random = numpy_random()
    for pixels in (300, 1, 257, 40 + int(random.integers(0, 50))):
        what = f"mix of {pixels} pixels"
        x = random.standard_normal((INPUTS, pixels)).astype(np.float32)
        weight = random.standard_normal((INPUTS, OUTPUTS)).astype(np.float32)
        out = np.full((OUTPUTS, pixels), np.nan, np.float32)
        blocks = -(-pixels // THREADS)
        report = launch(source, "mix", (blocks,), (THREADS,), (x, weight, out, pixels), what=what, hints=HINTS,
                        outputs=(out,))  # fmt: skip
        wide = weight.astype(np.float64).T @ x.astype(np.float64)
        known = [
            (np.concatenate([wide[:64], wide[:64]]), "outputs 64 to 127 have weights of their own"),
            (np.concatenate([wide[:64], wide[:64] + wide[64:]]), "each part of the outputs begins with sums of 0"),
        ]
        hint = "output o of pixel p is the sum over c of weight[c * 128 + o] * in[c * pixels + p]"
        compare(out, wide, what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-5, atol=1e-4)
        loads = report.global_loads.accesses
        most = INPUTS * OUTPUTS * blocks + 8 * INPUTS * pixels
        asked(
            loads <= most,
            what=f"{what}: {loads} loads from global memory, {INPUTS * OUTPUTS * blocks + 2 * INPUTS * pixels} are"
            " possible",
            hint="a block loads each weight once, into shared memory, and a thread each input at most a few times",
            picture=report,
        )
    found = cuda.inspect(cuda.RawKernel(source, "mix"), block=THREADS)
    fits = found.occupancy("H200")
    target(fits.warps, 16, "warps per multiprocessor of an H200", what=f"{found.registers} registers per thread",
           hint="128 sums in registers are too many: how many outputs can a thread compute at a time, and how often"
           " must it go through the inputs then?", least=True)  # fmt: skip
    hint = "launch bounds take registers away from a thread that needs them; let the thread need fewer"
    if not found.spills:
        hint = "the array has no registers, although nothing is spilled: the compiler must know each index, so it must"
        hint += " be able to unroll the loops over the sums"
    local = sum(n for kind, n in found.instructions.items() if kind.startswith(("LDL", "STL")))
    unit = "loads and stores of local memory in the machine code"
    target(local, 0, unit, what=f"{fits.warps} warps per multiprocessor", hint=hint)
