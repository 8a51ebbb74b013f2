import numpy as np

from common import cuda
from common.check import launch
from common.check.kernels import asked, compare, shapes, target
from common.check.trials import numpy_random
from common.cuda.machine_code.chains import growth, loaded

# n, blocks, threads in a block
LAUNCHES = ((1000, 1, 32), (3, 1, 32), (7, 2, 32), (1009, 3, 64), (4099, 2, 256), (130, 1, 32))
HINTS = {
    "out-of-bounds": "four elements of a thread are t, t + threads, t + 2 · threads, t + 3 · threads: go round the loop"
    " only if the last of them exists",
    "race-global": "each thread writes one element of out, its own",
    "unwritten": "every thread of the grid writes its sum, 0 if it has no element",
}


def check(source):
    random = numpy_random()
    reports = []
    for n, blocks, threads in shapes(source, random, LAUNCHES, (5000, (6,), (256,)), draws=5):
        threads = max(32, threads // 32 * 32)
        everyone = blocks * threads
        what = f"sum_of_squares of {n} numbers with {blocks} × {threads} threads"
        numbers = random.standard_normal(n).astype(np.float32) + np.float32(0.5)
        out = np.full(everyone, np.nan, np.float32)
        report = launch(source, "sum_of_squares", (blocks,), (threads,), (numbers, out, n), what=what, hints=HINTS,
                        outputs=(out,))  # fmt: skip
        wide = np.zeros(-(-n // everyone) * everyone)
        wide[:n] = numbers
        rows = wide.reshape(-1, everyone)
        own = np.minimum((n - np.arange(everyone) + everyone - 1) // everyone, len(rows)).clip(0)  # elements per thread
        fours = (rows**2 * (np.arange(len(rows))[:, None] < own // 4 * 4)).sum(0)
        known = [
            (rows.sum(0), "the elements are to be squared"),
            (fours, "the elements behind the last whole four count, too"),
            ((rows[::4] ** 2).sum(0), "a thread's sum has all of its elements, not every fourth"),
        ]
        hint = "thread t adds the squares of the elements t, t + threads, t + 2 · threads, …"
        compare(out, (rows**2).sum(0), what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5)
        reports.append((what, n, report))

    for what, n, report in reports:  # right first, then fast
        loads = report.global_loads
        asked(loads.bytes <= 4 * n, what=f"{what}: {loads.bytes // 4} numbers loaded, {n} are possible",
              hint="keep a number in a variable if you need it twice", picture=report)  # fmt: skip
        hint = "in one request, neighbouring threads load neighbouring numbers"
        target(loads.sectors, loads.ideal + loads.requests, "sectors loaded", what=what, hint=hint, picture=report)
    found = cuda.inspect(cuda.RawKernel(source, "sum_of_squares"), block=256)
    words, chain = loaded(found), growth(found)
    sums = words / chain if chain else 0
    asked(
        sums >= 4,
        what=f"a turn of the hot loop loads {words} numbers and adds {chain} to the longest chain of dependent"
        f" additions: {sums:.3g} at a time, 4 are possible",
        hint="an addition to the same variable waits for the one before it: use four variables, and go round the loop"
        " for four elements at a time",
    )
    target(found.occupancy("H200").warps, 64, "warps per multiprocessor of an H200", what="sum_of_squares",
           hint=f"{found.registers} registers per thread: 32 allow 64 warps", least=True)  # fmt: skip
