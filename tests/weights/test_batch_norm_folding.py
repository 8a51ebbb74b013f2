"""A convolution and its batch-norm, folded, compute the same; what cannot be folded stays."""

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from common import weights
from common.topology import (
    BatchNorm2d,
    Concat,
    Conv2d,
    Graph,
    MobileNetV2,
    ReLU,
    ResidualAdd,
    build,
    read_onnx_with_parameters,
    write_onnx,
)


def random_statistics(module: torch.nn.Module) -> torch.nn.Module:
    """Batch-norms as after training, instead of PyTorch's neutral start."""
    for norm in module.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(norm.weight, 0.3, 2)
            torch.nn.init.normal_(norm.bias)
            torch.nn.init.normal_(norm.running_mean)
            torch.nn.init.uniform_(norm.running_var, 0.1, 3)
    return module.eval()


@given(
    groups=st.integers(1, 5),
    inputs=st.integers(1, 4),
    outputs=st.integers(1, 4),
    kernel=st.integers(1, 3),
    has_bias=st.booleans(),
    eps=st.sampled_from([1e-5, 1e-3, 1e-12]),  # (older PyTorch refuses 0)
    seed=st.integers(0, 2**31),
)
def test_folded_convolution_computes_the_same(groups, inputs, outputs, kernel, has_bias, eps, seed):
    """Plain, grouped and depthwise, with and without a bias, against PyTorch in float64."""
    torch.manual_seed(seed)
    conv = torch.nn.Conv2d(groups * inputs, groups * outputs, kernel, groups=groups, bias=has_bias).double()
    norm = random_statistics(torch.nn.BatchNorm2d(groups * outputs, eps=eps).double())
    x = torch.randn(2, groups * inputs, 5, 4, dtype=torch.float64)
    with torch.no_grad():
        expected = norm(conv(x)).numpy()
        weight, bias = weights.fold(
            conv.weight.numpy(),
            conv.bias.numpy() if has_bias else None,
            norm.weight.numpy(),
            norm.bias.numpy(),
            norm.running_mean.numpy(),
            norm.running_var.numpy(),
            eps,
        )
        got = torch.nn.functional.conv2d(x, torch.from_numpy(weight), torch.from_numpy(bias), groups=groups)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10, atol=1e-10)


def test_folding_rounds_once(rng):
    arrays = [
        rng.normal(size=(64, 8, 3, 3)),
        *(rng.normal(size=64) for _ in range(4)),
        rng.uniform(1e-6, 9, 64),
    ]
    arrays = [array.astype(np.float32) for array in arrays]
    exact = weights.fold(*(array.astype(np.float64) for array in arrays))
    for got, wanted in zip(weights.fold(*arrays), exact, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, wanted.astype(np.float32))


def test_a_variance_that_cannot_be_is_refused():
    one = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="variance of channel 1 is -1"):
        weights.fold(np.ones((3, 1, 1, 1), np.float32), None, one, one, one, np.array([1, -1, 1], np.float32))
    graph = build(0.35, 10, 32, batch_norm=True)
    parameters = weights.seeded_parameters(graph)
    parameters["features.3.conv.0.1.running_var"][:] = -1
    with pytest.raises(ValueError, match=r"batch-norm 'features\.3\.conv\.0\.1': the variance of channel 0"):
        weights.fold_batch_norm(graph, parameters)


@pytest.mark.parametrize("width, classes, size", [(1.0, 1000, 224), (0.35, 10, 48)])
def test_mobilenet_folds_into_the_folded_table(width, classes, size):
    graph = build(width, classes, size, batch_norm=True)
    parameters = weights.seeded_parameters(graph)
    copies = {name: array.copy() for name, array in parameters.items()}
    folded, result = weights.fold_batch_norm(graph, parameters)
    assert folded == build(width, classes, size)
    assert list(result) == list(folded.parameter_shapes)
    weights.check(folded, result)
    for name, array in copies.items():
        np.testing.assert_array_equal(parameters[name], array)


def test_folded_state_dict_gives_the_same_scores():
    """torchvision's names in, in float64, to tell folding's own error from that of float32."""
    torch.manual_seed(0)
    module = random_statistics(MobileNetV2(0.35, 10)).double()
    _, parameters = weights.fold_state_dict(module.state_dict(), 0.35, 10)
    folded = MobileNetV2(0.35, 10, batch_norm=False).double().eval()
    folded.load_state_dict({name: torch.from_numpy(array) for name, array in parameters.items()})
    x = torch.randn(2, 3, 40, 56, dtype=torch.float64)
    with torch.no_grad():
        expected, got = module(x), folded(x)
    assert (got - expected).norm() <= 1e-12 * expected.norm()


def test_a_state_dict_of_another_network_is_refused_by_name():
    state_dict = MobileNetV2(0.35, 10).state_dict()
    del state_dict["features.2.conv.3.running_mean"]
    state_dict["extra"] = torch.zeros(2)
    with pytest.raises(ValueError) as error:
        weights.fold_state_dict(state_dict, 0.35, 11)
    for part in (
        "features.2.conv.3.running_mean: missing, expected (8,)",
        "classifier.1.weight: expected (11, 1280), got (10, 1280)",
        "extra: no layer reads it, got (2,)",
    ):
        assert part in str(error.value)


def conv(source: str, output: str, channels: int, **changes) -> Conv2d:
    layer = Conv2d(
        name=output,
        inputs=(source,),
        output=output,
        input_shapes=((1, channels, 6, 5),),
        in_channels=channels,
        out_channels=4,
        kernel_size=(3, 3),
        padding=((1, 1), (1, 1)),
        weight=f"{output}.weight",
    )
    return replace(layer, **changes)


def norm(source: str, output: str, channels: int = 4) -> BatchNorm2d:
    return BatchNorm2d(
        name=output,
        inputs=(source,),
        output=output,
        input_shapes=((1, channels, 6, 5),),
        num_features=channels,
        weight=f"{output}.weight",
        bias=f"{output}.bias",
        running_mean=f"{output}.running_mean",
        running_var=f"{output}.running_var",
    )


def simple(kind, sources: tuple[str, ...], output: str, channels: int = 4, **fields):
    shapes = ((1, channels, 6, 5),) * len(sources)
    return kind(name=output, inputs=sources, output=output, input_shapes=shapes, **fields)


def draw(rng: np.random.Generator, graph: Graph) -> dict[str, np.ndarray]:
    return {
        name: (rng.uniform(0.5, 2, shape) if name.endswith("_var") else rng.normal(size=shape)).astype(np.float32)
        for name, shape in graph.parameter_shapes.items()
    }


def run(graph: Graph, parameters: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # it folds as well
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(write_onnx(graph, parameters).SerializeToString(), options)
    return session.run(None, {graph.input: x})[0]


def graph_of(*layers, output: str | None = None) -> Graph:
    return Graph(name="test", input="x", input_shape=(1, 4, 6, 5), layers=layers, output=output or layers[-1].output)


GRAPHS = {
    # DenseNet: normalise, activate, convolve; the features go on unnormalised as well
    "before the convolution": (
        graph_of(
            norm("x", "n"),
            simple(ReLU, ("n",), "r"),
            conv("r", "c", 4),
            simple(Concat, ("x", "c"), "out", dim=1),
        ),
        1,
    ),
    "output used elsewhere": (
        graph_of(conv("x", "c", 4), norm("c", "n"), simple(ResidualAdd, ("c", "n"), "out")),
        1,
    ),
    "output of the network": (
        graph_of(conv("x", "c", 4), norm("c", "n"), output="c"),
        1,
    ),
    "weight shared": (
        graph_of(conv("x", "a", 4), norm("a", "n"), conv("n", "b", 4, weight="a.weight"), norm("b", "m")),
        2,
    ),
    "after an activation": (graph_of(conv("x", "c", 4), simple(ReLU, ("c",), "r"), norm("r", "n")), 1),
    "twice": (graph_of(conv("x", "c", 4), norm("c", "n"), norm("n", "m")), 1),
    "grouped, with a bias, last": (
        graph_of(conv("x", "c", 4, groups=2, bias="c.bias"), norm("c", "n")),
        0,
    ),
    "bias' name taken": (
        graph_of(conv("x", "n", 4), replace(norm("n", "m"), bias="n.bias")),
        0,
    ),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_what_cannot_be_folded_stays(case, rng):
    graph, left = GRAPHS[case]
    parameters = draw(rng, graph)
    folded, result = weights.fold_batch_norm(graph, parameters)
    assert folded.census()["BatchNorm2d"] == left
    assert list(result) == list(folded.parameter_shapes)
    x = rng.normal(size=graph.input_shape).astype(np.float32)
    expected = run(graph, parameters, x)
    assert np.linalg.norm(run(folded, result, x) - expected) <= 1e-5 * np.linalg.norm(expected)


def test_a_file_with_batch_norms_folds(rng):
    """From ONNX to ONNX, as `Network` takes it."""
    graph = build(0.35, 7, 32, batch_norm=True)
    parameters = weights.seeded_parameters(graph)
    read, numbers = read_onnx_with_parameters(write_onnx(graph, parameters))
    folded, result = weights.fold_batch_norm(read, numbers)
    assert folded.census()["BatchNorm2d"] == 0
    x = rng.normal(size=graph.input_shape).astype(np.float32)
    expected = run(graph, parameters, x)
    assert np.linalg.norm(run(folded, result, x) - expected) <= 1e-5 * np.linalg.norm(expected)
