"""Which layers run as one: a convolution with what follows it, as far as its kernel can do that on the side."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from .. import topology
from ..topology import layers as kinds


@dataclass
class Step:
    """Layers that are computed as one: the tensors that they read and the one that they write."""

    layers: list[topology.Layer]
    inputs: list[str]
    output: str
    residual: str | None = None
    activation: Any = None

    @property
    def layer(self) -> Any:
        """The layer that gives the step its kernel; the others are done on the side."""
        return self.layers[0]

    @property
    def reads(self) -> tuple[str, ...]:
        """The tensors that it reads, each once."""
        return tuple(dict.fromkeys([*self.inputs, *([self.residual] if self.residual else [])]))

    @property
    def output_shape(self) -> kinds.Shape:
        return self.layers[-1].output_shape

    @property
    def title(self) -> str:
        """In words: "Conv2d(96, 24, 1, 1, 0, 1) + ResidualAdd"."""
        return " + ".join([str(self.layer), *(type(layer).__name__ for layer in self.layers[1:])])

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return sum(layer.macs for layer in self.layers)

    def parameter_bytes(self, itemsize: int) -> int:
        """Bytes of parameters, each read once."""
        return sum(layer.weight_bytes(itemsize) for layer in self.layers)

    def activation_bytes(self, itemsize: int) -> int:
        """Bytes of activations, each tensor read once and the output written once."""
        shapes: dict[str, kinds.Shape] = {}
        for layer in self.layers:
            shapes |= dict(zip(layer.inputs, layer.input_shapes, strict=True))
        return itemsize * sum(math.prod(shape) for shape in (*(shapes[name] for name in self.reads), self.output_shape))


def activation_of(layer: topology.Layer) -> Any:
    """What `activation=` of a convolution stands for a layer, or None if the layer is no such clamp."""
    if isinstance(layer, kinds.ReLU6):
        return "relu6"
    if isinstance(layer, kinds.ReLU):
        return "relu"
    if isinstance(layer, kinds.Clip):
        return (layer.min, layer.max)
    return None


def fuse(graph: topology.Graph) -> list[Step]:
    """The layers as steps: a convolution takes the residual addition and the activation that follow it along.

    So does a batch-norm that could not be folded, as it runs as a convolution. Only where nothing else reads the tensor
    between them, and in the order in which the kernel computes: activation(convolution + residual).
    """
    readers = Counter(name for layer in graph.layers for name in layer.inputs)
    readers[graph.output] += 1
    steps: list[Step] = []
    writer: dict[str, Step] = {}  # the step whose convolution wrote a tensor and can still take something along
    for layer in graph.layers:
        step = next((writer[name] for name in layer.inputs if name in writer and readers[name] == 1), None)
        # an addition can only join a step if the other operand is ready by then: join the later of the two
        if isinstance(layer, kinds.ResidualAdd) and layer.inputs[0] != layer.inputs[1]:
            candidates = [writer[name] for name in layer.inputs if name in writer and readers[name] == 1]
            step = max(candidates, key=steps.index, default=None)
            if step is not None and step.residual is None:
                other = next(name for name in layer.inputs if name != step.output)
                if all(other != later.output for later in steps[steps.index(step) + 1 :]):
                    _join(step, layer, writer)
                    step.residual = other
                    continue
        activation = activation_of(layer)
        if activation is not None and step is not None:
            _join(step, layer, writer)
            step.activation = activation
            del writer[layer.output]  # what comes after an activation is another step
            continue
        made = Step([layer], list(layer.inputs), layer.output)
        steps.append(made)
        if isinstance(layer, kinds.Conv2d | kinds.BatchNorm2d):
            writer[layer.output] = made
    return steps


def _join(step: Step, layer: topology.Layer, writer: dict[str, Step]) -> None:
    writer.pop(step.output, None)
    step.layers.append(layer)
    step.output = layer.output
    writer[layer.output] = step
