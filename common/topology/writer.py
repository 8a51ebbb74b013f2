"""Write a Graph and its parameters as an ONNX model; the reader restores the same Graph from it."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from .graph import Graph
from .grids import Grid
from .layers import (
    ELU,
    GELU,
    MAX_ELEMENTS,
    Add,
    AveragePool2d,
    BatchNorm2d,
    ChannelShuffle,
    Clip,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Dequantize,
    Div,
    Erf,
    GlobalAveragePool,
    GroupNorm,
    HardSigmoid,
    HardSwish,
    Layer,
    LayerNorm,
    LeakyReLU,
    Linear,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Norm,
    Pad,
    Padding,
    Permute,
    Quantize,
    ReLU,
    ReLU6,
    Reshape,
    ResidualAdd,
    Resize,
    Sigmoid,
    Slice,
    Softmax,
    Sqrt,
    Sub,
    Tanh,
)
from .translation import Names

IR_VERSION = 8  # of the release with operator set 17; older runtimes can read it


def write_onnx(
    graph: Graph,
    parameters: Mapping[str, np.ndarray],
    dynamic_batch: bool = False,
    opset: int = 17,
) -> ModelProto:
    """The network as an ONNX model in float32, with initializers under the parameters' names.

    Of a parameter in `graph.grids` the codes are stored, and a DequantizeLinear has the parameter's name as its output.
    parameters: all arrays of `graph.parameter_shapes`, with these shapes; others are ignored. dynamic_batch: leave the
    batch size open. opset: 14 (the first with HardSwish) or later.
    ValueError for another operator set, or a parameter that is missing, has another shape or is not on its grid.
    """
    if not 14 <= opset <= onnx.defs.onnx_opset_version():
        raise ValueError(f"operator set {opset} is not between 14 and {onnx.defs.onnx_opset_version()}")
    nodes: list[NodeProto] = []
    names = Names({*graph.shapes, *graph.parameter_shapes})
    grids = dict(graph.grids)
    initializers = []
    for name, shape in graph.parameter_shapes.items():
        if name not in parameters:
            raise ValueError(f"the parameter {name!r} is missing")
        array = np.ascontiguousarray(parameters[name], dtype=np.float32)
        if array.shape != shape:
            raise ValueError(f"the parameter {name!r} has the shape {array.shape}, not {shape}")
        if name not in grids:
            initializers.append(numpy_helper.from_array(array, name))
            continue
        if not grids[name].has(array):
            raise ValueError(f"the parameter {name!r} is not on its grid ({grids[name]})")
        codes = names.take(f"{name}.codes")
        initializers.append(numpy_helper.from_array(grids[name].codes(array), codes))
        for part in on_grid("DequantizeLinear", codes, name, names.take(f"{name}.dequantize"), grids[name], names):
            (nodes if isinstance(part, NodeProto) else initializers).append(part)

    for layer in graph:
        for part in WRITE[type(layer)](layer, opset):
            if isinstance(part, TensorProto):
                initializers.append(part)
            else:
                nodes.append(part)

    batch = "batch" if dynamic_batch else graph.input_shape[0]

    def declared(name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, (batch, *graph.shapes[name][1:]))

    outputs = list(graph.outputs)
    for i, name in enumerate(outputs):
        if name in graph.inputs or name in outputs[:i]:  # ONNX wants a tensor of its own for every output
            outputs[i] = names.take(f"{name}.output")
            nodes.append(helper.make_node("Identity", [name], [outputs[i]], name=outputs[i]))
    values = [declared(name) for name in graph.inputs], [declared(name) for name in graph.outputs]
    for value, name in zip(values[1], outputs, strict=True):
        value.name = name
    return helper.make_model(
        helper.make_graph(nodes, graph.name, *values, initializers),
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


def on_grid(op_type: str, source: str, output: str, name: str, grid: Grid, names: Names) -> Parts:
    """A QuantizeLinear or DequantizeLinear, with scale and zero point as initializers."""
    scale, zero_point = names.take(f"{output}.scale"), names.take(f"{output}.zero_point")
    shape = (-1,) if grid.is_per_channel else ()
    yield numpy_helper.from_array(np.array(grid.scale, np.float32).reshape(shape), scale)
    yield numpy_helper.from_array(np.array(grid.zero_point, grid.dtype).reshape(shape), zero_point)
    axis = {"axis": 0} if grid.is_per_channel else {}
    yield helper.make_node(op_type, [source, scale, zero_point], [output], name=name, **axis)


def quantize(layer: Quantize, opset: int) -> Parts:
    """A Quantize as QuantizeLinear."""
    yield from on_grid("QuantizeLinear", layer.inputs[0], layer.output, layer.name, layer.grid, Names())


def dequantize(layer: Dequantize, opset: int) -> Parts:
    """A Dequantize as DequantizeLinear."""
    yield from on_grid("DequantizeLinear", layer.inputs[0], layer.output, layer.name, layer.grid, Names())


def conv(layer: Conv2d, opset: int) -> Parts:
    """A Conv2d as Conv. This function and those around it yield the nodes and initializers of one layer."""
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


def conv_transpose(layer: ConvTranspose2d, opset: int) -> Parts:
    """A ConvTranspose2d as ConvTranspose."""
    yield node(
        layer,
        "ConvTranspose",
        layer.weight,
        *([layer.bias] if layer.bias is not None else []),
        kernel_shape=layer.kernel_size,
        strides=layer.stride,
        pads=pads(layer.padding),
        output_padding=layer.output_padding,
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


def part(layer: Layer, op_type: str, name: str, *inputs: str, **attributes) -> NodeProto:
    """A node of a layer that is written in parts: it writes the layer's output's name with `name` after it."""
    return helper.make_node(op_type, inputs, [f"{layer.output}.{name}"], name=f"{layer.name}.{name}", **attributes)


def affine(layer: Norm, x: str) -> Parts:
    """Weight and bias of a norm of x, as a BatchNormalization of mean 0 and variance 1; the reader merges it."""
    ones, zeros = f"{layer.output}.ones", f"{layer.output}.zeros"
    for name, number in ((ones, 1), (zeros, 0)):
        yield numpy_helper.from_array(np.full(layer.channels, number, np.float32), name)
    inputs = [x, layer.weight or ones, layer.bias or zeros, zeros, ones]
    yield helper.make_node("BatchNormalization", inputs, [layer.output], name=f"{layer.name}.affine", epsilon=0.0)


def mean(layer: Mean, opset: int) -> Parts:
    """A Mean as ReduceMean, whose axes are an input from operator set 18 on."""
    if opset < 18:
        yield node(layer, "ReduceMean", axes=[layer.dim])
        return
    yield numpy_helper.from_array(np.array([layer.dim], np.int64), f"{layer.output}.axes")
    yield node(layer, "ReduceMean", f"{layer.output}.axes")


def layer_norm(layer: LayerNorm, opset: int) -> Parts:
    """A LayerNorm as LayerNormalization between two Transposes, over channels in parts (see layer_norm_in_parts).

    ValueError for others before operator set 17, which has no LayerNormalization.
    """
    if layer.dim == 1:
        yield from layer_norm_in_parts(layer, opset)
        return
    if opset < 17:
        raise ValueError(f"operator set {opset} is below 17, the first with LayerNormalization")
    out, rank = layer.output, len(layer.output_shape)
    last = [*(i for i in range(rank) if i != layer.dim), layer.dim]
    back = [last.index(i) for i in range(rank)]
    inputs = [f"{out}.last", layer.weight or f"{out}.ones", *([layer.bias] if layer.bias is not None else [])]
    if layer.weight is None:
        yield numpy_helper.from_array(np.ones(layer.channels, np.float32), f"{out}.ones")
    yield part(layer, "Transpose", "last", layer.inputs[0], perm=last)
    yield helper.make_node(
        "LayerNormalization", inputs, [f"{out}.normalized"], name=layer.name, axis=-1, epsilon=layer.eps
    )
    yield helper.make_node("Transpose", [f"{out}.normalized"], [out], name=f"{layer.name}.back", perm=back)


def layer_norm_in_parts(layer: LayerNorm, opset: int) -> Parts:
    """A LayerNorm over channels as exporters to operator sets before 17 write it; the reader takes it for one layer."""
    x, out = layer.inputs[0], layer.output
    axes = {"axes": [1]} if opset < 18 else {}
    names = [] if axes else [f"{out}.axes"]
    for name in names:
        yield numpy_helper.from_array(np.array([1], np.int64), name)
    yield scalar(f"{out}.eps", layer.eps)
    yield part(layer, "ReduceMean", "mean", x, *names, **axes)
    yield part(layer, "Sub", "centred", x, f"{out}.mean")
    yield part(layer, "Mul", "square", f"{out}.centred", f"{out}.centred")
    yield part(layer, "ReduceMean", "variance", f"{out}.square", *names, **axes)
    yield part(layer, "Add", "raised", f"{out}.variance", f"{out}.eps")
    yield part(layer, "Sqrt", "deviation", f"{out}.raised")
    quotient = [f"{out}.centred", f"{out}.deviation"]
    yield helper.make_node("Div", quotient, [f"{out}.normalized"], name=layer.name)
    yield from affine(layer, f"{out}.normalized")


def group_norm(layer: GroupNorm, opset: int) -> Parts:
    """A GroupNorm as InstanceNormalization of (N, groups, −1), as PyTorch exports it, then weight and bias."""
    out, shape = layer.output, layer.output_shape
    numbers = {
        "apart": np.array([0, layer.num_groups, -1], np.int64),
        "together": np.array([0, *shape[1:]], np.int64),
        "group.ones": np.ones(layer.num_groups, np.float32),
        "group.zeros": np.zeros(layer.num_groups, np.float32),
    }
    for name, array in numbers.items():
        yield numpy_helper.from_array(array, f"{out}.{name}")
    yield part(layer, "Reshape", "groups", layer.inputs[0], f"{out}.apart")
    inputs = [f"{out}.{name}" for name in ("groups", "group.ones", "group.zeros")]
    yield helper.make_node("InstanceNormalization", inputs, [f"{out}.normal"], name=layer.name, epsilon=layer.eps)
    yield part(layer, "Reshape", "image", f"{out}.normal", f"{out}.together")
    yield from affine(layer, f"{out}.image")


def resize(layer: Resize, opset: int) -> Parts:
    """A Resize as Resize, by scales if it has them, else by sizes; those of batch and channels are computed."""
    out, x = layer.output, layer.inputs[0]
    how: dict[str, Any] = {
        "mode": layer.mode,
        "coordinate_transformation_mode": layer.coordinates,
        "nearest_mode": layer.rounding,
    }
    if layer.scales is not None:
        yield numpy_helper.from_array(np.array([1, 1, *layer.scales], np.float32), f"{out}.scales")
        yield node(layer, "Resize", "", f"{out}.scales", **how)
        return
    yield numpy_helper.from_array(np.array(layer.size, np.int64), f"{out}.size")
    if opset >= 18:
        yield node(layer, "Resize", "", "", f"{out}.size", axes=[2, 3], **how)
        return
    yield part(layer, "Shape", "shape", x, end=2) if opset >= 15 else part(layer, "Shape", "all", x)
    if opset < 15:
        for name, number in (("first", 0), ("second", 2)):
            yield numpy_helper.from_array(np.array([number], np.int64), f"{out}.{name}")
        yield part(layer, "Slice", "shape", f"{out}.all", f"{out}.first", f"{out}.second")
    yield part(layer, "Concat", "sizes", f"{out}.shape", f"{out}.size", axis=0)
    yield node(layer, "Resize", "", "", f"{out}.sizes", **how)


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


def slice_(layer: Slice, opset: int) -> Parts:
    """A Slice as Slice, with starts, ends, axes and steps as initializers."""
    whole = zip(layer.input_shapes[0][1:], layer.starts, layer.sizes, layer.steps, strict=True)
    cuts = [
        (start, end if end >= 0 else -MAX_ELEMENTS, axis, step)  # a backward slice ends far before element 0
        for axis, (extent, start, size, step) in enumerate(whole, 1)
        if (start, size, step) != (0, extent, 1)
        for end in [start + size * step]
    ]
    names = [f"{layer.output}.{name}" for name in ("starts", "ends", "axes", "steps")]
    for name, column in zip(names, np.array(cuts, np.int64).reshape(-1, 4).T, strict=True):
        yield numpy_helper.from_array(np.ascontiguousarray(column), name)
    yield node(layer, "Slice", *names)


def gelu(layer: GELU, opset: int) -> Parts:
    """A GELU as Gelu, or before operator set 20, which has no Gelu, in parts that the reader takes for a GELU."""
    if opset >= 20:
        yield node(layer, "Gelu", approximate=layer.approximate)
        return
    x, out = layer.inputs[0], layer.output
    numbers = {"half": 0.5, "one": 1.0, "root": math.sqrt(0.5)}
    if layer.approximate == "tanh":
        numbers |= {"root": math.sqrt(2 / math.pi), "cubic": 0.044715}
    for name, number in numbers.items():
        yield scalar(f"{out}.{name}", number)

    inner = x
    if layer.approximate == "tanh":
        yield part(layer, "Mul", "square", x, x)
        yield part(layer, "Mul", "cube", f"{out}.square", x)
        yield part(layer, "Mul", "scaled_cube", f"{out}.cube", f"{out}.cubic")
        yield part(layer, "Add", "inner", x, f"{out}.scaled_cube")
        inner = f"{out}.inner"
    yield part(layer, "Mul", "scaled", inner, f"{out}.root")
    yield part(layer, "Erf" if layer.approximate == "none" else "Tanh", "bent", f"{out}.scaled")
    yield part(layer, "Add", "raised", f"{out}.bent", f"{out}.one")
    yield part(layer, "Mul", "twice", x, f"{out}.raised")
    yield node(layer, "Mul", f"{out}.half", inputs=(f"{out}.twice",))


def channel_shuffle(layer: ChannelShuffle, opset: int) -> Parts:
    """A ChannelShuffle as Reshape, Transpose and Reshape, which the reader takes for a ChannelShuffle."""
    _, c, h, w = layer.output_shape
    names = [f"{layer.output}.{name}" for name in ("apart", "together", "groups", "turned")]
    for name, target in zip(names, ([0, layer.groups, c // layer.groups, h, w], [0, c, h, w]), strict=False):
        yield numpy_helper.from_array(np.array(target, np.int64), name)
    apart, together, groups, turned = names
    yield helper.make_node("Reshape", [*layer.inputs, apart], [groups], name=f"{layer.name}.apart")
    yield helper.make_node("Transpose", [groups], [turned], name=f"{layer.name}.turned", perm=(0, 2, 1, 3, 4))
    yield node(layer, "Reshape", together, inputs=(turned,))


def plain(op_type: str, **names: str) -> Callable[..., Parts]:
    """A function of WRITE for a layer that is one node; names: attribute=field of the layer."""

    def write(layer: Layer, opset: int) -> Parts:
        yield node(layer, op_type, **{attribute: getattr(layer, field) for attribute, field in names.items()})

    return write


WRITE: dict[type[Layer], Callable[..., Parts]] = {
    Add: plain("Add"),
    AveragePool2d: average_pool,
    BatchNorm2d: batch_norm,
    ChannelShuffle: channel_shuffle,
    Clip: clip,
    Concat: plain("Concat", axis="dim"),
    Conv2d: conv,
    ConvTranspose2d: conv_transpose,
    Dequantize: dequantize,
    Div: plain("Div"),
    ELU: plain("Elu", alpha="alpha"),
    Erf: plain("Erf"),
    GELU: gelu,
    GlobalAveragePool: plain("GlobalAveragePool"),
    GroupNorm: group_norm,
    HardSigmoid: plain("HardSigmoid", alpha="alpha", beta="beta"),
    HardSwish: plain("HardSwish"),
    LayerNorm: layer_norm,
    LeakyReLU: plain("LeakyRelu", alpha="alpha"),
    Linear: linear,
    MaxPool2d: max_pool,
    Maximum: plain("Max"),
    Mean: mean,
    Minimum: plain("Min"),
    Mul: plain("Mul"),
    Pad: pad,
    Permute: plain("Transpose", perm="dims"),
    Quantize: quantize,
    ReLU: plain("Relu"),
    ReLU6: clip,
    Reshape: reshape,
    Resize: resize,
    ResidualAdd: plain("Add"),
    Sigmoid: plain("Sigmoid"),
    Slice: slice_,
    Softmax: plain("Softmax", axis="dim"),
    Sqrt: plain("Sqrt"),
    Sub: plain("Sub"),
    Tanh: plain("Tanh"),
}
