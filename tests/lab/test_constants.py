"""ONNX models as lists of nodes: folded by the exercise's solution, a model computes what it did before."""

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from torch import nn

from common import topology
from common.lab import constants

SOLUTION = Path(__file__).parents[2] / "05_network" / "solutions" / "fold_constants.py"


@pytest.fixture(scope="module")
def fold_constants():
    spec = importlib.util.spec_from_file_location("solution_of_fold_constants", SOLUTION)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.fold_constants


class Flat(nn.Module):
    def forward(self, x):
        return x.view(x.size(0), -1)


def folded(fold_constants, model):
    nodes, known, outputs = constants.nodes_of(model)
    return constants.with_nodes(model, *fold_constants(nodes, known, outputs, constants.compute))


def test_a_flatten_written_as_a_chain_is_one_node(fold_constants, rng):
    torch.manual_seed(0)
    model = topology.export_onnx(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), Flat(), nn.Linear(4, 2)), input_size=8
    )
    before = onnx.ModelProto()
    before.CopyFrom(model)
    after = folded(fold_constants, model)
    assert [node.op_type for node in after.graph.node] == ["Conv", "GlobalAveragePool", "Reshape", "Gemm"]
    assert model == before, "the model given stays as it was"
    x = {model.graph.input[0].name: rng.standard_normal((1, 3, 8, 8), dtype=np.float32)}
    np.testing.assert_array_equal(ReferenceEvaluator(after).run(None, x)[0], ReferenceEvaluator(model).run(None, x)[0])


def test_random_numbers_and_missing_inputs_stay(fold_constants):
    nodes = [
        helper.make_node("RandomNormal", [], ["r"], shape=[2]),
        helper.make_node("Constant", [], ["high"], value=onnx.numpy_helper.from_array(np.float32(6))),
        helper.make_node("Clip", ["a", "", "high"], ["b"]),
        helper.make_node("Add", ["b", "r"], ["y"]),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    a = onnx.numpy_helper.from_array(np.array([1, 9], np.float32), "a")
    after = folded(fold_constants, helper.make_model(helper.make_graph(nodes, "g", [], [y], [a])))
    assert [node.op_type for node in after.graph.node] == ["RandomNormal", "Add"]
    (b,) = after.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(b), [1, 6])


def test_a_node_of_several_outputs_is_refused():
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    node = helper.make_node("Split", ["x"], ["y", "z"], name="cut")
    with pytest.raises(ValueError, match=r"one output each, 'cut' has more"):
        constants.nodes_of(helper.make_model(helper.make_graph([node], "g", [x], [y])))
