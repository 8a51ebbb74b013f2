"""Where the elements of an array lie, and what a launch is handed of it."""

import numpy as np
import pytest

from common import cuda
from common.cuda import layout


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 6, 4, 4), (3, 1, 5, 7), (3, 7, 1, 1), (1, 1, 1, 1), (2, 3, 1, 5)])
@pytest.mark.parametrize("where", cuda.LAYOUTS)
def test_as_stored_is_a_dense_view_in_the_order_of_memory(rng, shape, where):
    array = cuda.to_layout(cuda.asarray(rng.standard_normal(shape).astype(np.float32)), where)
    stored = layout.as_stored(array)
    assert stored.flags.c_contiguous
    if where == "NHWC" and not layout.has(array, "NCHW"):
        assert stored.shape == tuple(shape[i] for i in (0, 2, 3, 1))
    else:
        assert stored is array
    stored[...] = 7  # a view, not a copy
    assert (cuda.asnumpy(array) == 7).all()


def test_the_stride_of_a_single_element_is_no_matter():
    for shape in ((3, 1, 5, 7), (3, 7, 1, 1), (1, 1, 1, 1)):  # one channel, one pixel: they lie in either layout
        array = cuda.zeros(shape)
        assert all(layout.has(array, where) for where in cuda.LAYOUTS) and layout.shared_layout(array=array) == "NCHW"
    picture = cuda.zeros((3, 4, 5, 7))
    assert layout.has(picture, "NCHW") and not layout.has(picture, "NHWC")
    assert layout.has(picture[1:2], "NCHW") and not layout.has(picture[:, :2], "NCHW")  # one image; gaps


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4)])
def test_arrays_that_are_no_pictures_are_stored_as_they_are(shape):
    array = cuda.zeros(shape)
    assert layout.as_stored(array) is array


def test_there_are_multiprocessors():
    assert 1 <= cuda.multiprocessors() < 1000
