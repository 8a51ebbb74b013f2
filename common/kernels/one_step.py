"""Requantization in one instruction: parameters with which a single fma gives the codes of int8.requantize.

    multiplier = nearest(weight, bias, multiplier, zero_point)       moved to neighbours that have such a fma
    made, exact = one_step(weight, bias, multiplier, zero_point)     (3, O) int32; the channels that have such a fma

An int32 sum that begins at bias is, read as a float, a number between 2^23 and 2^24, times a power of two, MAGIC's. fma
multiplies it and adds an offset, and its result lies among the smallest floats: there neighbours are 2^-149 apart, and
a float's bits are the integer that it is a multiple of. So the bits of the result are the output's code + 128, rounded
once, ties to even; the bits of a negative float are a negative int. Clamped to 0 … 255 they are a byte.

    sum + bias  ──as a float──►  (1.5·2^23 + sum + b) · 2^-100  ──fma──►  code + 128, in units of 2^-149

The offset must be a whole number of units, but (1.5·2^23 + b) · multiplier is none. b is chosen so that it is one, but
for so little that no sum gets another code: `_window` has the room that each channel leaves, `first_in` finds b. What
int8.requantize does to a sum, rounding twice, is so copied bit for bit, if there is such a b. For one channel in a
hundred, with long sums one in three, there is none, and it is rounded twice. Whether there is one depends on the last
bits of the multiplier, which come from the roundings of three scales: `nearest` moves it by a few floats to one that
has a fma. The kernels compute a network with that one; a few of its codes are then a step off those of the file.
"""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .int8 import HIGH, LOW, Int8, Int32, requantize

MAGIC = 0x19400000  # the bits of 1.5·2^23 · 2^-100
UNIT = 49  # multiplier · 2^-UNIT: 2^-149 / 2^-100
EXACT = 60  # multiplier · 2^EXACT, of `two_steps`: its products are in units of 2^-40
MIDDLE, HALF = 3 << 22, 1 << 22  # 1.5·2^23; how far a sum may be from it
CODES = HIGH - LOW
NUDGE = 8  # multipliers that are tried on either side of the given one, next to each other
MOVED = 16  # floats that `nearest` tries on either side of a multiplier: a change of 2^-19 of it at most


def first_in(step: int, modulus: int, low: int, high: int) -> int | None:
    """The smallest x ≥ 0 with low ≤ step · x mod modulus ≤ high, 0 ≤ low ≤ high < modulus; None if there is none."""
    step %= modulus
    if low == 0:
        return 0
    if step == 0:
        return None
    if 2 * step > modulus:
        return first_in(modulus - step, modulus, modulus - high, modulus - low)
    x = -(-low // step)
    if x * step <= high:
        return x
    turns = first_in(-modulus % step, step, low % step, high % step)  # how often step · x passes the modulus
    return None if turns is None else -(-(low + modulus * turns) // step)


def _thresholds(multiplier: np.float32, zero_point: int, low: int, high: int) -> tuple[Any, Any]:
    """(codes k, the first sum in (low, high] whose code + 128 is k or more), of those that there are."""
    k = np.arange(1, CODES + 1)
    about = np.rint((k + LOW - zero_point - 0.5) / np.float64(multiplier))
    sums = np.clip(about[:, None] + np.arange(-3, 4), low - 8, high + 8).astype(np.int64)
    codes = requantize(sums.astype(np.int32), multiplier, zero_point).astype(np.int64) - LOW
    reached = codes >= k[:, None]
    first = sums[np.arange(CODES), reached.argmax(axis=1)]
    there = reached.any(axis=1) & ~reached[:, 0] & (first > low) & (first <= high)
    return k[there], first[there]


@functools.lru_cache(maxsize=1 << 16)
def _channel(multiplier: np.float32, zero_point: int, low: int, high: int) -> tuple[int, np.float32, int] | None:
    """(b, multiplier, offset) of a channel whose sums lie in [low, high]; None if there are none."""
    if not (np.isfinite(multiplier) and 2.0**-14 < multiplier < 0.25) or high - low >= 2 * HALF - 1:
        return None
    fraction, exponent = np.frexp(np.float64(multiplier))
    m, shift = int(fraction * 2**24), int(24 - exponent)  # multiplier = m / 2^shift
    k, first = _thresholds(multiplier, zero_point, low, high)
    even = 1 - k % 2  # a tie goes to the even code
    middle = (2 * k - 1 + 2 * (LOW - zero_point)) << (shift - 1)
    near = np.arange(m - NUDGE, m + NUDGE + 1)[:, None]
    # what may be added to every product, in units of 2^-shift: sum first gets code k, the sum below it does not
    least = (middle - first * near + (1 - even)).max(axis=1, initial=-1 << shift)
    most = (middle - (first - 1) * near - even).min(axis=1, initial=1 << shift)
    windows = zip((most - least).tolist(), least.tolist(), near[:, 0].tolist(), strict=True)
    modulus, start = 1 << shift, MIDDLE - HALF - low  # with b = x − HALF − low the float is start + x + sum
    for size, least, near in sorted(windows, reverse=True):
        x = None if size < 0 else first_in(near, modulus, *_turned(least - start * near, size, modulus))
        if x is not None and x - low <= 2 * HALF - 1 - high:
            b = x - HALF - low
            whole = ((MIDDLE + b) * near - least) // modulus
            return b, np.float32(near / 2.0**shift), zero_point - LOW - whole
    return None


def _turned(low: int, size: int, modulus: int) -> tuple[int, int]:
    """[low, low + size] modulo `modulus`, as an interval within [0, modulus): its second part, if it has two."""
    low %= modulus
    return (low, low + size) if low + size < modulus else (0, min(low + size - modulus, modulus - 1))


def one_step(
    weight: Int8, bias: Int32 | None, multiplier: Any, zero_point: int, unsigned: bool = False
) -> tuple[Int32, NDArray[np.bool_]]:
    """((bias, multiplier, offset) of every channel, (3, O) int32, the last two the bits of floats; which are exact).

    weight: (O, …) int8; bias: (O,) int32 with the zero point of the input folded in, or None; multiplier: (O,) float32;
    zero_point: of the output, whose codes are clamped to −128 … 127. unsigned: the kernel's inputs are codes + 128.
    Where a channel has no such parameters, its column is that of `two_steps`.
    """
    _, low, high = _sums(weight, bias)
    m, made = np.asarray(multiplier, np.float32), two_steps(weight, bias, multiplier, zero_point, unsigned)
    found = [_channel(m[i], zero_point, int(low[i]), int(high[i])) for i in range(len(m))]
    for i, one in enumerate(found):
        if one is not None:
            made[0, i] += one[0]
            made[1:, i] = _bits(one[1] * np.float32(2.0**-UNIT)), _bits(np.float32(one[2] * 2.0**-149))
    return made, np.array([one is not None for one in found])


def nearest(weight: Int8, bias: Int32 | None, multiplier: Any, zero_point: int) -> NDArray[np.float32]:
    """The multipliers, (O,) float32; where one has no exact fma, the nearest of MOVED floats on either side that has.

    Arguments as of `one_step`. A multiplier whose neighbours have none either stays.
    """
    _, low, high = _sums(weight, bias)
    given = np.asarray(multiplier, np.float32)
    made = given.copy()
    for i, m in enumerate(given):
        below = above = m
        for _ in range(MOVED + 1):
            found = next((x for x in (above, below) if _channel(x, zero_point, int(low[i]), int(high[i]))), None)
            if found is not None or not 2.0**-14 < m < 0.25:
                break
            below, above = np.nextafter(below, np.float32(0)), np.nextafter(above, np.float32(1))
        if found is not None:
            made[i] = found
    return made


def two_steps(weight: Int8, bias: Int32 | None, multiplier: Any, zero_point: int, unsigned: bool = False) -> Int32:
    """The same array for the kernel's way of three or four instructions, which rounds twice, as int8.requantize does.

    It is exact where int8.small_sums holds.
    """
    sums, _, _ = _sums(weight, bias)
    start = MAGIC + sums + (LOW * weight.reshape(len(weight), -1).sum(axis=1, dtype=np.int64) if unsigned else 0)
    scaled = np.asarray(multiplier, np.float32) * np.float32(2.0**EXACT)
    return np.stack([start.astype(np.int32), _bits(scaled), np.full(len(start), zero_point - LOW, np.int32)])


def _sums(weight: Int8, bias: Int32 | None) -> tuple[Any, Any, Any]:
    """(bias, the lowest sum, the highest sum) of each channel."""
    flat = weight.reshape(len(weight), -1).astype(np.int64)
    given = np.zeros(len(flat), np.int64) if bias is None else np.asarray(bias, np.int64)
    ends = np.stack([flat * LOW, flat * HIGH])
    return given, given + ends.min(axis=0).sum(axis=1), given + ends.max(axis=0).sum(axis=1)


def _bits(x: Any) -> Any:
    return np.asarray(x, np.float32).view(np.int32)


def codes(sums: Int32, made: Any) -> Int32:
    """What the fma makes of sums without a bias, (O, …): the clamped codes + 128. The model of it, in NumPy."""
    shape = (-1, *[1] * (sums.ndim - 1))
    bias, multiplier, offset = (row.reshape(shape) for row in made)
    x = (sums + bias).view(np.float32).astype(np.float64)
    exact = x * multiplier.view(np.float32).astype(np.float64) * 2.0**149  # of at most 48 bits
    return np.clip(np.rint(exact + offset.view(np.float32).astype(np.float64) * 2.0**149), 0, CODES).astype(np.int32)
