"""Epilogue fusion: a convolution with the residual addition and the activation that follow it."""

from typing import Any

from ..topology import layers as kinds
from ..topology.graph import Graph
from .passes import as_steps, rewrite
from .registry import Arrays, Fusion, Match, Part, Step, operator_of, register


def activation_of(layer: kinds.Layer | None) -> Any:
    """A layer as the `activation` argument of a convolution: "relu6", "relu", (low, high), or None for other layers."""
    if isinstance(layer, kinds.ReLU6):
        return "relu6"
    if isinstance(layer, kinds.ReLU):
        return "relu"
    if isinstance(layer, kinds.Clip):
        return (layer.min, layer.max)
    return None


class ConvStep(Step):
    """A convolution (or a batch-norm that runs as one) with a residual addition, an activation, or both."""


@register
class Epilogue(Fusion):
    """Fuses a convolution with the residual addition and the activation that follow it.

    The kernel computes activation(convolution + residual), in this order. A batch-norm that could not be folded runs as
    a convolution and is fused likewise. The step takes the convolution's place in the order of steps, so the other
    operand must be computed before: if both operands are convolutions, the later one is fused with the addition.
    """

    name = "epilogue"
    pattern = (
        Part("convolution", (kinds.Conv2d, kinds.ConvTranspose2d, kinds.BatchNorm2d)),
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

    # the convolution's operator runs the step, with the step's residual and activation

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return operator_of(step.layer).kernels(run, step, arrays)  # type: ignore[union-attr]

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        return operator_of(step.layer).cudnn(run, step, arrays)  # type: ignore[union-attr]

    def terms(self, layer: Any) -> int:
        return operator_of(layer.layer).terms(layer.layer)  # type: ignore[union-attr]


def fuse(graph: Graph, *fusions: Fusion) -> list[Step]:
    """The graph's layers as steps: convolutions fused with their epilogues, then the matches of `fusions`, in order."""
    for fusion in (Epilogue(), *fusions):
        graph = rewrite(graph, (fusion,))
    return as_steps(graph)
