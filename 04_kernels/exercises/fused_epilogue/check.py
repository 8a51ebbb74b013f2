import numpy as np

from common.check import launch, require
from common.check.kernels import compare, shapes, sprinkled
from common.check.trials import numpy_random

# C, O, pixels, bias?, residual?, low, high
CASES = (
    (3, 7, 49, True, True, -0.5, 0.75),
    (1, 1, 1, True, False, 0.0, 6.0),
    (5, 2, 257, False, True, 0.0, 1.5),
    (7, 17, 33, True, True, -1.0, 2.0),
    (4, 3, 130, False, False, -np.inf, np.inf),
)
HINTS = {
    "out-of-bounds": "the last block has threads without an element; a bias belongs to an output channel, not a pixel;"
    " and a pointer that is null must not be read",
    "race-global": "who writes an element of y? The thread that has its sum, and nobody else",
    "unwritten": "every pixel is written, the last ones too",
}
NAN = (
    "fminf and fmaxf prefer the number to the NaN, and every comparison with a NaN is false: which way does it go in"
    " yours?"
)


def mistakes(sums, bias, residual, low, high):
    """What comes of some mistakes, by the hint that each deserves."""
    outs, pixels = sums.shape
    o, p = np.arange(outs)[:, None], np.arange(pixels)
    b, r = (0.0 if bias is None else bias[:, None]), (0.0 if residual is None else residual)
    right = np.clip(sums + b + r, low, high)
    yield np.clip(b + r + 0 * sums, low, high), "the sum over the channels is missing"
    if residual is not None:
        yield np.clip(sums + b - r, low, high), "the residual is added, not subtracted"
    if residual is not None:
        yield np.clip(sums + b, low, high), "the residual is missing"
        yield np.clip(sums + b, low, high) + r, "the residual is added before the clamp, not after it"
    if bias is not None:
        yield np.clip(sums + r, low, high), "the bias is missing"
        yield np.clip(sums + r, low, high) + b, "the bias is added before the clamp, not after it"
    yield sums + b + r, "the sum is cut off at both bounds, low and high"
    yield np.maximum(sums + b + r, low), "the sum is cut off at both bounds, low and high"
    yield np.minimum(sums + b + r, high), "the sum is cut off at both bounds, low and high"
    yield np.clip(sums + b + r, 0.0, 6.0), "low and high are arguments, and not always those of ReLU6"
    yield np.maximum(sums + b + r, 0.0), "low and high are arguments, and not always those of ReLU"
    yield right.T.reshape(outs, pixels), "y is (O, pixels): element [o][p] is at o · pixels + p"
    if bias is not None:
        yield np.clip(sums + bias[p % outs] + r, low, high), "a bias belongs to an output channel, not to a pixel"
    if residual is not None:
        turned = residual.reshape(-1)[p * outs + o]
        yield np.clip(sums + b + turned, low, high), "the residual lies as y does: element [o][p] is at o · pixels + p"


def check(source):
    random = numpy_random()
    bounds = [(True, True, -1e3, 1e3), (False, True, -1.0, 99.0), (True, False, -1e4, 0.125)]
    drawn = [
        (c, o, p, *bounds[i % 3]) for i, (c, o, p) in enumerate(shapes(source, random, (), (40, 20, 300)))
    ]  # fmt: skip
    for channels, outs, pixels, has_bias, has_residual, low, high in (*CASES, *drawn):
        told = [name for name, there in (("bias", has_bias), ("residual", has_residual)) if there]
        what = f"pointwise of {channels} > {outs} channels, {pixels} pixels, {' and '.join(told) or 'nothing added'}"
        x, weight, bias, residual = (
            random.standard_normal(shape).astype(np.float32)
            for shape in ((channels, pixels), (outs, channels), outs, (outs, pixels))
        )
        if outs == 17 and channels > 2 and pixels > 5:
            x[2, 5] = np.nan
        if pixels == 257:
            residual, what = sprinkled(random, residual), f"{what}, NaN and infinities in the residual"
        bias, residual = (bias if has_bias else None), (residual if has_residual else None)
        y = np.full((outs, pixels), np.nan, np.float32)
        args = (x, weight, bias, residual, y, channels, outs, pixels, np.float32(low), np.float32(high))
        threads = int(random.choice((64, 32, 96, 7, 256)))
        grid = (-(-pixels // threads), outs)
        launch(source, "pointwise", grid, (threads,), args, what=what, hints=HINTS, outputs=(y,))

        with np.errstate(invalid="ignore"):
            sums = weight.astype(np.float64) @ x
            want = sums + (bias[:, None] if has_bias else 0.0) + (residual if has_residual else 0.0)
            want = np.clip(want, low, high).astype(np.float32)
            known = list(mistakes(sums, bias, residual, low, high))
        require(not (np.isnan(want) & ~np.isnan(y)).any(), what=f"{what}: a NaN becomes a number", hint=NAN)
        hint = "the sum over all C channels, bias[o], residual[o][p], then the clamp: each once, and in this order"
        compare(y, want, what=f"{what}: y", hint=hint, mistakes=known, rtol=1e-5, atol=1e-6 * channels**0.5)
