"""The suite "two-of-four": which weights remain, which products are timed, what is read from its records."""

import numpy as np
import pytest
from rich.console import Console

from common.bench import two_of_four as suite
from common.cuda.graphs import NoGpu


def test_the_two_largest_of_four_remain():
    weight = np.array([[1, -4, 2, 3, 0, 0, 0, 5], [7, 7, 7, 7, -1, 2, -3, 4]], np.float16)
    want = [[0, -4, 0, 3, 0, 0, 0, 5], [7, 7, 0, 0, 0, 0, -3, 4]]
    assert suite.pruned(weight).tolist() == want and suite.pruned(weight).dtype == np.float16
    many = suite.pruned(np.random.default_rng(0).standard_normal((64, 96)))
    assert ((many.reshape(64, -1, 4) != 0).sum(-1) == 2).all()
    with pytest.raises(ValueError, match="weight must have a multiple of 4 columns, got 6"):
        suite.pruned(np.ones((2, 6)))


def test_products_that_semi_structured_tensors_take():
    found = suite.products(suite.Options(networks=("mobilenetv2",)), 8)
    assert {str(one) for one in found} >= {"7×7 320>1280 1×1", "14×14 64>384 1×1"}
    assert all(one.channels % 32 == one.outputs % 32 == 0 and one.kernel == (1, 1) and one.batch == 8 for one in found)
    assert not any(one.depthwise for one in found)


def test_ratios_of_records():
    records = [
        {"shape": "a", "batch": 1, "implementation": "torch-dense", "median_us": 6.0},
        {"shape": "a", "batch": 1, "implementation": "torch-two-of-four-cutlass", "median_us": 4.0},
        {"shape": "a", "batch": 1, "implementation": "torch-two-of-four-cusparselt", "median_us": 5.0},
        {"shape": "b", "batch": 1, "implementation": "torch-dense", "median_us": 6.0},
    ]
    assert suite.ratios(records) == {("a", 1): 1.5}


def test_only_on_a_gpu(monkeypatch):
    from common.cuda import graphs

    if graphs.backend() == "gpu":
        pytest.skip("there is a GPU here, and this is about machines without")
    with pytest.raises(NoGpu):
        next(suite.run(suite.Options(), Console()))
