"""Calling a network: what it takes, what it gives, what it keeps between calls, and what it says when it cannot."""

import concurrent.futures
import dataclasses
import warnings

import numpy as np
import pytest
import torch
from leaks import growth, needs_proc
from network_models import Nodes, every_backend, layers
from tiers import ALL

from common import cuda, cudnn, topology, weights
from common.network import Network
from common.network.compare import TOLERANCE, TOLERANCES, relative_error
from common.network.cudnn import CudnnBackend
from common.network.kernels import KernelBackend
from common.network.steps import fuse
from common.topology import build


@pytest.fixture(scope="module")
def tiny():
    """Two convolutions with a residual, and a classifier."""
    nodes = Nodes(np.random.default_rng(1))
    x = nodes("Relu", nodes.same("x", 3))
    x = nodes("Relu", nodes("Add", nodes.same(x, 3), x))
    x = nodes("Flatten", nodes("GlobalAveragePool", x))
    return nodes.model(nodes("Gemm", x, nodes.number(nodes.rng.standard_normal((3, 5)))), ("n", 3, "h", "w"))


def images(rng, n=2, height=9, width=8):
    return rng.standard_normal((n, 3, height, width), dtype=np.float32)


def address(array):
    return array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data


def addresses(program):
    return [address(buffer) for buffer in program.buffers.values()]


# fusing


def test_mobilenetv2_is_54_launches():
    """Every activation and every residual goes into a convolution: 52 of them, the pooling and the classifier."""
    steps = fuse(build())
    assert [type(step.layer).__name__ for step in steps] == ["Conv2d"] * 52 + ["GlobalAveragePool", "Linear"]
    assert sum(step.activation == "relu6" for step in steps) == 35
    assert sum(step.residual is not None for step in steps) == 10
    assert sum(len(step.layers) for step in steps) == 99


def test_a_step_takes_the_residual_before_the_activation(rng):
    nodes = Nodes(rng)
    x = nodes("Relu", nodes.same("x", 3))
    graph = topology.read_onnx(nodes.model(nodes.clip(nodes("Add", x, nodes.same(x, 3)), -1, 2)))
    first, second = fuse(graph)
    assert [type(layer).__name__ for layer in second.layers] == ["Conv2d", "ResidualAdd", "Clip"]
    assert second.residual == first.output and second.activation == (-1, 2)


def test_a_convolution_that_is_read_twice_stays_by_itself(rng):
    nodes = Nodes(rng)
    x = nodes.same("x", 3)
    steps = fuse(topology.read_onnx(nodes.model(nodes("Add", nodes("Relu", x), x))))
    assert [len(step.layers) for step in steps] == [1, 1, 1]


def test_an_output_that_others_read_stays_by_itself():
    fields = {"in_channels": 3, "out_channels": 3, "kernel_size": (1, 1), "weight": "w"}
    graph = layers((1, 3, 5, 5), (topology.Conv2d, fields), (topology.ReLU, {}))
    assert [len(step.layers) for step in fuse(graph)] == [2]
    assert [len(step.layers) for step in fuse(dataclasses.replace(graph, output="t0"))] == [1, 1]


def test_every_layer_is_in_one_step_and_inputs_come_before_their_readers():
    graph = build(0.35, 10, 48)
    steps = fuse(graph)
    assert sorted(layer.name for step in steps for layer in step.layers) == sorted(layer.name for layer in graph)
    written = {graph.input}
    for step in steps:
        assert {*step.inputs, *([step.residual] if step.residual else [])} <= written
        written.add(step.output)


# what is kept between calls


@every_backend
def test_calls_repeat_to_the_bit(rng, tiny, backend):
    net, x = Network(tiny, backend), images(rng)
    first = net(x)
    for _ in range(3):
        np.testing.assert_array_equal(net(x), first)


@every_backend
def test_a_result_is_not_overwritten_by_the_next_call(rng, tiny, backend):
    net, x = Network(tiny, backend), images(rng)
    first = net(x)
    kept = first.copy()
    net(x + 1)
    np.testing.assert_array_equal(first, kept)


def test_buffers_are_used_again(rng, tiny):
    net = Network(tiny).runner
    x = images(rng)
    net(x)
    before = addresses(net.program_for(x.shape))
    net(images(rng, 1))  # another shape in between
    net(x)
    assert addresses(net.program_for(x.shape)) == before


def test_buffers_of_shapes_long_unused_are_let_go(rng, tiny):
    net = Network(tiny).runner
    first = net.program_for((1, 3, 9, 8))
    for height in range(10, 10 + KernelBackend.KEPT):
        net(images(rng, 1, height))
    assert net.program_for((1, 3, 9, 8)) is not first


@needs_proc
@every_backend
def test_two_hundred_calls_take_no_more_memory_than_ten(rng, tiny, backend):
    net, x = Network(tiny, backend), images(rng, 1, 64, 64)
    for _ in range(10):
        net(x)

    def calls():
        for _ in range(50 if ALL else 10):
            net(x)

    allowed = 16 if backend == "torch" else 1  # MiB: torch's allocator takes some; an activation a call would be 25
    assert growth(calls, rounds=8 if ALL else 5) < allowed << 20


@every_backend
def test_several_threads(rng, tiny, backend):
    """Threads share a network: each gets the result of its own pictures."""
    net = Network(tiny, backend)
    inputs = [images(rng, 1 + i % 3) for i in range(24)]
    expected = [net(x) for x in inputs]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for result, want in zip(pool.map(net, inputs), expected, strict=True):
            np.testing.assert_array_equal(result, want)


# what it takes


@every_backend
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_numpy(rng, tiny, backend, dtype):
    x = images(rng).astype(dtype)
    result = Network(tiny, backend)(x)
    assert isinstance(result, np.ndarray) and result.dtype == np.float32
    assert relative_error(result, Network(tiny, "onnxruntime")(x.astype(np.float32))) <= TOLERANCE


@every_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_torch(rng, tiny, backend, dtype):
    x = torch.from_numpy(images(rng)).to(dtype)
    result = Network(tiny, backend)(x)
    assert isinstance(result, torch.Tensor) and result.dtype == torch.float32 and result.device == x.device
    assert relative_error(result.numpy(), Network(tiny, "onnxruntime")(x.float().numpy())) <= TOLERANCE


@every_backend
def test_torch_on_a_gpu(rng, tiny, backend):
    if cuda.backend() != "gpu" or not torch.cuda.is_available():
        pytest.skip("needs a GPU and a PyTorch built for it")
    x = images(rng)
    result = Network(tiny, backend)(torch.from_numpy(x).cuda())
    assert result.is_cuda and relative_error(result.cpu().numpy(), Network(tiny, "onnxruntime")(x)) <= TOLERANCE


@every_backend
def test_cupy(rng, tiny, backend):
    if cuda.backend() != "gpu":
        pytest.skip("needs a GPU: CuPy's arrays lie on one")
    x = images(rng)
    result = Network(tiny, backend)(cuda.asarray(x))
    assert type(result) is type(cuda.asarray(x))
    assert relative_error(cuda.asnumpy(result), Network(tiny, "onnxruntime")(x)) <= TOLERANCE


@every_backend
def test_any_layout_in_memory(rng, tiny, backend):
    """The shape says what is what; a transposed view or channels_last is read as its shape says."""
    net, x = Network(tiny, backend), images(rng)
    turned = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(net(turned), net(x), rtol=1e-6)
    np.testing.assert_allclose(net(x[::-1])[::-1], net(x), rtol=1e-5, atol=1e-6)
    last = torch.from_numpy(x).contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(net(last).numpy(), net(x), rtol=1e-6)


@every_backend
def test_inputs_stay_as_they_are_and_may_be_read_only(rng, tiny, backend):
    x = images(rng)
    kept = x.copy()
    x.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Network(tiny, backend)(x)
    np.testing.assert_array_equal(x, kept)


def test_from_a_file(rng, tiny, tmp_path):
    path = tmp_path / "tiny.onnx"
    path.write_bytes(tiny.SerializeToString())
    net, x = Network.from_onnx(path), images(rng)
    assert net.backend == "kernels" and net.input_shape[1] == 3
    np.testing.assert_array_equal(net(x), Network.from_onnx(str(path))(x))


# what it says


@every_backend
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (np.zeros((3, 9, 8), np.float32), ValueError, r"x must have shape \(N, 3, H, W\), got \(3, 9, 8\)"),
        (np.zeros((1, 1, 9, 8), np.float32), ValueError, r"x must have shape \(N, 3, H, W\), got \(1, 1, 9, 8\)"),
        (np.zeros((1, 9, 8, 3), np.float32), ValueError, r"x must have shape \(N, 3, H, W\), got \(1, 9, 8, 3\)"),
        (np.zeros((0, 3, 9, 8), np.float32), ValueError, r"x must have shape \(N, 3, H, W\), got \(0, 3, 9, 8\)"),
        (np.zeros((1, 3, 9, 8), np.uint8), TypeError, "x must be floating point .* got uint8"),
        (np.zeros((1, 3, 9, 8), np.complex64), TypeError, "x must be floating point .* got complex64"),
        (torch.zeros((1, 3, 9, 8), dtype=torch.int64), TypeError, "x must be floating point .* got torch.int64"),
        ([[1.0]], TypeError, "x must be an array, got list"),
        (None, TypeError, "x must be an array, got NoneType"),
        ("photo.jpg", TypeError, "x must be an array, got str"),
    ],
    ids=["3d", "grey", "NHWC", "empty", "uint8", "complex", "int64", "list", "None", "str"],
)
def test_wrong_inputs(tiny, backend, x, error, message):
    with pytest.raises(error, match=message):
        Network(tiny, backend)(x)


@every_backend
def test_an_image_too_small_for_the_kernels(rng, backend):
    nodes = Nodes(rng)
    net = Network(nodes.model(nodes.conv("x", 3, 4, k=5), ("n", 3, "h", "w")), backend)
    with pytest.raises(ValueError, match=r"window of 5 does not fit into 4|cannot run .* \(1, 3, 4, 9\)"):
        net(images(rng, 1, 4, 9))
    assert net(images(rng, 1, 5, 9)).shape == (1, 4, 1, 5)


@every_backend
def test_an_image_of_another_size_than_a_classifier_on_pixels_can_take(rng, backend):
    nodes = Nodes(rng)
    x = nodes("Flatten", nodes.conv("x", 3, 2, k=1))
    net = Network(nodes.model(nodes("Gemm", x, nodes.number(rng.standard_normal((2 * 9 * 8, 5))))), backend)
    with pytest.raises(ValueError, match="160"):
        net(images(rng, 1, 10, 8))


def test_unknown_backends(tiny):
    with pytest.raises(ValueError, match="backend must be one of kernels, cudnn, torch, onnxruntime, got 'tensorrt'"):
        Network(tiny, "tensorrt")


@pytest.mark.skipif(cudnn.missing() is None, reason="cuDNN is here")
def test_without_cudnn_its_backend_says_what_is_missing(tiny):
    with pytest.raises(RuntimeError, match=r"cuDNN runs on an NVIDIA GPU only.*06_optimize/results.*doctor"):
        Network(tiny, "cudnn")


@pytest.mark.parametrize(
    ("backend", "options", "message"),
    [
        ("kernels", {"dtype": "fp64"}, "dtype must be one of fp32, fp16, got 'fp64'"),
        ("cudnn", {"layout": "CHWN"}, "layout must be one of NCHW, NHWC, got 'CHWN'"),
        ("torch", {"layout": "NHWC"}, "layout: backend 'torch' has no choice of it"),
        ("onnxruntime", {"variants": {}}, "variants: backend 'onnxruntime' has no choice of it"),
        ("cudnn", {"operators": {}}, "operators: backend 'cudnn' has no choice of it"),
        ("torch", {"dtype": "fp16"}, "dtype: backend 'torch' has no choice of it"),
        ("kernels", {"tune": True}, "tune: backend 'kernels' has no choice of it"),
        (
            "kernels",
            {"arithmetic": "tf32"},
            "arithmetic of backend 'kernels' with dtype 'fp32' must be fp32 or tf32x3 or halves or fma, got 'tf32'",
        ),
        ("cudnn", {"arithmetic": "fp16"}, "arithmetic of backend 'cudnn' with dtype 'fp32' must be fp32 or tf32"),
    ],
    ids=lambda value: str(value),
)
def test_what_a_backend_cannot_do(tiny, backend, options, message):
    with pytest.raises(ValueError, match=message):
        Network(tiny, backend, **options)


def test_half_precision(rng, tiny):
    x = images(rng)
    result = Network(tiny, dtype="fp16")(x)
    assert result.dtype == np.float32
    assert 1e-6 < relative_error(result, Network(tiny, "onnxruntime")(x)) <= TOLERANCES["fp16"]


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_a_program_has_buffers_of_its_own(rng, tiny, dtype):
    net, x = Network(tiny, dtype=dtype), images(rng)
    first, second = net.program(x.shape), net.program(x.shape)
    first.input[...], second.input[...] = cuda.asarray(x), cuda.asarray(x + 1)
    first.launch()
    second.launch()
    net(x - 1)
    np.testing.assert_array_equal(cuda.asnumpy(first.output.astype(np.float32)), net(x))
    np.testing.assert_array_equal(cuda.asnumpy(second.output.astype(np.float32)), net(x + 1))
    assert not set(addresses(first)) & set(addresses(second))


def test_a_program_step_by_step(rng, tiny):
    net, x = Network(tiny), images(rng)
    program = net.program(x.shape)
    program.input[...] = cuda.asarray(x)
    for buffer in list(program.buffers.values())[1:]:
        buffer[...] = np.nan
    for i, step in enumerate(program.steps):
        assert np.isnan(cuda.asnumpy(program.buffers[step.output])).all()
        program.launch_step(i)
        assert not np.isnan(cuda.asnumpy(program.buffers[step.output])).any()
    np.testing.assert_array_equal(cuda.asnumpy(program.output), net(x))


def test_programs_that_there_are_not(tiny):
    with pytest.raises(ValueError, match="backend 'torch' has no program, only 'kernels' and 'cudnn' have"):
        Network(tiny, "torch").program((1, 3, 9, 8))
    with pytest.raises(ValueError, match=r"x must have shape \(N, 3, H, W\), got \(1, 4, 9, 8\)"):
        Network(tiny).program((1, 4, 9, 8))


def test_a_layer_that_a_backend_does_not_run_is_named():
    class Unknown(topology.Sigmoid):
        """A layer that nobody registers."""

    graph = layers((1, 3, 9, 8), (topology.ReLU, {}), (Unknown, {}))
    with pytest.raises(topology.UnsupportedModel) as caught:
        CudnnBackend.check(object.__new__(CudnnBackend), graph)
    message = str(caught.value)
    assert (
        "layer 1 ('layer1')" in message
        and "'cudnn'" in message
        and "runs no Unknown" in message
        and "'torch'" in message
    )


def test_cudnn_refuses_a_softmax_over_channels_of_many_pixels():
    graph = layers((1, 3, 9, 8), (topology.Softmax, {"dim": 1}))
    with pytest.raises(topology.UnsupportedModel, match=r"layer0.*dimension 1"):
        CudnnBackend.check(object.__new__(CudnnBackend), graph)


def test_a_file_that_is_no_network(tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"not a network")
    with pytest.raises(topology.InvalidModel):
        Network.from_onnx(path)


def test_the_digits_network_keeps_its_weights_to_itself(rng):
    """Two networks of different weights, run in turns, do not disturb one another."""
    digits = Network(weights.model("digits"))
    x = rng.standard_normal((1, 3, 48, 48), dtype=np.float32)
    first = digits(x)
    Network(weights.model("seeded"))(x)
    np.testing.assert_array_equal(digits(x), first)
