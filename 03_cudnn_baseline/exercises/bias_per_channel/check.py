import numpy as np

from common.check import launch
from common.check.kernels import compare, one_element_each, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((50, 7), (7, 50), (33, 65), (1, 40), (40, 1))  # pixels, channels
HINTS = {
    "out-of-bounds": "the message names an array and an index. bias has channels elements, in and out have pixels *"
    " channels: what keeps the index below that?",
    "out-of-bounds: bias": "element i belongs to one pixel and to one channel, and bias has one element per channel:"
    " which channel is that of element i?",
    "race-global": "two threads have the same index: which number tells the blocks apart?",
    "unwritten": "compare i with the number of elements of out, pixels * channels",
    "output-read": "out[p][c] is in[p][c] + bias[c]: what out held before the launch does not count",
}


def check(source):
    random = numpy_random()
    reports = []
    for pixels, channels in shapes(source, random, SIZES, (70, 70)):
        threads = int(random.integers(1, 9)) * 32
        blocks = -(-pixels * channels // threads)
        what = f"bias_per_channel of {pixels} pixels × {channels} channels in blocks of {threads} threads"
        x = random.standard_normal((pixels, channels)).astype(np.float32) + 0.5
        if (pixels, channels) == (33, 65):
            x = sprinkled(random, x, huge=True)
        bias = random.standard_normal(channels).astype(np.float32) + 2
        out = np.full((pixels, channels), np.nan, np.float32)
        args = (x, bias, out, pixels, channels)
        report = launch(source, "bias_per_channel", (blocks,), (threads,), args, what=what, hints=HINTS, outputs=(out,))
        hint = "out[p][c] is a sum of two numbers, in[p][c] and bias[c]"
        if ((out[..., None] == x[..., None] + bias).any(-1) | ~np.isfinite(x)).all():
            hint = (
                "a number of bias is added, but not always the right one. Row-major: neighbours in memory belong to"
                " neighbouring channels, and after channels elements the next pixel begins"
            )
        compare(out, x + bias, what=f"{what}: out", hint=hint)
        reports.append((what, out.size, report))

    for what, size, report in reports:  # right first, then all threads at work
        one_element_each(report, 2, size, -(-size // 32), what=what)
