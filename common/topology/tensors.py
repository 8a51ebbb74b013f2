"""Decode ONNX TensorProtos; shape and size are checked before anything is allocated."""

import math

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from .errors import InvalidModel, UnsupportedModel
from .layers import MAX_ELEMENTS

# Supported element types: (NumPy dtype, the field that holds the numbers if raw_data does not).
ELEMENT_TYPES: dict[int, tuple[np.dtype, str]] = {
    kind: (onnx.helper.tensor_dtype_to_np_dtype(kind), field)
    for kind, field in {
        TensorProto.FLOAT: "float_data",
        TensorProto.DOUBLE: "double_data",
        TensorProto.FLOAT16: "int32_data",
        TensorProto.BFLOAT16: "int32_data",
        TensorProto.INT64: "int64_data",
        TensorProto.INT32: "int32_data",
        TensorProto.INT16: "int32_data",
        TensorProto.INT8: "int32_data",
        TensorProto.UINT8: "int32_data",
        TensorProto.BOOL: "int32_data",
    }.items()
}
FLOATS = {
    ELEMENT_TYPES[kind][0]
    for kind in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
}


def element_type(kind: int, what: str) -> np.dtype:
    """The NumPy dtype of an ONNX element type. UnsupportedModel if it is not supported here, naming `what`."""
    if kind not in ELEMENT_TYPES:
        known = kind in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(kind) if known else f"number {kind}"
        raise UnsupportedModel(f"{what} has the element type {name}")
    return ELEMENT_TYPES[kind][0]


def checked_size(tensor: TensorProto, what: str) -> int:
    """The number of elements of the tensor's shape. InvalidModel for a negative or too large shape."""
    if any(size < 0 for size in tensor.dims):
        raise InvalidModel(f"{what} has the negative shape {tuple(tensor.dims)}")
    if len(tensor.dims) > 16 or max(*tensor.dims, 1, math.prod(tensor.dims)) > MAX_ELEMENTS:
        raise InvalidModel(f"{what} has a shape of more than {MAX_ELEMENTS} elements or 16 dimensions")
    return math.prod(tensor.dims)


def decode(tensor: TensorProto) -> np.ndarray:
    """The tensor as a read-only array. InvalidModel if the size of the stored data does not match the shape."""
    what = f"tensor {tensor.name!r}"
    size = checked_size(tensor, what)
    dtype = element_type(tensor.data_type, what)
    if tensor.data_location == TensorProto.EXTERNAL:
        raise InvalidModel(f"{what} is stored outside the model, which came without its folder")
    if tensor.HasField("raw_data"):
        stored, needed, unit = len(tensor.raw_data), size * dtype.itemsize, "bytes"
    else:
        stored, needed, unit = len(getattr(tensor, ELEMENT_TYPES[tensor.data_type][1])), size, "elements"
    if stored != needed:
        raise InvalidModel(f"{what} of shape {tuple(tensor.dims)} holds {stored} {unit}, not {needed}")
    if dtype.kind in "iu" and dtype.itemsize < 4 and tensor.int32_data:  # which NumPy would wrap around
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
        for number in tensor.int32_data:
            if not least <= number <= greatest:
                raise InvalidModel(f"{what} holds {number}, which is no {dtype}")
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidModel(f"{what} cannot be decoded: {error}") from error
    array = np.array(array) if not array.flags.c_contiguous else array
    array.flags.writeable = False
    return array


def as_float32(array: np.ndarray, what: str) -> np.ndarray:
    """The array as C-contiguous float32. InvalidModel if it is not floating-point or has numbers beyond float32."""
    if array.dtype not in FLOATS:
        raise InvalidModel(f"{what} is {array.dtype}, not floating-point")
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(array, dtype=np.float32)
    if array.dtype == np.float64 and np.isinf(result).sum() != np.isinf(array).sum():
        raise InvalidModel(f"{what} has numbers beyond float32")
    return result.reshape(array.shape)
