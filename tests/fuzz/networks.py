"""Random valid ONNX networks, and who is right where two programs do not agree on one."""

import contextlib
import copy
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from topology_models import Model

BOUND = 1e-5  # of the relative error, as documented
ROUNDING = 1e-4  # an error of ONNX Runtime below this is rounding, above it a mistake
OPSETS = range(9, 22)

# How the network is run, in turn
WAYS: dict[str, dict[str, str]] = {
    "NCHW": {"layout": "NCHW"},
    "NHWC": {"layout": "NHWC"},
    "latency": {"optimize": "latency"},
    "throughput": {"optimize": "throughput"},
}

# What no network is refused for, as `spelled` has it
NAMED = {
    *("Conv.auto_pad", "Conv.dilations", "Conv.group", "Conv.pads asymmetric", "Conv.strides", "BatchNormalization"),
    *("MaxPool.auto_pad", "MaxPool.ceil_mode", "MaxPool.dilations", "MaxPool.pads asymmetric", "GlobalAveragePool"),
    *("AveragePool.auto_pad", "AveragePool.ceil_mode", "AveragePool.count_include_pad", "ReduceMean"),
    *("Gemm.transB", "Gemm.alpha", "Gemm.beta", "MatMul", "Flatten", "Reshape", "Squeeze", "Transpose"),
    *("Add", "Sub", "Mul", "Div", "Sum", "Concat", "Pad", "Clip", "Relu", "Sigmoid", "HardSigmoid", "HardSwish"),
    *("ConvTranspose", "InstanceNormalization", "LayerNormalization", "Resize"),
    *("Tanh", "LeakyRelu", "Elu", "Softmax", "Identity", "Dropout", "Shape", "Gather", "Unsqueeze", "Constant"),
}


class Network(Model):
    """A network under construction: features are drawn and appended one by one. x: the last tensor, of `shape`."""

    def __init__(self, r: np.random.Generator):
        super().__init__(int(r.choice(OPSETS)), constants_as_nodes=bool(r.random() < 0.2))
        self.r, self.random = r, r
        self.exotic: set[str] = set()
        self.fixed_batch = False
        self.input_shape = (
            int(r.integers(1, 4)),
            int(r.choice([1, 2, 3, 4, 6, 8, 12, 16])),
            int(r.integers(1, 17)),
            int(r.integers(1, 17)),
        )
        self.x, self.shape = "x", self.input_shape

    def pick(self, *choices):
        return choices[int(self.r.integers(len(choices)))]

    def chance(self, p: float = 0.5) -> bool:
        return bool(self.r.random() < p)

    def add(self, op_type: str, *inputs: str, shape: tuple[int, ...] | None = None, **attributes) -> str:
        """Append an operator on x, or on `inputs`; its result is the new x."""
        self.x = self.op(op_type, *(inputs or (self.x,)), **attributes)
        self.shape = self.shape if shape is None else shape
        return self.x

    # Windows

    def window(self, most: int = 5, dilated: bool = True, below_kernel: bool = False):
        """(kernel, attributes without kernel_shape, output height and width), or None if no such window fits.

        below_kernel: of pools, whose padding is smaller than the window.
        """
        kernel, strides, dilations, pads = [], [], [], [0, 0, 0, 0]
        mode = self.pick("NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
        square = self.pick(1, 2, 3, 3, most)
        out = []
        for axis in range(2):
            size = self.shape[2 + axis]
            k = square if self.chance(0.7) else int(self.r.integers(1, most + 1))
            s = self.pick(1, 1, 1, 2, 3)
            # ONNX Runtime refuses dilated SAME convolutions and gives dilated SAME pools another size,
            # and a dilated pool of a single pixel may have its taps in the padding alone
            alone = mode.startswith("SAME") or (below_kernel and size == 1)
            d = self.pick(1, 1, 1, 2) if dilated and not alone else 1
            if mode == "NOTSET" and self.chance(0.7):
                room = k - 1 if below_kernel else k
                pads[axis], pads[2 + axis] = (int(n) for n in self.r.integers(0, room + 1, 2))
            if mode.startswith("SAME") and below_kernel:
                s = min(
                    s, k
                )  # else the formula's padding is negative: ONNX Runtime crops or refuses, PyTorch pads by 0
            reach = d * (k - 1) + 1
            if mode.startswith("SAME"):
                out.append(-(-size // s))
            else:
                covered = size + pads[axis] + pads[2 + axis] - reach
                if covered < 0:
                    return None
                out.append(covered // s + 1)
            kernel.append(k)
            strides.append(s)
            dilations.append(d)
        attributes: dict[str, object] = {}
        if mode != "NOTSET" or self.chance(0.1):
            attributes["auto_pad"] = mode
        if mode == "NOTSET" and (any(pads) or self.chance()):
            attributes["pads"] = pads
        if strides != [1, 1] or self.chance():
            attributes["strides"] = strides
        if dilations != [1, 1]:
            attributes["dilations"] = dilations
        return kernel, attributes, tuple(out)

    def convolution(self) -> None:
        made = self.window()
        if made is None:
            return
        kernel, attributes, size = made
        n, c = self.shape[:2]
        group = self.pick(1, 1, c, *(d for d in range(1, c + 1) if c % d == 0))
        out = group * int(self.r.integers(1, max(2, 24 // group)))
        if group == c and self.chance(0.8):
            out = c
        self.x = self.conv(self.x, c, out, tuple(kernel), group, bias=self.chance(), **attributes)
        self.shape = (n, out, *size)
        if self.chance(0.3):
            self.normalization()

    def pointwise(self) -> None:
        n, c, h, w = self.shape
        out = self.pick(1, 2, 5, 8, 16, 24, 32)
        self.x = self.conv(self.x, c, out, 1, bias=self.chance())
        self.shape = (n, out, h, w)

    def depthwise_separable(self) -> None:
        """An inverted residual: 1×1, depthwise, 1×1, and the shortcut where it fits."""
        n, c, h, w = self.shape
        before, hidden, out = self.x, c * self.pick(2, 3), c if self.chance(0.6) else self.pick(4, 8, 10)
        stride = self.pick(1, 1, 2)
        norm = self.chance()
        x = self.relu6(self.conv(before, c, hidden, 1))
        x = self.conv(x, hidden, hidden, 3, hidden, bias=not norm, pads=[1] * 4, strides=[stride] * 2)
        if norm:
            x = self.batch_norm(x, hidden)
        self.x = self.conv(self.relu6(x), hidden, out, 1)
        self.shape = (n, out, (h - 1) // stride + 1, (w - 1) // stride + 1)
        if self.shape == (n, c, h, w):
            self.add("Add", *self.shuffled(self.x, before))

    def pool(self) -> None:
        kind = self.pick("MaxPool", "AveragePool")
        dilated = (kind == "MaxPool" and self.opset >= 10) or (self.opset >= 19 and self.chance(0.1))
        made = self.window(4, dilated, below_kernel=True)
        if made is None:
            return
        kernel, attributes, size = made
        if "dilations" in attributes and kind == "AveragePool":
            self.exotic.add(kind)
        if self.opset >= 10 and self.chance(0.4) and attributes.get("auto_pad", "NOTSET") == "NOTSET":
            pads = attributes.get("pads", [0, 0, 0, 0])
            strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
            larger, beyond = [], False
            for axis in range(2):
                extent = self.shape[2 + axis] + pads[axis] + pads[2 + axis]
                larger.append(-(-(extent - dilations[axis] * (kernel[axis] - 1) - 1) // strides[axis]) + 1)
                beyond |= (larger[axis] - 1) * strides[axis] >= self.shape[2 + axis] + pads[axis]
            if not beyond:  # whether a window counts that begins behind the image, releases of ONNX do not agree on
                attributes["ceil_mode"], size = 1, tuple(larger)
        if kind == "AveragePool" and self.chance():
            attributes["count_include_pad"] = self.pick(0, 1)
        self.add(kind, shape=(*self.shape[:2], *size), kernel_shape=kernel, **attributes)

    def global_pool(self) -> None:
        n, c = self.shape[:2]
        if self.chance():
            self.add("GlobalAveragePool")
        elif self.chance(0.9):
            self.x = self.mean(self.x, *self.pick((2, 3), (-1, -2), (3, 2)))
        else:
            self.exotic.add("ReduceMean")
            self.x = self.mean(self.x, self.pick(1, 2, 3))
            raise _Ended
        self.shape = (n, c, 1, 1)

    # One tensor

    def normalization(self) -> None:
        self.x = self.batch_norm(self.x, self.shape[1], epsilon=self.pick(1e-5, 1e-3))

    def group_norm(self) -> None:
        """As PyTorch writes it, with weight and bias after it; or as an instance norm, with its own."""
        c = self.shape[1]
        if self.chance(0.3):
            self.add("InstanceNormalization", self.x, self.normal(c), self.normal(c), epsilon=self.pick(1e-2, 1e-1))
            return
        groups = self.pick(*(g for g in range(1, c + 1) if c % g == 0))
        before, ones, zeros = self.shape, self.const(np.ones(groups)), self.const(np.zeros(groups))
        x = self.op("Reshape", self.x, self.ints(0, groups, -1))
        x = self.op("InstanceNormalization", x, ones, zeros, epsilon=self.pick(1e-2, 1e-1))
        self.x = self.op("Reshape", x, self.ints(0, *before[1:]))
        self.add("Mul", self.x, self.normal(c, 1, 1))
        self.add("Add", self.x, self.normal(c, 1, 1))

    def layer_norm(self, channels: int) -> None:
        """Of the last axis: one node, or its parts before operator set 17."""
        x, eps = self.x, 0.05
        if self.opset >= 17:
            self.add("LayerNormalization", x, self.normal(channels), self.normal(channels), epsilon=eps)
            return
        centred = self.op("Sub", x, self.mean(x, -1))
        square = (
            self.op("Mul", centred, centred) if self.chance() else self.op("Pow", centred, self.const(np.array(2.0)))
        )
        variance = self.op("Add", self.mean(square, -1), self.const(np.array(eps)))
        self.add("Div", centred, self.op("Sqrt", variance))
        self.add("Mul", self.x, self.normal(channels))

    def activation(self) -> None:
        kinds = ("Relu", "Relu", "Relu6", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Swish", "Rare")
        kind = self.pick(*kinds, "Tanh", "LeakyRelu", "Elu")
        match kind:
            case "Relu" | "Sigmoid" | "Tanh":
                self.add(kind)
            case "Relu6":
                self.x = self.relu6(self.x)
            case "Clip":
                low, high = self.pick((-1, 2), (0, None), (None, 1.5), (-0.5, 0.5), (0, 1))
                self.x = self.clip(self.x, low, high)
            case "HardSigmoid":
                self.add(kind, **self.pick({}, {"alpha": 1 / 6}, {"alpha": 0.25, "beta": 0.4}))
            case "LeakyRelu" | "Elu":
                self.add(kind, **self.pick({}, {"alpha": 0.3}))
            case "HardSwish" if self.opset >= 14 and self.chance():
                self.add(kind)
            case "HardSwish":
                gate = self.op("HardSigmoid", self.x, alpha=1 / 6, beta=0.5)
                self.add("Mul", *self.shuffled(self.x, gate))
            case "Swish":
                self.add("Mul", *self.shuffled(self.x, self.op("Sigmoid", self.x)))
            case _:
                rare = self.pick("Softsign", "Neg")
                self.exotic.add(rare)
                self.add(rare)

    def constant(self) -> None:
        """Arithmetic with a number, with one a channel, or with one that fits neither."""
        op = self.pick("Add", "Sub", "Mul", "Div")
        c = self.shape[1]
        shape = self.pick((), (1,), (1, c, 1, 1), (1, c, 1, 1), (c, 1, 1), (1, 1, 1, 1))
        if self.chance(0.05):
            shape = (1, 1, 1, self.shape[3])
            self.exotic.add(op)
        number = self.r.uniform(0.5, 2, shape) * self.r.choice([-1, 1], shape)
        self.add(op, self.x, self.const(number))

    def padding(self) -> None:
        if self.chance(0.1) and min(self.shape[2:]) > 2:
            self.exotic.add("Pad")
            pads = [0, 0, 1, 1, 0, 0, 1, 1]
            mode = self.pick("reflect", "edge")
            if self.opset < 11:
                self.add("Pad", pads=pads, mode=mode)
            else:
                self.add("Pad", self.x, self.ints(*pads), mode=mode)
            top = left = bottom = right = 1
        else:
            top, left, bottom, right = (int(n) for n in self.r.integers(0, 3, 4))
            value = self.pick(0.0, 0.0, 0.0, 1.5)
            self.x = self.pad(self.x, [0, 0, top, left, 0, 0, bottom, right], value)
        n, c, h, w = self.shape
        self.shape = (n, c, h + top + bottom, w + left + right)

    def resized(self) -> None:
        n, c, h, w = self.shape
        if self.opset < 11:
            return
        how = {"mode": self.pick("nearest", "linear"), "nearest_mode": self.pick("floor", "ceil")}
        how["coordinate_transformation_mode"] = self.pick(
            "asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"
        )
        if self.chance():
            up, across = (self.pick(1, 2, 3) for _ in range(2))
            scales = self.const(np.array([1, 1, up, across], np.float32), dtype=np.float32)
            roi = "" if self.opset >= 13 else self.const(np.zeros(0))
            self.add("Resize", self.x, roi, scales, shape=(n, c, h * up, w * across), **how)
            return
        size = tuple(int(self.r.integers(1, 2 * extent + 2)) for extent in (h, w))
        empty = ["", ""] if self.opset >= 13 else [self.const(np.zeros(0)), self.const(np.zeros(0), dtype=np.float32)]
        self.add("Resize", self.x, *empty, self.ints(n, c, *size), shape=(n, c, *size), **how)
        self.fixed_batch = True

    def transposed_convolution(self) -> None:
        n, c, h, w = self.shape
        group = self.pick(1, 1, c)
        out, k, s = self.pick(1, 2, 4), self.pick(1, 2, 3, 4), self.pick(1, 2, 2, 3)
        pads = [int(p) for p in self.r.integers(0, (k + 1) // 2, 4)]
        more = [int(m) for m in self.r.integers(0, s, 2)]
        size = tuple((e - 1) * s + k + m - a - b for e, m, a, b in zip((h, w), more, pads[:2], pads[2:], strict=True))
        if min(size) < 1:
            return
        weight = self.normal(c, out, k, k, scale=(c // group * k * k) ** -0.5)
        bias = [self.normal(out * group)] if self.chance() else []
        how = {"strides": [s, s], "pads": pads, "output_padding": more, "group": group}
        self.add("ConvTranspose", self.x, weight, *bias, shape=(n, out * group, *size), **how)

    def nothing(self) -> None:
        self.add(self.pick("Identity", "Dropout"))

    def softmax(self) -> None:
        axis = self.pick(1, 2, 3, -1)
        if self.opset < 13 and axis not in (3, -1):  # over all axes from this one on
            self.exotic.add("Softmax")
        self.add("Softmax", axis=axis)

    def transposes(self) -> None:
        """To NHWC, something there, and back."""
        n, c, h, w = self.shape
        self.thin()
        self.add("Transpose", perm=[0, 2, 3, 1])
        match self.pick("bias", "scale", "relu", "mean", "norm", "linear"):
            case "norm":
                self.layer_norm(c)
            case "linear":
                wide = self.pick(1, 3, 8)
                self.x = self.op("MatMul", self.x, self.normal(c, wide, scale=c**-0.5))
                self.add("Add", *self.shuffled(self.x, self.normal(wide)))
                c = wide
            case "bias":
                self.add("Add", self.x, self.normal(c))
            case "scale":
                self.add("Mul", self.x, self.normal(c))
            case "mean":
                self.x = self.mean(self.x, 1, 2)
                h = w = 1
            case _:
                self.add("Relu")
        self.add("Transpose", perm=[0, 3, 1, 2], shape=(n, c, h, w))

    def moved(self) -> None:
        """Height and width exchanged."""
        n, c, h, w = self.shape
        self.thin()
        self.add("Transpose", perm=[0, 1, 3, 2], shape=(n, c, w, h))

    def thin(self) -> None:
        """A transpose that moves sizes of 1 alone is read as a reshape, behind which axes have lost their meaning."""
        if 1 in self.shape[1:]:
            self.exotic |= {"ReduceMean", "Add", "Sub", "Mul", "Div"}

    # Several tensors

    def shuffled(self, *names: str) -> tuple[str, ...]:
        return names if self.chance() else names[::-1]

    def squeeze_excite(self) -> None:
        x, c, shape = self.x, self.shape[1], self.shape
        self.global_mean()
        narrow = self.pick(1, 2, 4, 8)
        y = self.op("Relu", self.conv(self.x, c, narrow, 1))
        y = self.conv(y, narrow, c, 1)
        y = self.op("Sigmoid", y) if self.chance() else self.op("HardSigmoid", y, alpha=1 / 6)
        self.add("Mul", *self.shuffled(x, y), shape=shape)

    def global_mean(self) -> None:
        n, c = self.shape[:2]
        self.x = self.op("GlobalAveragePool", self.x) if self.chance() else self.mean(self.x, 2, 3)
        self.shape = (n, c, 1, 1)

    def residual(self) -> None:
        before, c = self.x, self.shape[1]
        k = self.pick(1, 3)
        branch = self.conv(before, c, c, k, self.pick(1, c), pads=[k // 2] * 4)
        if self.chance():
            branch = self.op("Relu", self.conv(branch, c, c, 1))
        if self.chance():
            before = self.conv(before, c, c, 1)
        if self.opset >= 8 and self.chance(0.15):
            self.add("Sum", branch, before)
        else:
            self.add("Add", *self.shuffled(branch, before))
        if self.chance():
            self.add("Relu")

    def concat(self) -> None:
        before, (n, c, h, w) = self.x, self.shape
        parts, sizes = [before], [c]
        for _ in range(self.pick(1, 1, 2)):
            out = self.pick(1, 3, 4, c)
            parts.append(self.conv(before, c, out, 3, pads=[1] * 4) if self.chance() else self.conv(before, c, out, 1))
            sizes.append(out)
        if self.chance(0.2):
            parts = [self.op("Relu", part) for part in parts]
        axis = 1
        if len(set(sizes)) == 1 and self.chance(0.3):
            axis = self.pick(2, 3, -1, -2)
        shape = [n, c, h, w]
        shape[axis] = sum(sizes) if axis == 1 else shape[axis] * len(parts)
        order = self.r.permutation(len(parts))
        self.add("Concat", *(parts[i] for i in order), axis=self.pick(axis, axis - 4) if axis > 0 else axis)
        self.shape = tuple(shape)

    # The end

    def flattened(self) -> int:
        """Make x a matrix (N, features) by one of many spellings; the number of features."""
        n, c, h, w = self.shape
        spelling = self.pick("Flatten", "Reshape", "Reshape 0", "shape chain", "Squeeze", "mean")
        if spelling in ("Squeeze", "mean"):
            if spelling == "mean":
                self.x = self.mean(self.x, 2, 3, keepdims=0)
            else:
                self.global_mean()
                self.x = self.squeeze(self.x, 2, 3)
            self.shape = (n, c)
            return c
        if self.chance(0.4):
            self.global_mean()
            h = w = 1
        features = c * h * w
        match spelling:
            case "Flatten":
                self.add("Flatten", **self.pick({}, {"axis": 1}))
            case "Reshape":
                self.add("Reshape", self.x, self.ints(n, -1))
                self.fixed_batch = True
            case "Reshape 0":
                self.add("Reshape", self.x, self.ints(0, self.pick(-1, features)))
            case _:
                size = self.op("Gather", self.op("Shape", self.x), self.const(np.array(0)), axis=0)
                target = self.op("Concat", self.unsqueeze(size, 0), self.ints(-1), axis=0)
                self.add("Reshape", self.x, target)
        self.shape = (n, features)
        return features

    def dense(self, features: int) -> int:
        """A matrix product: Gemm in one of its forms, or MatMul and Add."""
        out = self.pick(1, 2, 5, 10, 16)
        if self.chance(0.25):
            self.x = self.op("MatMul", self.x, self.normal(features, out, scale=features**-0.5))
            if self.chance(0.7):
                self.add("Add", *self.shuffled(self.x, self.normal(out)))
        else:
            attributes: dict[str, object] = {}
            if self.chance():
                attributes["transB"] = 1
            if self.chance(0.3):
                attributes["alpha"] = self.pick(0.5, 2.0, -1.0)
            if self.chance(0.3):
                attributes["beta"] = self.pick(0.5, 2.0, 0.25)
            shape = (out, features) if "transB" in attributes else (features, out)
            inputs = [self.x, self.normal(*shape, scale=features**-0.5)]
            if self.opset < 11 or self.chance(0.8):
                inputs.append(self.normal(*self.pick((out,), (out,), (1, out))))
            self.x = self.op("Gemm", *inputs, **attributes)
        self.shape = (self.shape[0], out)
        return out

    def head(self) -> None:
        features = self.flattened()
        for layer in range(self.pick(1, 1, 2)):
            if layer:
                self.add(self.pick("Relu", "Sigmoid"))
            features = self.dense(features)
        if self.chance(0.4):
            self.add("Softmax", axis=self.pick(1, -1))


class _Ended(Exception):
    """The network cannot be continued."""


FEATURES: list[Callable[[Network], None]] = [
    *(4 * [Network.convolution]), *(3 * [Network.activation]), *(3 * [Network.pool]),
    *(2 * [Network.depthwise_separable]), *(2 * [Network.residual]), *(2 * [Network.concat]),
    Network.pointwise, Network.normalization, Network.squeeze_excite, Network.constant, Network.padding,
    Network.resized, Network.transposed_convolution, Network.group_norm, Network.nothing, Network.transposes,
    Network.moved, Network.softmax, Network.global_pool,
]  # fmt: skip


@dataclass
class Drawn:
    """A random network that ONNX allows. exotic: its operators that may be refused, in the way they are used."""

    model: ModelProto
    exotic: set[str]


def draw(r: np.random.Generator, most: int = 6) -> Drawn:
    """A network of 1 to `most` features, with a head of matrix products or without."""
    net = Network(r)
    try:
        for _ in range(int(r.integers(1, most + 1))):
            if math.prod(net.shape) > 20_000:
                break
            net.pick(*FEATURES)(net)
        if net.chance(0.6):
            net.head()
    except _Ended:
        pass
    if net.x == "x":
        net.add("Relu")
    first = "n" if net.chance(0.2) and not net.fixed_batch else net.input_shape[0]
    model = net.build(net.x, (first, *net.input_shape[1:]))
    return Drawn(model, net.exotic)


def spelled(model: ModelProto) -> set[str]:
    """What a network uses: "Conv", "Conv.group", "Conv.pads asymmetric", "operator set 13" and the like."""
    found = {f"operator set {model.opset_import[0].version}"}
    for node in model.graph.node:
        found |= {node.op_type} | {f"{node.op_type}.{attribute.name}" for attribute in node.attribute}
        for attribute in node.attribute:
            pads = list(attribute.ints)
            if attribute.name == "pads" and pads[: len(pads) // 2] != pads[len(pads) // 2 :]:
                found.add(f"{node.op_type}.pads asymmetric")
    return found


# Who is right


def error(got: np.ndarray, want: np.ndarray) -> float:
    """‖got − want‖ / ‖want‖, in float64; infinite for another shape, or where only one of the two is finite."""
    if got.shape != want.shape:
        return math.inf
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(got)):
        return math.inf
    size = np.linalg.norm(want[finite])
    off = np.linalg.norm(got[finite] - want[finite])
    return float(off / size) if size > 0 else float(off)


def run_onnx_runtime(model: ModelProto, x: np.ndarray) -> np.ndarray | str:
    """The output, or why ONNX Runtime refuses the network (its exceptions have no common base)."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (name,) = [value.name for value in session.get_inputs()]
        return session.run(None, {name: x})[0]
    except Exception as refusal:
        return f"{type(refusal).__name__}: {' '.join(str(refusal).split())[:200]}"


def in_float64(model: ModelProto) -> ModelProto:
    """The same network with every float32 of it as float64."""
    made = copy.deepcopy(model)

    def widen(tensor: TensorProto) -> None:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))

    for tensor in made.graph.initializer:
        widen(tensor)
    for node in made.graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                widen(attribute.t)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    for value in (*made.graph.input, *made.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return made


def arbiters(model: ModelProto, x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The output in float64 of ONNX's reference, then of PyTorch on our layers; those of the two that can."""
    exact = None
    with np.errstate(all="ignore"), contextlib.suppress(Exception):  # it does not take every valid network
        session = ReferenceEvaluator(in_float64(model))
        exact = session.run(None, {session.input_names[0]: x.astype(np.float64)})[0]
    if exact is not None:
        yield "onnx.reference", exact
    from topology_oracle import evaluate

    from common import topology

    with contextlib.suppress(AssertionError):  # of shapes: the reader and PyTorch do not agree
        yield "PyTorch", evaluate(*topology.read_onnx_with_parameters(model, x.shape), x)


class Wrong(AssertionError):
    """What ran on the kernels is not what the network computes."""


def judge(model: ModelProto, x: np.ndarray, got: np.ndarray, each_step: Callable[[], bool] = lambda: False) -> str:
    """How a result stands: in words, if it is right. Wrong if it is not.

    It is right within BOUND of ONNX Runtime. Where the two differ by more, float64 decides: first ONNX's own reference,
    which shares nothing with us; where that agrees with neither, PyTorch. Sums of numbers that cancel each other may
    be off by as much as ONNX Runtime's own, four times, or, up to ROUNDING, if each step is right on its own.
    """
    want = run_onnx_runtime(model, x)
    if isinstance(want, str):
        return "refused by ONNX Runtime"
    if want.size == 0 or not (np.abs(want) < 1e30).all():
        return "too large for float32"
    if (off := error(got, want)) <= BOUND:
        return "as ONNX Runtime"
    told = f"{off:.2g} from ONNX Runtime, shapes {got.shape} and {want.shape}"
    for name, exact in arbiters(model, x):
        ours, theirs = error(got, exact), error(want, exact)
        told += f"; from {name} in float64: ours {ours:.2g}, ONNX Runtime's {theirs:.2g}"
        if ours <= BOUND:
            return f"ONNX Runtime is off ({name})"
        if theirs <= ROUNDING:
            if ours <= 4 * theirs or (ours <= ROUNDING and each_step()):
                return "rounding of sums that cancel"
            break
    raise Wrong(told)


def attempt(drawn: Drawn, way: str, r: np.random.Generator) -> str:
    """Run a network on the kernels, in one of WAYS: how its result stands, or the operator that is refused, in words.

    Wrong for a wrong result, and for a refusal of something that is in NAMED.
    """
    from common import topology
    from common.network import Network as Running
    from common.network.compare import compare_steps, first_drift

    if not is_valid(drawn.model):
        raise Wrong("drawn as a network that ONNX does not allow")
    try:
        net = Running(drawn.model, **WAYS[way])
    except topology.UnsupportedModel as refusal:
        told = re.search(r"\((\w+)\): ", str(refusal))
        operator = told[1] if told else "ReduceMean" if "is a mean over only one" in str(refusal) else ""
        if operator not in drawn.exotic:
            raise Wrong(f"refused: {refusal}") from None
        return f"{operator} refused"
    except ValueError as mistake:  # InvalidModel is one
        raise Wrong(f"{type(mistake).__name__}: {mistake}") from mistake
    x = 3 * r.standard_normal(net.input_shape, dtype=np.float32)

    def each_step() -> bool:
        return first_drift(compare_steps(drawn.model, x=x, **WAYS[way])) is None

    return judge(drawn.model, x, net(x), each_step)


def is_valid(model: ModelProto) -> bool:
    """Whether ONNX's own checker allows the network, shapes included."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        tensor = inferred.graph.output[0].type.tensor_type
        if not tensor.HasField("shape"):  # behind a Reshape that is computed: a matrix, see `flattened`
            tensor.shape.dim.extend([onnx.TensorShapeProto.Dimension()] * 2)
        onnx.checker.check_model(inferred)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True
