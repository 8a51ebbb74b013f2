"""Which layers run as one: a convolution with what follows it, as far as its kernel can do that on the side."""

from typing import Any

from ..topology import layers as kinds
from ..topology.graph import Graph
from .passes import as_steps, rewrite
from .registry import Arrays, Fusion, Match, Part, Step, operator_of, register


def activation_of(layer: kinds.Layer | None) -> Any:
    """What `activation=` of a convolution stands for a layer, or None if the layer is no such clamp."""
    if isinstance(layer, kinds.ReLU6):
        return "relu6"
    if isinstance(layer, kinds.ReLU):
        return "relu"
    if isinstance(layer, kinds.Clip):
        return (layer.min, layer.max)
    return None


class ConvStep(Step):
    """A convolution, or a batch-norm that runs as one, with its residual addition, its activation, or both."""


@register
class Epilogue(Fusion):
    """A convolution takes the residual addition and the activation that follow it along.

    So does a batch-norm that could not be folded, as it runs as a convolution. In the order in which the kernel
    computes: activation(convolution + residual). The step runs where the convolution stood, so the other operand must
    be there by then: of two convolutions the later one takes the addition.
    """

    name = "epilogue"
    pattern = (
        Part("convolution", (kinds.Conv2d, kinds.BatchNorm2d)),
        Part("add", kinds.ResidualAdd, optional=True),
        Part("activation", (kinds.ReLU6, kinds.ReLU, kinds.Clip), optional=True),
    )
    waits = False

    def build(self, match: Match) -> kinds.Layer | str:
        if len(match.nodes) == 1:
            return ""
        add = match["add"]
        residual = add and next(name for name in add.inputs if name != match["convolution"].output)
        activation = activation_of(match["activation"])
        return ConvStep.of(*match.nodes, residual=residual, activation=activation, fusion=self, parts=match.parts)

    # what runs it is the convolution's operator, which sees the step's residual and activation

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return operator_of(step.layer).kernels(run, step, arrays)  # type: ignore[union-attr]

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        return operator_of(step.layer).cudnn(run, step, arrays)  # type: ignore[union-attr]

    def terms(self, layer: Any) -> int:
        return operator_of(layer.layer).terms(layer.layer)  # type: ignore[union-attr]


def fuse(graph: Graph, *fusions: Fusion) -> list[Step]:
    """The layers as steps: each convolution with its epilogue, then what these fusions find."""
    for fusion in (Epilogue(), *fusions):
        graph = rewrite(graph, (fusion,))
    return as_steps(graph)
