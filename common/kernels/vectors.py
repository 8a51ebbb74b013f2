"""How wide an access of include/vec.h may be: it takes neighbouring elements and starts at a multiple of its size."""

import math
from typing import Any

import numpy as np

WIDEST = 16  # bytes that one thread can ask for at once


def vector_width(*arrays: Any, row: int = 0) -> int:
    """Widest aligned vector access, in elements, that is valid for all the arrays, which have one dtype; at least 1.

    At most 16 bytes' worth, fewer where an array is not aligned to them (as x[1:] of another). row: elements of a row,
    where each row is accessed from its own beginning: its bytes must be a multiple, too.
    """
    itemsize = np.dtype(arrays[0].dtype).itemsize
    return math.gcd(WIDEST, row * itemsize, *map(address, arrays)) // itemsize


def address(array: Any) -> int:
    """The address of an array's first element, NumPy's or CuPy's."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
