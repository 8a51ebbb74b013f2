"""Fenced arrays: out-of-bounds accesses of a kernel are detected.

A fenced array ends right before inaccessible pages (guards), and starts soon after others:

    | no access |  canary | the array's bytes, from a multiple of 128 | canary | no access |

An access beyond the canary stops the kernel at once; a write into the canary is found after the launch. The canary's
bytes are 0xFF, which is NaN for every floating-point type, so reads of it show in the result. A guard is 8 GiB of
addresses, without memory: whatever 32-bit index a kernel uses on a float or a smaller type, it falls into the array or
into its guards, not into the interpreter's data. An index that is wrong by more may hit any memory of the process.
"""

import bisect
import ctypes
import mmap
import os
import sys
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

PAGE = mmap.PAGESIZE
GUARD = 1 << 33  # bytes on either side: 2**31 floats
ADDRESSES = 1 << 45  # that guards of this size may take, a quarter of a process's; then they are a gigabyte each
ALIGNMENT = 128  # bytes: a cache line of a GPU; vector types need less
_PROT_NONE = 0
_MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # addresses without memory

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@dataclass(frozen=True)
class Fence:
    """The addresses of a fenced array: its bytes are [start, end); canaries fill the rest of [low, high)."""

    low: int
    start: int
    end: int
    high: int

    def broken(self) -> tuple[int, int] | None:
        """The first and last address of a canary that were overwritten; None if the canaries are intact."""
        for first, last in ((self.end, self.high), (self.low, self.start)):
            canary = ctypes.string_at(first, last - first)
            if canary.strip(b"\xff"):
                found = np.flatnonzero(np.frombuffer(canary, np.uint8) != 0xFF)
                return first + int(found[0]), first + int(found[-1])
        return None

    def repair_guards(self) -> None:
        """Fill the canaries with 0xFF."""
        ctypes.memset(self.end, 0xFF, self.high - self.end)
        ctypes.memset(self.low, 0xFF, self.start - self.low)


_lock = threading.RLock()  # of the three below; arrays may be freed in any thread
_reserved = 0  # addresses of all live guards
_starts: list[int] = []  # Fence.low of all live fences, sorted, for binary search
_fences: dict[int, Fence] = {}


def _forget(low: int, guard: int) -> None:
    global _reserved
    with _lock:
        _reserved -= 2 * guard
        _fences.pop(low, None)
        i = bisect.bisect_left(_starts, low)
        if i < len(_starts) and _starts[i] == low:
            del _starts[i]


def _reserve(inside: int) -> tuple[mmap.mmap, int]:
    """(memory of `inside` bytes with a guard on either side, bytes of a guard). MemoryError if addresses run out."""
    many = _reserved + 2 * GUARD > ADDRESSES
    for guard in (1 << 30 if many else GUARD, PAGE):  # the small one if addresses are limited (ulimit -v)
        try:
            # private: a forked child's writes are not visible to its parent
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
            return mmap.mmap(-1, inside + 2 * guard, flags=flags), guard
        except OSError as error:
            problem = error
    raise MemoryError(f"{problem.strerror}: an array of {inside} bytes between fences")


def fenced(shape: Any, dtype: Any = np.float32) -> np.ndarray:
    """A new fenced C-contiguous array, aligned to 128 bytes, all bytes 0xFF (NaN for floats). May raise MemoryError."""
    dtype = np.dtype(dtype)
    shape = (shape,) if np.isscalar(shape) else tuple(shape)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    room = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
    inside = -(-room // PAGE) * PAGE
    global _reserved
    memory, guard = _reserve(inside)
    base = np.frombuffer(memory, np.uint8)
    address = base.ctypes.data
    low, high = address + guard, address + guard + inside
    for forbidden in (address, high):
        if _libc.mprotect(forbidden, guard, _PROT_NONE):
            raise MemoryError(f"{os.strerror(ctypes.get_errno())}: an array of {size} bytes between fences")
    base[guard : guard + inside] = 0xFF
    fence = Fence(low, high - room, high - room + size, high)
    with _lock:
        _fences[low] = fence
        bisect.insort(_starts, low)
        _reserved += 2 * guard
    weakref.finalize(base, _forget, low, guard)
    return np.ndarray(shape, dtype, buffer=base, offset=fence.start - address)


def fence_of(array: np.ndarray) -> Fence | None:
    """The Fence of an array's memory; None if it has none."""
    low, high = byte_bounds(array)
    with _lock:
        i = bisect.bisect_right(_starts, low) - 1
        if i < 0:
            return None
        fence = _fences[_starts[i]]
    return fence if fence.start <= low and high <= max(fence.end, fence.start + 1) else None


class FencedCopies:
    """Fenced copies of the plain NumPy arrays of one launch.

    Next to a plain array lie the interpreter's own data, so the kernel works on a copy, from which the results are
    copied back. Arrays that share memory share one copy.
    """

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self._groups: list[tuple[int, int, np.ndarray]] = []
        spans = sorted(byte_bounds(a) for a in arrays if a.size)
        merged: list[list[int]] = []
        for low, high in spans:
            if merged and low < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        for low, high in merged:
            copy = fenced(high - low, np.uint8)
            ctypes.memmove(copy.ctypes.data, low, high - low)
            self._groups.append((low, high, copy))

    def address(self, array: np.ndarray) -> tuple[int, Fence]:
        """(address of the copy of `array`, its Fence)."""
        if not array.size:
            copy = fenced(0, np.uint8)
            self._groups.append((0, 0, copy))
            fence = fence_of(copy)
            assert fence is not None
            return copy.ctypes.data, fence
        low = byte_bounds(array)[0]
        for start, end, copy in self._groups:
            if start <= low < end:
                fence = fence_of(copy)
                assert fence is not None
                return copy.ctypes.data + (low - start), fence
        raise AssertionError("every array was given a copy")

    def copy_back(self, written: list[np.ndarray]) -> None:
        """Copy the results into `written`, the arrays that the kernel may have modified."""
        for array in written:
            if array.size:
                low, high = byte_bounds(array)
                ctypes.memmove(low, self.address(array)[0], high - low)
