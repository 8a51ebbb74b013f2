"""fp32 products from products of halves, in NumPy: include/pair_of_halves.h and the sums of a tensor core.

high, low = split(x, scale)              scale·x = high + low, halves
scale_of(bound)                          the power of two for numbers of at most that magnitude
products(x, y, count=3)                  x · y from the largest 1 to 4 of the four products of parts
matmul(x, w, x_scale, w_scale)           x (M, K) · w (N, K)ᵀ as a kernel computes it, sums of 16 terms truncated
"""

import math
from typing import Any

import numpy as np

from .tf32x3 import toward_zero

STEP = 16  # terms that one mma of halves adds to a sum
LARGEST = 2.0**15  # of scaled numbers, half of what a half can hold: rounding may exceed a computed bound


def scale_of(bound: float) -> float:
    """The largest power of two that takes numbers of magnitudes up to `bound` to at most LARGEST; 1 for a bound of 0.

    The power is kept within 2^±60, so that the product of two scales and its inverse are floats. ValueError for a bound
    that is negative, infinite or NaN, and for one that needs a scale below 2^-60.
    """
    if not 0 <= bound < math.inf:
        raise ValueError(f"bound must be a finite magnitude, got {bound}")
    if bound == 0:
        return 1.0
    mantissa, exponent = math.frexp(bound)  # bound = mantissa · 2^exponent, mantissa in [1/2, 1)
    power = 15 - exponent + (mantissa == 0.5)
    if power < -60:
        raise ValueError(f"bound must be at most 2^75, got {bound}")
    return 2.0 ** min(power, 60)


def split(x: Any, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """(high, low) float16: high is scale·x rounded to a half, low the rest rounded to a half.

    Where |scale·x| ≥ 65,520, high is infinite and low infinite or NaN.
    """
    scaled = np.asarray(x, np.float32) * np.float32(scale)
    with np.errstate(over="ignore", invalid="ignore"):
        high = scaled.astype(np.float16)
        return high, (scaled - high.astype(np.float32)).astype(np.float16)


def products(x: Any, y: Any, count: int = 3) -> np.ndarray:
    """x · y in float64, from the largest `count` of high·high, high·low, low·high, low·low; unscaled."""
    (x_high, x_low), (y_high, y_low) = (split(number) for number in (x, y))
    terms = ((x_high, y_high), (x_high, y_low), (x_low, y_high), (x_low, y_low))
    return np.sum([a.astype(np.float64) * b for a, b in terms[:count]], axis=0)


def matmul(
    x: Any, w: Any, x_scale: float = 1.0, w_scale: float = 1.0, truncate: bool = True, slice: int = STEP
) -> np.ndarray:
    """x (M, K) · w (N, K)ᵀ in float32: sums of `slice` terms as a tensor core keeps them, added as floats.

    Each mma adds STEP products exactly to a sum, which is then truncated to a float, or rounded to nearest with
    truncate=False, as on the simulator. slice: a multiple of STEP.
    """
    (x_high, x_low), (w_high, w_low) = (
        [part.astype(np.float64) for part in split(number, scale)] for number, scale in ((x, x_scale), (w, w_scale))
    )
    fit = toward_zero if truncate else lambda wide: wide.astype(np.float32)
    unscale = 1 / (x_scale * w_scale)
    total = np.zeros((len(x_high), len(w_high)), np.float32)
    for start in range(0, x_high.shape[1], slice):
        part = np.zeros_like(total)
        for k in range(start, min(start + slice, x_high.shape[1]), STEP):
            for a, b in ((x_low, w_high), (x_high, w_low), (x_high, w_high)):
                with np.errstate(invalid="ignore"):  # of infinite parts
                    part = fit(part + a[:, k : k + STEP] @ b[:, k : k + STEP].T)
        total = (total + part.astype(np.float64) * unscale).astype(np.float32)  # an fmaf
    return total
