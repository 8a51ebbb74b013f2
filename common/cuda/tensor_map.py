"""Tensor maps: how a matrix lies in memory, for the bulk copies of Hopper (kernels/include/bulk.h)."""

import ctypes
import functools
from typing import Any

import numpy as np

BYTES = 128  # of a tensor map
_FORMATS = {"int8": 0, "float16": 6, "float32": 7}  # CUtensorMapDataType
_SWIZZLE_128, _PROMOTE_256 = 3, 3  # CUtensorMapSwizzle, CUtensorMapL2promotion


class TensorMap:
    """A matrix in memory and the box of it that one bulk copy brings: an argument for `const TensorMap` of a kernel.

    matrix: a contiguous array with two axes, int8, float16 or float32, whose rows are multiples of 16 bytes.
    box: (rows, columns) of a copy, at most 256 each, and at most 128 bytes per row. Rows of 128 bytes are swizzled:
    the 16-byte pieces of row r are exchanged by an XOR with r mod 8. Where the matrix ends a copy brings zeros.
    The map keeps the matrix alive. ValueError if the matrix or the box is not as said.
    """

    def __init__(self, matrix: Any, box: tuple[int, int]) -> None:
        if matrix.ndim != 2 or not matrix.flags.c_contiguous or matrix.dtype.name not in _FORMATS:
            raise ValueError("a tensor map needs a contiguous int8, float16 or float32 matrix")
        item = matrix.dtype.itemsize
        address = matrix.ctypes.data if isinstance(matrix, np.ndarray) else matrix.data.ptr
        if matrix.shape[1] * item % 16 or address % 16 or 0 in matrix.shape:
            raise ValueError(f"rows must begin at multiples of 16 bytes, got shape {matrix.shape} at {address:#x}")
        if not all(1 <= side <= 256 for side in box) or box[1] * item > 128 or box[1] * item % 16:
            raise ValueError(f"box: at most 256 rows of at most 128 bytes, a multiple of 16, got {box}")
        self.matrix, self.box = matrix, box

    @property
    def nbytes(self) -> int:
        """Bytes of shared memory that one copy fills."""
        return self.box[0] * self.box[1] * self.matrix.dtype.itemsize

    def packed(self, address: int, simulated: bool) -> np.void:
        """The 128 bytes that the kernel gets, for a matrix at that address; simulated: a kernel of the simulator."""
        encode = _for_the_simulator if simulated else _by_the_driver
        return np.frombuffer(encode(self, address), np.dtype((np.void, BYTES)))[0]


def _for_the_simulator(tensor: TensorMap, address: int) -> bytes:
    """SimTensorMap of simulator/runtime/mbarriers.cpp."""
    (rows, columns), item = tensor.matrix.shape, tensor.matrix.dtype.itemsize
    words = np.array([address, columns, rows, columns * item], np.uint64).tobytes()
    box = np.array([tensor.box[1], tensor.box[0], item, tensor.box[1] * item == 128], np.uint32).tobytes()
    return (words + box).ljust(BYTES, b"\0")


@functools.cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _by_the_driver(tensor: TensorMap, address: int) -> bytes:
    (rows, columns), item = tensor.matrix.shape, tensor.matrix.dtype.itemsize
    room = ctypes.create_string_buffer(BYTES + 64)
    place = -(-ctypes.addressof(room) // 64) * 64  # the driver wants a multiple of 64
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(place), _FORMATS[tensor.matrix.dtype.name], 2, ctypes.c_void_p(address),
        (ctypes.c_uint64 * 2)(columns, rows), (ctypes.c_uint64 * 1)(columns * item),
        (ctypes.c_uint32 * 2)(tensor.box[1], tensor.box[0]), (ctypes.c_uint32 * 2)(1, 1),
        0, _SWIZZLE_128 if tensor.box[1] * item == 128 else 0, _PROMOTE_256, 0,
    )  # fmt: skip
    if status:
        raise RuntimeError(
            f"cuTensorMapEncodeTiled refused a {rows}×{columns} matrix, box {tensor.box}: error {status}"
        )
    return ctypes.string_at(place, BYTES)
