"""Batch-norm folding: a convolution and the batch-norm after it are one convolution with a bias.

At inference a batch-norm is an affine map per channel o, with constant parameters:

    bn(y)[o] = (y[o] − mean[o]) · s[o] + beta[o],          s[o] = gamma[o] / √(var[o] + eps)

(gamma is the layer's `weight`, beta its `bias`; mean and var are the running statistics.) A convolution is linear in
its weight, so with y = weight ⋆ x + bias the scale can be multiplied into the weight, and the rest added to the bias:

    bn(weight ⋆ x + bias)[o] = (s[o] · weight[o]) ⋆ x[o] + (bias[o] − mean[o]) · s[o] + beta[o]
                                └── weight'[o] ──┘        └────────── bias'[o] ─────────────┘

The same holds for groups and depthwise convolutions: dimension 0 of the weight is always the output channel. Of a
transposed convolution it is dimension 1, within the group of the input channel.
Sources: S. Ioffe, C. Szegedy, "Batch Normalization" (arXiv:1502.03167), algorithm 2; B. Jacob et al.,
"Quantization and Training of Neural Networks" (arXiv:1712.05877), section 3.2.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..topology import BatchNorm2d, Conv2d, ConvTranspose2d, Graph, build
from .checking import check
from .files import Parameters


def fold(
    weight: np.ndarray,
    bias: np.ndarray | None,
    gamma: np.ndarray,
    beta: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
    eps: float = 1e-5,
) -> tuple[np.ndarray, np.ndarray]:
    """(weight', bias') of the folded convolution, by the formulas above.

    weight: (out_channels, in_channels / groups, kH, kW), all others (out_channels,). Computed in float64,
    returned in the weight's dtype, so each number is rounded once.
    ValueError unless var + eps is positive.
    """
    variance = np.asarray(var, np.float64) + eps
    if not (variance > 0).all():
        channel = int(np.argmin(variance))
        raise ValueError(f"the variance of channel {channel} is {var[channel]}, not positive even with eps")
    scale = gamma / np.sqrt(variance)
    centre = np.float64(0) if bias is None else np.asarray(bias, np.float64)
    shift = beta + (centre - mean) * scale
    folded = np.asarray(weight, np.float64) * scale.reshape(-1, 1, 1, 1)
    return folded.astype(weight.dtype), shift.astype(weight.dtype)


def fold_batch_norm(graph: Graph, parameters: Mapping[str, np.ndarray]) -> tuple[Graph, Parameters]:
    """Replace every Conv2d or ConvTranspose2d with a BatchNorm2d after it by one with a bias.

    The convolution keeps its name and its weight's name; a new bias has the weight's name with "bias" for "weight".
    A batch-norm is kept if it does not follow a convolution (DenseNet normalises before convolving), if another layer
    reads the convolution's output too, or if layers share the parameters. Folded parameters leave Graph.grids. The
    arguments are not modified.
    ValueError if the parameters do not fit the graph.
    """
    check(graph, parameters)
    readers = Counter(tensor for layer in graph for tensor in layer.inputs)
    readers.update(graph.outputs)
    uses = Counter(name for layer in graph for name in layer.parameter_shapes)
    produced_by = {layer.output: layer for layer in graph}

    pairs: dict[str, BatchNorm2d] = {}  # convolution's output → the batch-norm to fold into it
    for norm in graph:
        conv = produced_by.get(norm.inputs[0])
        if (
            isinstance(norm, BatchNorm2d)
            and isinstance(conv, (Conv2d, ConvTranspose2d))
            and readers[conv.output] == 1
            and all(uses[name] == 1 for name in conv.parameter_shapes)
        ):
            pairs[conv.output] = norm

    renamed = {
        norm.output: output for output, norm in pairs.items()
    }  # readers of the norm read the convolution instead
    folded = {name: parameters[name] for name in graph.parameter_shapes}
    layers = []
    for layer in graph:
        if layer.output in renamed:
            continue
        if isinstance(layer, (Conv2d, ConvTranspose2d)) and layer.output in pairs:
            norm = pairs[layer.output]
            bias_name = layer.bias or new_name(layer.weight.removesuffix(".weight") + ".bias", folded)
            try:
                weight, bias = fold(
                    outputs_first(layer, parameters[layer.weight]),
                    None if layer.bias is None else parameters[layer.bias],
                    parameters[norm.weight],
                    parameters[norm.bias],
                    parameters[norm.running_mean],
                    parameters[norm.running_var],
                    norm.eps,
                )
            except ValueError as error:
                raise ValueError(f"batch-norm {norm.name!r}: {error}") from error
            folded |= {layer.weight: inputs_first(layer, weight), bias_name: bias}
            layer = replace(layer, bias=bias_name)
        layers.append(replace(layer, inputs=tuple(renamed.get(tensor, tensor) for tensor in layer.inputs)))

    output, *more = (renamed.get(name, name) for name in graph.outputs)
    changed = {name for layer in layers if layer.output in pairs for name in layer.parameter_shapes}
    grids = tuple((name, grid) for name, grid in graph.grids if name not in changed)
    result = replace(graph, layers=tuple(layers), output=output, more_outputs=tuple(more), grids=grids)
    return result, {name: folded[name] for name in result.parameter_shapes}


def outputs_first(layer: Conv2d | ConvTranspose2d, weight: np.ndarray) -> np.ndarray:
    """The weight with the output channels in dimension 0, as a Conv2d has it."""
    if isinstance(layer, Conv2d):
        return weight
    inputs, outputs, *size = weight.shape  # of all groups, per group
    apart = weight.reshape(layer.groups, inputs // layer.groups, outputs, *size)
    return apart.swapaxes(1, 2).reshape(layer.out_channels, inputs // layer.groups, *size)


def inputs_first(layer: Conv2d | ConvTranspose2d, weight: np.ndarray) -> np.ndarray:
    """The weight that `outputs_first` was given."""
    if isinstance(layer, Conv2d):
        return weight
    outputs, inputs, *size = weight.shape  # of all groups, per group
    apart = weight.reshape(layer.groups, outputs // layer.groups, inputs, *size)
    return np.ascontiguousarray(apart.swapaxes(1, 2)).reshape(layer.in_channels, outputs // layer.groups, *size)


def fold_state_dict(
    state_dict: Mapping, width: float = 1.0, num_classes: int = 1000, input_size: int = 224
) -> tuple[Graph, Parameters]:
    """MobileNetV2's folded layers and parameters, from a PyTorch state dict with torchvision's names.

    Its values are torch tensors or NumPy arrays; the counters `num_batches_tracked`, used in training only, are
    ignored. ValueError naming every parameter that is missing, left over or of another shape.
    """
    graph = build(width, num_classes, input_size, batch_norm=True)
    counters = "num_batches_tracked"
    parameters = {name: np.asarray(x) for name, x in state_dict.items() if not name.endswith(counters)}
    return fold_batch_norm(graph, parameters)


def new_name(name: str, taken: Mapping) -> str:
    """The name, with "_folded" appended until it is not in `taken`."""
    while name in taken:
        name += "_folded"
    return name
