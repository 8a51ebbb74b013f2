"""ONNX models as lists of nodes, for the pass that folds constants.

nodes, constants, outputs = nodes_of(model)      (NodeProto, inputs, output) per node; arrays by name
compute(node, arrays)                            the array that a node writes, by ONNX's reference; None if it is random
with_nodes(model, nodes, constants)              a copy of the model with these nodes and constants
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper
from onnx.reference import ReferenceEvaluator

Node = tuple[NodeProto, list[str], str]


def nodes_of(model: ModelProto) -> tuple[list[Node], dict[str, np.ndarray], list[str]]:
    """(nodes, constants, names of the outputs) of a model. ValueError for a node of several outputs."""
    several = [node.name for node in model.graph.node if len(node.output) != 1]
    if several:
        raise ValueError(f"nodes must have one output each, {several[0]!r} has more")
    nodes = [(node, [name for name in node.input if name], node.output[0]) for node in model.graph.node]
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    return nodes, constants, [one.name for one in model.graph.output]


def compute(node: NodeProto, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """What a node writes, by the reference implementation of the package onnx; None if it draws random numbers."""
    if node.op_type.startswith("Random") or node.op_type in ("Bernoulli", "Multinomial"):
        return None
    names = [name for name in node.input if name]
    (value,) = ReferenceEvaluator(node).run(None, dict(zip(names, arrays, strict=True)))
    return np.asarray(value)


def with_nodes(model: ModelProto, nodes: Iterable[Node], constants: Mapping[str, np.ndarray]) -> ModelProto:
    """A copy of a model with other nodes and constants; inputs and outputs stay."""
    changed = ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:], changed.graph.initializer[:]
    changed.graph.node.extend(node for node, _, _ in nodes)
    changed.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    onnx.checker.check_model(changed)
    return changed
