import math

import numpy as np

from common.check import expect, expect_error, require
from common.check.trials import seeded

CODES = {"float32": 1, "int32": 6, "int64": 7, "float16": 10, "float64": 11}


def check(tensor_from_raw):
    random, seed = seeded()

    def drawn(dtype, *dims):
        size = math.prod(dims)
        numbers = random.normal(size=size) if dtype.startswith("f") else random.integers(-999, 999, size)
        return numbers.astype(dtype).reshape(dims)

    def compare(array, hint):
        array = array.astype(array.dtype.newbyteorder("<"))
        what = f"tensor_from_raw(raw, {array.shape}, {CODES[array.dtype.name]}) ({seed})"
        got = tensor_from_raw(array.tobytes(), array.shape, CODES[array.dtype.name])
        expect(got, array, what=what, hint=hint, kind_hint=hint)
        same = np.asarray(got).dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        hint = "give back the kind of number that the file holds: nothing is converted"
        require(same, what=f"{what} has dtype {got.dtype}, expected {array.dtype.name}", hint=hint)
        hint = "every bit stays: −0 and NaNs, too"
        kept = np.asarray(got).astype(array.dtype).tobytes() == array.tobytes()
        require(kept, what=f"{what} does not hold the bytes that came in", hint=hint)

    compare(drawn("float32", 11), "which byte of a number comes first? ONNX stores the lowest first")
    # the two orders of bytes agree on 0 and on nothing else here
    compare(drawn("float32", 5, 3), "the last dimension runs fastest (C order), and dims stay in their order")
    compare(drawn("float32", 7, 3, 2, 2), "the last dimension runs fastest (C order), dims in their order")
    for dtype in ("int32", "float64", "int64", "float16"):
        compare(drawn(dtype, 3, 5), "data_type says what kind of number the bytes are: not all are float32")
    compare(drawn("float32"), "dims () is a single number: an array of shape (), not (1,)")
    compare(drawn("float32", 0, 3), "a size of 0 is allowed: an array without elements")
    compare(drawn("float16", 2, 0), "a size of 0 is allowed: an array without elements")
    every = "the numbers as they are in the bytes, of the kind that data_type says, in the shape dims"
    for dtype in CODES:
        for dims in ((), (1,), (1, 1, 1), (2, 1, 3, 1, 2), (1000,), (40, 30, 3, 3)):
            compare(drawn(dtype, *dims), every)
        if dtype.startswith("f"):
            info = np.finfo(dtype)
            special = [-0.0, np.nan, np.inf, -np.inf, info.smallest_subnormal, info.max]
        else:
            info = np.iinfo(dtype)
            special = [info.min, info.max, -1, 0, 1, 2**24 + 1]
        compare(np.array(special, dtype), every)

    raw = drawn("float32", 4, 3).tobytes()
    hint = "compare the number of bytes with what dims and data_type need, neither more nor fewer"
    for wrong in (raw + raw[:12], raw[:-4], raw[:-1]):
        what = f"tensor_from_raw of {len(wrong)} bytes, dims (4, 3), data_type 1"
        expect_error(ValueError, lambda wrong=wrong: tensor_from_raw(wrong, (4, 3), 1), what=what, hint=hint)
    cases = [
        (b"", (), 1),
        (b"", (1,), 7),
        (raw, (0, 3), 1),
        (raw, (), 11),
        (raw, (2**32, 2**32), 1),
        (b"", (2**40, 2**40), 1),
    ]
    for dtype, code in CODES.items():
        wrong = drawn(dtype, 3, 5).tobytes()
        cases += [(wrong[:-1], (3, 5), code), (wrong, (5, 4), code), (wrong, (3,), code), (2 * wrong, (3, 5), code)]
    for wrong, dims, code in cases:
        what = f"tensor_from_raw of {len(wrong)} bytes, dims {dims}, data_type {code}"
        call = lambda w=wrong, d=dims, c=code: tensor_from_raw(w, d, c)  # noqa: E731
        expect_error(ValueError, call, what=what, hint=hint)
