"""Networks of every family, exported by PyTorch or as TensorFlow's converter writes them, against ONNX Runtime."""

import functools

import numpy as np
import pytest
import torch
import zoo
from network_models import CUDNN, run_onnxruntime
from tiers import in_turn, seldom

from common import topology, weights
from common.network import Network
from common.network.compare import TOLERANCES, compare_steps, first_drift, relative_error
from common.network.reference import run_layer
from common.network.registry import layers_on
from common.topology import layers as kinds

BATCH = 2
WAYS = [{"layout": "NCHW"}, {"layout": "NHWC"}, {"layout": "NHWC", "dtype": "fp16"}]


@functools.cache
def exported(name):
    return zoo.tensorflow_style() if name == "tensorflow-style" else zoo.export(name)


def pictures(shape):
    """Different from one another on a large scale, too: a network of seeded weights tells noise apart but weakly."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal(shape, dtype=np.float32)
    return (x + 2 * rng.standard_normal((*shape[:2], 1, 1), dtype=np.float32)).astype(np.float32)


def error_of_pytorch_in_half(model, x, want):
    """What rounding to half precision after every layer costs in this network, whoever computes."""
    graph, parameters = weights.fold_batch_norm(*topology.read_onnx_with_parameters(model, x.shape))
    halves = {name: torch.from_numpy(np.array(value)).half() for name, value in parameters.items()}
    tensors = {graph.input: torch.from_numpy(x).half()}
    for layer in graph:
        tensors[layer.output] = run_layer(layer, [tensors[name] for name in layer.inputs], halves)
    return relative_error(tensors[graph.output].float().numpy(), want)


def error_of(result, want):
    """The largest of the outputs' errors."""
    if not isinstance(want, tuple):
        return relative_error(result, want)
    return max(relative_error(one, other) for one, other in zip(result, want, strict=True))


def mixed_up(want):
    """The outputs of other pictures."""
    return tuple(one[::-1] for one in want) if isinstance(want, tuple) else want[::-1]


DEEP = ("resnet-101", "resnet-152", "densenet-169", "densenet-201")  # seconds each


@seldom(6)
@pytest.mark.parametrize(
    ("name", "how"),
    in_turn([name for name in [*zoo.NAMES, "tensorflow-style"] if name not in DEEP], WAYS) + in_turn(DEEP, WAYS),
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else value,
)
def test_a_family_on_kernels(name, how):
    model = exported(name)
    net = Network(model, **how)
    x = pictures((BATCH, *net.input_shape[1:]))
    want = run_onnxruntime(model, x)
    allowed = TOLERANCES[net.dtype]
    if net.dtype == "fp16" and name in ("resnet-101", "resnet-152"):  # rounding grows over so many random layers
        allowed = max(allowed, 2 * error_of_pytorch_in_half(model, x, want))
        assert allowed < 2e-2
    assert error_of(net(x), want) <= allowed
    plan = net.plan(x.shape)
    assert plan.arena.bytes <= 1.3 * plan.arena.bound and plan.kept >= 1.9 * plan.arena.bytes
    assert error_of(mixed_up(want), want) > 2 * TOLERANCES["fp16"], "pictures mixed up would pass unseen"


FULL = [("shufflenet-v2", 0.5), ("shufflenet-v2", 1.0), ("mobilenet-v3-small", 1.0), ("own-cnn", 1.0),
        ("convnext-tiny", 1.0), ("unet", 1.0), ("ssdlite-mobilenet-v3", 1.0)]  # fmt: skip


@pytest.mark.parametrize(("name", "width", "how"), [(*network, how) for network, how in in_turn(FULL, WAYS)], ids=str)
def test_a_network_at_its_full_width(name, width, how):
    model = zoo.export(name, 64, "n", 0, width)
    x = pictures((BATCH, 3, 64, 64))
    net = Network(model, **how)
    error = error_of(net(x), run_onnxruntime(model, x))
    print(f"{name} {width}, {net.dtype}, {net.layout}: error {error:.1e}")
    assert error <= TOLERANCES[net.dtype]


@seldom(6)
def test_a_convnext_of_an_older_operator_set():
    """Its norms are written in parts, and are one layer each all the same."""
    graph = topology.read_onnx(zoo.export("convnext-tiny", 64, opset=13))
    assert graph.census() == topology.read_onnx(zoo.export("convnext-tiny", 64)).census()
    model = zoo.export("convnext-tiny", 64, opset=13)
    x = pictures((BATCH, 3, 64, 64))
    assert relative_error(Network(model)(x), run_onnxruntime(model, x)) <= TOLERANCES["fp32"]


@seldom(6)
@pytest.mark.parametrize("size", [(32, 48), (40, 24)], ids=str)
def test_a_unet_of_another_size(size):
    """The file is for 32 × 32; sizes that follow from those of other tensors follow them."""
    x = pictures((BATCH, 3, *size))
    model = zoo.export("unet", size)
    net = Network(exported("unet"), layout="NHWC")
    assert net(x).shape == (BATCH, zoo.CLASSES, *size)
    assert relative_error(net(x), run_onnxruntime(model, x)) <= TOLERANCES["fp32"]


@seldom(6)
@pytest.mark.parametrize(
    "name",
    ["resnet-152", "densenet-201", "mobilenet-v3-large", "convnext-tiny", "unet", "ssdlite-mobilenet-v3"],
)
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_every_step_of_a_deep_network_is_right_on_its_own(name, dtype):
    assert first_drift(compare_steps(exported(name), dtype=dtype, layout="NHWC")) is None


@pytest.mark.parametrize("backend", [CUDNN])
@pytest.mark.parametrize("name", ["mobilenet-v1", "mobilenet-v2", "resnet-20"])
def test_a_family_on_cudnn(name, backend):
    model = exported(name)
    net = Network(model, backend)
    x = pictures((BATCH, *net.input_shape[1:]))
    assert relative_error(net(x), run_onnxruntime(model, x)) <= TOLERANCES["fp32"]


@seldom(6)
def test_the_families_need_every_layer_that_the_kernels_run():
    """Or the tests above would say nothing about it. Clip and others come with files of other exporters."""
    used = {
        type(layer) for name in [*zoo.NAMES, "tensorflow-style"] for layer in Network(exported(name), "torch").graph
    }
    assert set(layers_on("kernels")) - used <= {kinds.Clip, kinds.Erf, kinds.Mean, kinds.Pad, kinds.Sqrt}
