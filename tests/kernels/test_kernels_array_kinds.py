"""Operators take anyone's arrays, copy nothing, and give back the kind that they were given."""

import numpy as np
import pytest
import torch
from int8_checks import calls as int8_calls
from int8_checks import on_device as int8_on_device
from kernel_checks import agrees, both_dtypes, draw, every_rung, f64

from common import cuda, kernels

FLOAT_OPERATORS = [name for name in kernels.OPERATORS if name not in kernels.INT8_OPERATORS]
HERE = {"simulator": ("numpy", "torch"), "gpu": ("cupy", "torch-cuda")}


def skip_unless_here(kind):
    if kind not in HERE[cuda.backend()]:
        pytest.skip(f"{kind} arrays are for another backend than the {cuda.backend()}, which this machine has")
    if kind == "torch-cuda" and not torch.cuda.is_available():
        pytest.skip("this PyTorch is built without CUDA")


def as_kind(kind, array):
    if kind.startswith("torch"):
        return torch.from_numpy(array.copy()).to("cuda" if kind == "torch-cuda" else "cpu")
    return cuda.asarray(array) if kind == "cupy" else array.copy()


def to_numpy(array):
    return array.cpu().numpy() if isinstance(array, torch.Tensor) else cuda.asnumpy(array)


@pytest.fixture(params=["numpy", "torch", "cupy", "torch-cuda"])
def kind(request):
    skip_unless_here(request.param)
    return request.param


def calls(rng, dtype):
    """For each operator a call, the arrays it takes, and its result in float64."""
    x, y = draw(rng, 2, 3, 7, 5, dtype=dtype), draw(rng, 2, 3, 7, 5, dtype=dtype)
    a, b, weight = (draw(rng, *s, dtype=dtype) for s in [(7, 17), (17, 3), (4, 3, 3, 3)])
    convolved = torch.nn.functional.conv2d(f64(x), f64(weight))
    filters = draw(rng, 3, 1, 3, 3, dtype=dtype)
    scale = draw(rng, 2, 3, 1, 1, dtype=dtype)
    return {
        "activate": (kernels.hardswish, (x,), torch.nn.functional.hardswish(f64(x))),
        "multiply": (kernels.multiply, (x, scale), f64(x) * f64(scale)),
        "binary": (kernels.subtract, (x, scale), f64(x) - f64(scale)),
        "strided_slice": (
            lambda x, **rest: kernels.strided_slice(x, (0, 1, 6, 0), (2, 2, 3, 5), (1, 1, -3, 1), **rest),
            (x,),
            f64(x)[:, 1:, [6, 3, 0]],
        ),
        "resize": (
            lambda x, **rest: kernels.resize(x, (11, 9), **rest),
            (x,),
            torch.nn.functional.interpolate(f64(x), (11, 9), mode="bilinear"),
        ),
        "conv_transpose2d": (
            kernels.conv_transpose2d,
            (x, weight[:3]),
            torch.nn.functional.conv_transpose2d(f64(x), f64(weight[:3])),
        ),
        "layer_norm": (
            kernels.layer_norm,
            (x,),
            torch.nn.functional.layer_norm(f64(x).permute(0, 2, 3, 1), (3,)).permute(0, 3, 1, 2),
        ),
        "group_norm": (
            lambda x, **rest: kernels.group_norm(x, 3, **rest),
            (x,),
            torch.nn.functional.group_norm(f64(x), 3),
        ),
        "mean": (kernels.mean, (x,), f64(x).mean(1, keepdim=True)),
        "pool2d": (
            lambda x, **rest: kernels.max_pool2d(x, 3, 2, 1, **rest),
            (x,),
            torch.nn.functional.max_pool2d(f64(x), 3, 2, 1),
        ),
        "concat": (lambda *arrays, **rest: kernels.concat(arrays, **rest), (x, y), torch.cat((f64(x), f64(y)), 1)),
        "pad": (
            lambda x, **rest: kernels.pad(x, ((1, 0), (2, 3)), **rest),
            (x,),
            torch.nn.functional.pad(f64(x), (2, 3, 1, 0)),
        ),
        "permute": (lambda x, **rest: kernels.permute(x, (0, 2, 3, 1), **rest), (x,), f64(x).permute(0, 2, 3, 1)),
        "add": (kernels.add, (x, y), f64(x) + f64(y)),
        "clamp": (kernels.relu6, (x,), f64(x).clamp(0, 6)),
        "softmax": (kernels.softmax, (a,), f64(a).softmax(1)),
        "global_avg_pool": (kernels.global_avg_pool, (x,), f64(x).mean((2, 3), keepdim=True)),
        "gemm": (kernels.gemm, (a, b), f64(a) @ f64(b)),
        "im2col": (lambda x, **rest: kernels.im2col(x, 3, **rest), (x,), torch.nn.functional.unfold(f64(x), 3)),
        "conv2d": (kernels.conv2d, (x, weight), convolved),
        "depthwise": (
            kernels.depthwise,
            (x, filters),
            torch.nn.functional.conv2d(f64(x), f64(filters), groups=3),
        ),
        "depthwise_backward_input": (
            lambda grad, weight, **rest: kernels.depthwise_backward_input(grad, weight, y.shape, 1, 1, **rest),
            (x, filters),
            torch.nn.grad.conv2d_input(y.shape, f64(filters), f64(x), padding=1, groups=3),
        ),
        "depthwise_backward_weight": (
            lambda grad, x, **rest: kernels.depthwise_backward_weight(grad, x, 3, 1, 1, **rest),
            (x, y),
            torch.nn.grad.conv2d_weight(f64(y), filters.shape, f64(x), padding=1, groups=3),
        ),
        "pointwise": (
            kernels.pointwise,
            (x, filters.reshape(9, 3, 1, 1)),
            torch.nn.functional.conv2d(f64(x), f64(filters).reshape(9, 3, 1, 1)),
        ),
        "inverted_residual": inverted_residual_call(rng, dtype),
        "winograd": (kernels.winograd, (x, weight), convolved),
        "winograd_weight": (kernels.winograd_weight, (weight,), transformed_filters(weight)),
    }


def inverted_residual_call(rng, dtype):
    """Of one pixel, whose arrays are NCHW and NHWC at once: of the depthwise's taps only the middle one counts."""
    x, expand, depthwise, project = (
        draw(rng, *shape, dtype=dtype) for shape in [(2, 8, 1, 1), (16, 8, 1, 1), (16, 1, 3, 3), (4, 16, 1, 1)]
    )
    hidden = torch.nn.functional.conv2d(f64(x), f64(expand)).clamp(0, 6)
    dw = torch.nn.functional.conv2d(hidden, f64(depthwise), padding=1, groups=16).clamp(0, 6)

    def call(x, expand, depthwise, project, **rest):
        return kernels.inverted_residual(x, expand, None, depthwise, None, project, **rest)

    return call, (x, expand, depthwise, project), torch.nn.functional.conv2d(dw, f64(project))


def transformed_filters(weight):
    """G g Gᵀ of F(2×2, 3×3), padded to 8 input and 64 output channels: (16, 8, 64)."""
    g = torch.tensor([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], dtype=torch.float64)
    o, c = weight.shape[:2]
    u = torch.einsum("rs,ocst,ut->ruco", g, f64(weight), g).reshape(16, c, o)
    return torch.nn.functional.pad(u, (0, 64 - o, 0, 8 - c))


@pytest.mark.parametrize("operator", FLOAT_OPERATORS)
@both_dtypes
def test_the_result_is_of_the_kind_given(rng, operator, dtype, kind):
    function, arrays, reference = calls(rng, dtype)[operator]
    given = [as_kind(kind, array) for array in arrays]
    result = function(*given)
    assert type(result) is type(given[0])
    assert result.dtype == given[0].dtype or operator == "winograd_weight"  # which is float32 in any case
    agrees(to_numpy(result), reference, k=27, floor=0.5)


@pytest.mark.parametrize("operator", FLOAT_OPERATORS)
def test_out_is_written_in_place_and_returned(rng, operator, kind):
    function, arrays, reference = calls(rng, np.float32)[operator]
    out = as_kind(kind, np.full(reference.shape, np.nan, np.float32))
    before = address(out)
    assert function(*[as_kind(kind, array) for array in arrays], out=out) is out
    assert address(out) == before
    agrees(to_numpy(out), reference, k=27, floor=0.5)


@pytest.mark.parametrize("operator", kernels.INT8_OPERATORS)
def test_int8_operators_give_the_kind_given_write_out_and_change_no_input(rng, operator, kind):
    call = int8_calls(rng)[operator]

    def moved(array):  # in its layout
        if kind.startswith("torch"):
            return torch.from_numpy(array).to("cuda" if kind == "torch-cuda" else "cpu", copy=True)
        return int8_on_device(array)

    given = [moved(array) for array in call.arrays]
    result = call.function(*given)
    assert type(result) is type(given[0])
    out = moved(np.full_like(call.want, 99))
    before = address(out)
    assert call.function(*given, out=out) is out and address(out) == before
    for got in (result, out):
        np.testing.assert_array_equal(to_numpy(got), call.want, strict=True)
    for array, original in zip(given, call.arrays, strict=True):
        np.testing.assert_array_equal(to_numpy(array), original)


def address(array):
    if isinstance(array, torch.Tensor):
        return array.data_ptr()
    return array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data


def test_a_part_of_an_array_can_be_out(rng, kind):
    """Rows of a larger array: the rows around them stay as they are."""
    x = draw(rng, 2, 7)
    whole = as_kind(kind, np.full((4, 7), 42, np.float32))
    kernels.relu6(as_kind(kind, x), out=whole[1:3])
    agrees(to_numpy(whole)[1:3], f64(x).clamp(0, 6))
    assert (to_numpy(whole)[[0, 3]] == 42).all()


def test_inputs_are_not_changed(rng, kind):
    for function, arrays, _ in calls(rng, np.float32).values():
        given = [as_kind(kind, array) for array in arrays]
        function(*given)
        for array, original in zip(given, arrays, strict=True):
            np.testing.assert_array_equal(to_numpy(array), original)


def test_read_only_inputs_are_fine(rng):
    skip_unless_here("numpy")
    x = draw(rng, 3, 7)
    reference = f64(x).clamp(0, 6)
    x.flags.writeable = False
    agrees(kernels.relu6(x), reference)


def test_what_offers_dlpack_is_taken(rng):
    skip_unless_here("numpy")

    class Foreign:
        """An array of another library: nothing but the protocol and its description."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    x = draw(rng, 3, 7)
    agrees(kernels.relu6(Foreign(x)), f64(x).clamp(0, 6))


@every_rung("add")
def test_work_goes_on_the_callers_stream(variant):
    """On a stream that is busy, the sum comes after what was put there before it."""
    skip_unless_here("torch-cuda")
    stream = torch.cuda.Stream()
    a, b = torch.zeros(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        a += 1
        result = kernels.add(a, b, variant=variant)
        assert (result == 2).all().item()


def test_arrays_of_the_other_backend_are_refused():
    array = np.ones(7, np.float32)
    if cuda.backend() == "simulator":
        pytest.skip("needs a GPU: on the simulator NumPy arrays are the right ones")
    with pytest.raises(TypeError, match=r"a: kernels run on a GPU, got a numpy array"):
        kernels.add(array, array)


def test_a_tensor_that_requires_a_gradient_is_refused():
    x = torch.ones(7, requires_grad=True)
    if cuda.backend() == "gpu":
        pytest.skip("a tensor on the CPU is refused for another reason here")
    with pytest.raises(TypeError, match=r"x: .*gradient.*detach"):
        kernels.relu6(x)
    with torch.no_grad():
        assert kernels.relu6(x).sum() == 7
