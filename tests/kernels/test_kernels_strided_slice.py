"""strided_slice: the very elements of NumPy's slices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import both_dtypes, draw, every_rung, on_device, poisoned
from tiers import examples

from common import cuda, kernels


def laid(array, layout):
    return cuda.to_layout(on_device(array), layout) if array.ndim == 4 else on_device(array)


def taken(x, starts, sizes, steps):
    """NumPy's own, by index arrays, which need no care with the end of a slice that runs backwards."""
    along = (start + step * np.arange(size) for start, size, step in zip(starts, sizes, steps, strict=True))
    return x[np.ix_(*along)] if x.ndim else x


# shape, starts, sizes, steps
CASES = [((2, 7, 5, 3), (0, 3, 0, 0), (2, 4, 5, 3), (1, 1, 1, 1)), ((1, 116, 7, 7), (0, 58, 0, 0), (1, 58, 7, 7), None),
         ((3, 17, 9, 8), (0, 0, 1, 0), (3, 17, 4, 4), (1, 1, 2, 2)),
         ((1, 1, 33, 1), (0, 0, 32, 0), (1, 1, 33, 1), (1, 1, -1, 1)),
         ((2, 6, 5, 7), (1, 5, 4, 6), (1, 3, 2, 2), (1, -2, -3, -4)), ((2, 7, 5, 3), (0, 6, 0, 0), (2, 1, 5, 3), None),
         ((257,), (1,), (128,), (2,)), ((5, 33), (0, 7), (5, 13), None), ((4, 3, 7), (0, 2, 1), (4, 2, 3), (1, -1, 2)),
         ((2, 3, 2, 5, 3), (0, 1, 0, 0, 0), (2, 2, 2, 5, 3), None), ((), (), (), None)]  # fmt: skip


@every_rung("strided_slice")
@both_dtypes
@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize(("shape", "starts", "sizes", "steps"), CASES, ids=str)
def test_strided_slice(rng, variant, dtype, layout, shape, starts, sizes, steps):
    x = draw(rng, *shape, dtype=dtype) if shape else np.asarray(draw(rng, 1, dtype=dtype)[0])
    want = taken(x, starts, sizes, steps or (1,) * len(shape))
    out = laid(poisoned(sizes, dtype), layout)
    with cuda.guarded():
        assert kernels.strided_slice(laid(x, layout), starts, sizes, steps, out=out, variant=variant) is out
    np.testing.assert_array_equal(cuda.asnumpy(out), want)
    result = kernels.strided_slice(laid(x, layout), starts, sizes, steps, variant=variant)
    np.testing.assert_array_equal(cuda.asnumpy(result), want)
    assert result.strides == out.strides


@every_rung("strided_slice")
@both_dtypes
@settings(max_examples=examples(25))
@given(data=st.data(), shape=st.tuples(*[st.integers(1, 13)] * 4), layout=st.sampled_from(cuda.LAYOUTS))
def test_any_slice(data, variant, dtype, shape, layout):
    def one(extent):
        step = data.draw(st.integers(-4, 4).filter(bool))
        start = data.draw(st.integers(0, extent - 1))
        room = (extent - 1 - start if step > 0 else start) // abs(step)
        return start, data.draw(st.integers(1, room + 1)), step

    starts, sizes, steps = zip(*map(one, shape), strict=True)
    x = draw(np.random.default_rng(sum(shape)), *shape, dtype=dtype)
    out = laid(poisoned(sizes, dtype), layout)
    with cuda.guarded():
        kernels.strided_slice(laid(x, layout), starts, sizes, steps, out=out, variant=variant)
    np.testing.assert_array_equal(cuda.asnumpy(out), taken(x, starts, sizes, steps))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0, 0), (2, 3)), r"starts must be one integer per dimension of x \(2, 3, 5, 7\), got \(0, 0\)"),
        (((0, 0, 0, 0), 3), "sizes must be one integer per dimension .* got 3"),
        (((0, 0, 0, 0), (2, 3, 5, 7), (1, 1, 1, 0.5)), "steps must be one integer per dimension .* got .*0.5"),
        (((0, 2, 0, 0), (2, 2, 5, 7)), "must stay in the 3 elements of dimension 1 of x, got 2, 2 and 1"),
        (((0, 0, 0, -1), (2, 3, 5, 1)), "must stay in the 7 elements of dimension 3 of x, got -1, 1 and 1"),
        (((0, 0, 3, 0), (2, 3, 3, 7), (1, 1, -2, 1)), "the 5 elements of dimension 2 of x, got 3, 3 and -2"),
        (((0, 0, 0, 0), (2, 0, 5, 7)), "the 3 elements of dimension 1 of x, got 0, 0 and 1"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        kernels.strided_slice(cuda.full((2, 3, 5, 7), 1), *arguments)


def test_other_wrong_arguments():
    x = cuda.full((2, 3, 5, 7), 1)
    with pytest.raises(ValueError, match=r"out must have shape \(2, 1, 5, 7\), got \(2, 3, 5, 7\)"):
        kernels.strided_slice(x, (0, 1, 0, 0), (2, 1, 5, 7), out=cuda.full(x.shape, 1))
    with pytest.raises(ValueError, match=r"all arrays must be NCHW, or all NHWC .* got x .* out "):
        kernels.strided_slice(x, (0, 0, 0, 0), (2, 2, 5, 7), out=cuda.to_layout(cuda.full((2, 2, 5, 7), 1), "NHWC"))
    with pytest.raises(ValueError, match="sizes must leave at most four dimensions to walk, got"):
        kernels.strided_slice(cuda.full((3,) * 5, 1), (0,) * 5, (2,) * 5)
