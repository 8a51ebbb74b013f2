import numpy as np

from common.check import expect, launch, require

SIZES = ((33, 64), (7, 17), (49, 96), (1, 1), (65, 130))  # pixels, O
WHERE = "a barrier stands where all threads of the block come to, not at a place that only some threads come to"
HINTS = {
    "race": "a barrier that all threads of the block come to must lie between the copy and the first use, and each bias"
    " is copied by one thread: which of the places lies there?",
    "divergent-barrier": WHERE,
    "deadlock": WHERE,
    "out-of-bounds": "bias has O elements, and the last block has fewer outputs than 64; b holds 64 biases, those of"
    " the block's own outputs",
    "uninitialised-read": "what is read from b, a thread must have copied there: all 64 of them?",
}


def mistakes(y, bias):
    """What comes of some mistakes, by the hint that each deserves."""
    p, o = np.indices(y.shape)
    of_pixel = np.minimum(o // 64 * 64 + p % 32, len(bias) - 1)
    yield "a bias belongs to a channel, and not to a pixel of the block", y + bias[of_pixel]
    yield "the biases of the other blocks begin at 64 · blockIdx.x", y + bias[o % 64]
    yield "the bias comes before the maximum with 0, not after it", np.maximum(y, 0) + bias
    yield "every pixel of the block gets the biases, not only the first ones", y + bias * (p % 32 < 4)


def check(source):
    random = np.random.default_rng()
    reports = []
    for pixels, outs in SIZES:
        what = f"bias_relu of {pixels} pixels × {outs} channels"
        before, bias = (random.standard_normal(s).astype(np.float32) for s in ((pixels, outs), outs))
        y = before.copy()
        grid = (-(-outs // 64), -(-pixels // 32))
        report = launch(source, "bias_relu", grid, (256,), (bias, y, pixels, outs), what=what, hints=HINTS)
        made = (
            hint for hint, wrong in mistakes(before, bias)
            if np.allclose(y, np.maximum(wrong, 0), 1e-5, 1e-5)
        )  # fmt: skip
        hint = next(made, "y[p][o] gets bias[o], which the block has copied, and nothing else; then the maximum with 0")
        expect(y, np.maximum(before + bias, 0), what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-6)
        reports.append((what, grid, before, report))

    for what, (across, down), before, report in reports:  # right first, then fast
        outs = before.shape[1]
        least = sum(-(-min(64, outs - 64 * i) // 32) for i in range(across)) * down  # a warp copies up to 32 biases
        elements = sum(  # of y: a warp's 32 neighbours of a row
            -(-min(64, outs - 64 * i) // 32) * min(32, len(before) - 32 * j) for i in range(across) for j in range(down)
        )
        got = report.global_loads.requests - elements
        hint = "a bias is read once a block, not once a pixel; and 64 lanes can ask for the 64 biases at once: two"
        hint += " requests, where one thread needs 64"
        what += f" loads biases in {got} requests, {least} would do"
        require(got <= least, what=what, hint=hint, picture=report)
