"""What the reference's graph.py refuses instead of listing wrong layers, and the names that it follows."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from common import topology
from common.lab import judging
from common.lab.cases import CASES, Case, untrained
from common.lab.reference.engine import graph, weights  # type: ignore[attr-defined]
from common.lab.spellings import equal_arrays_as_identities

ARRAYS = {"w": (4, 4, 3, 3), "b": (4,), "b4": (1, 4, 1, 1), "wl": (4, 4), "two": (2,), "four": (4,)}


def model(*nodes, size=(8, 8), outputs=("y",)) -> onnx.ModelProto:
    """A model of (op, inputs, output, attributes) with the input x (1, 4, *size)."""
    made = [helper.make_node(op, ins, [out], name=f"n{i}", **a) for i, (op, ins, out, a) in enumerate(nodes)]
    stored = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in ARRAYS.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, *size))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    return helper.make_model(helper.make_graph(made, "small", [x], ends, stored))


CONV = ("Conv", ["x", "w"], "c", {})
REFUSED = {
    "a bias of a ReLU": ([CONV, ("Relu", ["c"], "r", {}), ("Add", ["r", "b4"], "y", {})], "n2"),
    "a bias of the input": ([("Add", ["x", "b4"], "y", {})], "n0"),
    "a second bias": ([("Conv", ["x", "w", "b"], "c", {}), ("Add", ["c", "b4"], "y", {})], "n1"),
    "a bias, twice": ([CONV, ("Add", ["c", "b4"], "d", {}), ("Add", ["d", "b4"], "y", {})], "n2"),
    "a second reader": ([CONV, ("Add", ["c", "b4"], "d", {}), ("Add", ["c", "d"], "y", {})], "n1"),
    "ceil_mode": ([("MaxPool", ["x"], "y", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1})], "ceil_mode"),
    "Concat of rows": ([CONV, ("Concat", ["c", "c"], "y", {"axis": 2})], "axis = 2"),
    "alpha": ([("Flatten", ["x"], "f", {}), ("Gemm", ["f", "wl"], "y", {"alpha": 2.0})], "alpha = 2.0"),
    "Reshape": ([("Reshape", ["x", "four"], "r", {}), ("Conv", ["r", "w"], "y", {})], "n0"),
    "a computed shape": ([("Reshape", ["x", "c"], "y", {})], "n0"),
    "Constant of a float": ([("Constant", [], "six", {"value_float": 6.0}), ("Relu", ["x"], "y", {})], "n0"),
    "a mean of all": ([("ReduceMean", ["x"], "y", {})], "n0"),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "said"), REFUSED.values(), ids=REFUSED)
def test_a_node_that_is_not_listed_is_refused_by_name(nodes, said):
    with pytest.raises(ValueError, match=said):
        graph.read(model(*nodes))


def test_a_bias_that_the_network_returns_without_it_is_refused():
    nodes = [("Conv", ["x", "w"], "y", {}), ("Add", ["y", "b4"], "d", {})]
    with pytest.raises(ValueError, match="its constant is no layer's bias"):
        graph.read(model(*nodes))


@pytest.mark.parametrize("size", [("h", "w"), (8, "w")])
def test_an_open_size_is_refused(size):
    with pytest.raises(ValueError, match="leaves a size open"):
        graph.read(model(CONV, ("Relu", ["c"], "y", {}), size=size))


def test_two_outputs_are_refused():
    with pytest.raises(ValueError):
        graph.read(model(CONV, ("Relu", ["c"], "y", {}), outputs=("c", "y")))


def test_a_reshape_to_a_matrix_and_a_bias_are_read():
    nodes = [CONV, ("Add", ["b4", "c"], "d", {}), ("Reshape", ["d", "two"], "r", {}), ("Gemm", ["r", "wl"], "y", {})]
    layers = graph.read(model(*nodes)).layers
    assert [(one.op, one.weights) for one in layers] == [
        ("Conv2d", {"weight": "w", "bias": "b4"}), ("Linear", {"weight": "wl"}),
    ]  # fmt: skip


# Equal arrays


def test_the_weights_of_a_file_with_identities_are_right():
    case = Case("equal arrays, Identity", untrained, (equal_arrays_as_identities,))
    outcome = judging.judge(2, case, {"graph": graph, "weights": weights})
    assert outcome.passed, outcome
    assert any(one.name == case.name for one in CASES[1])


def test_pytorchs_plain_export_of_equal_arrays_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    module = topology.MobileNetV2(0.35).eval()
    path = tmp_path / "plain.onnx"
    options = {"dynamo": False, "do_constant_folding": False, "training": torch.onnx.TrainingMode.PRESERVE}
    torch.onnx.export(module, (torch.zeros(1, 3, 32, 32),), str(path), **options)
    plain = onnx.load(path)
    assert any(node.op_type == "Identity" for node in plain.graph.node), "this export has no array of two names"
    outcome = judging.judge_graph(plain, {"graph": graph})
    assert outcome[1] == [] and outcome[0]["layers"] == outcome[0]["shapes"]
    stored = {tensor.name for tensor in plain.graph.initializer}
    read = graph.read(path)
    assert all(name in stored for layer in read.layers for name in layer.weights.values())
    assert weights.extract(plain, read)
