# -- part: layers
"""An ONNX file as a list of layers."""

from collections import Counter
from dataclasses import dataclass, field
from math import inf, prod

import onnx
from onnx import helper, numpy_helper


@dataclass
class Layer:
    op: str  # "Conv2d", "ReLU6", "ResidualAdd", …
    inputs: list[str]  # the tensors that it reads
    output: str  # the tensor that it writes
    weights: dict = field(default_factory=dict)  # role → name in the file: {"weight": "w1"}
    attributes: dict = field(default_factory=dict)  # stride, padding, dilation, groups, eps, …
    shape: tuple = ()  # of the output, batch first
    macs: int = 0  # multiply-adds
    bytes: int = 0  # inputs, weights and output, once each, 4 bytes per number


@dataclass
class Graph:
    input: str
    input_shape: tuple
    output: str
    layers: list[Layer]


# -- part: constants
def attributes(node):
    """A node's attributes by name: numbers, lists, arrays as a TensorProto, texts as bytes."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def value_of(node):
    """The TensorProto of a Constant node; ValueError for one that stores a value otherwise."""
    if "value" not in attributes(node):
        raise ValueError(f"node {node.name!r} (Constant): no attribute 'value'")
    return attributes(node)["value"]


def constants(onnx_graph):
    """The tensors of known value: a dict from each name to a NumPy array.

    numpy_helper.to_array(tensor) makes a NumPy array of a TensorProto.
    """
    # BEGIN SOLUTION
    # write: a dict from name to array, from initializers, Constant nodes, Identity nodes
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx_graph.initializer}
    for node in onnx_graph.node:
        if node.op_type == "Constant":
            known[node.output[0]] = numpy_helper.to_array(value_of(node))
        elif node.op_type == "Identity" and node.input[0] in known:
            known[node.output[0]] = known[node.input[0]]
    return known
    # END SOLUTION


# -- part: clip_bounds
def clip_bounds(node, known):
    """The bounds (lower, upper) of a Clip node as floats; −inf or inf where one is not given.

    node        onnx.NodeProto. Up to operator set 10 the bounds are the attributes "min" and
                "max". From 11 on they are its second and third input; one that is left out is
                named "", or the list of inputs ends before it
    known       the model's constants by name, NumPy arrays of shape (): one number each
    """
    lower, upper = float("-inf"), float("inf")
    for attribute in node.attribute:
        if attribute.name == "min":
            lower = attribute.f
        elif attribute.name == "max":
            upper = attribute.f
    # BEGIN SOLUTION
    # write: the bounds from the second and third input
    names = [*node.input, "", ""]
    if names[1]:
        lower = float(known[names[1]])
    if names[2]:
        upper = float(known[names[2]])
    # END SOLUTION
    return lower, upper


# -- part: kind
KINDS = {
    "Conv": "Conv2d", "BatchNormalization": "BatchNorm2d", "Relu": "ReLU",
    "Add": "ResidualAdd", "MaxPool": "MaxPool2d", "GlobalAveragePool": "GlobalAveragePool",
    "Concat": "Concat", "Gemm": "Linear", "MatMul": "Linear",
}  # fmt: skip
NO_LAYER = ("Constant", "Flatten", "Reshape", "Squeeze", "Identity", "Dropout")
ONLY = {"ceil_mode": 0, "alpha": 1, "beta": 1, "transA": 0, "axis": 1}  # the allowed values


def kind(node, known):
    """The kind of layer that a node is; "" for NO_LAYER, "bias" for an Add of a constant.

    known: the constants by name. ValueError for a node that no layer computes.
    """
    op, a = node.op_type, attributes(node)
    second = known.get(node.input[1], ()) if len(node.input) > 1 else ()  # its array, or ()
    wrong = [f"{name} = {a[name]}" for name in ONLY if a.get(name, ONLY[name]) != ONLY[name]]
    if wrong or (op == "Reshape" and len(second) != 2):
        raise ValueError(f"node {node.name!r} ({op}): no layer has {wrong or 'this shape'}")
    clips = {(0, 6): "ReLU6", (0, inf): "ReLU"}
    if op == "Clip" and clip_bounds(node, known) in clips:
        return clips[clip_bounds(node, known)]
    # BEGIN SOLUTION
    # write: the cases of ReduceMean and Add
    if op == "ReduceMean":
        axes = a.get("axes", second)
        if sorted(axis % 4 for axis in axes) == [2, 3]:
            return "GlobalAveragePool"
    if op == "Add" and any(name in known for name in node.input):
        return "bias"
    # END SOLUTION
    if op in NO_LAYER:
        return ""
    if op not in KINDS:
        raise ValueError(f"node {node.name!r} ({op}): no layer computes this")
    return KINDS[op]


# -- part: check_bias
def check_bias(node, layers, readers):
    """ValueError unless this Add directly follows a Conv2d or Linear without a bias.

    layers: by the tensor that they write. readers: how many times each tensor is read.
    """
    for name in node.input:
        layer = layers.get(name)
        takes = layer and layer.op in ("Conv2d", "Linear") and "bias" not in layer.weights
        if takes and readers[name] == 1:  # no other node needs the numbers without the bias
            return
    raise ValueError(f"node {node.name!r} (Add): its constant is no layer's bias")


# -- part: walk
ROLES = {
    "Conv2d": ("weight", "bias"), "Linear": ("weight", "bias"),
    "BatchNorm2d": ("gamma", "beta", "mean", "var"),
}  # fmt: skip


def walk(onnx_graph, known):
    """The Graph of an ONNX graph: each layer with op, inputs, output and weights, in order.

    known: the constants by name. A batch size that the file leaves open becomes 1.
    """
    layers = {}  # by the tensor that they write
    same = {}  # a tensor that no layer writes → the tensor with the same numbers
    (output,) = (value.name for value in onnx_graph.output)
    readers = Counter([output, *(name for node in onnx_graph.node for name in node.input)])
    for node in onnx_graph.node:
        op = kind(node, known)
        names = [same.get(name, name) for name in node.input if name in known]
        if node.op_type == "Identity" and names:
            same[node.output[0]] = names[0]
        if op == "bias":
            check_bias(node, layers, readers)
        # BEGIN SOLUTION
        # write: steps 1 to 4
        inputs = [same.get(name, name) for name in node.input if name and name not in known]
        if op in ("", "bias") and inputs:
            same[node.output[0]] = inputs[0]
        if op == "bias":
            layers[inputs[0]].weights["bias"] = names[0]
        elif op:
            weights = dict(zip(ROLES.get(op, ()), names, strict=False))
            layers[node.output[0]] = Layer(op, inputs, node.output[0], weights)
        # END SOLUTION
    source = next(value for value in onnx_graph.input if value.name not in known)
    batch, *sizes = (dim.dim_value for dim in source.type.tensor_type.shape.dim)
    if not all(sizes):
        raise ValueError(f"input {source.name!r}: the file leaves a size open: {sizes}")
    shape = (batch or 1, *sizes)
    return Graph(source.name, shape, same.get(output, output), list(layers.values()))


# -- part: same_padding
def same_padding(size, kernel, stride, upper=True):
    """The padding (before, after) of SAME_UPPER, or of SAME_LOWER if `upper` is False.

    With this padding, `size` inputs give ⌈size / stride⌉ outputs. No smaller total does. If
    the total is odd, UPPER puts the larger half after the input, LOWER before it.
    """
    # BEGIN SOLUTION
    # write: the padding before and after
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)
    # END SOLUTION


# -- part: window
def window(a, size, kernel):
    """What a convolution or pooling with the attributes `a` does, and its output's size.

    size, kernel: (height, width). Returns ({"stride": (vertical, horizontal), "dilation": …,
    "padding": ((top, bottom), (left, right))}, (output height, output width)).
    """
    stride, dilation = tuple(a.get("strides", (1, 1))), tuple(a.get("dilations", (1, 1)))
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    top, left, bottom, right = a.get("pads", (0, 0, 0, 0))
    auto = a.get("auto_pad", b"NOTSET")
    # BEGIN SOLUTION
    # write: padding (`auto` may ask for same_padding), and count
    padding = ((top, bottom), (left, right))
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        upper = auto == b"SAME_UPPER"
        padding = tuple(same_padding(size[i], extent[i], stride[i], upper) for i in (0, 1))
    count = tuple((size[i] + sum(padding[i]) - extent[i]) // stride[i] + 1 for i in (0, 1))
    # END SOLUTION
    return {"stride": stride, "dilation": dilation, "padding": padding}, count


# -- part: describe
def describe(layer, a, shapes, known):
    """Fill in layer.attributes and layer.shape, from its node's attributes `a`.

    shapes: of the input and of the layers' outputs so far, by name; known: the constants.
    """
    n, channels, *size = shapes[layer.inputs[0]]
    layer.shape = shapes[layer.inputs[0]]  # kept by ReLU6, ReLU, ResidualAdd and BatchNorm2d
    if layer.op == "BatchNorm2d":
        layer.attributes = {"eps": a.get("epsilon", 1e-5)}
    elif layer.op == "MaxPool2d":
        layer.attributes, size = window(a, size, a["kernel_shape"])
        layer.attributes["kernel_size"] = tuple(a["kernel_shape"])
        layer.shape = (n, channels, *size)
    elif layer.op == "GlobalAveragePool":
        layer.shape = (n, channels, 1, 1)
    elif layer.op == "Concat":
        layer.shape = (n, sum(shapes[name][1] for name in layer.inputs), *size)
    elif layer.op == "Conv2d":
        # BEGIN SOLUTION
        # write: layer.attributes (groups too) and layer.shape
        out_channels, _, *kernel = known[layer.weights["weight"]].shape
        layer.attributes, size = window(a, size, kernel)
        layer.attributes["groups"] = a.get("group", 1)
        layer.shape = (n, out_channels, *size)
        # END SOLUTION
    elif layer.op == "Linear":
        # BEGIN SOLUTION
        # write: layer.attributes (transposed) and layer.shape
        transposed = not a.get("transB", 0)  # (in, out) in the file
        layer.attributes = {"transposed": transposed}
        layer.shape = (n, known[layer.weights["weight"]].shape[1 if transposed else 0])
        # END SOLUTION


# -- part: cost
def cost(layer, shapes, known):
    """Fill in layer.macs and layer.bytes. shapes: of all tensors; known: the constants."""
    sizes = {role: known[name].size for role, name in layer.weights.items()}
    arrays = {name: known[name].size for name in layer.weights.values()}  # once each
    activations = sum(prod(shapes[name]) for name in [*layer.inputs, layer.output])
    layer.bytes = 4 * (activations + sum(arrays.values()))
    if layer.op in ("Conv2d", "Linear"):
        # BEGIN SOLUTION
        # write: layer.macs
        layer.macs = prod(layer.shape) * (sizes["weight"] // layer.shape[1])
        # END SOLUTION


# -- part: read
def read(model):
    """The Graph of an ONNX model, a path or an onnx.ModelProto: walk's, with all fields."""
    model = model if isinstance(model, onnx.ModelProto) else onnx.load(model)
    known = constants(model.graph)
    net = walk(model.graph, known)
    nodes = {node.output[0]: node for node in model.graph.node}  # by the tensor they write
    shapes = {net.input: net.input_shape}
    # BEGIN SOLUTION
    # write: describe each layer, note its shape in shapes, compute its cost
    for layer in net.layers:
        describe(layer, attributes(nodes[layer.output]), shapes, known)
        shapes[layer.output] = layer.shape
        cost(layer, shapes, known)
    # END SOLUTION
    return net


# -- part: hard_swish
KINDS["HardSwish"] = "HardSwish"  # ONNX's operator → the kind of layer
