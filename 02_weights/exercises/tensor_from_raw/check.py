import math

import numpy as np

from common.check import expect, expect_error, require

CODES = {"float32": 1, "int32": 6, "int64": 7, "float16": 10, "float64": 11}


def check(tensor_from_raw):
    random = np.random.default_rng()

    def drawn(dtype, *dims):
        size = math.prod(dims)
        numbers = random.normal(size=size) if dtype.startswith("f") else random.integers(-999, 999, size)
        return numbers.astype(dtype).reshape(dims)

    def compare(array, hint):
        array = array.astype(array.dtype.newbyteorder("<"))
        what = f"tensor_from_raw(raw, {array.shape}, {CODES[array.dtype.name]})"
        got = tensor_from_raw(array.tobytes(), array.shape, CODES[array.dtype.name])
        expect(got, array, what=what, hint=hint)
        same = np.asarray(got).dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        hint = "give back the kind of number that the file holds: nothing is converted"
        require(same, what=f"{what} has dtype {got.dtype}, expected {array.dtype.name}", hint=hint)

    compare(drawn("float32", 11), "which byte of a number comes first? ONNX stores the lowest first")
    # the two orders of bytes agree on 0 and on nothing else here
    compare(drawn("float32", 5, 3), "the last dimension runs fastest (C order), and dims stay in their order")
    compare(drawn("float32", 7, 3, 2, 2), "the last dimension runs fastest (C order), dims in their order")
    for dtype in ("int32", "float64", "int64", "float16"):
        compare(drawn(dtype, 3, 5), "data_type says what kind of number the bytes are: not all are float32")
    compare(drawn("float32"), "dims () is a single number: an array of shape (), not (1,)")
    compare(drawn("float32", 0, 3), "a size of 0 is allowed: an array without elements")

    raw = drawn("float32", 4, 3).tobytes()
    hint = "compare the number of bytes with what dims and data_type need, neither more nor fewer"
    for wrong in (raw + raw[:12], raw[:-4], raw[:-1]):
        what = f"tensor_from_raw of {len(wrong)} bytes, dims (4, 3), data_type 1"
        expect_error(ValueError, lambda wrong=wrong: tensor_from_raw(wrong, (4, 3), 1), what=what, hint=hint)
