"""Merges layers into others: the parts of a GELU or a layer norm, padding into a convolution, constants, two clips.

The results stay the same; the list of layers becomes the one that the network was defined with.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .layers import (
    GELU,
    BatchNorm2d,
    Clip,
    Conv2d,
    ConvTranspose2d,
    Div,
    Erf,
    GroupNorm,
    Layer,
    LayerNorm,
    Linear,
    Mean,
    Mul,
    Pad,
    ReLU,
    ReLU6,
    ResidualAdd,
    Shape,
    Sqrt,
    Sub,
    Tanh,
)
from .operators.pointwise import clip_kind
from .translation import Names

Parameters = dict[str, np.ndarray]


def simplify(layers: list[Layer], outputs: Sequence[str], parameters: Parameters) -> list[Layer]:
    """The layers after the rules below. outputs: tensors; parameters: by name, sums of biases are added to the dict."""
    layers = unread_removed(parts_into_gelu(layers, parameters), outputs)
    layers = unread_removed(parts_into_layer_norm(layers, parameters), outputs)
    layers = affines_into_norms(layers, outputs, parameters)
    layers = pads_into_convolutions(layers, outputs)
    layers = shifts_into_biases(layers, outputs, parameters)
    return clips_into_one(layers, outputs)


POINTS = np.linspace(-6, 6, 61)  # at which two functions are compared
GELUS = {
    "none": POINTS / 2 * (1 + np.array([math.erf(x * math.sqrt(0.5)) for x in POINTS])),
    "tanh": POINTS / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (POINTS + 0.044715 * POINTS**3))),
}
MOST_PARTS = 24  # layers looked at before the last part; the tanh form has 10


def parts_into_gelu(layers: list[Layer], parameters: Parameters) -> list[Layer]:
    """A GELU written in parts, in · (1 + erf(in / √2)) / 2 or its tanh form, becomes one layer in place of the last.

    Exporters order and round the parts in many ways, so they are recognized by what they compute: as a function of one
    tensor before it, the last part has GELU's values at all POINTS. The other parts stay, see unread_removed.
    """
    writers: dict[str, Layer] = {}
    behind: dict[str, int] = {}  # tensor → number of layers since an Erf or a Tanh, up to 4
    result = []
    for layer in layers:
        since = min((behind[name] for name in layer.inputs if name in behind), default=4)
        if isinstance(layer, Erf | Tanh):
            behind[layer.output] = 0
        elif isinstance(layer, BatchNorm2d | Mul) and since < 4:
            behind[layer.output] = since + 1
            layer = gelu_of(layer, writers, parameters) or layer
        writers[layer.output] = layer
        result.append(layer)
    return result


def gelu_of(last: Layer, writers: dict[str, Layer], parameters: Parameters) -> GELU | None:
    """The GELU of one of the tensors before `last` that is equal to `last`, if there is one. writers: by output."""
    parts: dict[str, Layer] = {}
    seen = [*last.inputs]
    for name in seen:  # grows
        if name in writers and name not in parts and len(parts) < MOST_PARTS:
            parts[name] = writers[name]
            seen += writers[name].inputs
    shape = last.output_shape
    for source in dict.fromkeys(seen):
        values = value_of(last, {source: POINTS}, parts, shape, parameters)
        for form, wanted in GELUS.items():
            if values is not None and np.allclose(values, wanted, rtol=0, atol=1e-6):
                return GELU(
                    name=last.name, inputs=(source,), output=last.output, input_shapes=(shape,), approximate=form
                )
    return None


Values = np.ndarray | None


def value_of(
    layer: Layer, known: dict[str, Values], parts: dict[str, Layer], shape: Shape, parameters: Parameters
) -> Values:
    """A layer's values where the tensors in `known` have theirs; None if it is no elementwise function of these.

    parts: the layers to look at, by output. shape: of all of them. The values of parts are added to `known`.
    """
    for name in layer.inputs:
        if name not in known:
            known[name] = None
            if name in parts:
                known[name] = value_of(parts[name], known, parts, shape, parameters)
    inputs = [known[name] for name in layer.inputs]
    first, second = inputs[0], inputs[-1]
    if first is None or second is None or any(one != shape for one in (layer.output_shape, *layer.input_shapes)):
        return None
    if isinstance(layer, Mul):
        return first * second
    if isinstance(layer, ResidualAdd):
        return first + second
    if isinstance(layer, Tanh):
        return np.tanh(first)
    if isinstance(layer, Erf):
        return np.array([math.erf(x) for x in first])
    if isinstance(layer, BatchNorm2d) and only_scales_and_shifts(layer, parameters):
        scale, shift = parameters[layer.weight], parameters[layer.bias]
        if (scale == scale[0]).all() and (shift == shift[0]).all():
            return float(scale[0]) * first + float(shift[0])
    return None


def parts_into_layer_norm(layers: list[Layer], parameters: Parameters) -> list[Layer]:
    """A layer norm in parts, (in − mean) / √(mean of (in − mean)² + eps), becomes one layer in place of the quotient.

    Exporters to operator sets before 17 write it like this. The other parts stay, see unread_removed.
    """
    writers: dict[str, Layer] = {}
    result = []
    for layer in layers:
        layer = layer_norm_of(layer, writers, parameters) or layer
        writers[layer.output] = layer
        result.append(layer)
    return result


def layer_norm_of(last: Layer, writers: dict[str, Layer], parameters: Parameters) -> LayerNorm | None:
    """The LayerNorm that is equal to `last`, if it is the quotient of one in parts. writers: by output."""

    def written(name: str, kind: type[Layer]) -> Layer | None:
        layer = writers.get(name)
        return layer if isinstance(layer, kind) else None

    def deviation(name: str) -> tuple[str, int] | None:
        """(in, dim) if the tensor is in − mean of in along dim."""
        difference = written(name, Sub)
        mean = written(difference.inputs[1], Mean) if difference else None
        same = difference and mean and mean.inputs[0] == difference.inputs[0]
        return (mean.inputs[0], mean.dim) if same and isinstance(mean, Mean) else None

    centred = deviation(last.inputs[0]) if isinstance(last, Div) else None
    root = written(last.inputs[1], Sqrt) if centred else None
    if centred is None or root is None:
        return None
    raised = written(root.inputs[0], BatchNorm2d)
    variance = written(raised.inputs[0] if raised else root.inputs[0], Mean)
    square = written(variance.inputs[0], Mul) if variance else None
    if not (isinstance(variance, Mean) and square and variance.dim == centred[1]):
        return None
    if any(deviation(name) != centred for name in square.inputs):
        return None
    eps = np.float32(0)
    if isinstance(raised, BatchNorm2d):
        eps = parameters[raised.bias][0]
        if not only_shifts(raised, parameters) or (parameters[raised.bias] != eps).any() or eps < 0:
            return None
    return LayerNorm(
        name=last.name,
        inputs=(centred[0],),
        output=last.output,
        input_shapes=last.input_shapes[:1],
        dim=centred[1],
        eps=float(str(eps)),
    )


def affines_into_norms(layers: list[Layer], outputs: Sequence[str], parameters: Parameters) -> list[Layer]:
    """A per-channel scale and shift becomes weight and bias of the layer norm over channels or group norm before it.

    This requires that nothing else reads that layer's output. Products and sums with a weight and a bias that the norm
    has already are new parameters.
    """
    readers = Counter(name for layer in layers for name in layer.inputs) + Counter(outputs)
    result: dict[str, Layer] = {}
    names = Names(parameters)
    for layer in layers:
        before = result.get(layer.inputs[0])
        if (
            isinstance(layer, BatchNorm2d)
            and (isinstance(before, GroupNorm) or (isinstance(before, LayerNorm) and before.dim == 1))
            and readers[before.output] == 1
            and only_scales_and_shifts(layer, parameters)
        ):
            scale, shift = parameters[layer.weight], parameters[layer.bias]
            weight, bias = before.weight, before.bias
            if (scale != 1).any():
                weight = layer.weight
                if before.weight is not None:
                    weight = names.take(f"{before.weight}*{layer.weight}")
                    parameters[weight] = parameters[before.weight] * scale
                if before.bias is not None:
                    bias = names.take(f"{before.bias}*{layer.weight}")
                    parameters[bias] = parameters[before.bias] * scale
            if (shift != 0).any():
                if bias is None:
                    bias = layer.bias
                else:
                    total = names.take(f"{bias}+{layer.bias}")
                    parameters[total] = parameters[bias] + shift
                    bias = total
            del result[before.output]
            layer = replace(before, output=layer.output, weight=weight, bias=bias)
        result[layer.output] = layer
    return list(result.values())


def unread_removed(layers: list[Layer], outputs: Sequence[str]) -> list[Layer]:
    """The layers that the tensors `outputs` depend on."""
    read, result = set(outputs), []
    for layer in reversed(layers):
        if layer.output in read:
            read.update(layer.inputs)
            result.append(layer)
    return result[::-1]


def pads_into_convolutions(layers: list[Layer], outputs: Sequence[str]) -> list[Layer]:
    """A Pad with zeros that only convolutions read becomes part of their padding."""
    other_readers = {name for layer in layers if not isinstance(layer, Conv2d) for name in layer.inputs}
    other_readers |= set(outputs)
    pads = {
        layer.output: layer
        for layer in layers
        if isinstance(layer, Pad) and layer.value == 0 and layer.output not in other_readers
    }
    result = []
    for layer in layers:
        if layer.output in pads:
            continue
        if isinstance(layer, Conv2d) and layer.inputs[0] in pads:
            pad = pads[layer.inputs[0]]
            rows, columns = ((a[0] + b[0], a[1] + b[1]) for a, b in zip(pad.padding, layer.padding, strict=True))
            layer = replace(layer, inputs=pad.inputs, input_shapes=pad.input_shapes, padding=(rows, columns))
        result.append(layer)
    return result


def shifts_into_biases(layers: list[Layer], outputs: Sequence[str], parameters: Parameters) -> list[Layer]:
    """A per-channel shift becomes the bias of the convolution, linear layer or batch-norm before it.

    This requires that nothing else reads that layer's output. The sum of two biases is a new parameter "first+second";
    further ones are added to it in place, so a long chain needs neither long names nor many arrays.
    """
    readers = Counter(name for layer in layers for name in layer.inputs) + Counter(outputs)
    result: dict[str, Layer] = {}
    names, sums = Names(parameters), set()
    for layer in layers:
        before = result.get(layer.inputs[0])
        if (
            isinstance(layer, BatchNorm2d)
            and isinstance(before, Conv2d | ConvTranspose2d | Linear | BatchNorm2d)
            and readers[before.output] == 1
            and only_shifts(layer, parameters)
        ):
            bias = layer.bias
            if before.bias is not None:
                bias = before.bias if before.bias in sums else names.take(f"{before.bias}+{layer.bias}")
                parameters[bias] = parameters[before.bias] + parameters[layer.bias]
                sums.add(bias)
            del result[before.output]
            layer = replace(before, output=layer.output, bias=bias)
        result[layer.output] = layer
    return list(result.values())


def only_shifts(layer: BatchNorm2d, parameters: Parameters) -> bool:
    """Whether the batch-norm only adds its bias."""
    return only_scales_and_shifts(layer, parameters) and bool((parameters[layer.weight] == 1).all())


def only_scales_and_shifts(layer: BatchNorm2d, parameters: Parameters) -> bool:
    """Whether the batch-norm is weight · in + bias."""
    mean, var = parameters[layer.running_mean], parameters[layer.running_var]
    return layer.eps == 0 and bool((mean == 0).all() and (var == 1).all())


def clips_into_one(layers: list[Layer], outputs: Sequence[str]) -> list[Layer]:
    """Two successive clamps become one if nothing else reads the first: max(in, 0), then min(·, 6), is a ReLU6."""
    readers = Counter(name for layer in layers for name in layer.inputs) + Counter(outputs)
    result: dict[str, Layer] = {}
    for layer in layers:
        before, outer = result.get(layer.inputs[0]), bounds(layer)
        if before is not None and outer and (inner := bounds(before)) and readers[before.output] == 1:
            lower, upper = (min(max(bound, outer[0]), outer[1]) for bound in inner)
            kind, fields = clip_kind(lower, upper)
            if kind is not None:
                del result[before.output]
                layer = kind(
                    name=layer.name,
                    inputs=before.inputs,
                    output=layer.output,
                    input_shapes=before.input_shapes,
                    **fields,
                )
        result[layer.output] = layer
    return list(result.values())


def bounds(layer: Layer) -> tuple[float, float] | None:
    """(min, max) of a layer that clamps; None for other kinds of layers."""
    if isinstance(layer, ReLU6):
        return (0.0, 6.0)
    if isinstance(layer, ReLU):
        return (0.0, math.inf)
    if isinstance(layer, Clip):
        return (layer.min, layer.max)
    return None
