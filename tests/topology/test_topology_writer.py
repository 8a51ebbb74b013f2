"""What the writer writes, the reader reads back as the same, and ONNX Runtime runs."""

import math

import numpy as np
import onnx
import pytest
from topology_oracle import agree, evaluate, onnx_runtime

from common import topology as t


def parameters_for(graph, seed=0):
    """Random parameters that keep activations near 1: weights scaled by what they sum over."""
    random = np.random.default_rng(seed)
    parameters = {}
    for name, shape in graph.parameter_shapes.items():
        if name.endswith("var"):
            array = random.random(shape) + 0.5
        else:
            array = random.standard_normal(shape) * max(1, math.prod(shape[1:])) ** -0.5
        parameters[name] = array.astype(np.float32)
    return parameters


def chain(shape, *steps):
    """A graph of layers one after the other; a step is (kind, fields), or (kind, fields, what it reads)."""
    shapes, layers, last = {"x": shape}, [], "x"
    for i, (kind, fields, *inputs) in enumerate(steps):
        names = tuple(inputs[0]) if inputs else (last,)
        last = f"t{i}"
        layer = kind(
            name=f"layer {i}",
            inputs=names,
            output=last,
            input_shapes=tuple(shapes[n] for n in names),
            **fields,
        )
        shapes[last] = layer.output_shape
        layers.append(layer)
    return t.Graph(name="chain", input="x", input_shape=shape, layers=tuple(layers), output=last)


NORM = {"weight": "norm", "bias": "norm b", "running_mean": "norm mean", "running_var": "norm var"}
EVERY_LAYER = chain(
    (2, 3, 13, 11),
    (t.Pad, {"padding": ((1, 0), (0, 2)), "value": 0.5}),
    (
        t.Conv2d,
        {
            "in_channels": 3,
            "out_channels": 6,
            "kernel_size": (3, 2),
            "stride": (1, 2),
            "padding": ((1, 0), (2, 1)),
            "dilation": (2, 1),
            "groups": 3,
            "weight": "conv",
            "bias": "conv b",
        },
    ),
    (t.BatchNorm2d, {"num_features": 6, "eps": 1e-3, **NORM}),
    (t.ReLU6, {}),
    (t.Conv2d, {"in_channels": 6, "out_channels": 6, "kernel_size": (1, 1), "weight": "pw"}),
    (t.ResidualAdd, {}, ("t3", "t4")),
    (t.HardSwish, {}),
    (t.HardSigmoid, {"alpha": 0.25, "beta": 0.5}),
    (t.Mul, {}, ("t5", "t7")),
    (t.Sigmoid, {}),
    (t.Concat, {"dim": 1}, ("t9", "t6", "t9")),
    (t.Clip, {"min": -0.25}),
    (t.MaxPool2d, {"kernel_size": (3, 3), "stride": (2, 1), "padding": ((1, 0), (1, 1)), "ceil_mode": True}),
    (t.AveragePool2d, {"kernel_size": (2, 2), "padding": ((0, 1), (1, 0)), "count_include_pad": True}),
    (t.ReLU, {}),
    (t.Permute, {"dims": (0, 2, 3, 1)}),
    (t.Reshape, {"shape": (8, 6, 18)}),
    (t.Permute, {"dims": (0, 3, 1, 2)}),
    (t.Conv2d, {"in_channels": 18, "out_channels": 4, "kernel_size": (1, 1), "weight": "last"}),
    (t.Tanh, {}),
    (t.LeakyReLU, {"alpha": 0.2}),
    (t.Sub, {}, ("t18", "t20")),
    (t.ELU, {"alpha": 0.75}),
    (t.GELU, {}),
    (t.GELU, {"approximate": "tanh"}),
    (t.Sigmoid, {}),
    (t.Div, {}, ("t24", "t25")),
    (t.Maximum, {}, ("t26", "t18")),
    (t.Minimum, {}, ("t27", "t21")),
    (t.ChannelShuffle, {"groups": 2}),
    (t.Erf, {}),
    (t.Sigmoid, {}),
    (t.Sqrt, {}),
    (t.Slice, {"starts": (1, 0, 5), "sizes": (3, 4, 2), "steps": (1, 2, -3)}),
    (t.GlobalAveragePool, {}),
    (t.Add, {}, ("t33", "t34")),
    (t.Resize, {"size": (5, 7), "mode": "nearest", "coordinates": "asymmetric"}),
    (t.LayerNorm, {"eps": 1e-6, "weight": "ln", "bias": "ln b"}),
    (
        t.ConvTranspose2d,
        {
            "in_channels": 3,
            "out_channels": 4,
            "kernel_size": (2, 3),
            "stride": (2, 1),
            "padding": ((1, 0), (2, 1)),
            "output_padding": (1, 0),
            "weight": "up",
            "bias": "up b",
        },
    ),
    (t.GroupNorm, {"num_groups": 2, "weight": "gn", "bias": "gn b"}),
    (t.Mean, {"dim": 1}),
    (t.Mul, {}, ("t39", "t40")),
    (t.Resize, {"size": (6, 4), "coordinates": "pytorch_half_pixel", "scales": (0.6, 0.7)}),
    (t.LayerNorm, {}),
    (t.GroupNorm, {"num_groups": 4, "eps": 1e-3}),
    (t.Resize, {"size": (2, 3), "mode": "nearest", "rounding": "round_prefer_ceil"}),
    (t.Concat, {"dim": 1}, ("t45", "t45")),
    (t.Linear, {"in_features": 8 * 2 * 3, "out_features": 5, "weight": "fc", "bias": "fc b"}),
    (t.Linear, {"in_features": 5, "out_features": 3, "weight": "fc2"}),
    (t.Softmax, {"dim": 1}),
    (t.Quantize, {"grid": t.Grid((2.0**-7,), (-100,), "int8")}),
    (t.Dequantize, {"grid": t.Grid((2.0**-7,), (-100,), "int8")}),
)


@pytest.mark.parametrize("opset", [14, 17, 18, 21])
@pytest.mark.parametrize("dynamic_batch", [False, True])
def test_every_layer_goes_there_and_back(opset, dynamic_batch):
    from common.topology.writer import WRITE

    assert {type(layer) for layer in EVERY_LAYER} == set(WRITE)
    parameters = parameters_for(EVERY_LAYER)
    model = t.write_onnx(EVERY_LAYER, parameters, dynamic_batch, opset)
    onnx.checker.check_model(model, full_check=True)
    assert agree(model, EVERY_LAYER.input_shape) == EVERY_LAYER
    again = t.read_onnx_with_parameters(model, EVERY_LAYER.input_shape)[1]
    assert list(again) == list(parameters)
    assert all(np.array_equal(again[name], parameters[name]) for name in parameters)
    assert t.read_onnx(model).input_shape[0] == (1 if dynamic_batch else 2)
    if dynamic_batch:
        assert agree(model, (5, 3, 13, 11)) == EVERY_LAYER.with_batch(5)


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("size", [32, (17, 45)])
def test_mobilenet_goes_there_and_back(batch_norm, size):
    graph = t.build(0.35, 10, size, batch_norm=batch_norm)
    model = t.write_onnx(graph, parameters_for(graph))
    assert t.read_onnx(model) == graph
    x = np.random.default_rng(1).standard_normal(graph.input_shape).astype(np.float32)
    expected = onnx_runtime(model, x)
    got = evaluate(graph, parameters_for(graph), x)
    assert np.linalg.norm(got - expected) <= 1e-5 * np.linalg.norm(expected)


def test_a_pool_over_the_whole_image_comes_back_as_global():
    graph = chain((1, 2, 4, 4), (t.AveragePool2d, {"kernel_size": (4, 4)}))
    again = t.read_onnx(t.write_onnx(graph, {}))
    assert [type(layer) for layer in again] == [t.GlobalAveragePool]


def test_parameters_that_do_not_fit():
    graph = t.build(0.35, 10, 32)
    parameters = parameters_for(graph)
    with pytest.raises(ValueError, match="is not between 14"):
        t.write_onnx(graph, parameters, opset=13)
    with pytest.raises(ValueError, match=r"'classifier\.1\.bias' has the shape \(3,\), not \(10,\)"):
        t.write_onnx(graph, parameters | {"classifier.1.bias": np.zeros(3)})
    del parameters["features.0.0.weight"]
    with pytest.raises(ValueError, match=r"'features\.0\.0\.weight' is missing"):
        t.write_onnx(graph, parameters)
