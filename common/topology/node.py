"""One ONNX node with typed access to its attributes, and a topological order of a graph's nodes."""

import heapq
import math

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from .errors import InvalidModel, UnsupportedModel
from .tensors import decode


class Node:
    """A NodeProto whose attributes are read by name and type. opset: the model's version of the operator set.

    inputs, outputs: tensor names, "" for an omitted optional one. InvalidModel if an attribute is given twice. The
    methods that read an attribute raise InvalidModel if it has another type.
    """

    def __init__(self, proto: NodeProto, opset: int):
        self.op_type = proto.op_type
        self.domain = proto.domain
        self.opset = opset
        self.inputs = list(proto.input)
        self.outputs = list(proto.output)
        self.name = proto.name or next(filter(None, self.outputs), "")
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}
        self._unread = set(self._attributes)
        if len(self._attributes) != len(proto.attribute):
            raise self.invalid("an attribute is given twice")

    def __str__(self) -> str:
        return f"node {self.name!r} ({self.op_type})"

    def invalid(self, reason: object) -> InvalidModel:
        """An InvalidModel, not raised, whose message names the node."""
        return InvalidModel(f"{self}: {reason}")

    def unsupported(self, reason: object) -> UnsupportedModel:
        """An UnsupportedModel, not raised, whose message names the node."""
        return UnsupportedModel(f"{self}: {reason}")

    def _attribute(self, name: str, kind: int) -> AttributeProto | None:
        self._unread.discard(name)
        attribute = self._attributes.get(name)
        if attribute is None:
            return None
        if attribute.ref_attr_name:
            raise self.invalid(f"attribute {name!r} refers to a function's argument")
        if attribute.type != kind:
            raise self.invalid(f"attribute {name!r} is not of type {AttributeProto.AttributeType.Name(kind)}")
        return attribute

    def has(self, name: str) -> bool:
        """Whether the node has the attribute."""
        return name in self._attributes

    def integer(self, name: str, default: int) -> int:
        """An integer attribute, or `default` if it is missing."""
        attribute = self._attribute(name, AttributeProto.INT)
        return default if attribute is None else attribute.i

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer attribute that is 0 or 1. InvalidModel for other numbers, which runtimes treat differently."""
        value = self.integer(name, int(default))
        if value not in (0, 1):
            raise self.invalid(f"attribute {name!r} is {value}, not 0 or 1")
        return bool(value)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers, or None if it is missing."""
        attribute = self._attribute(name, AttributeProto.INTS)
        return None if attribute is None else tuple(attribute.ints)

    def number(self, name: str, default: float) -> float:
        """A float attribute, or `default` if it is missing. InvalidModel for NaN."""
        attribute = self._attribute(name, AttributeProto.FLOAT)
        value = default if attribute is None else attribute.f
        if math.isnan(value):
            raise self.invalid(f"attribute {name!r} is NaN")
        return value

    def floats(self, name: str) -> list[float]:
        """An attribute that is a list of floats; empty if it is missing."""
        attribute = self._attribute(name, AttributeProto.FLOATS)
        return [] if attribute is None else list(attribute.floats)

    def text(self, name: str, default: str) -> str:
        """A string attribute, or `default` if it is missing; bytes that are not UTF-8 are replaced."""
        attribute = self._attribute(name, AttributeProto.STRING)
        if attribute is None:
            return default
        return attribute.s.decode("utf-8", errors="replace")

    def tensor(self, name: str) -> np.ndarray | None:
        """A tensor attribute as an array, or None if it is missing. Errors as for tensors.decode."""
        attribute = self._attribute(name, AttributeProto.TENSOR)
        return None if attribute is None else decode(attribute.t)

    def tensors(self) -> list[TensorProto]:
        """The attributes that are tensors, not decoded."""
        return [attribute.t for attribute in self._attributes.values() if attribute.HasField("t")]

    def pair(self, name: str, default: tuple[int, int]) -> tuple[int, int]:
        """An attribute (height, width), or `default` if it is missing. InvalidModel for another length."""
        values = self.integers(name)
        if values is None:
            return default
        if len(values) != 2:
            raise self.invalid(f"attribute {name!r} has {len(values)} numbers, not 2")
        return (values[0], values[1])

    def check_all_read(self) -> None:
        """Raise InvalidModel if an attribute was not read: ignoring it could change the result."""
        if self._unread:
            raise self.invalid(f"attribute {min(self._unread)!r} does not belong to it in operator set {self.opset}")


def nodes_in_order(graph: GraphProto, opset: int) -> list[Node]:
    """The nodes that the outputs depend on, in topological order; otherwise in the file's order.

    InvalidModel for a tensor that is written twice, read but never written, or dependent on itself.
    """
    given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    if len({tensor.name for tensor in graph.initializer}) != len(graph.initializer):
        raise InvalidModel("two initializers have the same name")
    writer: dict[str, int] = {}
    for index, proto in enumerate(graph.node):
        for name in filter(None, proto.output):
            if name in writer or name in given:
                raise InvalidModel(f"the tensor {name!r} is written twice")
            writer[name] = index

    # Backwards from the outputs: the nodes that are needed, and how many others each waits for.
    waiting: dict[int, int] = {}
    readers: dict[int, set[int]] = {}
    todo = []
    for value in graph.output:
        if value.name in writer:
            todo.append(writer[value.name])
        elif value.name not in given:
            raise InvalidModel(f"no node writes the output {value.name!r}")
    while todo:
        index = todo.pop()
        if index in waiting:
            continue
        sources = set()
        for name in filter(None, graph.node[index].input):
            if name in writer:
                sources.add(writer[name])
            elif name not in given:
                raise Node(graph.node[index], opset).invalid(f"it reads {name!r}, which nothing writes")
        waiting[index] = len(sources)
        for source in sources:
            readers.setdefault(source, set()).add(index)
            todo.append(source)

    ready = [index for index, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers.get(index, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    if len(order) != len(waiting):
        stuck = min(set(waiting) - set(order))
        raise Node(graph.node[stuck], opset).invalid("it is part of a cycle, or waits for one")
    return [Node(graph.node[index], opset) for index in order]
