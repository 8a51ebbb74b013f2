"""Writes random graphs whose layers are known, because it counts them as it writes them."""

import random
from collections import Counter

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from common.check import expect


class Sketch:
    """A graph in the making, and the layers that it holds so far."""

    def __init__(self):
        self.nodes, self.initializers, self.layers = [], [], Counter()
        self.last = self.op("Identity", "x")

    def op(self, op_type, *inputs):
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output]))
        return output

    def constant(self, as_node=False):
        name = f"c{len(self.nodes)}_{len(self.initializers)}"
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

    def graph(self):
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", self.last)]
        return helper.make_graph(self.nodes, "sketch", values[:1], values[1:], self.initializers)


def check(count_layers):
    def compare(what, hint, *steps):
        sketch = Sketch()
        for step in steps:
            step(sketch)
        expect(count_layers(sketch.graph()), dict(sketch.layers), what=f"count_layers({what})", hint=hint)

    hint = "look each node's operator up in KINDS; kinds that do not occur stay out, and so do other operators"
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
    for _ in range(10):
        chosen = random.Random().choices(steps, k=12)
        compare("a random graph", "all of it together, in any order", *chosen)


def clip(sketch):
    sketch.layer("Clip", "ReLU6")


def pool(sketch):
    sketch.layer("GlobalAveragePool", "GlobalAveragePool")


def gemm(sketch):
    sketch.layer("Gemm", "Linear", sketch.constant())


def matmul(sketch):
    sketch.layer("MatMul", "Linear", sketch.constant())
