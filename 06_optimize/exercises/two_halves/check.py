import numpy as np

from common.check import require
from common.check.trials import numpy_random

LARGEST = 2.0**15


def tried(two_halves, x, bound, what):
    """(high, low, scale) of an answer, of the right types and shapes."""
    answer = two_halves(np.array(x, np.float32), bound)
    hint = "return high, low, scale"
    require(isinstance(answer, tuple) and len(answer) == 3, what=f"{what}: not three values", hint=hint)
    high, low, scale = answer
    for name, part in (("high", high), ("low", low)):
        found = getattr(part, "dtype", type(part).__name__)
        require(found == np.float16, what=f"{what}: {name} is {found}", hint="astype(np.float16) rounds to a half")
        require(part.shape == np.shape(x), what=f"{what}: {name} has shape {part.shape}", hint="the shape of x stays")
    return high.astype(np.float64), low.astype(np.float64), float(scale)


def check(two_halves):
    for bound in (6.0, 1.0, 0.02, 2.0**15, 3e6, 2.0**-20):
        what = f"two_halves(x, {bound:g})"
        high, _, scale = tried(two_halves, [bound, -bound, 0.0], bound, what)
        mantissa = np.frexp(scale)[0] if scale > 0 else 0
        hint = "only a power of two scales without rounding"
        require(mantissa == 0.5, what=f"{what}: scale is {scale:g}, no power of two", hint=hint)
        hint = "2¹⁵ leaves room: a half ends at 65,504, and a product that rounds may exceed a bound"
        require(bound * scale <= LARGEST, what=f"{what}: scale · bound is {bound * scale:g}", hint=hint)
        hint = "the largest power of two: twice this one is still allowed, and small numbers then keep more bits"
        require(2 * bound * scale > LARGEST, what=f"{what}: scale · bound is only {bound * scale:g}", hint=hint)
        hint = "high is scale · x as a half, not x"
        fits = abs(high[0] - bound * scale) <= 2.0**-11 * bound * scale and high[1] == -high[0] and high[2] == 0
        require(fits, what=f"{what}: high of {bound:g} is {high[0]:g}, scale is {scale:g}", hint=hint)
    random = numpy_random()
    for bound in (6.0, 0.3, 1e5):
        what = f"two_halves of 4,000 numbers up to {bound:g}"
        x = (bound * random.uniform(-1, 1, (40, 100)) * 2.0 ** random.integers(-10, 1, (40, 100))).astype(np.float32)
        high, low, scale = tried(two_halves, x, bound, what)
        exact = x.astype(np.float64) * scale
        hint = "high is rounded to nearest, which astype does"
        nearest = exact.astype(np.float32).astype(np.float16).astype(np.float64)
        require(np.array_equal(high, nearest), what=f"{what}: high is another half", hint=hint)
        hint = "low is what high lacks of scale · x: the difference in float32, and only then a half"
        off = np.abs(high + low - exact)
        require((off <= 2.0**-22 * np.abs(exact) + 2.0**-25).all(), what=f"{what}: high + low ≠ scale · x", hint=hint)
