"""ResNet-20 as layers and as a PyTorch module: the paper's numbers, and the two are the same network."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from topology_oracle import agree, evaluate

from common import topology as t


def shapes(module):
    return {
        name: tuple(value.shape)
        for name, value in module.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }


def randomize(module):
    """Statistics and scales as a trained network has them."""
    torch.manual_seed(3)
    for norm in module.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
            for values, spread in ((norm.bias, 0.3), (norm.running_mean, 0.3)):
                torch.nn.init.normal_(values, 0, spread)
            torch.nn.init.uniform_(norm.running_var, 0.5, 2)
    return module.eval()


def test_the_numbers_of_the_paper():
    graph = t.resnet20()
    assert graph.name == "resnet20-32" and graph.input_shape == (1, 3, 32, 32) and graph.output_shape == (1, 10)
    assert len(graph) == 72
    assert graph.census() == {
        "Conv2d": 21,  # 19 of the paper's 20 layers with weights, and two shortcuts
        "BatchNorm2d": 21,
        "ReLU": 19,
        "ResidualAdd": 9,
        "GlobalAveragePool": 1,
        "Linear": 1,
    }
    assert graph.params == 272_474  # "0.27M" in table 6; 269,722 with shortcuts of option A
    assert graph.macs == 40_813_184
    extents = [layer.output_shape[1:] for layer in graph if layer.name.endswith(".add")]
    assert extents == [(16, 32, 32)] * 3 + [(32, 16, 16)] * 3 + [(64, 8, 8)] * 3


def test_names_say_what_a_layer_is():
    graph = t.resnet20()
    names = [layer.name for layer in graph]
    assert len(set(names)) == len(names)
    first = [layer for layer in graph if layer.name.endswith(".conv1")]
    assert [layer.name for layer in first] == [f"stages.{s}.{b}.conv1" for s in range(3) for b in range(3)]
    assert all(isinstance(layer, t.Conv2d) and layer.weight == f"{layer.name}.weight" for layer in first)
    assert [layer.stride for layer in first] == [(1, 1)] * 3 + ([(2, 2)] + [(1, 1)] * 2) * 2
    assert [name for name in names if name.endswith("shortcut.0")] == ["stages.1.0.shortcut.0", "stages.2.0.shortcut.0"]
    assert names[:4] == ["stem.0", "stem.1", "stem.2", "stages.0.0.conv1"] and names[-2:] == ["pool", "classifier"]


def test_names_stay_in_a_file():
    graph = t.resnet20()
    parameters = {name: np.ones(shape, np.float32) for name, shape in graph.parameter_shapes.items()}
    assert [layer.name for layer in t.read_onnx(t.write_onnx(graph, parameters))] == [layer.name for layer in graph]


def test_module_and_layers_have_the_same_parameters_in_the_same_order():
    assert list(shapes(t.ResNet20(7, in_channels=1)).items()) == list(
        t.resnet20(7, in_channels=1).parameter_shapes.items()
    )


@pytest.mark.parametrize("size", [32, (17, 9), 1])
def test_module_and_layers_compute_the_same(size):
    module = randomize(t.ResNet20())
    graph = t.resnet20(input_size=size, batch=2)
    x = np.random.default_rng(0).standard_normal(graph.input_shape).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    got = evaluate(graph, {name: value.numpy() for name, value in module.state_dict().items()}, x)
    assert np.allclose(got, expected, atol=1e-4 * np.abs(expected).max())


def test_the_export_is_read_back_as_the_layers():
    module = randomize(t.ResNet20())
    model = t.export_onnx(module, input_size=32, dynamic_batch=True)
    onnx.checker.check_model(model)
    graph, built = agree(model, (2, 3, 32, 32)), t.resnet20(batch=2)
    assert graph.parameter_shapes == built.parameter_shapes
    assert [graph.describe(layer) for layer in graph] == [built.describe(layer) for layer in built]
    # the exporter's names hold the module's path too, which a Conv2d's weight names alone
    convs = [layer for layer in graph if isinstance(layer, t.Conv2d)]
    assert convs[1].name == "/stages/stages.0/stages.0.0/conv1/Conv" and convs[1].weight == "stages.0.0.conv1.weight"
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert all(np.array_equal(stored[name], module.state_dict()[name].numpy()) for name in graph.parameter_shapes)


@pytest.mark.parametrize("arguments", [{"num_classes": 0}, {"input_size": 0}, {"in_channels": 0}, {"batch": -1}])
def test_numbers_that_describe_no_network(arguments):
    with pytest.raises(ValueError, match="every number must be at least 1"):
        t.resnet20(**arguments)


def test_the_layers_need_no_torch():
    code = "import sys; from common import topology; topology.resnet20(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
