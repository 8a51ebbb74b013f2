"""Fusion: which layers run as one kernel, and which bytes the kernels read and write.

    groups = kernels(graph, LEVELS["whole block"])     lists of layers, one list per kernel
    traffic(graph, groups)                             (elements read, elements written) of each, for one picture
    counts(graph)                                      {level: (kernels, elements moved)}, for the table of chapter 01

A kernel reads the tensors that come from outside, each once, and writes those that are needed outside.
"""

from collections.abc import Callable, Sequence
from math import prod

from .graph import Graph
from .layers import Conv2d, GlobalAveragePool, Layer, Linear, ReLU6, ResidualAdd

Kernel = list[Layer]
Joins = Callable[[Kernel, Layer], bool]


def kernels(graph: Graph, joins: Joins) -> list[Kernel]:
    """The layers in groups: a layer joins the kernel of the layer before it if joins(kernel, layer)."""
    groups: list[Kernel] = []
    for layer in graph:
        if groups and joins(groups[-1], layer):
            groups[-1].append(layer)
        else:
            groups.append([layer])
    return groups


def traffic(graph: Graph, groups: Sequence[Kernel]) -> list[tuple[int, int]]:
    """(elements read, elements written) of activations by each kernel, for one picture."""
    size = {name: prod(shape[1:]) for name, shape in graph.shapes.items()}
    reads = [{name for layer in kernel for name in layer.inputs} for kernel in groups]
    found = []
    for i, kernel in enumerate(groups):
        written = {layer.output for layer in kernel}
        outside = set(graph.outputs).union(*(names for j, names in enumerate(reads) if j != i))
        found.append((sum(size[n] for n in reads[i] - written), sum(size[n] for n in written & outside)))
    return found


def _depthwise(layer: Layer) -> bool:
    return isinstance(layer, Conv2d) and layer.groups > 1


def _expands(layer: Layer) -> bool:
    """A 1×1 convolution to more channels: a block's first layer, or the head."""
    return isinstance(layer, Conv2d) and layer.kernel_size == (1, 1) and layer.out_channels > layer.in_channels


def _alone(kernel: Kernel, layer: Layer) -> bool:
    return False


def _epilogue(kernel: Kernel, layer: Layer) -> bool:
    return isinstance(layer, ReLU6 | ResidualAdd)


def _pool(kernel: Kernel, layer: Layer) -> bool:
    return isinstance(layer, ReLU6 | ResidualAdd | GlobalAveragePool)


def _depthwise_project(kernel: Kernel, layer: Layer) -> bool:
    return _pool(kernel, layer) or (_depthwise(kernel[0]) and not _expands(layer) and not isinstance(layer, Linear))


def _expand_depthwise(kernel: Kernel, layer: Layer) -> bool:
    return _pool(kernel, layer) or (_expands(kernel[0]) and _depthwise(layer))


def _whole_block(kernel: Kernel, layer: Layer) -> bool:
    if isinstance(layer, Linear) or _expands(layer):
        return False
    return not _depthwise(layer) or _expands(kernel[0])


def _stem_too(kernel: Kernel, layer: Layer) -> bool:
    return not isinstance(layer, Linear) and not _expands(layer)


def kind(layer: Layer) -> str:
    """The kind of a layer, a key of report.plots.COLOURS, or the layer's class: "stem", "expand", … "add", "ReLU6"."""
    if isinstance(layer, Conv2d):
        if _depthwise(layer):
            return "depthwise"
        if layer.kernel_size != (1, 1):
            return "stem"
        return ("head" if layer.out_channels > 960 else "expand") if _expands(layer) else "project"
    names = {Linear: "linear", GlobalAveragePool: "pool", ResidualAdd: "add"}
    return names.get(type(layer), type(layer).__name__)


LEVELS: dict[str, Joins] = {
    "ReLU6 and add separate": _alone,
    "bias, ReLU6, add fused": _epilogue,
    "depthwise + project": _depthwise_project,
    "expand + depthwise": _expand_depthwise,
    "whole block": _whole_block,
    "whole block, stem + block 1": _stem_too,
}
BIAS_SEPARATE = "bias, ReLU6, add separate"  # not in LEVELS: in a Graph the bias is part of its convolution


def counts(graph: Graph) -> dict[str, tuple[int, int]]:
    """{level: (number of kernels, elements of activations moved for one picture)}, from nothing fused on.

    With a separate bias, each convolution's output is read and written once more.
    """
    apart = [prod(layer.output_shape[1:]) for layer in graph if isinstance(layer, Conv2d)]
    found = {}
    for name, joins in LEVELS.items():
        groups = kernels(graph, joins)
        found[name] = len(groups), sum(map(sum, traffic(graph, groups)))
    number, elements = found["ReLU6 and add separate"]
    return {BIAS_SEPARATE: (number + len(apart), elements + 2 * sum(apart)), **found}
