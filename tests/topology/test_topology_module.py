"""The PyTorch module against torchvision's published layout, and what its exports are read as."""

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from tiers import only_all, seldom
from topology_oracle import agree, evaluate

from common import topology as t


def randomize(module):
    """Weights and running statistics as a trained network has them: no two equal, none trivial."""
    generator = torch.Generator().manual_seed(5)
    for name, value in module.state_dict().items():
        if name.endswith("running_var"):
            value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
        elif value.dtype.is_floating_point and value.ndim == 1:
            value.copy_(torch.randn(value.shape, generator=generator) * 0.2 + name.endswith("1.weight"))
    return module.eval()


def shapes(module):
    return {
        name: tuple(value.shape)
        for name, value in module.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }


def test_the_state_dict_is_that_of_torchvision():
    state = t.MobileNetV2().state_dict()
    assert len(state) == 314
    for name, shape in {  # from torchvision's mobilenet_v2 checkpoint
        "features.0.0.weight": (32, 3, 3, 3),
        "features.0.1.running_var": (32,),
        "features.1.conv.0.0.weight": (32, 1, 3, 3),
        "features.1.conv.1.weight": (16, 32, 1, 1),
        "features.1.conv.2.num_batches_tracked": (),
        "features.2.conv.0.0.weight": (96, 16, 1, 1),
        "features.2.conv.0.1.bias": (96,),
        "features.2.conv.1.0.weight": (96, 1, 3, 3),
        "features.2.conv.2.weight": (24, 96, 1, 1),
        "features.17.conv.3.running_mean": (320,),
        "features.18.0.weight": (1280, 320, 1, 1),
        "features.18.1.bias": (1280,),
        "classifier.1.weight": (1000, 1280),
        "classifier.1.bias": (1000,),
    }.items():
        assert tuple(state[name].shape) == shape
    assert sum(p.numel() for p in t.MobileNetV2().parameters()) == 3_504_872


@pytest.mark.parametrize("batch_norm", [True, False])
@pytest.mark.parametrize("width", [0.35, 1.0, 1.4])
def test_module_and_table_have_the_same_parameters_in_the_same_order(width, batch_norm):
    with torch.device("meta"):
        module = t.MobileNetV2(width=width, num_classes=10, in_channels=1, batch_norm=batch_norm)
    graph = t.build(width=width, num_classes=10, in_channels=1, batch_norm=batch_norm)
    assert list(shapes(module).items()) == list(graph.parameter_shapes.items())


@pytest.mark.parametrize("batch_norm", [True, False])
def test_module_and_table_compute_the_same(batch_norm):
    module = randomize(t.MobileNetV2(0.35, 10, in_channels=1, batch_norm=batch_norm))
    graph = t.build(0.35, 10, (33, 20), in_channels=1, batch=2, batch_norm=batch_norm)
    parameters = {name: value.numpy() for name, value in module.state_dict().items()}
    x = np.random.default_rng(0).standard_normal(graph.input_shape).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    assert np.allclose(evaluate(graph, parameters, x), expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("size", [1, 31, (40, 65)])
def test_any_input_size(size):
    height, width = (size, size) if isinstance(size, int) else size
    with torch.no_grad():
        assert t.MobileNetV2(0.35).eval()(torch.zeros(1, 3, height, width)).shape == (1, 1000)


@pytest.mark.parametrize("batch_norm", [True, False])
@pytest.mark.parametrize("opset", [9, 17])
def test_the_export_is_read_back_as_the_table(batch_norm, opset):
    module = randomize(t.MobileNetV2(0.35, 10, batch_norm=batch_norm)).train()
    model = t.export_onnx(module, input_size=33, opset=opset, dynamic_batch=True)
    assert module.training
    graph = agree(model, (2, 3, 33, 33))
    table = t.build(0.35, 10, 33, batch=2, batch_norm=batch_norm)
    assert graph.parameter_shapes == table.parameter_shapes
    assert [graph.describe(layer) for layer in graph] == [table.describe(layer) for layer in table]
    assert (graph.macs, graph.params) == (table.macs, table.params)
    stored = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    for name, value in module.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            assert np.array_equal(stored[name], value.numpy())


def test_the_export_of_a_fresh_module_keeps_every_parameter(tmp_path):
    """All of its biases are equal, which the exporter would otherwise store once."""
    module = t.MobileNetV2(0.35, batch_norm=False)
    model = t.export_onnx(module, tmp_path / "m.onnx", input_size=32)
    assert {i.name for i in model.graph.initializer} == set(module.state_dict())
    onnx.checker.check_model(model)
    assert t.read_onnx(tmp_path / "m.onnx") == t.read_onnx(model)


@seldom(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("optimize", [True, *only_all([False])])
def test_the_newer_exporter_of_torch(optimize):
    """torch.export spells dtype casts, expands and shape arithmetic out, and folds batch-norms."""
    module = torch.nn.Sequential(t.MobileNetV2(0.35, 10).features[:4], torch.nn.AdaptiveAvgPool2d(1))
    module = randomize(torch.nn.Sequential(module, torch.nn.Flatten(), torch.nn.Linear(8, 5)))
    program = torch.onnx.export(
        module,
        (torch.zeros(2, 3, 32, 32),),
        dynamic_shapes=({0: torch.export.Dim("n")},),
        dynamo=True,
        optimize=optimize,
        verbose=False,
        opset_version=18,
    )
    census = agree(program.model_proto, (3, 3, 32, 32)).census()
    assert census["Conv2d"] == 9
    assert census["GlobalAveragePool"] == census["Linear"] == 1
    assert "Reshape" not in census


def test_the_oldest_exports_with_batch_norms_folded_by_torch(tmp_path):
    module = randomize(t.MobileNetV2(0.35, 10))
    path = tmp_path / "m.onnx"
    with pytest.warns(DeprecationWarning):
        torch.onnx.export(module, (torch.zeros(1, 3, 40, 32),), path, dynamo=False, opset_version=11)
    graph = agree(t.load_model(path))
    table = t.build(0.35, 10, (40, 32))
    assert [graph.describe(layer) for layer in graph] == [table.describe(layer) for layer in table]
