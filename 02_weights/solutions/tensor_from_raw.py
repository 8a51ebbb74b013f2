import numpy as np

# data_type of a TensorProto → the kind of its numbers
DTYPES = {1: np.float32, 6: np.int32, 7: np.int64, 10: np.float16, 11: np.float64}


def tensor_from_raw(raw, dims, data_type):
    """The array in the bytes of an initializer: numbers little-endian, the last dimension
    fastest.

    raw: bytes. dims: the sizes of the dimensions, () for a single number. data_type: a key of
    DTYPES. ValueError where the number of bytes is not the one that dims and data_type need.
    """
    # BEGIN SOLUTION
    # write: the array from its bytes
    dtype = np.dtype(DTYPES[data_type]).newbyteorder("<")
    if len(raw) != np.prod(dims, dtype=int) * dtype.itemsize:
        raise ValueError(f"{len(raw)} bytes for shape {tuple(dims)} of {dtype}")
    return np.frombuffer(raw, dtype).reshape(dims)
    # END SOLUTION
