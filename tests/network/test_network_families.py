"""Networks of every family, exported by PyTorch or as TensorFlow's converter writes them, against ONNX Runtime."""

import functools

import numpy as np
import pytest
import torch
import zoo
from network_models import CUDNN, run_onnxruntime
from tiers import in_turn

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


DEEP = ("resnet-101", "resnet-152", "densenet-169", "densenet-201")  # seconds each


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
    assert relative_error(net(x), want) <= allowed
    plan = net.plan(x.shape)
    assert plan.arena.bytes <= 1.3 * plan.arena.bound and plan.kept >= 1.9 * plan.arena.bytes
    assert relative_error(want[::-1], want) > 2 * TOLERANCES["fp16"], "pictures mixed up would pass unseen"


@pytest.mark.parametrize("name", ["resnet-152", "densenet-201", "mobilenet-v3-large"])
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


def test_the_families_need_every_layer_that_the_kernels_run():
    """Or the tests above would say nothing about it. Clip and others come with files of other exporters."""
    used = {
        type(layer) for name in [*zoo.NAMES, "tensorflow-style"] for layer in Network(exported(name), "torch").graph
    }
    assert set(layers_on("kernels")) - used <= {kinds.Clip, kinds.Pad, kinds.Reshape, kinds.Sigmoid}
