import numpy as np

from common import cuda
from common.check import launch
from common.check.kernels import asked, compare, compiled, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((3, 2, 1000), (2, 3, 1500), (4, 4, 300), (1, 2, 700))  # blocks, warps of a block, elements
HINTS = {
    "out-of-bounds": "the last round need not be full: compare i with n in every round",
    "race-global": "two threads take the same element: how many threads are there in the whole grid?",
    "unwritten": "a thread that is done must go on to its next element, as long as there is one",
    "output-read": "out[i] is in[i] * in[i]: what out held before the launch does not count",
}


def check(source):
    random = numpy_random()
    launches = []
    for blocks, warps, n in shapes(source, random, SIZES, ((6,), (8,), 3000)):
        what = f"square_with_any_grid with {n} elements and {blocks} blocks of {32 * warps} threads"
        x = random.standard_normal(n).astype(np.float32) + 0.5
        if n == 1500:
            x = sprinkled(random, x, huge=True)
        out = np.full(n, np.nan, np.float32)
        shape, args = ((blocks,), (32 * warps,)), (x, out, n)
        launch(source, "square_with_any_grid", *shape, args, what=what, hints=HINTS, outputs=(out,))
        with np.errstate(over="ignore", under="ignore"):
            want, twice = x * x, x + x
        mistakes = [(x, "these are the numbers of in"), (twice, "this is 2 * in[i]: out[i] is in[i] * in[i]")]
        compare(out, want, what=f"{what}: out", hint="out[i] is in[i] * in[i]", mistakes=mistakes)
        launches.append((what, shape, args))

    kernel = compiled(source, "square_with_any_grid")
    for what, ((blocks,), (threads,)), args in launches[: len(SIZES)]:  # right first, then all threads at work
        most = -(-args[2] // (blocks * threads)) * threads // 32  # rounds · warps of a block
        reports = [cuda.trace(kernel, (blocks,), (threads,), args, blocks=[b]) for b in range(blocks)]
        busiest = max(reports, key=lambda report: report.global_stores.requests)
        requests = busiest.global_stores.requests
        asked(
            requests <= most,
            what=f"{what}: the warps of one block store {requests} times, {most} would do",
            hint="some threads work while others wait: share the elements among all threads",
            picture=busiest,
        )
