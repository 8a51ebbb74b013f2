import numpy as np

from common.check import expect, require
from common.check.trials import numpy_random


def wanted(weight):
    greatest = np.abs(weight).max(axis=(1, 2, 3)).astype(np.float64)
    scales = np.where(greatest > 0, greatest / 127, 1.0)
    return np.rint(weight / scales[:, None, None, None]).astype(np.int8), scales


def compare(quantize_weights, weight, what, hint):
    got = quantize_weights(weight)
    require(isinstance(got, tuple) and len(got) == 2, what=f"{what}: not a pair", hint="return (codes, scales)")
    codes, scales = wanted(weight)
    of_scale = "one scale per output channel, its greatest |number| / 127: the channel is the first of four dimensions"
    require(np.shape(got[1]) == scales.shape, what=f"{what}: scales of shape {np.shape(got[1])}", hint=of_scale)
    expect(got[1], scales, what=f"{what}: scales", hint=of_scale, rtol=1e-6)  # a division in float32 is right, too
    exact = weight / scales[:, None, None, None]
    if np.shape(got[0]) == codes.shape:  # next to a half, but not on it, the last bit of the scale decides
        undecided = (np.abs(exact % 1 - 0.5) < 1e-4) & (exact % 1 != 0.5) & (np.abs(got[0] - exact) < 0.501)
        codes = np.where(undecided, got[0], codes).astype(np.int8)
    expect(got[0], codes, what=f"{what}: codes", hint=hint)


def check(quantize_weights):
    random = numpy_random()
    hint = "the nearest integer of number / scale, as int8"
    weight = random.standard_normal((3, 5, 3, 3)).astype(np.float32)
    compare(quantize_weights, weight, "weight (3, 5, 3, 3)", hint)
    # a scale of exactly 1, so that halves are exact
    halves = np.array([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.49], np.float32).reshape(1, 8, 1, 1)
    compare(quantize_weights, halves, "numbers half-way between two codes", "a half goes to the even code: 2.5 to 2")
    lowest = np.array([-127, 3, 1], np.float32).reshape(1, 3, 1, 1)
    compare(quantize_weights, lowest, "a channel whose greatest |number| is negative", hint)
    zeros = random.standard_normal((4, 1, 3, 3)).astype(np.float32)
    zeros[2] = 0
    compare(quantize_weights, zeros, "a channel of zeros", "its scale is 1.0, so that nothing is divided by 0")
    for _ in range(8):
        shape = tuple(int(n) for n in random.integers(1, 6, 4))
        spread = np.exp2(random.integers(-8, 8, shape[0])).astype(np.float32)[:, None, None, None]
        compare(quantize_weights, random.standard_normal(shape).astype(np.float32) * spread, f"weight {shape}", hint)
