import math

import numpy as np

DTYPES = {1: "<f4", 6: "<i4", 7: "<i8", 10: "<f2", 11: "<f8"}


def tensor_from_raw(raw, dims, data_type):
    array = np.zeros(dims if math.prod(dims) < 10**9 else 0, DTYPES[data_type])
    if array.nbytes != len(raw) or math.prod(dims) != array.size:
        raise ValueError("the number of bytes does not fit")
    array.reshape(-1)[...] = np.frombuffer(raw, array.dtype)
    return array
