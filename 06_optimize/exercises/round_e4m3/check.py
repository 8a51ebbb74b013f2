import numpy as np

from common.check import require
from common.check.kernels import compare
from common.check.trials import numpy_random
from common.quantize.formats import e4m3


def rounded(x, mistake=""):
    """e4m3(x); mistake: what is done differently."""
    x = np.asarray(x, np.float64)
    least, bits, largest = -6, 3, 448.0
    if mistake == "no subnormals":
        least = -100
    if mistake == "two bits of fraction":
        bits = 2
    if mistake == "four bits of fraction":
        bits = 4
    if mistake == "largest of 480":
        largest = 480.0
    if mistake == "largest of 240":
        largest = 240.0
    _, exponent = np.frexp(x)
    if mistake == "exponent of frexp":
        exponent = exponent + 1
    spacing = np.ldexp(1.0, np.maximum(exponent - 1, least) - bits)
    v = x / spacing
    if mistake == "half away":
        v = np.sign(v) * np.floor(np.abs(v) + 0.5)
    elif mistake == "truncated":
        v = np.trunc(v)
    elif mistake == "one spacing":
        v, spacing = np.rint(x * 8), 0.125
    else:
        v = np.rint(v)
    result = v * spacing
    if mistake == "infinity":
        return np.where(np.abs(result) > largest, np.copysign(np.inf, x), result).astype(np.float32)
    return (result if mistake == "no end" else np.clip(result, -largest, largest)).astype(np.float32)


MISTAKES = {
    "half away": "round half to even: halfway between 1 and 1.125 lies 1.0625, and it becomes 1",
    "truncated": "round to the nearest number; a conversion to int cuts off",
    "one spacing": "the spacing is not the same everywhere: from 2^e to 2^(e+1) it is 2^(e−3)",
    "exponent of frexp": "the spacing is twice what it should be. There are 8 numbers from one power of two to the"
    " next; and frexp() gives 0.5 to 1 times a power of two, so the number's own exponent is one less",
    "two bits of fraction": "3 bits of fraction: 8 numbers from one power of two to the next",
    "four bits of fraction": "3 bits of fraction: 8 numbers from one power of two to the next",
    "no subnormals": "below 2⁻⁶ the spacing stays at 2⁻⁹: the exponent ends at −6",
    "largest of 480": "the largest number is 448: the last code of the last exponent means NaN",
    "largest of 240": "the largest number is 448: e4m3 uses its highest exponent for numbers, not for infinity",
    "infinity": "there is no infinity: what is beyond 448 saturates",
    "no end": "there is nothing beyond 448: what is larger saturates",
}


def compare_with(round_e4m3, x, what):
    kept = x.copy()
    got = round_e4m3(x)
    require(np.array_equal(x, kept), what=f"{what}: x was changed", hint="compute with copies")
    shape = np.shape(got)
    require(shape == x.shape, what=f"{what}: shape {shape}, expected {x.shape}", hint="one number for each")
    known = ((rounded(x, mistake), told) for mistake, told in MISTAKES.items())
    hint = "the power of two below |x|, the spacing there, and the nearest multiple of the spacing"
    compare(np.asarray(got, np.float32), e4m3(x), what=what, hint=hint, mistakes=known)


def check(round_e4m3):
    random = numpy_random()
    compare_with(round_e4m3, np.array([1.0, 1.05, 1.9, -3.3, 5.2, 17.0, 0.3], np.float32), "numbers of middling size")
    halves = np.array([1.0625, 1.1875, -2.125, 2.375, 20.0 + 1.0, 0.53125], np.float32)
    compare_with(round_e4m3, halves, "numbers half-way between two")
    compare_with(round_e4m3, np.array([0.0, 2.0**-6, 2.0**-7, 0.003, -0.0012, 0.0009], np.float32), "numbers below 2⁻⁶")
    compare_with(round_e4m3, np.array([447.0, 460.0, 470.0, 1e4, -1e9, 300.0, 230, 260], np.float32), "large numbers")
    for _ in range(4):
        n = int(random.integers(1, 200))
        x = (random.standard_normal(n) * np.exp2(random.integers(-11, 9, n))).astype(np.float32)
        compare_with(round_e4m3, x, f"{n} random numbers")
    compare_with(round_e4m3, random.standard_normal((3, 4)).astype(np.float32), "a matrix")
