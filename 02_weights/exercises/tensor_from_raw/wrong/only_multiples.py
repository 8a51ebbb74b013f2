# expect: neither more nor fewer
import numpy as np

DTYPES = {1: np.float32, 6: np.int32, 7: np.int64, 10: np.float16, 11: np.float64}


def tensor_from_raw(raw, dims, data_type):
    dtype = np.dtype(DTYPES[data_type])
    count = 1
    for size in dims:
        count *= size
    if dims and len(raw) != count * dtype.itemsize:
        raise ValueError(f"{len(raw)} bytes")
    return np.frombuffer(raw[: count * dtype.itemsize], dtype).reshape(dims)
