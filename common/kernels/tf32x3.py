"""fp32 products from TF32 products, in NumPy: the arithmetic of include/tf32x3.h and of a tensor core's sums.

big, small = split(x)                    x = big + small, both of at most 11 significant bits, but for small's last
products(x, y, 3)                        x · y from the largest 1 to 4 of the four products of parts, as mma reads them
dot(x, y)                                sums over the last dimension, truncated after each step of 8 terms
dot(x, y, slice=8)                       truncated within slices of 8 terms only; slices are added as floats
matmul(x, w)                             x (M, K) · w (N, K)ᵀ as a kernel computes it, from three products of parts
"""

from typing import Any

import numpy as np

STEP = 8  # terms that one mma of TF32 numbers adds to a sum
CUT = 4.2e-8  # of a truncated sum, what it has lost on average


def tf32(x: Any) -> np.ndarray:
    """Floats rounded to TF32, to the nearest number with 11 significant bits."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def cut(x: Any) -> np.ndarray:
    """Floats without the bits that TF32 does not have, as mma reads its operands."""
    return (np.asarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def split(x: Any) -> tuple[np.ndarray, np.ndarray]:
    """(big, small): big is x rounded to TF32, small the rest, of at most 12 bits and a sign."""
    x = np.asarray(x, np.float32)
    big = tf32(x)
    with np.errstate(invalid="ignore"):  # an infinity's rest is NaN
        return big, x - big


def products(x: Any, y: Any, count: int = 3) -> np.ndarray:
    """x · y in float64, from the largest `count` of big·big, big·small, small·big, small·small.

    What TF32 cannot hold of a small part is cut off, so all four are not exact either.
    """
    (x_big, x_small), (y_big, y_small) = (map(cut, split(number)) for number in (x, y))
    terms = ((x_big, y_big), (x_big, y_small), (x_small, y_big), (x_small, y_small))
    return np.sum([a.astype(np.float64) * b for a, b in terms[:count]], axis=0)


def toward_zero(x: np.ndarray) -> np.ndarray:
    """float64 numbers truncated to floats."""
    rounded = x.astype(np.float32)
    away = np.abs(rounded) > np.abs(x)
    return np.where(away, np.nextafter(rounded, np.float32(0)), rounded).astype(np.float32)


def dot(x: Any, y: Any, slice: int | None = None, truncate: bool = True) -> np.ndarray:
    """Sums of x · y over the last dimension, as a tensor core keeps them in float32.

    STEP products are added exactly to the sum, and the result is truncated to a float, or rounded to nearest with
    truncate=False. slice: with a multiple of STEP, each slice of so many terms has a sum of its own, and the slices are
    added with ordinary float additions.
    """
    if slice is not None and (slice < STEP or slice % STEP):
        raise ValueError(f"slice must be a multiple of {STEP}, got {slice}")
    fit = toward_zero if truncate else lambda wide: wide.astype(np.float32)
    steps = np.asarray(x, np.float64) * np.asarray(y, np.float64)
    steps = steps.reshape(*steps.shape[:-1], -1, STEP).sum(-1)
    total = np.zeros(steps.shape[:-1], np.float32)
    part = np.zeros_like(total)
    for i in range(steps.shape[-1]):
        part = fit(part + steps[..., i])
        if slice is not None and (i + 1) % (slice // STEP) == 0:
            total, part = total + part, np.zeros_like(part)
    return total + part


def matmul(x: Any, w: Any, slice: int = STEP, truncate: bool = True) -> np.ndarray:
    """x (M, K) · w (N, K)ᵀ in float32 as the kernels compute it: three products of parts, the small ones first.

    Each mma adds STEP products of parts exactly to the sum of a slice, which is then truncated, or rounded to nearest
    with truncate=False, as on the simulator. Slices are added as floats; a truncated one with CUT of itself, which it
    has lost on average.
    """
    (x_big, x_small), (w_big, w_small) = ([cut(part).astype(np.float64) for part in split(one)] for one in (x, w))
    fit = toward_zero if truncate else lambda wide: wide.astype(np.float32)
    total = np.zeros((len(x_big), len(w_big)), np.float32)
    for start in range(0, x_big.shape[1], slice):
        part = np.zeros_like(total)
        for k in range(start, min(start + slice, x_big.shape[1]), STEP):
            for a, b in ((x_small, w_big), (x_big, w_small), (x_big, w_big)):
                part = fit(part + a[:, k : k + STEP] @ b[:, k : k + STEP].T)
        total = total + ((part + CUT * part.astype(np.float64)).astype(np.float32) if truncate else part)
    return total
