import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled, use
from common.check.trials import numpy_random

SIZES = ((33, 64), (7, 17), (49, 96), (1, 1), (65, 130))  # pixels, O
WHERE = "a barrier stands where all threads of the block come to, not where only some of them come to"
HINTS = {
    "race": "a barrier that all threads of the block come to must lie between the copy and the first use, and each bias"
    " is copied by one thread: where in the kernel is that?",
    "divergent-barrier": WHERE,
    "deadlock": WHERE,
    "out-of-bounds": "bias has O elements, and the last block has fewer outputs than 64",
    "shared-bounds": "b holds 64 biases, those of the block's own outputs",
    "uninitialised-read": "what is read from b, a thread must have copied there: all 64 of them?",
}


def mistakes(y, bias):
    """What comes of some mistakes, by the hint that each deserves."""
    p, o = np.indices(y.shape)
    of_pixel = np.minimum(o // 64 * 64 + p % 32, len(bias) - 1)
    relu = np.maximum
    yield relu(y + bias[of_pixel], 0), "a bias belongs to a channel, and not to a pixel of the block"
    yield relu(y + bias[o % 64], 0), "the biases of the other blocks begin at 64 · blockIdx.x"
    yield relu(y, 0) + bias, "the bias comes before the maximum with 0, not after it"
    yield relu(relu(y, 0) + bias, 0), "the bias comes before the maximum with 0, not after it"
    yield relu(y + bias * (p % 32 < 4), 0), "every pixel of the block gets the biases, not only the first ones"
    yield relu(y, 0), "this is y without the biases: is what the block has copied added?"
    yield y + bias, "the maximum with 0 is missing"
    yield relu(y + 2 * bias, 0), "the bias is added once"


def run(source, before, bias, what):
    (pixels, outs), y = before.shape, before.copy()
    grid = (-(-outs // 64), -(-pixels // 32))
    report = launch(
        source, "bias_relu", grid, (256,), (bias, y, pixels, outs), what=what, hints=HINTS, outputs=(), updated=(y,)
    )
    hint = "y[p][o] gets bias[o], which the block has copied, and nothing else; then the maximum with 0"
    with np.errstate(invalid="ignore"):
        known = list(mistakes(before, bias))
        want = np.maximum(before + bias, 0)  # (a NaN stays one)
    compare(y, want, what=f"{what}: y", hint=hint, mistakes=known, rtol=1e-5, atol=1e-6)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for pixels, outs in shapes(source, random, SIZES, (150, 150)):
        what = f"bias_relu of {pixels} pixels × {outs} channels"
        before, bias = (random.standard_normal(s).astype(np.float32) for s in ((pixels, outs), outs))
        reports.append((what, (pixels, outs), run(source, before, bias, what)))
    run(source, sprinkled(random, before), bias, f"{what}, among them NaN and infinities")

    for what, (pixels, outs), report in reports:  # right first, then fast
        blocks = -(-pixels // 32)
        least = blocks * sum(-(-min(64, outs - first) // 32) for first in range(0, outs, 64))  # a warp copies up to 32
        got = use(report, 0).counts.requests
        hint = "a bias is read once a block, not once a pixel; and 64 lanes can ask for the 64 biases at once: two"
        hint += " requests, where one thread needs 64"
        said = f"{what} loads biases in {got} requests, {least} would do"
        asked(got <= least, what=said, hint=hint, picture=report)
