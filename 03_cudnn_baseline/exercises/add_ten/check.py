import numpy as np

from common.check import launch
from common.check.kernels import compare, one_element_each, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((5,), (100,), (1,), (1024,))
_INDEX = "the first thread has the index 0, the last one n - 1"
HINTS = {
    "race-global": "several threads use the same element: each thread needs an index of its own",
    "out-of-bounds": _INDEX,
    "below-0": _INDEX,
    "unwritten": "does every thread write its element of out?",
    "output-read": "out[i] is in[i] + 10: what out held before the launch does not count",
}


def check(source):
    random = numpy_random()
    reports = []
    for (n,) in shapes(source, random, SIZES, ((1024,),)):
        what = f"add_ten with {n} threads"
        x = random.standard_normal(n).astype(np.float32) + 0.5
        if n == 100:
            x = sprinkled(random, x, huge=True)
        out = np.full(n, np.nan, np.float32)
        report = launch(source, "add_ten", (1,), (n,), (x, out), what=what, hints=HINTS, outputs=(out,))
        mistakes = [(x, "nothing has been added: out[i] is in[i] + 10")]
        if np.isfinite(x).all():
            mistakes.append((np.trunc(x) + 10, "in[i] is a float: as an int it loses what stands behind the point"))
        hint = "out[i] is in[i] + 10, a float"
        compare(out, x + np.float32(10), what=f"{what}: out", hint=hint, mistakes=mistakes)
        reports.append((what, n, report))

    for what, n, report in reports:  # right first, then all threads at work
        one_element_each(report, 1, n, -(-n // 32), what=what)
