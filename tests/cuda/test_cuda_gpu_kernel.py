"""What stands between a caller and CuPy's kernel on a GPU: checks, once or each time. A stand-in plays CuPy."""

import sys
import types

import numpy as np
import pytest

from common.cuda import signature
from common.cuda.kernels import GpuKernel


class Raw:
    """CuPy's kernel: notes how it was called."""

    max_dynamic_shared_size_bytes = 48 * 1024

    def __init__(self):
        self.calls = []

    def __call__(self, grid, block, args, *, shared_mem=0):
        self.calls.append((grid, block, args, shared_mem))


@pytest.fixture
def raw():
    return Raw()


@pytest.fixture
def kernel(raw, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(ndarray=type("ndarray", (), {})))
    declared = signature.declarations('extern "C" __global__ void k(int n, float x) {}', {})["k"]
    return GpuKernel(types.SimpleNamespace(origin=()), raw, "k", declared.parameters)


def test_a_call_is_a_launch(kernel, raw):
    kernel((2,), (32,), (5, np.float32(0.5)))
    ((grid, block, args, shared_mem),) = raw.calls
    assert (grid, block, shared_mem) == ((2, 1, 1), (32, 1, 1), 0)
    assert args == (5, np.float32(0.5)) and args[0].dtype == np.int32


def test_a_bound_launch_is_checked_once_and_made_often(kernel, raw, monkeypatch):
    launch = kernel.bound((2, 3), (32,), (5, np.float32(0.5)), shared_mem=16)
    assert raw.calls == []
    monkeypatch.setattr(signature, "check", lambda *_: pytest.fail("checked again"))
    launch()
    launch()
    assert len(raw.calls) == 2 and raw.calls[0] == raw.calls[1] and raw.calls[0][3] == 16


def test_what_does_not_fit_is_told_before_a_launch(kernel, raw):
    with pytest.raises(TypeError, match="argument 'n' must be an int32, got float 5.5"):
        kernel.bound((2,), (32,), (5.5, np.float32(0.5)))
    with pytest.raises(ValueError, match="shared"):
        kernel.bound((2,), (32,), (5, np.float32(0.5)), shared_mem=49 * 1024)
    assert raw.calls == []
    kernel.max_dynamic_shared_size_bytes = 64 * 1024
    assert raw.max_dynamic_shared_size_bytes == 64 * 1024
    kernel.bound((2,), (32,), (5, np.float32(0.5)), shared_mem=49 * 1024)()
    assert raw.calls[0][3] == 49 * 1024
