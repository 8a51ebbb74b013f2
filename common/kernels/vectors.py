"""Width of vector accesses (include/vec.h), which must be aligned to their size."""

import math
from typing import Any

import numpy as np

WIDEST = 16  # bytes, the largest access of one thread


def vector_width(*arrays: Any, row: int = 0) -> int:
    """The widest aligned vector access, in elements, valid for all the arrays (of one dtype); at least 1.

    At most 16 bytes, less if an array's address is less aligned (such as x[1:]). row: elements per row if every row is
    accessed from its own beginning, so that the row's length must be a multiple of the width too.
    """
    itemsize = np.dtype(arrays[0].dtype).itemsize
    return math.gcd(WIDEST, row * itemsize, *map(address, arrays)) // itemsize


def address(array: Any) -> int:
    """The address of the first element of a NumPy or CuPy array."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
