"""What the tests of the bench share: a small network and its pictures, and where there is a GPU."""

import os

import pytest

from common import cuda
from common.bench.peers import Model

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # whichever test is the first to ask JAX for devices

on_gpu = pytest.mark.skipif(cuda.backend() != "gpu", reason="times and captures on a GPU: kernels are simulated here")


def small(input_size: int = 33) -> Model:
    """The digits' network, width 0.35 and 10 classes, on pictures of an odd size."""
    return Model.of("digits", input_size)
