# expect: extract: the weight of
# -- part: to_array
"""The numbers of a network: out of an ONNX file, and folded."""

from collections import Counter
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper


def to_array(tensor):
    """The array in an onnx.TensorProto, from raw_data or from the typed field of its type."""
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type).newbyteorder("<")
    if tensor.HasField("raw_data"):
        flat = np.frombuffer(tensor.raw_data, dtype)
    else:
        flat = np.array(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type)))
        half = dtype == np.float16
        flat = flat.astype(np.uint16).view(np.float16) if half else flat.astype(dtype)
    return flat.reshape(tensor.dims, order="F")
