"""Cross-layer equalization: channels between two convolutions get comparable ranges, and the network stays the same.

For a convolution W1, an activation f and a convolution W2 that alone reads it, and any s > 0 per channel c between,

    W2[:, c] · f(W1[c] · x + b1[c])  =  (W2[:, c] · s) · f((W1[c] · x + b1[c]) / s)         if f(s·x) = s·f(x)

With s = √(r1 / r2), r1 and r2 the largest weights of channel c in W1 and in W2, both become √(r1·r2), and a scale for
a whole tensor fits all channels better. (M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias
Correction", 2019, section 4.1.)

ReLU is such an f; ReLU6 is not, because its bound stays at 6: between the scaled layers it clamps at 6·s of the
original numbers. The scaled network must not clamp what the original does not, and must clamp what it does. So a
channel that reaches the bound on the calibration pictures keeps s = 1, and of another one s is at least its greatest
number / 6. With that the network is the same for every picture that stays within the calibrated ranges.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from ..topology import Graph
from ..topology import layers as kinds
from .calibration import channel_maxima

Pair = tuple[kinds.Conv2d, kinds.Layer | None, kinds.Conv2d]

LARGEST = 2.0**10  # s is between 1 / LARGEST and LARGEST
MARGIN = 1.001  # of a channel's greatest number, over what calibration saw


def pairs(graph: Graph) -> list[Pair]:
    """(convolution, activation or None, convolution) for each two that nothing else reads in between.

    The activation is a ReLU or a ReLU6. Parameters must be the convolutions' own; the second convolution is depthwise,
    or has one group.
    """
    readers = Counter(name for layer in graph for name in layer.inputs) + Counter(graph.outputs)
    uses = Counter(name for layer in graph for name in layer.parameter_shapes)
    writers = {layer.output: layer for layer in graph}
    found: list[Pair] = []
    for second in graph:
        if not isinstance(second, kinds.Conv2d):
            continue
        first, activation = writers.get(second.inputs[0]), None
        if isinstance(first, kinds.ReLU | kinds.ReLU6) and readers[first.output] == 1:
            activation, first = first, writers.get(first.inputs[0])
        if not isinstance(first, kinds.Conv2d) or readers[first.output] != 1:
            continue
        own = all(uses[name] == 1 for layer in (first, second) for name in layer.parameter_shapes)
        if own and (second.groups == 1 or second.groups == second.in_channels):
            found.append((first, activation, second))
    return found


def equalized(graph: Graph, parameters: Mapping[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
    """The parameters after equalization of all pairs, in the order of the graph. x: calibration pictures, for ReLU6."""
    every = pairs(graph)
    bounded = {first.output for first, activation, _ in every if isinstance(activation, kinds.ReLU6)}
    greatest = channel_maxima(graph, parameters, x, bounded)
    result = dict(parameters)
    for first, _, second in every:
        w1, w2 = result[first.weight], result[second.weight]
        along = 0 if second.groups > 1 else 1  # the dimension of w2 that is the channel between
        r1 = np.abs(w1).max(axis=(1, 2, 3)).astype(np.float64)
        r2 = np.abs(w2).max(axis=tuple(i for i in range(4) if i != along)).astype(np.float64)
        able = (r1 > 0) & (r2 > 0)
        s = np.sqrt(np.where(able, r1, 1) / np.where(able, r2, 1)).clip(1 / LARGEST, LARGEST)
        if first.output in bounded:
            reached = greatest[first.output].astype(np.float64) * MARGIN
            s = np.where(reached >= 6, 1.0, np.maximum(s, reached / 6))
        result[first.weight] = (w1 / s[:, None, None, None]).astype(np.float32)
        if first.bias is not None:
            result[first.bias] = (result[first.bias] / s).astype(np.float32)
        shape = [-1 if i == along else 1 for i in range(4)]
        result[second.weight] = (w2 * s.reshape(shape)).astype(np.float32)
    return result


def unbalanced(
    graph: Graph, parameters: Mapping[str, np.ndarray], x: np.ndarray, largest: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Parameters with which the network computes the same, but channels before depthwise convolutions differ in range.

    Each such channel is divided by a power of two, 1 to 2^largest, drawn by `rng`, as training may leave a network: an
    error of quantization that equalization repairs. Scaling by powers of two is exact; a channel that gets near the
    bound of a ReLU6 on the pictures x is left as it is.
    """
    every = [(first, second) for first, _, second in pairs(graph) if second.groups > 1]
    greatest = channel_maxima(graph, parameters, x, {first.output for first, _ in every})
    result = dict(parameters)
    for first, second in every:
        s = np.exp2(rng.integers(0, largest + 1, first.out_channels)).astype(np.float32)
        s[greatest[first.output] * 1.5 >= 6] = 1
        column = s[:, None, None, None]
        result[first.weight], result[second.weight] = result[first.weight] / column, result[second.weight] * column
        if first.bias is not None:
            result[first.bias] = result[first.bias] / s
    return result
