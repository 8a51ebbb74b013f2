"""Random networks in QDQ form, written node by node as ONNX Runtime's and PyTorch's tools write them."""

import math

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

IR_VERSION = 8


def session(model, disabled=()):
    """An ONNX Runtime session on one thread, in exact integers also on processors without VNNI.

    disabled: names of its graph optimizers that are left out.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"], disabled_optimizers=disabled
    )


def onnx_runtime(model, x):
    """What ONNX Runtime makes of x: the first output."""
    one = session(model)
    return one.run(None, {one.get_inputs()[0].name: x})[0]


class Network:
    """A random network: nodes over named tensors in float32, and the same in QDQ form once ranges are known."""

    def __init__(self, rng, batch=4):
        self.rng = rng
        self.opset = int(rng.choice([13, 17, 19, 21]))
        size = int(rng.integers(5, 12))
        self.shapes = {"x": (batch, int(rng.integers(1, 5)), size, size + int(rng.integers(0, 3)))}
        self.ops = []  # (op_type, inputs, output, weight, bias, attributes)
        self.last = "x"
        self.fills = {}

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def op(self, op_type, inputs, shape, weight=None, bias=None, **attributes):
        name = f"{op_type.lower()}{len(self.ops)}"
        self.ops.append((op_type, tuple(inputs), name, weight, bias, attributes))
        self.shapes[name] = tuple(shape)
        self.last = name
        return name

    def conv(self, out_channels=None, k=None, stride=None, depthwise=False):
        n, c, h, w = self.shapes[self.last]
        k = k or self.pick(1, 3, 3)
        k = min(k, h, w)
        stride = stride or (self.pick(1, 1, 2) if min(h, w) > 3 else 1)
        pad = k // 2 if k > 1 and self.rng.random() < 0.8 else 0
        group = c if depthwise else 1
        o = c if depthwise else out_channels or int(self.rng.integers(2, 17))
        weight = self.rng.standard_normal((o, c // group, k, k)) / math.sqrt(c // group * k * k)
        weight *= np.exp(self.rng.standard_normal((o, 1, 1, 1)) * 0.7)  # channels of different ranges
        bias = self.rng.standard_normal(o) * 0.3 if self.rng.random() < 0.8 else None
        extent = [(e + 2 * pad - k) // stride + 1 for e in (h, w)]
        given = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [pad] * 4, "group": group}
        return self.op("Conv", [self.last], (n, o, *extent), weight, bias, **given)

    def clamp(self):
        kind = self.pick("Relu", "Clip", "Clip", None)
        if kind:
            self.op(kind, [self.last], self.shapes[self.last])
        return self.last

    def residual(self):
        before, shape = self.last, self.shapes[self.last]
        self.conv(out_channels=shape[1], k=self.pick(1, 3), stride=1)
        if self.shapes[self.last] == shape:
            self.op(self.pick("Add", "Add", "Mul"), [before, self.last], shape)
            if self.rng.random() < 0.3:
                self.clamp()

    def branches(self):
        source, parts = self.last, []
        for _ in range(2):
            self.last = source
            parts.append(self.conv(k=1, stride=1))
        n, _, h, w = self.shapes[parts[0]]
        self.op("Concat", parts, (n, sum(self.shapes[p][1] for p in parts), h, w), axis=1)

    def pool(self):
        n, c, h, w = self.shapes[self.last]
        if min(h, w) < 3:
            return
        kind, k, pad = self.pick("MaxPool", "AveragePool"), self.pick(2, 3), self.pick(0, 1)
        extent = [(e + 2 * pad - k) // 2 + 1 for e in (h, w)]
        given = {"kernel_shape": [k, k], "strides": [2, 2], "pads": [pad] * 4}
        if kind == "AveragePool" and pad:
            given["count_include_pad"] = self.pick(0, 1)
        self.op(kind, [self.last], (n, c, *extent), **given)

    def function(self):
        kinds = ["Sigmoid", "LeakyRelu", "HardSwish"][: 3 if self.opset >= 14 else 2]
        self.op(self.pick(*kinds), [self.last], self.shapes[self.last])

    def head(self):
        n, c, h, w = self.shapes[self.last]
        if self.rng.random() < 0.7:
            self.op("GlobalAveragePool", [self.last], (n, c, 1, 1))
            h = w = 1
        self.op("Flatten", [self.last], (n, c * h * w), axis=1)
        classes, features = int(self.rng.integers(3, 12)), c * h * w
        weight = self.rng.standard_normal((classes, features)) / math.sqrt(features)
        bias = self.rng.standard_normal(classes)
        kind = self.pick("Gemm", "Gemm", "MatMul")
        if kind == "Gemm" and self.rng.random() < 0.7:
            self.op("Gemm", [self.last], (n, classes), weight, bias, transB=1)
        else:
            self.op(kind, [self.last], (n, classes), weight.T, bias if kind == "Gemm" else None)

    @classmethod
    def random(cls, rng):
        """A stem, some blocks, and often a classifier."""
        self = cls(rng)
        self.conv()
        self.clamp()
        for _ in range(int(rng.integers(1, 5))):
            block = self.pick("plain", "plain", "depthwise", "residual", "residual", "branches", "pool", "function")
            if block in ("plain", "depthwise"):
                self.conv(depthwise=block == "depthwise")
                self.clamp()
            else:
                getattr(self, block)()
        if rng.random() < 0.8:
            self.head()
        return self

    # In float32

    def float_model(self):
        """The network in float32, with every tensor as an output, to find ranges."""
        nodes, constants = [], []
        for op_type, inputs, output, weight, bias, attributes in self.ops:
            names = list(inputs)
            for what, array in (("weight", weight), ("bias", bias)):
                if array is not None:
                    names.append(f"{output}.{what}")
                    constants.append(numpy_helper.from_array(array.astype(np.float32), names[-1]))
            nodes.append(self._node(op_type, names, output, attributes, constants))
        return self._model(nodes, constants, [op[2] for op in self.ops])

    def _node(self, op_type, names, output, attributes, constants):
        if op_type == "Clip":
            for bound, value in (("low", 0.0), ("high", 6.0)):
                names.append(f"{output}.{bound}")
                constants.append(numpy_helper.from_array(np.float32(value), names[-1]))
        return helper.make_node(op_type, names, [output], name=f"/{output}", **attributes)

    def _model(self, nodes, constants, outputs):
        def value(name, shape):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape[1:]])

        given = [value("x", self.shapes["x"])]
        results = [value(name, self.shapes[name.removesuffix(".dq")]) for name in outputs]
        graph = helper.make_graph(nodes, "random", given, results, constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9 if self.opset > 17 else IR_VERSION
        )

    def inputs(self, count=None):
        n, *shape = self.shapes["x"]
        return self.rng.standard_normal((count or n, *shape)).astype(np.float32)

    # In QDQ form

    def quantized_model(self):
        """(model, step of the output): in QDQ form, in one of the styles that tools write."""
        rng, x = self.rng, self.inputs()
        found = session(self.float_model()).run(None, {"x": x})
        values = {"x": x} | dict(zip([op[2] for op in self.ops], found, strict=True))
        self.dtype = self.pick(np.uint8, np.uint8, np.int8)
        self.nodes, self.constants = [], []
        self.symmetric = rng.random() < 0.25  # activations with the zero point in the middle
        self.float_bias, self.per_channel = rng.random() < 0.3, rng.random() < 0.6
        self.weight_style = self.pick("int8", "int8", "asymmetric", "uint8")
        clamps = rng.random() < 0.5  # whether a Relu or Clip after a convolution stays a node
        self.scales = {}
        readers = [name for op in self.ops for name in op[1]]

        self._quantized("x", values["x"])
        skipped = {}
        for i, (op_type, inputs, output, weight, bias, attributes) in enumerate(self.ops):
            after = self.ops[i + 1] if i + 1 < len(self.ops) else None
            fuses = after and after[0] in ("Relu", "Clip") and after[1] == (output,) and readers.count(output) == 1
            fuses = fuses and op_type in ("Conv", "Add", "Mul")
            source = [skipped.get(name, f"{name}.dq") for name in inputs]
            constants = self.constants
            if op_type in ("Relu", "Clip") and inputs[0] in skipped and not clamps and not self.symmetric:
                # left out: the grid saturates as it would
                del skipped[inputs[0]]
                self.nodes[-1].output[0] = output
                self._quantized(output, np.maximum(values[output], 0), most=6.0 if op_type == "Clip" else None)
                continue
            names = list(source)
            if weight is not None:
                names.append(
                    self._weight(output, weight, transposed=op_type != "Conv" and not attributes.get("transB"))
                )
            if bias is not None:
                names.append(self._bias(output, bias, inputs[0]))
            self.nodes.append(self._node(op_type, names, output, attributes, constants))
            if fuses:
                skipped[output] = output  # read in float32 by its clamp
            elif op_type in ("MaxPool", "Flatten"):
                self._quantized(output, values[output], like=inputs[0])
            else:
                self._quantized(output, values[output])
        last = f"{self.ops[-1][2]}.dq"
        return self._model(self.nodes, self.constants, [last]), self.scales[self.ops[-1][2]][0]

    def _constant(self, name, array):
        if self.rng.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.constants.append(numpy_helper.from_array(array, name))
        return name

    def _quantized(self, name, values, like=None, most=None):
        info = np.iinfo(self.dtype)
        if like is not None:
            scale, point = self.scales[like]
        else:
            low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
            high = high if most is None else min(high, most)
            if self.symmetric:
                high = max(-low, high)
                low = -high
            scale = np.float32(max((high - low) / 255, 1e-4))
            if most is not None:
                scale = np.nextafter(np.nextafter(scale, np.float32(0)), np.float32(0))
            point = int(np.clip(round(info.min - low / float(scale)), info.min, info.max))
        self.scales[name] = (scale, point)
        names = [self._constant(f"{name}.scale", np.array(scale, np.float32))]
        if point or self.dtype is np.int8 or self.rng.random() < 0.5:
            names.append(self._constant(f"{name}.point", np.array(point, self.dtype)))
        self.nodes.append(helper.make_node("QuantizeLinear", [name, *names], [f"{name}.q"], name=f"/{name}.q"))
        self.nodes.append(
            helper.make_node("DequantizeLinear", [f"{name}.q", *names], [f"{name}.dq"], name=f"/{name}.dq")
        )

    def _weight(self, output, weight, transposed):
        rows = weight.T if transposed else weight
        flat = rows.reshape(len(rows), -1)
        if not self.per_channel:
            flat = flat.reshape(1, -1)
        if self.weight_style == "int8":
            dtype, scale = np.int8, np.abs(flat).max(1) / 127
            points = np.zeros(len(flat), np.int8)
        else:
            dtype = np.int8 if self.weight_style == "asymmetric" else np.uint8
            low, high = np.minimum(flat.min(1), 0), np.maximum(flat.max(1), 0)
            scale = (high - low) / 255
            points = np.rint(np.iinfo(dtype).min - low / scale).astype(dtype)
        scale = scale.astype(np.float32)
        shape = (-1,) + (1,) * (rows.ndim - 1)
        codes = np.rint(rows / scale.reshape(shape)) + points.reshape(shape)
        codes = codes.clip(np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
        codes = np.ascontiguousarray(codes.T) if transposed else codes
        axis = {"axis": 1 if transposed else 0} if self.per_channel else {}
        self.weight_scale = scale
        given = scale if self.per_channel else scale[0], points if self.per_channel else points[0]
        names = [
            self._constant(f"{output}.weight.codes", codes),
            self._constant(f"{output}.weight.scale", np.array(given[0], np.float32)),
            self._constant(f"{output}.weight.point", np.array(given[1], dtype)),
        ]
        self.nodes.append(helper.make_node("DequantizeLinear", names, [f"{output}.weight"], **axis))
        return f"{output}.weight"

    def _bias(self, output, bias, source):
        if self.float_bias:
            return self._constant(f"{output}.bias", bias.astype(np.float32))
        scale = (np.float32(self.scales[source][0]) * self.weight_scale).astype(np.float32)
        scale = scale if self.per_channel else scale[:1].reshape(())
        codes = np.rint(bias / scale).astype(np.int32)
        names = [
            self._constant(f"{output}.bias.codes", codes),
            self._constant(f"{output}.bias.scale", np.array(scale)),
            self._constant(f"{output}.bias.point", np.zeros_like(scale, np.int32)),
        ]
        axis = {"axis": 0} if self.per_channel else {}
        self.nodes.append(helper.make_node("DequantizeLinear", names, [f"{output}.bias"], **axis))
        return f"{output}.bias"


def random_network(seed):
    """(model in QDQ form, pictures, step of the output) of a seed."""
    network = Network.random(np.random.default_rng(seed))
    model, step = network.quantized_model()
    return model, network.inputs(8), float(step)
