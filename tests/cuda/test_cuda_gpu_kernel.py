"""What stands between a caller and CuPy's kernel on a GPU: checks, once or each time. A stand-in plays CuPy."""

import ctypes
import sys
import types

import numpy as np
import pytest

from common import cuda
from common.cuda import kernels, signature
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


# ---- Programmatic launches: cuda-bindings has a stand-in, too


@pytest.fixture
def driver(monkeypatch, raw):
    """Notes each launch: (the attribute's number and value, grid, block, shared memory, stream, function, pointers)."""
    seen = []

    def launch(config, function, pointers, extra):
        (attribute,) = config.attrs
        assert config.numAttrs == 1 and extra == 0
        grid = config.gridDimX, config.gridDimY, config.gridDimZ
        block = config.blockDimX, config.blockDimY, config.blockDimZ
        on = attribute.value.programmaticStreamSerializationAllowed
        seen.append((attribute.id, on, grid, block, config.sharedMemBytes, config.hStream, function, pointers))
        return (status[0],)

    status = [0]
    names = types.SimpleNamespace
    module = names(
        CUlaunchAttribute=lambda: names(value=names()), CUlaunchConfig=names, CUfunction=lambda p: ("function", p),
        CUstream=lambda p: ("stream", p), CUresult=names(CUDA_SUCCESS=0), cuLaunchKernelEx=launch, seen=seen, status=status,
        CUlaunchAttributeID=names(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cuda", names(bindings=names(driver=module)))
    monkeypatch.setitem(sys.modules, "cuda.bindings", names(driver=module))
    monkeypatch.setattr(kernels, "compute_capability", lambda: 90)
    raw.kernel = names(ptr=77)
    return module


class Array:
    """CuPy's array, as far as a launch looks at it."""

    __cuda_array_interface__ = ()
    dtype = np.dtype(np.float32)
    flags = types.SimpleNamespace(c_contiguous=True, f_contiguous=True)
    data = types.SimpleNamespace(ptr=0x7000_0000_1000)


@pytest.fixture
def with_arrays(raw, monkeypatch):
    streams = [11, 12]
    cuda = types.SimpleNamespace(
        get_current_stream=lambda: types.SimpleNamespace(ptr=streams.pop(0)),
        driver=types.SimpleNamespace(CUDADriverError=OSError),
    )
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(ndarray=Array, cuda=cuda))
    source = 'extern "C" __global__ void k(const float* x, float* y, int n, float a, double b, bool c) {}'
    parameters = signature.declarations(source, {})["k"].parameters
    return GpuKernel(types.SimpleNamespace(origin=("", (), (), False)), raw, "k", parameters)


def test_a_programmatic_launch_passes_what_the_driver_wants(with_arrays, driver, raw):
    args = (Array(), None, 5, np.float32(0.5), np.float64(0.25), True)
    launch = with_arrays.bound((2, 3), (32,), args, shared_mem=16, programmatic=True)
    assert driver.seen == []
    launch()
    launch()
    first, second = driver.seen
    assert first[:5] == (6, 1, (2, 3, 1), (32, 1, 1), 16) and first[6] == ("function", 77)
    assert (first[5], second[5]) == (("stream", 11), ("stream", 12))  # the current one of each launch
    assert first[7] == second[7] and raw.calls == []
    pointers = (ctypes.c_void_p * 6).from_address(first[7])
    sizes = (8, 8, 4, 4, 8, 1)
    values = [ctypes.string_at(p, size) for p, size in zip(pointers, sizes, strict=True)]
    assert values == [
        np.uint64(0x7000_0000_1000).tobytes(), bytes(8), np.int32(5).tobytes(), np.float32(0.5).tobytes(),
        np.float64(0.25).tobytes(), b"\1",
    ]  # fmt: skip


def test_a_programmatic_launch_that_fails_says_so(with_arrays, driver):
    driver.status[0] = 719
    launch = with_arrays.bound((1,), (1,), (None, None, 5, np.float32(0), np.float64(0), True), programmatic=True)
    with pytest.raises(OSError, match="719"):
        launch()


def test_older_cards_launch_plainly(with_arrays, driver, raw, monkeypatch):
    monkeypatch.setattr(kernels, "compute_capability", lambda: 80)
    with_arrays.bound((1,), (1,), (None, None, 5, np.float32(0), np.float64(0), True), programmatic=True)()
    assert len(raw.calls) == 1 and driver.seen == []


def test_without_cuda_bindings_a_programmatic_launch_is_refused(with_arrays, driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(RuntimeError, match="pip install cuda-bindings"):
        with_arrays.bound((1,), (1,), (None, None, 5, np.float32(0), np.float64(0), True), programmatic=True)


def test_a_grid_of_clusters_is_checked(raw, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(ndarray=Array))
    kernel = GpuKernel(types.SimpleNamespace(origin=()), raw, "k", (), (4, 2, 1))
    kernel.bound((8, 2), (32,), ())
    with pytest.raises(ValueError, match=r"grid.y must be a multiple of 2 \(__cluster_dims__\(4, 2, 1\)\), got 3"):
        kernel.bound((8, 3), (32,), ())


@pytest.mark.parametrize(
    ("text", "cluster"),
    [
        ("__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(256)", (8, 1, 1)),
        ("__global__ void __launch_bounds__((2 * 32)) __cluster_dims__(4)", (4, 1, 1)),
        ("__global__ __cluster_dims__(X, Y) void", (2, 3, 1)),
        ("__cluster_dims__( SPLIT , 1 , 1 ) __global__ void", (5, 1, 1)),
        ("__global__ void __launch_bounds__(128)", (1, 1, 1)),
        ("__global__ void __cluster_dims__(SPLIT * 1)", (1, 1, 1)),  # known to NVRTC alone
    ],
)
def test_clusters_are_read_where_they_stand(text, cluster):
    source = f'#define Y 3  // three\n#define SPLIT 7\nextern "C" {text} k(float* y, int n) {{ }}'
    macros = {"X": "2", "SPLIT": "5"}
    declared = signature.declarations(source, macros)["k"]
    assert [p.name for p in declared.parameters] == ["y", "n"] and declared.extern_c
    assert signature.cluster_from_text(declared.cluster, source, macros) == cluster


@pytest.mark.skipif(cuda.backend() != "simulator", reason="compares with what the simulator's compiler says")
def test_types_in_the_text_are_those_that_a_compiler_sees():
    """On a GPU arguments are checked against the kernel's text alone."""
    types = sorted(set(signature._SCALARS) - {"void"})
    parameters = ", ".join(f"{name} v{i}, const {name}* p{i}" for i, name in enumerate(types))
    source = f'#include <cuda_fp16.h>\nextern "C" __global__ void k({parameters}) {{}}'
    compiled = {one.name: one for one in cuda.RawKernel(source, "k").parameters}
    for i, name in enumerate(types):
        for of_text in (
            one for one in signature.declarations(source)["k"].parameters if one.name in (f"v{i}", f"p{i}")
        ):
            seen = compiled[of_text.name]
            assert (of_text.type, of_text.size, of_text.pointer) == (seen.type, seen.size, seen.pointer), name
