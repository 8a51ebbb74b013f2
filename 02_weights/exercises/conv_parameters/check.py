import numpy as np
from onnx import helper, numpy_helper

from common.check import expect
from common.check.trials import python_random


def graph_of(nodes, names):
    tensors = [numpy_helper.from_array(np.zeros(1, np.float32), name) for name in names]
    made = [helper.make_node(op, inputs, [output], name=name) for op, inputs, output, name in nodes]
    return helper.make_graph(made, "exercise", [], [], tensors)


def check(conv_parameters):
    def compare(graph, want, hint):
        got = conv_parameters(graph)
        nodes = ", ".join(f"{node.op_type}({', '.join(node.input)}) → {node.output[0]}" for node in graph.node[:6])
        more = ", …" * (len(graph.node) > 6)
        expect(got, want, what=f"conv_parameters of {nodes}{more}", hint=hint)

    one = graph_of([("Conv", ["x", "a.weight", "a.bias"], "y", "first")], ["a.weight", "a.bias"])
    compare(one, {"y": ("a.weight", "a.bias")}, "the key is node.output[0], the inputs are x, weight, bias")

    nodes = [
        ("Conv", ["x", "a.weight", "a.bias"], "y", "first"),
        ("Conv", ["y", "b.weight", "b.bias"], "z", "second"),
    ]
    want = {"y": ("a.weight", "a.bias"), "z": ("b.weight", "b.bias")}
    hint = "the initializers come in any order: only a node's inputs say which of them it reads"
    compare(graph_of(nodes, ["b.bias", "a.bias", "b.weight", "a.weight"]), want, hint)
    compare(graph_of(nodes, ["b.weight", "b.bias", "a.weight", "a.bias"]), want, hint)

    nodes = [("Conv", ["x", "onnx::Conv_517", "onnx::Conv_518"], "y", ""), ("Conv", ["y", "w", "v"], "z", "")]
    want = {"y": ("onnx::Conv_517", "onnx::Conv_518"), "z": ("w", "v")}
    hint = "exporters give any names, and nodes may have none: do not read a meaning into them"
    compare(graph_of(nodes, ["w", "onnx::Conv_518", "v", "onnx::Conv_517"]), want, hint)

    without = graph_of([("Conv", ["x", "w"], "y", ""), ("Conv", ["y", "v", ""], "z", "")], ["v", "w"])
    hint = "a bias is optional: it is None where there is no third input, and where that is an empty string"
    compare(without, {"y": ("w", None), "z": ("v", None)}, hint)

    nodes = [
        ("Conv", ["x", "w", "b"], "y", "conv"),
        ("Clip", ["y", "low", "high"], "clipped", "relu6"),
        ("Gemm", ["clipped", "classifier.weight", "classifier.bias"], "scores", "linear"),
    ]
    graph = graph_of(nodes, ["low", "high", "w", "b", "classifier.weight", "classifier.bias"])
    hint = "only nodes whose op_type is Conv: Gemm and Clip have three inputs as well"
    compare(graph, {"y": ("w", "b")}, hint)
    # one weight for two convolutions
    nodes = [("Conv", ["x", "w", "b"], "y", ""), ("Conv", ["y", "w", "c"], "z", "")]
    hint = "two convolutions may read the same weight"
    compare(graph_of(nodes, ["w", "c", "b"]), {"y": ("w", "b"), "z": ("w", "c")}, hint)
    hint = "a convolution of nothing else is one, and a graph may have none"
    compare(graph_of([("Relu", ["x"], "y", "")], []), {}, hint)

    draw = python_random()
    hint = "for each Conv node: the name that it writes, and its second and third input; None for no bias"
    for count in (1, 3, 10, 60):
        names = [f"{draw.choice(['w', 'b', 'x.bias', 'bn.weight', '/Conv', ''])}{i}" for i in range(4 * count)]
        draw.shuffle(names)
        nodes, want, tensors = [], {}, []
        for i in range(count):
            read, written, weight, bias = names[4 * i : 4 * i + 4]
            op = draw.choice(["Conv", "Conv", "Gemm", "ConvTranspose", "BatchNormalization"])
            inputs, found = draw.choice(
                [([read, weight, bias], bias), ([read, weight], None), ([read, weight, ""], None)]
            )
            nodes.append((op, inputs, written, draw.choice(["", "conv", written])))
            tensors += [name for name in inputs[1:] if name]
            if op == "Conv":
                want[written] = (weight, found)
        draw.shuffle(tensors)
        compare(graph_of(nodes, tensors), want, hint)
