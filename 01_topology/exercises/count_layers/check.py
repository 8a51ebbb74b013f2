"""Writes random graphs whose layers are known, because it counts them as it writes them."""

from collections import Counter

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from common.check import expect
from common.check.trials import Slips, python_random

COUNTED = {
    "Conv": "Conv2d",
    "Clip": "ReLU6",
    "Add": "ResidualAdd",
    "GlobalAveragePool": "GlobalAveragePool",
    "Gemm": "Linear",
    "MatMul": "Linear",
}


class Sketch:
    """A graph in the making, and the layers that it holds so far."""

    def __init__(self):
        self.nodes, self.initializers, self.layers = [], [], Counter()
        self.draw, self.named = python_random(), 0
        self.last = self.op("Identity", "x")

    def name(self):
        """A name that says nothing, and stands in no order."""
        self.named += 1
        return f"{self.draw.choice(['const', 't', 'onnx::Add_', 'bias', 'Conv', '/'])}{self.named}"

    def op(self, op_type, *inputs):
        output = self.name()
        self.nodes.append(helper.make_node(op_type, inputs, [output]))
        return output

    def constant(self, as_node=False):
        name = self.name()
        tensor = numpy_helper.from_array(np.ones((1, 8, 1, 1), np.float32), name)
        if as_node:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return name

    def layer(self, op_type, kind, *constants):
        self.last = self.op(op_type, self.last, *constants)
        self.layers[kind] += 1

    def conv(self):
        self.layer("Conv", "Conv2d", self.constant())

    def residual(self):
        before = self.last
        self.conv()
        self.last = self.op("Add", before, self.last)
        self.layers["ResidualAdd"] += 1

    def bias(self, as_node=False, first=False):
        inputs = [self.last, self.constant(as_node)]
        self.last = self.op("Add", *(reversed(inputs) if first else inputs))

    def both_sides(self):
        """A sum of two constants."""
        self.last = self.op("Add", self.last, self.op("Add", self.constant(True), self.constant()))
        self.layers["ResidualAdd"] += 1

    def unread(self):
        """A residual of one tensor with itself, whose result nobody reads; a Conv without a bias or with one."""
        self.op("Add", self.last, self.last)
        self.layers["ResidualAdd"] += 1
        self.layer("Conv", "Conv2d", self.constant(), self.constant())

    def graph(self):
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", self.last)]
        return helper.make_graph(self.nodes, "sketch", values[:1], values[1:], self.initializers)


def by_operator(graph, constants, kinds=COUNTED):
    """How many layers of each kind, if `constants` are the names of the constants."""
    counts = Counter()
    for node in graph.node:
        if node.op_type in kinds and not (node.op_type == "Add" and constants & {*node.input}):
            counts[kinds[node.op_type]] += 1
    return dict(counts)


def constants_of(graph, nodes=True):
    names = {tensor.name for tensor in graph.initializer}
    return names | {name for node in graph.node if nodes and node.op_type == "Constant" for name in node.output}


def with_zeros(graph):
    return dict.fromkeys(COUNTED.values(), 0) | by_operator(graph, constants_of(graph))


def second_input_alone(graph):
    first = {node.input[0] for node in graph.node if node.op_type == "Add"}
    return by_operator(graph, constants_of(graph) - first)


SLIPS = {
    "an Add of a constant is a bias, not a residual": lambda graph: by_operator(graph, set()),
    "what a Constant node gives out is a constant as well": lambda graph: by_operator(
        graph, constants_of(graph, False)
    ),
    "the constant of an Add may be its first input": second_input_alone,
    "kinds that do not occur stay out of the dict": with_zeros,
    "the dict's keys are the kinds, COUNTED' values, not ONNX's operators": lambda graph: by_operator(
        graph, constants_of(graph), {op: op for op in COUNTED}
    ),
}


def check(count_layers):
    slips = Slips(SLIPS)

    def compare(what, hint, *steps):
        sketch = Sketch()
        for step in steps:
            step(sketch)
        graph = sketch.graph()
        got, want = count_layers(graph), dict(sketch.layers)
        constants = [tensor.name for tensor in graph.initializer]
        constants += [node.output[0] for node in graph.node if node.op_type == "Constant"]
        nodes = ", ".join(
            f"{node.op_type}({', '.join(node.input)})" for node in graph.node if node.op_type != "Constant"
        )
        nodes = nodes if len(nodes) < 500 else f"{nodes[:500]}…"
        what = f"count_layers({what}: {nodes}; constants: {', '.join(constants[:20]) or 'none'})"
        expect(got, want, what=what, hint=slips.hint(got, (graph,), hint))

    hint = "look each node's operator up in COUNTED; kinds that do not occur stay out, and so do other operators"
    compare("a graph without layers", hint)
    compare("a convolution", hint, Sketch.conv)
    compare("two convolutions and a Clip", "every node counts, each time", Sketch.conv, Sketch.conv, clip)
    compare("a classifier", "Gemm and MatMul are both Linear", pool, gemm, matmul)
    compare("a residual block", "an Add of two computed tensors is a ResidualAdd", Sketch.conv, Sketch.residual)
    hint = "an Add of an initializer is a bias, not a residual"
    compare("a convolution and its bias", hint, Sketch.conv, Sketch.bias)
    hint = "the constant of an Add may be its first input"
    compare("a bias on the left", hint, Sketch.conv, lambda s: s.bias(first=True))
    hint = "what a Constant node gives out is a constant as well"
    compare("a bias from a Constant node", hint, Sketch.conv, lambda s: s.bias(as_node=True))

    steps = [Sketch.conv, Sketch.residual, Sketch.bias, clip, pool, gemm, matmul]
    steps += [lambda s: s.bias(True, True), lambda s: s.bias(False, True)]
    steps += [Sketch.both_sides, Sketch.unread, relu]
    draw = python_random()
    for count in (1, 2, 5, 12, 12, 12, 12, 12, 300):
        hint = "one for each node whose operator COUNTED has, but for an Add with a constant on either side"
        compare("a random graph", hint, *draw.choices(steps, k=count))


def clip(sketch):
    sketch.layer("Clip", "ReLU6")


def relu(sketch):
    sketch.last = sketch.op("Relu", sketch.last)


def pool(sketch):
    sketch.layer("GlobalAveragePool", "GlobalAveragePool")


def gemm(sketch):
    sketch.layer("Gemm", "Linear", sketch.constant())


def matmul(sketch):
    sketch.layer("MatMul", "Linear", sketch.constant())
