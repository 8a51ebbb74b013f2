import numpy as np

from common.check import launch
from common.check.kernels import all_reach_barriers, asked, compare, shapes, sprinkled, use
from common.check.trials import numpy_random

SIZES = ((2, 150), (8, 300), (3, 96), (5, 1))  # warps of a block, elements
_BEYOND = (
    "s[length - 1] is the last element of a block's part, and the last block may have fewer elements than threads:"
    " neither s nor out may be used beyond that"
)
HINTS = {
    "out-of-bounds": _BEYOND,
    "shared-bounds": _BEYOND,
    "race": "a thread reads what another thread has written, and nothing makes the reader wait: what must lie between"
    " the two lines?",
    "race-global": "each element of out has one thread that stores it: a block's part begins at b * blockDim.x",
    "uninitialised-read": "the first thread needs the last of its block's elements: at which index of s is it? The last"
    " block may have fewer elements than threads",
    "unwritten": "does every element get a new value, in the last block too?",
}


def check(source):
    random = numpy_random()
    reports = []
    for warps, n in shapes(source, random, SIZES, ((8,), 1500)):
        threads = 32 * warps
        what = f"reverse of {n} elements in blocks of {threads}"
        x = random.standard_normal(n).astype(np.float32) + 0.5
        if n == 300:
            x = sprinkled(random, x, huge=True)
        out = np.full(n, np.nan, np.float32)
        args = (x, out, n)
        report = launch(
            source, "reverse", (-(-n // threads),), (threads,), args, what=what, hints=HINTS, outputs=(out,)
        )
        want = np.concatenate([x[first : first + threads][::-1] for first in range(0, n, threads)])
        mistakes = [
            (x, "these are the numbers in the order of in: the first thread needs the last of its block's elements"),
            (x[::-1], "the whole array is reversed: each block stays within its own part"),
        ]
        whole = np.zeros(-(-n // threads) * threads, np.float32)
        whole[:n] = x
        whole = whole.reshape(-1, threads)[:, ::-1].ravel()[:n]
        mistakes.append(
            (whole, "the last block may have fewer elements than threads: its first thread needs the last of them")
        )
        hint = (
            "the first thread needs the last of its block's elements, the second thread the one before;"
            " each block stays within its own part"
        )
        compare(out, want, what=f"{what}: out", hint=hint, mistakes=mistakes)
        reports.append((what, n, report))

    for what, n, report in reports:  # right numbers first, then barriers for all, through shared memory
        all_reach_barriers(report, what=what)
        got = use(report, None).counts.accesses
        said = f"{what} goes around shared memory: {got} loads from it, {n} are expected"
        asked(
            got >= n,
            what=said,
            hint="mend the kernel that is there, and let each element pass through s",
            picture=report,
        )
