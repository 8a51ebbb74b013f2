"""Arrays of the backend, and operators that take anyone's arrays."""

import numpy as np
import pytest

from common import cuda

simulator_only = pytest.mark.skipif(cuda.backend() == "gpu", reason="arrays of the CPU, as the simulator takes them")

DOUBLE = 'extern "C" __global__ void twice(int n, const float* x, float* y) { if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x]; }'


@cuda.operator
def twice(x, out=None, *, check=None):
    """A launcher as those in common.kernels: it checks, allocates, launches."""
    if check is not None:
        check(x)
    if out is None:
        out = cuda.empty(x.shape)
    cuda.RawKernel(DOUBLE, "twice")((1,), (64,), (x.size, x, out))
    return out


@cuda.operator
def total(arrays, factor=(1, 1), *, out=None):
    """A launcher that takes a list of arrays; it tells what it was given."""
    assert isinstance(arrays, list) and isinstance(factor, tuple)
    out = cuda.zeros(arrays[0].shape) if out is None else out
    out[...] = sum(arrays) * factor[0]
    return out


class Dlpack:
    """An array of some other library: it offers DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


# ---- Making arrays


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "i4", "u1", "?", "i8"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (2, 3, 5), 4])
def test_arrays_have_the_shape_and_dtype_asked_for(shape, dtype):
    for array in (cuda.empty(shape, dtype), cuda.zeros(shape, dtype), cuda.full(shape, 1, dtype)):
        assert array.shape == np.empty(shape).shape
        assert array.dtype == dtype
        assert array.flags.c_contiguous
    assert not cuda.asnumpy(cuda.zeros(shape, dtype)).any()
    assert (cuda.asnumpy(cuda.full(shape, 1, dtype)) == 1).all()


@simulator_only
def test_an_empty_array_holds_nan():
    assert np.isnan(cuda.empty((3, 5))).all()
    assert np.isnan(cuda.empty(9, np.float16)).all()


@pytest.mark.parametrize("order", ["C", "F", "strided", "reversed", "read-only", "byte-swapped"])
def test_asarray_takes_arrays_however_they_lie(order):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    given = {
        "C": x, "F": np.asfortranarray(x), "strided": np.repeat(x, 2, 1)[:, ::2], "reversed": x[::-1][::-1], "read-only": x.copy(),
        "byte-swapped": x.astype(">f4"),
    }[order]  # fmt: skip
    if order == "read-only":
        given.flags.writeable = False
    array = cuda.asarray(given, np.float32)
    assert array.flags.c_contiguous
    assert array.dtype == np.float32
    np.testing.assert_array_equal(cuda.asnumpy(array), x)
    array[...] = 0
    np.testing.assert_array_equal(given, x)  # (it was copied)


def test_asarray_takes_lists_scalars_dlpack_and_tensors():
    assert cuda.asnumpy(cuda.asarray([[1, 2], [3, 4]], np.float32)).tolist() == [[1, 2], [3, 4]]
    assert cuda.asnumpy(cuda.asarray(5, np.int32)) == 5
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6.0, requires_grad=True).reshape(2, 3)
    np.testing.assert_array_equal(cuda.asnumpy(cuda.asarray(tensor)), tensor.detach().numpy())
    np.testing.assert_array_equal(cuda.asnumpy(tensor.T), tensor.detach().numpy().T)
    if cuda.backend() == "simulator":
        assert cuda.asarray(Dlpack(np.arange(3.0))).tolist() == [0, 1, 2]
        assert cuda.asnumpy(Dlpack(np.arange(3.0))).tolist() == [0, 1, 2]


# ---- Operators


def test_an_operator_gives_back_the_kind_it_was_given():
    x = cuda.asarray(np.arange(5, dtype=np.float32))
    y = twice(x)
    assert type(y) is type(x)
    assert cuda.asnumpy(y).tolist() == [0, 2, 4, 6, 8]
    torch = pytest.importorskip("torch")
    device = "cuda" if cuda.backend() == "gpu" else "cpu"
    y = twice(torch.arange(5.0, device=device))
    assert isinstance(y, torch.Tensor)
    assert y.device.type == device
    assert y.tolist() == [0, 2, 4, 6, 8]


def test_the_arrays_of_a_list_are_borrowed_as_well():
    torch = pytest.importorskip("torch")
    tensors = [torch.full((3,), float(i), device="cuda" if cuda.backend() == "gpu" else "cpu") for i in (1, 2)]
    for given in (tensors, tuple(tensors)):
        result = total(given, (3, 4))
        assert isinstance(result, torch.Tensor) and result.tolist() == [9, 9, 9]
    out = torch.full_like(tensors[0], torch.nan)
    assert total(arrays=tensors, out=out) is out and out.tolist() == [3, 3, 3]
    mine = cuda.full(3, 2)
    assert type(total([mine, tensors[0]])) is type(mine)  # the kind of the first array
    with pytest.raises(TypeError, match=r"arrays\[1\]: this operator has no gradient"):
        total([tensors[0], tensors[1].clone().requires_grad_()])


@simulator_only
def test_tensors_are_not_copied():
    torch = pytest.importorskip("torch")
    x, out = torch.arange(5.0), torch.full((5,), torch.nan)
    seen = []
    result = twice(x, out=out, check=lambda a: seen.append(a.ctypes.data))
    assert result is out
    assert seen == [x.data_ptr()]
    assert out.tolist() == [0, 2, 4, 6, 8]
    assert twice(x, out) is out  # by position as well


@simulator_only
def test_the_kind_of_the_first_array_counts():
    torch = pytest.importorskip("torch")
    out = np.empty(5, np.float32)
    assert twice(torch.arange(5.0), out=out) is out
    assert out.tolist() == [0, 2, 4, 6, 8]
    tensor = torch.empty(5)
    assert twice(np.arange(5, dtype=np.float32), tensor) is tensor
    assert tensor.tolist() == [0, 2, 4, 6, 8]
    assert isinstance(twice(Dlpack(np.arange(5, dtype=np.float32))), np.ndarray)


def test_a_tensor_that_requires_a_gradient_is_refused():
    torch = pytest.importorskip("torch")
    device = "cuda" if cuda.backend() == "gpu" else "cpu"
    x = torch.arange(5.0, requires_grad=True, device=device)
    with pytest.raises(
        TypeError,
        match=r"x: this operator has no gradient, got a tensor that requires one; use tensor.detach\(\)",
    ):
        twice(x)
    with torch.no_grad():
        assert twice(x).tolist() == [0, 2, 4, 6, 8]
    assert twice(x.detach()).tolist() == [0, 2, 4, 6, 8]


@simulator_only
def test_arrays_that_cannot_be_used_are_named():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="x: kernels run on the simulator, got a tensor on meta|x: cannot use"):
        twice(torch.empty(5, device="meta"))
    with pytest.raises(TypeError, match="x: cannot use a Tensor here without a copy: .*BFloat16"):
        twice(torch.zeros(5, dtype=torch.bfloat16))

    class OnGpu:
        __cuda_array_interface__ = {"shape": (5,), "typestr": "<f4", "data": (0, False), "version": 3}  # noqa: RUF012

    with pytest.raises(TypeError, match="x: cannot use a .*OnGpu here without a copy: it lies on a GPU"):
        twice(OnGpu())
    with pytest.raises(TypeError, match=r"'x' must be a float32 array, got a float64 array"):
        twice(np.zeros(5))


def test_an_operator_keeps_its_name_and_its_text():
    assert twice.__name__ == "twice"
    assert twice.__doc__.startswith("A launcher")


@simulator_only
def test_a_plain_array_and_its_views_are_one():
    """Two parameters that share memory share it inside the kernel too."""
    source = r"""
    extern "C" __global__ void shift(const float* x, float* y) {
        if (threadIdx.x == 0) for (int i = 0; i < 9; ++i) y[i] = x[i] + 1;
    }"""
    x = np.zeros(10, np.float32)
    cuda.RawKernel(source, "shift")((1,), (32,), (x[:-1], x[1:]))
    assert x.tolist() == list(range(10))


@simulator_only
def test_results_of_a_const_parameter_are_not_copied_back():
    x = np.ones(4, np.float32)
    x.flags.writeable = False
    assert twice(x).tolist() == [2, 2, 2, 2]


def test_scalars_and_none_pass_through_an_operator():
    @cuda.operator
    def scale(x, factor=2, bias=None, *more, out=None):
        assert bias is None
        return x * factor

    x = cuda.full(3, 2)
    assert cuda.asnumpy(scale(x, 3)).tolist() == [6, 6, 6]
    assert cuda.asnumpy(scale(x)).tolist() == [4, 4, 4]
    assert cuda.asnumpy(scale(x, 3, None, 7, 8)).tolist() == [6, 6, 6]
