import numpy as np

from common.check import launch
from common.check.kernels import compare, shapes, sprinkled, target, use
from common.check.trials import numpy_random

SIZES = ((5, 7, 33), (1, 1, 1), (200, 3, 17), (90, 16, 96), (64, 32, 128), (700, 5, 2))  # P, C, O
HINTS = {
    "out-of-bounds": "y has P · O elements; the last round has threads without one, and weight has O · C numbers",
    "race": "all threads of the block fill the weights in shared memory and all read them: a barrier lies between",
    "race-global": "one thread per output: nobody else writes it",
    "unwritten": "the grid has fewer threads than y has elements: each thread takes several, a whole grid apart",
}
LAST = "y[p][o] is the sum over c of weight[o][c] · x[p][c]"


def mistakes(x, weight):
    """What comes of some mistakes, by the hint that each deserves."""
    right = x @ weight.T
    yield right.T.reshape(right.shape), "element [p][o] of y stands at p · O + o"
    yield x @ weight.reshape(weight.shape[::-1]), "weight is (O, C): element [o][c] stands at o · C + c"
    yield x[:, :-1] @ weight[:, :-1].T, "every channel of the pixel takes part, the last one too"


def run(source, x, weight, blocks, what):
    (pixels, channels), outs = x.shape, len(weight)
    y = np.full((pixels, outs), np.nan, np.float32)
    args = (x, weight, y, pixels, channels, outs)
    report = launch(source, "pointwise", (blocks,), (256,), args, what=what, hints=HINTS, outputs=(y,))
    with np.errstate(invalid="ignore"):
        exact, known = x.astype(np.float64) @ weight.T, list(mistakes(x.astype(np.float64), weight))
    compare(y, exact, what=f"{what}: y", hint=LAST, mistakes=known, rtol=1e-5, atol=1e-6 * channels**0.5)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for pixels, channels, outs in shapes(source, random, SIZES, (300, (60,), (60,))):
        blocks = int(random.integers(1, 4))
        what = f"pointwise of {pixels} pixels, {channels} > {outs} channels, {blocks} block{'s' * (blocks > 1)}"
        x, weight = (
            (random.standard_normal(shape) + 0.5).astype(np.float32) for shape in ((pixels, channels), (outs, channels))
        )
        reports.append((what, (pixels, channels, outs), blocks, run(source, x, weight, blocks, what)))
        if pixels == 90:
            run(source, sprinkled(random, x), weight, blocks, f"{what}, NaN and infinities in x")

    for what, (_, channels, outs), blocks, report in reports:  # right first, then as asked
        most, got = blocks * -(-outs * channels // 8), use(report, 1).counts.sectors
        hint = "bring the weights to shared memory once per block, before the loop over the outputs, and neighbouring"
        hint += " threads fetch neighbouring weights"
        target(got, most, "sectors of weight loaded", what=what, hint=hint, picture=report)
        if outs % 32 == 0:
            shared = report.shared_loads
            hint = "lanes have neighbouring outputs of one pixel: in which order must the weights of one channel lie,"
            hint += " so that these lanes read 32 banks?"
            target(shared.wavefronts, shared.requests, "wavefronts", what=what, hint=hint, picture=report)
