import numpy as np

from common.check import launch
from common.check.kernels import compare, shapes
from common.check.trials import numpy_random
from common.kernels import int8

SIZES = ((4, 4), (1, 1), (7, 5), (33, 12))  # P, O


def finished(acc, multiplier, zero_point, residual, scales, low, high, mistake=""):
    """y of the exercise in NumPy; mistake: what is done differently."""
    scale = np.broadcast_to(multiplier, acc.shape)
    if mistake == "wrong axis":
        scale = multiplier[np.minimum(np.arange(len(acc)), len(multiplier) - 1)][:, None]
    v = acc.astype(np.float32) * scale
    if mistake == "int32 overflow":
        fixed = (multiplier * np.float32(2**24)).astype(np.int32)
        v = ((acc.astype(np.int64) * fixed).astype(np.int32) >> 24).astype(np.float32)

    def rounded(number):
        if mistake == "half away":
            return np.sign(number) * np.floor(np.abs(number) + np.float32(0.5))
        return np.trunc(number) if mistake == "truncated" else np.rint(number)

    conv = v + np.float32(zero_point) if mistake == "rounded once" else rounded(v) + zero_point
    if mistake == "clamped before":
        conv = np.clip(conv, low, high)
    elif mistake != "conv unsaturated":
        conv = np.clip(conv, -128, 127)
    conv = conv.astype(np.float32)
    scale_a, scale_b, shift = (np.float32(one) for one in scales)
    if mistake == "requantized twice":
        total = rounded(int8.fma(conv, scale_a, 0)) + rounded(int8.fma(residual, scale_b, shift))
    else:
        total = int8.fma(conv, scale_a, int8.fma(residual, scale_b, shift))
    ends = (-128, 127) if mistake == "clamped before" else (low, high)
    if mistake == "y unsaturated":
        ends = (-(10**6), 10**6)
    return np.clip(rounded(total), *ends).astype(np.int64).astype(np.int8)


MISTAKES = {
    "half away": "a half goes to the even code: 2.5 to 2. __float2int_rn() rounds so; roundf() and + 0.5f do not",
    "truncated": "round to the nearest code: a conversion with (int) cuts off",
    "wrong axis": "the multiplier belongs to the output channel, i % O, and not to the row",
    "clamped before": "ReLU6, the bounds low and high, follows the addition; conv saturates at -128 and 127 alone",
    "requantized twice": "the two terms are added as floats and rounded once, together: rounded one by one they"
    " are requantized twice",
    "rounded once": "conv is a code: it is rounded and saturated before the addition, as the two operators do",
    "conv unsaturated": "conv is a code: it saturates at -128 and 127 before the addition",
    "y unsaturated": "beyond low and high there are no codes: clamp, and only then make it a signed char",
    "int32 overflow": "acc times a factor of many bits does not fit into int32: multiply as floats",
}


def check(source):
    random = numpy_random()
    for p, o in shapes(source, random, SIZES, (60, 40)):
        what = f"int8_finish of {p} × {o}"
        zero_point = int(random.integers(-9, 9))
        low, high = (-60, 60) if random.random() < 0.7 else (-128, 127)
        # powers of two, so that halves are exact
        multiplier = np.exp2(random.integers(-7, -3, o)).astype(np.float32)
        acc = random.integers(-2500, 2500, (p, o)).astype(np.int32)
        residual = random.integers(-128, 128, (p, o)).astype(np.int8)
        scales = (float(random.choice([0.5, 0.75])), float(random.choice([0.25, 0.5])), float(random.integers(-8, 8)))
        y = np.full((p, o), 99, np.int8)
        args = (acc, multiplier, residual, y, p, o, zero_point, low, high, *(np.float32(s) for s in scales))
        launch(source, "int8_finish", (-(-p * o // 64),), (64,), args, what=what, outputs=(y,))
        conv = int8.requantize(acc, multiplier, zero_point)
        want = int8.add(conv, residual, scales, low, high)
        given = acc, multiplier, zero_point, residual, scales, low, high
        known = ((finished(*given, mistake), told) for mistake, told in MISTAKES.items())
        hint = "write conv into a variable first, as an int; then the two fma, from the inside to the outside"
        compare(y, want, what=f"{what}: y", hint=hint, mistakes=known)
