"""Merges layers into others: padding into a convolution, an added constant into its bias, two clips into one.

The results stay the same; the list of layers becomes the one that the network was defined with.
"""

import math
from collections import Counter
from dataclasses import replace

import numpy as np

from .layers import BatchNorm2d, Clip, Conv2d, Layer, Linear, Pad, ReLU, ReLU6
from .operators.pointwise import clip_kind
from .translation import Names

Parameters = dict[str, np.ndarray]


def simplify(layers: list[Layer], output: str, parameters: Parameters) -> list[Layer]:
    """The layers after the three rules below. parameters: by name; sums of biases are added to the dict."""
    layers = pads_into_convolutions(layers, output)
    layers = shifts_into_biases(layers, output, parameters)
    return clips_into_one(layers, output)


def pads_into_convolutions(layers: list[Layer], output: str) -> list[Layer]:
    """A Pad with zeros that only convolutions read becomes part of their padding."""
    other_readers = {name for layer in layers if not isinstance(layer, Conv2d) for name in layer.inputs} | {output}
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


def shifts_into_biases(layers: list[Layer], output: str, parameters: Parameters) -> list[Layer]:
    """A per-channel shift becomes the bias of the convolution, linear layer or batch-norm before it.

    This requires that nothing else reads that layer's output. The sum of two biases is a new parameter "first+second";
    further ones are added to it in place, so a long chain needs neither long names nor many arrays.
    """
    readers = Counter(name for layer in layers for name in layer.inputs) + Counter([output])
    result: dict[str, Layer] = {}
    names, sums = Names(parameters), set()
    for layer in layers:
        before = result.get(layer.inputs[0])
        if (
            isinstance(layer, BatchNorm2d)
            and isinstance(before, Conv2d | Linear | BatchNorm2d)
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
    scale, mean, var = (parameters[name] for name in (layer.weight, layer.running_mean, layer.running_var))
    return layer.eps == 0 and bool((scale == 1).all() and (mean == 0).all() and (var == 1).all())


def clips_into_one(layers: list[Layer], output: str) -> list[Layer]:
    """Two successive clamps become one if nothing else reads the first: max(in, 0), then min(·, 6), is a ReLU6."""
    readers = Counter(name for layer in layers for name in layer.inputs) + Counter([output])
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
