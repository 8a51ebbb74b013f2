"""How wide an access of include/vec.h may be: it takes neighbouring elements and starts at a multiple of its size."""

import math
from typing import Any

import numpy as np

WIDEST = 16  # bytes that one thread can ask for at once


def elements(*arrays: Any, row: int = 0) -> int:
    """How many elements one access may take so that all accesses to all the arrays start where they must.

    At most 16 bytes' worth, fewer where an array starts elsewhere (x[1:] of another does) or where rows of `row`
    elements each are walked from their own beginnings and are no multiple; at least 1. The arrays have one dtype.
    """
    itemsize = np.dtype(arrays[0].dtype).itemsize
    return math.gcd(WIDEST, row * itemsize, *map(address, arrays)) // itemsize


def address(array: Any) -> int:
    """Where its first element lies."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
