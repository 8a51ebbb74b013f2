"""A residual's sum in two instructions: parameters with which two fma give the codes of int8.add.

    made = one_sum(scales, offset, residual_first)     Sum(a, b, rest, fraction), or None where there is none

The kernel has two bytes, codes + 128 of the product and of the residual: p and q. As floats their bits are multiples of
the smallest one, 2^-149. A permutation of bytes puts q above 16 bits of fraction, and then

    t    = fma(p, a, q · 2^16 + fraction)        p · a + q · 2^16 + fraction, rounded to 24 bits
    code = fma(t, b, rest)                       rounded to an integer + 128, ties to even, in units of 2^-149

int8.add rounds otherwise: round(a' · scale_a + (b' · scale_b + shift)). Both are near a plane over the pairs (p, q);
they differ where it passes between two codes within a rounding error, less than 2^-14. There are 65,536 pairs, so all
of them are tried: a, b and the fraction are moved by a few floats until all pairs have int8.add's code. A shift whose
fraction is larger than b · 2^16 fits only with 255 − q in q's place, and b is then negative, or with p and q
exchanged. One in thirty fits in none of these ways.
"""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .int8 import HIGH, LOW, Scales, add

BYTE = 2.0**16  # what one of q is, in units
TRIED = 600  # parameters that are tried; one in ten is right
SMALLEST = 2.0**-149
Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Sum:
    """a, b: float32 factors; rest: an integer; fraction: 0 to 65,535. b < 0: of 255 − q.

    of_residual: whether q is the residual's byte, else the product's.
    """

    a: np.float32
    b: np.float32
    rest: int
    fraction: int
    of_residual: bool

    def codes(self, product: Float64, residual: Float64) -> Float64:
        """The codes + 128 of the sums, clamped to 0 … 255, as the kernel computes them, of the terms' codes + 128."""
        p, q = (product, residual) if self.of_residual else (residual, product)
        q = 255 - q if self.b < 0 else q
        # products of 8 and 24 bits are exact in float64, and so are the sums
        t = p * np.float64(self.a) + (q * BYTE + self.fraction)
        t = np.where(np.abs(t) < 2**24, np.rint(t), t.astype(np.float32))
        clipped: Float64 = np.clip(np.rint(t * np.float64(self.b) + self.rest), 0, HIGH - LOW)
        return clipped

    @property
    def numbers(self) -> tuple[np.float32, np.float32, np.float32, int]:
        """What a kernel takes as scale_a, scale_b, shift and offset."""
        return self.a, self.b, np.float32(self.rest * SMALLEST), self.fraction


@functools.lru_cache(maxsize=256)
def one_sum(scales: Scales, offset: int = 0, residual_first: bool = False) -> Sum | None:
    """The parameters for int8.add of a product and a residual, clamped to −128 … 127; None if none are found.

    scales: (scale_a, scale_b, shift); offset, residual_first: as of pointwise_int8.
    """
    scales = tuple(float(np.float32(scale)) for scale in scales)  # type: ignore[assignment]
    factors = (scales[1], scales[0]) if residual_first else (scales[0], scales[1])  # of the product, of the residual
    if not (np.isfinite(scales).all() and min(factors) > 2.0**-10 and max(factors) < 2.0**10):
        return None
    bytes_ = np.meshgrid(np.arange(256.0), np.arange(256.0), indexing="ij")
    codes = [(one + LOW).astype(np.int8) for one in bytes_]
    first, second = codes[::-1] if residual_first else codes
    want = add(first, second, scales, LOW, HIGH, offset).astype(np.float64) - LOW
    shift = scales[2] + (offset + LOW) * sum(factors) - offset - LOW
    exact = factors[0] * bytes_[0] + factors[1] * bytes_[1] + shift
    near = (np.abs(exact - np.floor(exact) - 0.5) < 2.0**-10) & (exact > -1) & (exact < 257)  # what may go wrong
    for of_residual in (True, False):
        of_p, of_q = factors if of_residual else factors[::-1]
        for sign in (1, -1):
            begin = shift if sign > 0 else shift + 255 * of_q
            rest = np.floor(begin) if sign > 0 else np.ceil(begin)
            fraction = BYTE * (begin - rest) / (sign * of_q)
            if fraction >= BYTE - 1:
                continue
            a, b = np.float32(sign * of_p / of_q * BYTE), np.float32(sign * of_q / BYTE)
            random = np.random.default_rng(0)
            for i in range(TRIED):
                moved = random.normal(0, i / 60, 3)
                found = Sum(
                    np.float32(a + np.rint(moved[0]) * np.spacing(a)),
                    np.float32(b + np.rint(moved[1]) * np.spacing(b)),
                    int(rest),
                    int(np.clip(np.rint(fraction) + np.rint(moved[2] / 2), 0, BYTE - 1)),
                    of_residual,
                )
                some = found.codes(bytes_[0][near], bytes_[1][near])
                if (some == want[near]).all() and (found.codes(*bytes_) == want).all():
                    return found
    return None
