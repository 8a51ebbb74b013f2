"""Arrays between fences: memory that a kernel cannot overrun unseen.

A fenced array ends right before a page that must not be touched, and starts soon after another:

    | no access |  canary | the array's bytes, from a multiple of 128 | canary | no access |

An access beyond the canary stops the kernel at once; a write into it is found when the launch is over. The
canary is all ones, which is NaN for every floating-point type, so reading there shows in the result as well.
The part without access is a gigabyte on either side (of addresses, which cost no memory): an index that is
wrong by a stride still falls there and not on the interpreter's own data. An index wrong by more than that
may hit anything.
"""

import bisect
import ctypes
import mmap
import os
import sys
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

PAGE = mmap.PAGESIZE
GUARD = 1 << 30
ALIGNMENT = 128  # bytes: a cache line of a GPU, and more than any vector type needs
_PROT_NONE = 0
_MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # addresses alone, no promise of memory

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@dataclass(frozen=True)
class Fence:
    """Addresses of one fenced array: its bytes are [start, end), canaries fill up to [low, high)."""

    low: int
    start: int
    end: int
    high: int

    def broken(self) -> tuple[int, int] | None:
        """The first and last address outside the array that was written, or None."""
        for first, last in ((self.end, self.high), (self.low, self.start)):
            canary = ctypes.string_at(first, last - first)
            if canary.strip(b"\xff"):
                found = np.flatnonzero(np.frombuffer(canary, np.uint8) != 0xFF)
                return first + int(found[0]), first + int(found[-1])
        return None

    def repair_guards(self) -> None:
        """Fills the canaries again."""
        ctypes.memset(self.end, 0xFF, self.high - self.end)
        ctypes.memset(self.low, 0xFF, self.start - self.low)


_starts: list[int] = []  # addresses of all fences alive, in order, so that an address finds its fence quickly
_fences: dict[int, Fence] = {}


def _forget(low: int) -> None:
    _fences.pop(low, None)
    i = bisect.bisect_left(_starts, low)
    if i < len(_starts) and _starts[i] == low:
        del _starts[i]


def _reserve(inside: int) -> tuple[mmap.mmap, int]:
    """Memory of `inside` bytes with a guard on either side, and the size of a guard."""
    for guard in (GUARD, PAGE):  # the small one where the process may not have so many addresses (ulimit -v)
        try:
            # private: a forked child's writes stay its own
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
            return mmap.mmap(-1, inside + 2 * guard, flags=flags), guard
        except OSError as error:
            problem = error
    raise MemoryError(f"{problem.strerror}: an array of {inside} bytes between fences")


def fenced(shape: Any, dtype: Any = np.float32) -> np.ndarray:
    """A new C-contiguous array between fences, aligned to 128 bytes, every byte 0xFF (NaN for floats)."""
    dtype = np.dtype(dtype)
    shape = (shape,) if np.isscalar(shape) else tuple(shape)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    room = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
    inside = -(-room // PAGE) * PAGE
    memory, guard = _reserve(inside)
    base = np.frombuffer(memory, np.uint8)
    address = base.ctypes.data
    low, high = address + guard, address + guard + inside
    for forbidden in (address, high):
        if _libc.mprotect(forbidden, guard, _PROT_NONE):
            raise MemoryError(f"{os.strerror(ctypes.get_errno())}: an array of {size} bytes between fences")
    base[guard : guard + inside] = 0xFF
    fence = Fence(low, high - room, high - room + size, high)
    _fences[low] = fence
    bisect.insort(_starts, low)
    weakref.finalize(base, _forget, low)
    return np.ndarray(shape, dtype, buffer=base, offset=fence.start - address)


def fence_of(array: np.ndarray) -> Fence | None:
    """The fence around an array's memory, if it has one."""
    low, high = byte_bounds(array)
    i = bisect.bisect_right(_starts, low) - 1
    if i < 0:
        return None
    fence = _fences[_starts[i]]
    return fence if fence.start <= low and high <= max(fence.end, fence.start + 1) else None


class FencedCopies:
    """Fenced stand-ins for the plain NumPy arrays of one launch.

    A plain array's neighbours are the interpreter's own data, so the kernel gets a copy and the array gets
    the result. Arrays that share memory share one copy.
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
        """Where the stand-in of `array` starts, and the fence around it."""
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

    def give_back(self, written: list[np.ndarray]) -> None:
        """Copies the results into the arrays that the kernel may have written."""
        for array in written:
            if array.size:
                low, high = byte_bounds(array)
                ctypes.memmove(low, self.address(array)[0], high - low)
