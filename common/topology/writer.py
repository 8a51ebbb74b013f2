"""Write a Graph and its parameters as an ONNX model; the reader restores the same Graph from it."""

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from .graph import Graph
from .layers import (
    AveragePool2d,
    BatchNorm2d,
    Clip,
    Concat,
    Conv2d,
    GlobalAveragePool,
    HardSigmoid,
    HardSwish,
    Layer,
    Linear,
    MaxPool2d,
    Mul,
    Pad,
    Padding,
    Permute,
    ReLU,
    ReLU6,
    Reshape,
    ResidualAdd,
    Sigmoid,
    Softmax,
)

IR_VERSION = 8  # of the release with operator set 17; older runtimes can read it


def write_onnx(
    graph: Graph,
    parameters: Mapping[str, np.ndarray],
    dynamic_batch: bool = False,
    opset: int = 17,
) -> ModelProto:
    """The network as an ONNX model in float32, with initializers under the parameters' names.

    parameters: all arrays of `graph.parameter_shapes`, with these shapes; others are ignored. dynamic_batch: leave the
    batch size open. opset: 14 (the first with HardSwish) or later.
    ValueError for another operator set, or a parameter that is missing or has another shape.
    """
    if not 14 <= opset <= onnx.defs.onnx_opset_version():
        raise ValueError(f"operator set {opset} is not between 14 and {onnx.defs.onnx_opset_version()}")
    initializers = []
    for name, shape in graph.parameter_shapes.items():
        if name not in parameters:
            raise ValueError(f"the parameter {name!r} is missing")
        array = np.ascontiguousarray(parameters[name], dtype=np.float32)
        if array.shape != shape:
            raise ValueError(f"the parameter {name!r} has the shape {array.shape}, not {shape}")
        initializers.append(numpy_helper.from_array(array, name))

    nodes: list[NodeProto] = []
    for layer in graph:
        for part in WRITE[type(layer)](layer, opset):
            if isinstance(part, TensorProto):
                initializers.append(part)
            else:
                nodes.append(part)

    batch = "batch" if dynamic_batch else graph.input_shape[0]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (batch, *shape[1:]))
        for name, shape in ((graph.input, graph.input_shape), (graph.output, graph.output_shape))
    ]
    return helper.make_model(
        helper.make_graph(nodes, graph.name, values[:1], values[1:], initializers),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=max(IR_VERSION, helper.find_min_ir_version_for([helper.make_opsetid("", opset)])),
        producer_name="common.topology",
    )


Parts = Iterator[NodeProto | TensorProto]


def node(layer: Layer, op_type: str, *constants: str, inputs: tuple[str, ...] | None = None, **attributes) -> NodeProto:
    """A node that writes the layer's output. constants: names of further inputs. inputs: by default the layer's."""
    sources = [*(layer.inputs if inputs is None else inputs), *constants]
    return helper.make_node(op_type, sources, [layer.output], name=layer.name, **attributes)


def pads(padding: Padding) -> list[int]:
    """[top, left, bottom, right], the order of ONNX."""
    (top, bottom), (left, right) = padding
    return [top, left, bottom, right]


def scalar(name: str, value: float) -> TensorProto:
    """A 0-dimensional float32 initializer."""
    return numpy_helper.from_array(np.array(value, np.float32), name)


def conv(layer: Conv2d, opset: int) -> Parts:
    """A Conv2d as Conv. This function and those below yield the nodes and initializers of one layer."""
    yield node(
        layer,
        "Conv",
        layer.weight,
        *([layer.bias] if layer.bias is not None else []),
        kernel_shape=layer.kernel_size,
        strides=layer.stride,
        pads=pads(layer.padding),
        dilations=layer.dilation,
        group=layer.groups,
    )


def linear(layer: Linear, opset: int) -> Parts:
    """A Linear as Gemm, after a Flatten unless the input is a matrix."""
    inputs = layer.inputs
    if len(layer.input_shapes[0]) != 2:
        inputs = (f"{layer.output}.flat",)
        yield helper.make_node("Flatten", layer.inputs, inputs, name=f"{layer.name}.flatten", axis=1)
    bias = [layer.bias] if layer.bias is not None else []
    yield node(layer, "Gemm", layer.weight, *bias, inputs=inputs, transB=1)


def batch_norm(layer: BatchNorm2d, opset: int) -> Parts:
    """A BatchNorm2d as BatchNormalization."""
    names = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    yield node(layer, "BatchNormalization", *names, epsilon=layer.eps)


def clip(layer: ReLU6 | Clip, opset: int) -> Parts:
    """A ReLU6 or a Clip as Clip, with its bounds as initializers."""
    lower, upper = (0.0, 6.0) if isinstance(layer, ReLU6) else (layer.min, layer.max)
    names = [
        f"{layer.output}.min" if lower > -math.inf else "",
        f"{layer.output}.max" if upper < math.inf else "",
    ]
    for name, bound in zip(names, (lower, upper), strict=True):
        if name:
            yield scalar(name, bound)
    yield node(layer, "Clip", *names)


def max_pool(layer: MaxPool2d, opset: int) -> Parts:
    """A MaxPool2d as MaxPool."""
    yield node(
        layer,
        "MaxPool",
        kernel_shape=layer.kernel_size,
        strides=layer.stride,
        pads=pads(layer.padding),
        dilations=layer.dilation,
        ceil_mode=int(layer.ceil_mode),
    )


def average_pool(layer: AveragePool2d, opset: int) -> Parts:
    """An AveragePool2d as AveragePool."""
    yield node(
        layer,
        "AveragePool",
        kernel_shape=layer.kernel_size,
        strides=layer.stride,
        pads=pads(layer.padding),
        ceil_mode=int(layer.ceil_mode),
        count_include_pad=int(layer.count_include_pad),
    )


def pad(layer: Pad, opset: int) -> Parts:
    """A Pad as Pad, with padding and value as initializers."""
    top, left, bottom, right = pads(layer.padding)
    amounts = np.array([0, 0, top, left, 0, 0, bottom, right], np.int64)
    yield numpy_helper.from_array(amounts, f"{layer.output}.pads")
    yield scalar(f"{layer.output}.value", layer.value)
    yield node(layer, "Pad", f"{layer.output}.pads", f"{layer.output}.value")


def reshape(layer: Reshape, opset: int) -> Parts:
    """A Reshape as Reshape that keeps the batch."""
    target = np.array([0, *layer.shape], np.int64)  # 0 keeps the batch
    yield numpy_helper.from_array(target, f"{layer.output}.shape")
    yield node(layer, "Reshape", f"{layer.output}.shape")


def plain(op_type: str, **names: str) -> Callable[..., Parts]:
    """A function of WRITE for a layer that is one node; names: attribute=field of the layer."""

    def write(layer: Layer, opset: int) -> Parts:
        yield node(layer, op_type, **{attribute: getattr(layer, field) for attribute, field in names.items()})

    return write


WRITE: dict[type[Layer], Callable[..., Parts]] = {
    AveragePool2d: average_pool,
    BatchNorm2d: batch_norm,
    Clip: clip,
    Concat: plain("Concat", axis="dim"),
    Conv2d: conv,
    GlobalAveragePool: plain("GlobalAveragePool"),
    HardSigmoid: plain("HardSigmoid", alpha="alpha", beta="beta"),
    HardSwish: plain("HardSwish"),
    Linear: linear,
    MaxPool2d: max_pool,
    Mul: plain("Mul"),
    Pad: pad,
    Permute: plain("Transpose", perm="dims"),
    ReLU: plain("Relu"),
    ReLU6: clip,
    Reshape: reshape,
    ResidualAdd: plain("Add"),
    Sigmoid: plain("Sigmoid"),
    Softmax: plain("Softmax", axis="dim"),
}
