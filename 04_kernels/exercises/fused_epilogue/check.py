import numpy as np

from common.check import expect, launch, require

# C, O, pixels, bias?, residual?, low, high
CASES = (
    (3, 7, 49, True, True, -0.5, 0.75),
    (1, 1, 1, True, False, 0.0, 6.0),
    (5, 2, 257, False, True, 0.0, 1.5),
    (7, 17, 33, True, True, -1.0, 2.0),
    (4, 3, 130, False, False, -np.inf, np.inf),
)
HINTS = {
    "out-of-bounds": "the last block has threads to spare; a bias belongs to an output channel, not to a pixel; and a"
    " pointer that is null must not be read",
    "race": "who writes an element of y? The thread that has its sum, and nobody else",
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
    yield "the residual is added before the clamp, not after it", np.clip(sums + b, low, high) + r
    yield "the bias is added before the clamp, not after it", np.clip(sums + r, low, high) + b
    yield "the sum is cut off at both bounds, low and high", sums + b + r
    yield "the sum is cut off at both bounds, low and high", np.maximum(sums + b + r, low)
    yield "low and high are arguments, and not always those of ReLU6", np.clip(sums + b + r, 0.0, 6.0)
    yield "y is (O, pixels): element [o][p] is at o · pixels + p", right.T.reshape(outs, pixels)
    if bias is not None:
        yield "a bias belongs to an output channel, not to a pixel", np.clip(sums + bias[p % outs] + r, low, high)
    if residual is not None:
        turned = residual.reshape(-1)[p * outs + o]
        yield "the residual lies as y does: element [o][p] is at o · pixels + p", np.clip(sums + b + turned, low, high)


def check(source):
    random = np.random.default_rng()
    for channels, outs, pixels, has_bias, has_residual, low, high in CASES:
        told = [name for name, there in (("bias", has_bias), ("residual", has_residual)) if there]
        what = f"pointwise of {channels} > {outs} channels, {pixels} pixels, {' and '.join(told) or 'nothing added'}"
        x, weight, bias, residual = (
            random.standard_normal(shape).astype(np.float32)
            for shape in ((channels, pixels), (outs, channels), outs, (outs, pixels))
        )
        bias, residual = (bias if has_bias else None), (residual if has_residual else None)
        if outs == 17:
            x[2, 5] = np.nan
        y = np.full((outs, pixels), np.nan, np.float32)
        args = (x, weight, bias, residual, y, channels, outs, pixels, np.float32(low), np.float32(high))
        launch(source, "pointwise", (-(-pixels // 64), outs), (64,), args, what=what, hints=HINTS)

        sums = weight.astype(np.float64) @ x
        want = sums + (bias[:, None] if has_bias else 0.0) + (residual if has_residual else 0.0)
        want = np.clip(want, low, high).astype(np.float32)
        hint = "y holds NaN before the launch: is every pixel written, the last ones too, and is nothing added to it?"
        require(not (np.isnan(y) & ~np.isnan(want)).any(), what=f"{what} leaves NaN in y", hint=hint)
        require(not (np.isnan(want) & ~np.isnan(y)).any(), what=f"{what}: a NaN becomes a number", hint=NAN)
        close = {"rtol": 1e-5, "atol": 1e-6}
        known = mistakes(sums, bias, residual, low, high)
        made = (hint for hint, wrong in known if np.allclose(y, wrong, equal_nan=True, **close))
        hint = next(made, "bias[o], residual[o][p], then the clamp: each once, and in this order")
        expect(y, want, what=f"{what}: y", hint=hint, **close)
