"""Convolutions, pools and resized images: operators of height and width; means."""

from dataclasses import replace

from ..constants import axes_of, normalize_axes
from ..layers import (
    AveragePool2d,
    Conv2d,
    ConvTranspose2d,
    GlobalAveragePool,
    MaxPool2d,
    Mean,
    Padding,
    Pair,
)
from ..node import Node
from ..translation import Activation, Translation
from .helpers import image


def conv(state: Translation, node: Node) -> Activation:
    """Conv in two dimensions, with constant weights, as a Conv2d layer."""
    source = image(state, node)
    weight, bias = state.constant(node, 1), state.constant(node, 2)
    if weight is None or weight.ndim != 4:
        raise node.invalid("its weight is missing or does not have 4 dimensions")
    state.check_type(node, source, weight, bias)
    kernel_size = (weight.shape[2], weight.shape[3])
    if node.pair("kernel_shape", kernel_size) != kernel_size:
        raise node.invalid(f"kernel_shape differs from the weight's {weight.shape}")
    groups = node.integer("group", 1)
    stride, dilation = node.pair("strides", (1, 1)), node.pair("dilations", (1, 1))
    if bias is not None and bias.shape != (weight.shape[0],):
        raise node.invalid(f"its bias has the shape {bias.shape}, not ({weight.shape[0]},)")
    return state.emit(
        Conv2d,
        node,
        [source],
        in_channels=weight.shape[1] * groups,
        out_channels=weight.shape[0],
        kernel_size=kernel_size,
        stride=stride,
        padding=padding_of(node, source.shape[2:], kernel_size, stride, dilation),
        dilation=dilation,
        groups=groups,
        weight=state.parameter(node.inputs[1], weight, node),
        bias=None if bias is None else state.parameter(node.inputs[2], bias, node),
    )


def conv_transpose(state: Translation, node: Node) -> Activation:
    """ConvTranspose in two dimensions, with constant weights and explicit padding, as a ConvTranspose2d layer."""
    source = image(state, node)
    weight, bias = state.constant(node, 1), state.constant(node, 2)
    if weight is None or weight.ndim != 4:
        raise node.invalid("its weight is missing or does not have 4 dimensions")
    state.check_type(node, source, weight, bias)
    kernel_size = (weight.shape[2], weight.shape[3])
    if node.pair("kernel_shape", kernel_size) != kernel_size:
        raise node.invalid(f"kernel_shape differs from the weight's {weight.shape}")
    groups = node.integer("group", 1)
    if bias is not None and bias.shape != (weight.shape[1] * groups,):
        raise node.invalid(f"its bias has the shape {bias.shape}, not ({weight.shape[1] * groups},)")
    if node.integers("output_shape") is not None or node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise node.unsupported("its padding follows from the output's size (output_shape or auto_pad SAME), not pads")
    return state.emit(
        ConvTranspose2d,
        node,
        [source],
        in_channels=weight.shape[0],
        out_channels=weight.shape[1] * groups,
        kernel_size=kernel_size,
        stride=node.pair("strides", (1, 1)),
        padding=padding_of(node, source.shape[2:], kernel_size, (1, 1), (1, 1)),
        output_padding=node.pair("output_padding", (0, 0)),
        dilation=node.pair("dilations", (1, 1)),
        groups=groups,
        weight=state.parameter(node.inputs[1], weight, node),
        bias=None if bias is None else state.parameter(node.inputs[2], bias, node),
    )


def global_average_pool(state: Translation, node: Node) -> Activation:
    """GlobalAveragePool as a layer."""
    return state.emit(GlobalAveragePool, node, [image(state, node)])


def reduce_mean(state: Translation, node: Node) -> Activation:
    """ReduceMean over height and width, in one node or in two, as a GlobalAveragePool; over another axis as a Mean."""
    source = state.activation(node)
    axes = axes_of(node, [state.constant(node, i) if i else None for i in range(len(node.inputs))], since=18)
    keepdims = node.flag("keepdims", True)
    if node.opset >= 18 and node.flag("noop_with_empty_axes") and not axes:
        return source
    if source.dims is None:
        source = state.materialize(node, source, node.inputs[0])
    if not axes or source.dims is None:
        raise node.unsupported("it takes the mean over the batch as well")
    gone = normalize_axes(axes, len(source.shape))
    along = [source.dims[axis] for axis in gone]
    if len(along) == 1 and 0 not in along and not source.averaged and (len(source.stored) != 4 or along == [1]):
        return mean(state, node, source, along[0], next(iter(gone)), keepdims)
    averaged = source.averaged | {source.dims[axis] for axis in gone}
    if len(source.stored) != 4 or not averaged <= {2, 3}:
        raise node.unsupported(
            f"it takes the mean over axes {axes} of {source.shape}, not over height and width or one other axis"
        )
    kept = [axis for axis in range(len(source.shape)) if keepdims or axis not in gone]
    shape = tuple(1 if axis in gone else source.shape[axis] for axis in kept)
    if averaged != {2, 3}:
        dims = tuple(source.dims[axis] for axis in kept)
        return replace(source, shape=shape, dims=dims, averaged=frozenset(averaged))
    pooled = state.emit(GlobalAveragePool, node, [replace(source, averaged=frozenset())])
    return state.view(node, pooled, shape)


def mean(state: Translation, node: Node, source: Activation, dim: int, axis: int, keepdims: bool) -> Activation:
    """The mean along one dimension of a tensor, `axis` of its view, by a Mean layer."""
    dims = source.dims or ()
    result = state.emit(Mean, node, [source], dim=dim)
    result = replace(result, shape=tuple(result.stored[one] for one in dims), dims=dims)
    return result if keepdims else state.view(node, result, (*result.shape[:axis], *result.shape[axis + 1 :]))


def max_pool(state: Translation, node: Node) -> Activation:
    """MaxPool in two dimensions, without its indices, as a MaxPool2d layer."""
    source = image(state, node)
    if len(node.outputs) > 1 and node.outputs[1]:
        raise node.unsupported("its second output, the indices, is not computed here")
    node.integer("storage_order", 0)  # affects the indices only
    kernel_size, stride = node.pair("kernel_shape", (1, 1)), node.pair("strides", (1, 1))
    dilation = node.pair("dilations", (1, 1))
    padding = padding_of(node, source.shape[2:], kernel_size, stride, dilation)
    ceil_mode = node.flag("ceil_mode")
    return state.emit(
        MaxPool2d,
        node,
        [source],
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
    )


def average_pool(state: Translation, node: Node) -> Activation:
    """AveragePool in two dimensions; if the window covers the whole image, a GlobalAveragePool."""
    source = image(state, node)
    kernel_size, stride = node.pair("kernel_shape", (1, 1)), node.pair("strides", (1, 1))
    if node.pair("dilations", (1, 1)) != (1, 1):
        raise node.unsupported("its window is dilated")
    padding = padding_of(node, source.shape[2:], kernel_size, stride, (1, 1))
    ceil_mode = node.flag("ceil_mode")
    count_include_pad = node.flag("count_include_pad")
    if kernel_size == source.shape[2:] and padding == ((0, 0), (0, 0)):
        return state.emit(GlobalAveragePool, node, [source])
    return state.emit(
        AveragePool2d,
        node,
        [source],
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


def padding_of(node: Node, extent: tuple[int, ...], kernel_size: Pair, stride: Pair, dilation: Pair) -> Padding:
    """((top, bottom), (left, right)) from `pads` or `auto_pad`. extent: (height, width) of the image.

    SAME gives ⌈in / stride⌉ outputs; an odd zero goes after (SAME_UPPER) or before (SAME_LOWER) the image.
    """
    mode = node.text("auto_pad", "NOTSET")
    pads = node.integers("pads") or (0, 0, 0, 0)
    if len(pads) != 4:
        raise node.invalid(f"it has {len(pads)} paddings, not 4")
    if mode == "NOTSET":
        if min(pads) < 0:
            raise node.invalid(f"its padding {pads} is negative")
        top, left, bottom, right = pads
        return ((top, bottom), (left, right))
    if any(pads):
        raise node.invalid(f"it has both pads and auto_pad {mode}")
    if mode == "VALID":
        return ((0, 0), (0, 0))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.invalid(f"auto_pad {mode!r} is not known")
    if min(stride) < 1:
        raise node.invalid(f"stride {min(stride)} is below 1")
    around = []
    for size, k, step, d in zip(extent, kernel_size, stride, dilation, strict=True):
        total = max((-(-size // step) - 1) * step + (k - 1) * d + 1 - size, 0)
        less, more = total // 2, total - total // 2
        around.append((less, more) if mode == "SAME_UPPER" else (more, less))
    return (around[0], around[1])
