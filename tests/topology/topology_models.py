"""ONNX models written node by node, in the idioms of different exporters and operator sets."""

import numpy as np
from onnx import helper, numpy_helper

IR = {7: 3, 8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10}


class Model:
    """Nodes and constants in the order in which they are asked for, then `build` makes the ModelProto."""

    def __init__(self, opset=13, seed=0, dtype=np.float32, constants_as_nodes=False):
        self.opset, self.dtype, self.constants_as_nodes = opset, dtype, constants_as_nodes
        self.random = np.random.default_rng(seed)
        self.nodes, self.initializers = [], []
        self.count = 0

    def name(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def const(self, array, name=None, dtype=None):
        array = np.asarray(array)
        if array.dtype.kind == "f":
            array = array.astype(dtype or self.dtype)
        name = name or self.name("const")
        tensor = numpy_helper.from_array(array, name)
        if self.constants_as_nodes:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return name

    def ints(self, *values):
        return self.const(np.array(values, np.int64))

    def normal(self, *shape, scale=1.0):
        return self.const(self.random.standard_normal(shape) * scale)

    def op(self, op_type, *inputs, outputs=1, **attributes):
        names = [self.name(op_type.lower()) for _ in range(outputs)]
        node_name = self.name(f"/{op_type}")
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=node_name, **attributes))
        return names[0] if outputs == 1 else names

    # what several models share, in the words of the operator set

    def conv(self, x, i, o, k=3, group=1, bias=True, **attributes):
        kh, kw = (k, k) if isinstance(k, int) else k
        weight = self.normal(o, i // group, kh, kw, scale=(i // group * kh * kw) ** -0.5)
        inputs = [x, weight] + ([self.normal(o)] if bias else [])
        return self.op("Conv", *inputs, kernel_shape=[kh, kw], group=group, **attributes)

    def batch_norm(self, x, channels, **attributes):
        weight, bias, mean = self.normal(channels), self.normal(channels), self.normal(channels)
        var = self.const(self.random.random(channels) + 0.5)
        return self.op("BatchNormalization", x, weight, bias, mean, var, **attributes)

    def clip(self, x, lower, upper):
        if self.opset < 11:
            bounds = {"min": lower, "max": upper}
            return self.op("Clip", x, **{k: float(v) for k, v in bounds.items() if v is not None})
        bounds = ["" if bound is None else self.const(np.array(float(bound))) for bound in (lower, upper)]
        return self.op("Clip", x, *bounds)

    def relu6(self, x):
        return self.clip(x, 0, 6)

    def mean(self, x, *axes, keepdims=1):
        if self.opset < 18:
            return self.op("ReduceMean", x, axes=list(axes), keepdims=keepdims)
        return self.op("ReduceMean", x, self.ints(*axes), keepdims=keepdims)

    def squeeze(self, x, *axes, op_type="Squeeze"):
        if self.opset < 13:
            return self.op(op_type, x, **({"axes": list(axes)} if axes else {}))
        return self.op(op_type, x, *([self.ints(*axes)] if axes else []))

    def unsqueeze(self, x, *axes):
        return self.squeeze(x, *axes, op_type="Unsqueeze")

    def pad(self, x, pads, value=0.0):
        if self.opset < 11:
            return self.op("Pad", x, pads=list(pads), value=value)
        return self.op("Pad", x, self.ints(*pads), self.const(np.array(value)))

    def linear(self, x, i, o, **attributes):
        shape = (o, i) if attributes.get("transB") else (i, o)
        return self.op("Gemm", x, self.normal(*shape, scale=i**-0.5), self.normal(o), **attributes)

    def block(self, x, channels, norm=False):
        """An inverted residual with expansion 2, as PyTorch exports it."""
        hidden = 2 * channels
        y = x
        for i, o, k, group in (
            (channels, hidden, 1, 1),
            (hidden, hidden, 3, hidden),
            (hidden, channels, 1, 1),
        ):
            y = self.conv(y, i, o, k, group, bias=not norm, pads=[k // 2] * 4)
            if norm:
                y = self.batch_norm(y, o, epsilon=1e-3)
            if o == hidden:
                y = self.relu6(y)
        return self.op("Add", x, y)

    def build(self, output, shape=(1, 3, 9, 8), inputs_too=False, elem_type=None, reverse=False):
        """The model from input "x" to `output`; the shape may hold names for open dimensions."""
        elem_type = elem_type or helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        inputs = [helper.make_tensor_value_info("x", elem_type, shape)]
        if inputs_too:  # as files had it before IR version 4
            inputs += [helper.make_tensor_value_info(i.name, i.data_type, list(i.dims)) for i in self.initializers]
        outputs = output if isinstance(output, list | tuple) else [output]
        graph = helper.make_graph(
            self.nodes[::-1] if reverse else self.nodes,
            "hand-written",
            inputs,
            [helper.make_tensor_value_info(name, elem_type, None) for name in outputs],
            self.initializers,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=IR.get(self.opset, 10)
        )


def mobilenet(opset, norm=False, head="gemm", shape=("batch", 3, 17, 15), classes=5, **options):
    """A small MobileNetV2: stem, one inverted residual, and a head in one of the idioms."""
    build = {key: options.pop(key) for key in ("inputs_too",) if key in options}
    m = Model(opset, **options)
    x = m.conv("x", 3, 8, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    x = m.relu6(x)
    x = m.block(x, 8, norm)
    x = m.relu6(m.conv(x, 8, 12, 1))
    if head == "shape-chain":  # x.mean((2, 3)) as a pool, then x.view(x.size(0), -1)
        x = m.op("GlobalAveragePool", x)
        size = m.op("Gather", m.op("Shape", x), m.const(np.array(0)), axis=0)
        target = m.op("Concat", m.unsqueeze(size, 0), m.ints(-1), axis=0)
        x = m.linear(m.op("Reshape", x, target), 12, classes, transB=1)
    elif head == "gemm":
        x = m.op("Dropout", m.op("Flatten", m.op("GlobalAveragePool", x), axis=1))
        x = m.linear(x, 12, classes, transB=1)
    elif head == "mean-mean":  # x.mean(3).mean(2)
        x = m.mean(m.mean(x, 3, keepdims=0), 2, keepdims=0)
        x = m.linear(x, 12, classes, transB=1)
    elif head == "keras":  # pooled with keepdims=0, MatMul + Add, softmax
        x = m.mean(x, -2, -1, keepdims=0)
        x = m.op("Add", m.op("MatMul", x, m.normal(12, classes)), m.normal(classes))
        x = m.op("Softmax", x, axis=-1)
    elif head == "conv":  # a 1×1 convolution as the classifier
        x = m.conv(m.op("GlobalAveragePool", x), 12, classes, 1)
        x = m.squeeze(x, 2, 3)
    return m.build(x, shape, **build)


def keras(opset, relu6=Model.relu6, bias="add"):
    """A Model, and in it the features of a small MobileNetV2 as tf2onnx writes it.

    NHWC outside, SAME_UPPER padding or a Pad before stride 2, biases added.
    """
    m = Model(opset)

    def conv(x, i, o, k, **attributes):
        y = m.conv(x, i, o, k, bias=False, **attributes)
        if bias == "mul-add":
            y = m.op("Mul", y, m.normal(1, o, 1, 1))
        return m.op("Add", y, m.normal(1, o, 1, 1) if bias != "add-3d" else m.normal(o, 1, 1))

    x = m.op("Transpose", "x", perm=[0, 3, 1, 2])
    x = relu6(m, conv(x, 3, 8, 3, strides=[2, 2], auto_pad="SAME_UPPER"))
    y = relu6(m, conv(x, 8, 8, 3, group=8, auto_pad="SAME_UPPER"))
    x = m.op("Add", conv(y, 8, 8, 1, auto_pad="VALID"), x)
    x = m.pad(x, [0, 0, 0, 0, 0, 0, 1, 1])
    x = relu6(m, conv(x, 8, 8, 3, group=8, strides=[2, 2], auto_pad="VALID"))
    return m, x


def nhwc(opset, keepdims):
    """The Keras features, then in NHWC means over axes 1 and 2 and a product along the last axis."""
    m, x = keras(opset)
    x = m.op("Transpose", x, perm=[0, 2, 3, 1])
    x = m.op("Add", x, m.normal(8))  # still by channel, along the last axis
    x = m.mean(x, 1, 2, keepdims=keepdims)
    x = m.op("Add", m.op("MatMul", x, m.normal(8, 5)), m.normal(5))
    return m.build(m.op("Softmax", x, axis=-1 if opset >= 13 else 3 if keepdims else 1), (2, 17, 15, 3))


def branches(opset):
    """Two branches with other layers: pools, gates, concatenation, reshapes and transposes that matter."""
    m = Model(opset)
    x = m.op("Relu", m.conv("x", 3, 4, pads=[1] * 4))
    a = m.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    b = m.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 0], count_include_pad=1)
    gate = m.op("HardSigmoid", m.conv(m.op("GlobalAveragePool", a), 4, 4, 1), alpha=0.25)
    a = m.op("Mul", a, m.op("Sigmoid", gate))
    y = m.op("Concat", a, b, axis=1)
    y = m.op("Transpose", m.clip(y, -1, 2), perm=[0, 2, 3, 1])
    y = m.op("Mul", m.op("Sub", y, m.normal(8)), m.normal(8))
    y = m.op("Reshape", y, m.ints(0, -1, 4))
    y = m.op("Transpose", y, perm=[0, 2, 1])
    return m.build(m.linear(m.op("Flatten", y), 160, 5, alpha=0.5))
