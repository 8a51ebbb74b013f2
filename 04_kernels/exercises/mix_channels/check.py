import numpy as np

from common import cuda
from common.check import launch
from common.check.kernels import asked, compare, target
from common.check.trials import numpy_random

HINTS = {
    "race": "all 256 weights must be in shared memory before a thread reads one: where does the barrier stand?",
    "uninitialised-read": "each of the 256 threads of a block brings one weight into shared memory, also a thread"
    " without a pixel",
    "out-of-bounds": "a pixel p exists only if p < pixels; this holds for both pixels of a thread",
    "unwritten": "a thread has two pixels, t and t + threads",
}


def check(source):
    random = numpy_random()
    reports = []
    for pixels, blocks in ((512, 1), (300, 1), (1, 1), (1000, 2), (256 + int(random.integers(1, 200)), 1)):
        what = f"mix_channels of {pixels} pixels with {blocks} × 256 threads"
        x = random.standard_normal((16, pixels)).astype(np.float32)
        weight = random.standard_normal((16, 16)).astype(np.float32)
        out = np.full((16, pixels), np.nan, np.float32)
        report = launch(source, "mix_channels", (blocks,), (256,), (x, weight, out, pixels), what=what, hints=HINTS,
                        outputs=(out,))  # fmt: skip
        wide = weight.astype(np.float64), x.astype(np.float64)
        known = [
            (wide[0].T @ wide[1], "the weight of output o and input c is weight[16 * o + c]"),
        ]
        hint = "output o of pixel p is the sum over c of weight[16 * o + c] * in[c * pixels + p]"
        compare(out, wide[0] @ wide[1], what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-5, atol=1e-4)
        reports.append((what, pixels, blocks, report))

    for what, pixels, blocks, report in reports:  # right first, then fast
        got = report.global_loads.accesses
        most = 16 * pixels + 256 * blocks
        asked(got <= most, what=f"{what}: {got} loads from global memory, {most} are possible",
              hint="each block loads each weight once, and each thread each input of its pixels once",
              picture=report)  # fmt: skip
    found = cuda.inspect(cuda.RawKernel(source, "mix_channels"), block=256)
    hot = found.hot
    loads = sum(n for kind, n in hot.items() if kind.startswith("LDS."))
    if not loads:
        loads = sum(n for kind, n in found.instructions.items() if kind.startswith("LDS."))
        hot = found.instructions
    asked(loads > 0, what="the machine code loads nothing from shared memory",
          hint="keep the weights in a __shared__ array of the block")  # fmt: skip
    narrow = hot["LDS.32"] + hot["LDS.64"]
    hint = (
        "the compiler joins four loads into one LDS.128 if it knows four consecutive words of one thread, the first at"
    )
    hint += " a multiple of 16 bytes: a full unroll, and no padding in the row"
    target(narrow, 0, "loads from shared memory of less than 16 bytes", what="the machine code", hint=hint)
    hint = "use each weight for both pixels of the thread while it is in a register"
    sums = round((hot["FFMA"] + hot["FMUL"]) / loads)
    target(sums, 8, "multiply-adds per load from shared memory", what="the machine code", hint=hint,
           least=True)  # fmt: skip
    target(found.spills, 0, "bytes of register spills per thread", what="the machine code",
           hint="16 inputs of 2 pixels and a few sums fit into registers")  # fmt: skip
