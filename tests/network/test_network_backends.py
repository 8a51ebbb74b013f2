"""Every backend gives ONNX Runtime's numbers, for networks as they come."""

import numpy as np
import pytest
import torch
from network_models import Nodes, every_backend, layers, other_backends, run_onnxruntime
from tiers import seldom

from common import topology, weights
from common.network import Network, available
from common.network.compare import TOLERANCE, relative_error, top
from common.topology import build, export_onnx, write_onnx


def agree(model, backend, x):
    """The backend against ONNX Runtime on the model as it is."""
    expected = run_onnxruntime(model, x)
    result = Network(model, backend)(x)
    assert result.dtype == np.float32 and result.shape == expected.shape
    assert relative_error(result, expected) <= TOLERANCE
    return result, expected


def images(rng, n, height=48, width=None):
    return rng.standard_normal((n, 3, height, width or height), dtype=np.float32)


@pytest.fixture(scope="module")
def seeded():
    return weights.model("seeded")


@pytest.fixture(scope="module")
def digits():
    return weights.model("digits")


@every_backend
def test_the_full_size_network(rng, seeded, backend):
    result, expected = agree(seeded, backend, images(rng, 1, 224))
    assert (top(result) == top(expected)).all()


@seldom(6)
@other_backends
@pytest.mark.parametrize("size", [(96, 96), (160, 160), (244, 244), (192, 224), (33, 47)], ids=str)
def test_other_image_sizes_than_the_files(rng, seeded, backend, size):
    """ONNX Runtime runs the file rewritten for that size: the layers are convolutions, so any size will do."""
    x = images(rng, 1, *size)
    expected = Network(seeded, "onnxruntime")(x)
    rewritten = run_onnxruntime(write_onnx(*topology.read_onnx_with_parameters(seeded, x.shape)), x)
    np.testing.assert_array_equal(expected, rewritten)
    result = Network(seeded, backend)(x)
    assert relative_error(result, expected) <= TOLERANCE
    assert (top(result) == top(expected)).all()


@every_backend
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_batches(rng, digits, backend, batch):
    agree(digits, backend, images(rng, batch))


@every_backend
@pytest.mark.parametrize(("exported", "batch"), [(1, 3), (2, 4), (2, 5), (3, 1)])
def test_a_file_for_one_batch_size_takes_others(rng, backend, exported, batch):
    graph, parameters = weights.network("digits")
    fixed = write_onnx(graph.with_batch(exported), parameters)
    x = images(rng, batch)
    one_by_one = np.concatenate([run_onnxruntime(write_onnx(graph, parameters), image[None]) for image in x])
    assert relative_error(Network(fixed, backend)(x), one_by_one) <= TOLERANCE


@other_backends
@pytest.mark.parametrize("width", [0.35, 0.75])
@pytest.mark.parametrize("batch_norm", [False, True], ids=["folded", "batch-norm"])
def test_narrow_networks(rng, backend, width, batch_norm):
    graph = build(width, 17, 64, batch_norm=True)
    parameters = weights.seeded_parameters(graph)
    if not batch_norm:
        graph, parameters = weights.fold_batch_norm(graph, parameters)
    agree(write_onnx(graph, parameters), backend, images(rng, 1, 64))


class Probabilities(torch.nn.Sequential):
    in_channels = 3


@other_backends
@pytest.mark.parametrize("softmax", [False, True], ids=["logits", "softmax"])
def test_a_network_exported_by_pytorch(rng, backend, softmax):
    """Batch-norms not folded, any batch size, and what people put at the end."""
    graph = build(0.35, 10, 64, batch_norm=True)
    module = topology.MobileNetV2(0.35, 10)
    numbers = {name: torch.from_numpy(value) for name, value in weights.seeded_parameters(graph).items()}
    module.load_state_dict(numbers, strict=False)
    if softmax:
        module = Probabilities(module, torch.nn.Softmax(1))
    model = export_onnx(module, input_size=64, dynamic_batch=True)
    assert any(node.op_type == "BatchNormalization" for node in model.graph.node)
    result, _ = agree(model, backend, images(rng, 3, 64))
    assert not softmax or np.allclose(result.sum(1), 1)


def uneven_pads(n):
    x = n("Relu", n.conv("x", 3, 8, strides=[2, 1], pads=[0, 1, 1, 0]))
    x = n.clip(n.conv(x, 8, 8, group=8, dilations=[1, 2], pads=[2, 1, 0, 3]), -0.5, 1.5)
    return n.conv(x, 8, 5, k=1)


def residual(n):
    x = n.conv("x", 3, 6)
    return n("Add", x, n.same(n("Relu", x), 6))


def residual_then_relu(n):
    x = n("Relu", n.conv("x", 3, 6))
    return n("Relu", n("Add", n.same(n("Relu", n.same(x, 6)), 6), x))


def relu_then_residual(n):
    """The addition comes after the activation: it must not be done before it."""
    x = n.conv("x", 3, 6)
    return n("Add", n("Relu", n.same(x, 6)), x)


def relu_of_a_convolution_that_is_read_twice(n):
    x = n.same("x", 3)
    return n("Add", n("Relu", x), x)


def addition_of_two_convolutions(n):
    return n("Relu", n("Add", n.same("x", 3), n.conv("x", 3, 3, k=1)))


def addition_of_what_comes_later(n):
    early = n.same("x", 3)
    late = n("Relu", n.same("x", 3))
    return n("Relu", n("Add", early, late))


def two_additions(n):
    return n("Relu", n("Add", n("Add", n.same("x", 3), "x"), n.conv("x", 3, 3, k=1)))


def three_summands(n):
    ready = n("Relu", "x")
    return n("Add", n("Add", n.same("x", 3), "x"), ready)


def sums_with_a_convolution_that_is_read_again(n):
    x = n.same("x", 3)
    return n("Add", n("Relu", n("Add", x, "x")), x)


def addition_of_a_tensor_to_itself(n):
    x = n.same("x", 3)
    return n("Relu", n("Add", x, x))


def addition_of_the_input_to_itself(n):
    return n("Add", "x", "x")


def addition_without_a_convolution(n):
    return n("Add", n("Relu", "x"), n.clip("x", -1, 1))


def two_activations(n):
    return n.clip(n("Relu", n.same("x", 3)), 0.25, 1)


def the_same_weight_twice(n):
    x = n.same("x", 3)
    again = n("Conv", n("Relu", x), "number0", "number1", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return n("Add", again, x)


def output_that_others_read(n):
    x = n("Relu", n.same("x", 3))
    n("Relu", n.same(x, 3))
    return x


def convolution_as_output_with_a_dead_relu(n):
    x = n.same("x", 3)
    n("Relu", x)
    return x


def pooled_with_softmax_over_channels(n):
    return n("Softmax", n("GlobalAveragePool", n.same("x", 3)), axis=1)


def classifier(n):
    x = n("Flatten", n("GlobalAveragePool", n("Relu", n.conv("x", 3, 7))))
    return n("Gemm", x, n.number(n.rng.standard_normal((7, 5))), n.number(n.rng.standard_normal(5)))


def flattened_pixels(n):
    x = n("Flatten", n.conv("x", 3, 2, strides=[2, 2]))
    return n("Gemm", x, n.number(n.rng.standard_normal((2 * 4 * 3, 5))))


SMALL = [
    uneven_pads,
    residual,
    residual_then_relu,
    relu_then_residual,
    relu_of_a_convolution_that_is_read_twice,
    addition_of_two_convolutions,
    addition_of_what_comes_later,
    two_additions,
    three_summands,
    sums_with_a_convolution_that_is_read_again,
    addition_of_a_tensor_to_itself,
    addition_of_the_input_to_itself,
    addition_without_a_convolution,
    two_activations,
    the_same_weight_twice,
    output_that_others_read,
    convolution_as_output_with_a_dead_relu,
    pooled_with_softmax_over_channels,
    classifier,
    flattened_pixels,
]


@every_backend
@pytest.mark.parametrize("make", SMALL, ids=lambda make: make.__name__)
@pytest.mark.parametrize("batch", [1, 3])
def test_small_networks(rng, backend, make, batch):
    nodes = Nodes(rng)
    output = make(nodes)
    agree(nodes.model(output), backend, images(rng, batch, 9, 8))


@every_backend
def test_a_network_that_does_nothing(rng, backend):
    nodes = Nodes(rng)
    output = nodes("Identity", "x")
    x = images(rng, 2, 9, 8)
    result = Network(nodes.model(output), backend)(x)
    np.testing.assert_array_equal(result, x)
    assert not np.shares_memory(result, x)


def test_same_padding_follows_the_image_size(rng):
    """auto_pad=SAME_UPPER pads by what the image size needs: the steps are made anew for each."""
    nodes = Nodes(rng)
    output = nodes.conv("x", 3, 4, strides=[2, 2], auto_pad="SAME_UPPER")
    model = nodes.model(output, ("n", 3, "h", "w"))
    for size in [(8, 8), (9, 8), (7, 11)]:
        agree(model, "kernels", images(rng, 1, *size))


def test_a_graph_of_layers_is_what_the_file_says(rng):
    """The reader, the writer and the backends meet: a linear layer on pixels that are not pooled."""
    graph = layers(
        (2, 3, 4, 5), (topology.ReLU, {}), (topology.Linear, {"in_features": 60, "out_features": 7, "weight": "w"})
    )
    model = write_onnx(graph, {"w": rng.standard_normal((7, 60))})
    for backend in available():
        agree(model, backend, rng.standard_normal((2, 3, 4, 5), dtype=np.float32))
