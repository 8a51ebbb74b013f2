import numpy as np

from common.check import launch
from common.check.kernels import compare, one_element_each, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((20,), (100,), (32,), (1,), (1000,))
HINTS = {
    "out-of-bounds": "which threads have no element? The valid indices are 0 to n - 1. The guard must stand before the"
    " load and before the store",
    "race-global": "several threads write the same element: a thread without an element must do nothing",
    "unwritten": "this index is a valid one, and no thread has stored there. The valid indices are 0 to n - 1, whatever"
    " n is",
    "output-read": "out[i] is in[i] + 10: what out held before the launch does not count",
}


def check(source):
    random = numpy_random()
    reports = []
    for (n,) in shapes(source, random, SIZES, ((1000,),)):
        threads = min(1024, 32 * (n // 32 + int(random.integers(1, 4))))
        what = f"guard_the_end with {n} elements and {threads} threads"
        x = random.standard_normal(n).astype(np.float32) + 0.5
        if n == 100:
            x = sprinkled(random, x, huge=True)
        out = np.full(n, np.nan, np.float32)
        args = (x, out, n)
        report = launch(source, "guard_the_end", (1,), (threads,), args, what=what, hints=HINTS, outputs=(out,))
        compare(out, x + np.float32(10), what=f"{what}: out", hint="out[i] is in[i] + 10")
        reports.append((what, n, report))

    for what, n, report in reports:  # right first, then all threads at work
        one_element_each(report, 1, n, -(-n // 32), what=what)
