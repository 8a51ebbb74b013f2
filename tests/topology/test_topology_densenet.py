"""DenseNet as layers: the channels of the paper's rule, and the same numbers as PyTorch."""

import numpy as np
import onnx
import pytest
import torch
from torch.nn import functional as F

from common import topology as t
from common.lab.cases import drawn
from common.network import Network
from common.network.compare import relative_error


def test_the_channels_are_those_of_the_paper():
    graph = t.densenet(growth=12, blocks=(4, 4, 4))
    assert graph.name == "densenet-32" and graph.output_shape == (1, 10)
    shapes = {layer.name: layer.output_shape[1:] for layer in graph}
    # 24 from the stem; 12 more per layer; half of them, and half of the size, from block to block
    assert [shapes[f"block0.{i}.concat"] for i in range(4)] == [(c, 32, 32) for c in (36, 48, 60, 72)]
    assert shapes["between1.pool"] == (36, 16, 16) and shapes["between2.pool"] == (42, 8, 8)
    assert shapes["block2.3.concat"] == (90, 8, 8) and shapes["block1.0.conv1"] == (48, 16, 16)
    assert graph.census()["Concat"] == 12 and graph.census()["BatchNorm2d"] == 2 * 12 + 2 + 1


def test_a_dense_layer_is_that_of_pytorch():
    graph = t.densenet(growth=3, blocks=(1,), num_classes=4, input_size=(7, 5), batch=2)
    parameters = drawn(graph)
    p = {name: torch.tensor(array).double() for name, array in parameters.items()}

    def norm(name, x):
        fields = ("running_mean", "running_var", "weight", "bias")
        return F.relu(F.batch_norm(x, *(p[f"{name}.{field}"] for field in fields)))

    x = np.random.default_rng(3).standard_normal((2, 3, 7, 5), dtype=np.float32)
    stem = F.conv2d(torch.tensor(x).double(), p["stem.weight"], p["stem.bias"], padding=1)
    y = F.conv2d(norm("block0.0.norm1", stem), p["block0.0.conv1.weight"])
    new = F.conv2d(norm("block0.0.norm2", y), p["block0.0.conv2.weight"], p["block0.0.conv2.bias"], padding=1)
    y = norm("norm", torch.cat([stem, new], 1)).mean((2, 3))
    want = F.linear(y, p["classifier.weight"], p["classifier.bias"])
    model = t.write_onnx(graph, parameters)
    onnx.checker.check_model(model)
    assert relative_error(Network(model)(x), want.numpy()) <= 1e-6
    assert t.read_onnx(model).census() == graph.census()


@pytest.mark.parametrize("sizes", [{"growth": 0}, {"blocks": ()}, {"blocks": (2, 0)}, {"num_classes": 0}])
def test_bad_sizes_are_named(sizes):
    with pytest.raises(ValueError, match="every number must be at least 1"):
        t.densenet(**sizes)


def test_an_image_that_becomes_empty():
    with pytest.raises(ValueError, match="a window of 2 does not fit"):
        t.densenet(blocks=(1, 1), input_size=1)
