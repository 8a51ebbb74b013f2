"""Steps that become one: an inverted-residual block of MobileNetV2 is three of them, and runs as one kernel.

    merged = merge(fuse(graph), graph, choose)       choose(block) gives the tile to compute it with, or None
    merged = merge_pool(merged, graph, able)         a 1×1 convolution and the global average pool behind it

What is looked for, nobody else reading what lies between:

    1×1 convolution  →  depthwise 3×3, padding 1, stride 1 or 2  →  1×1 convolution (+ residual)
    3×3 convolution of stride 2 and padding 1 on 3 channels  →  the same two
    the last two alone

each with the activation that follows it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from .. import topology
from ..cuda.checks import bounds
from ..optimize.generate import Block, Tile
from ..topology import layers as kinds
from .steps import Step


@dataclass
class BlockStep(Step):
    """A block as one step. parts: the steps that it stands for, expand (if any), depthwise and project."""

    parts: list[Step] = field(default_factory=list)
    block: Block | None = None
    tile: Tile | None = None

    @property
    def title(self) -> str:
        """In words: "InvertedResidual(56×56 24>144>24 +residual)"."""
        return f"InvertedResidual({self.block})"

    @property
    def expand(self) -> Any:
        """The layer that makes the hidden channels, or None."""
        return self.parts[0].layer if len(self.parts) == 3 else None

    @property
    def convolutions(self) -> tuple[Any, Any, Any]:
        """The layers expand (or None), depthwise and project."""
        return self.expand, self.parts[-2].layer, self.parts[-1].layer


@dataclass
class PoolStep(Step):
    """A 1×1 convolution and its global average pool as one step. parts: the two steps that it stands for."""

    parts: list[Step] = field(default_factory=list)


def _dense(layer: Any, kernel: tuple[int, int], stride: tuple[int, int], padding: int) -> bool:
    return (
        isinstance(layer, kinds.Conv2d)
        and layer.groups == 1
        and (layer.kernel_size, layer.stride, layer.dilation) == (kernel, stride, (1, 1))
        and layer.padding == ((padding, padding),) * 2
    )


def is_pointwise(layer: Any) -> bool:
    return _dense(layer, (1, 1), (1, 1), 0)


def _is_stem(layer: Any) -> bool:
    return _dense(layer, (3, 3), (2, 2), 1) and layer.in_channels == 3


def _is_depthwise(layer: Any) -> bool:
    return (
        isinstance(layer, kinds.Conv2d)
        and layer.groups == layer.in_channels == layer.out_channels
        and (layer.kernel_size, layer.dilation, layer.padding) == ((3, 3), (1, 1), ((1, 1), (1, 1)))
        and layer.stride in ((1, 1), (2, 2))
    )


def block_of(parts: Sequence[Step]) -> Block:
    """What steps compute together: [expand,] depthwise, project."""
    depthwise, project = parts[-2].layer, parts[-1].layer
    first = parts[0].layer
    _, hidden, height, width = depthwise.input_shapes[0]
    kind, image, activation = "none", (0, 0), None
    if len(parts) == 3:
        kind, activation = ("stem" if _is_stem(first) else "pointwise"), parts[0].activation
        image = tuple(first.input_shapes[0][2:]) if kind == "stem" else image
    limits = (activation, parts[-2].activation, parts[-1].activation)
    return Block(
        height, width, first.input_shapes[0][1], hidden, project.out_channels, depthwise.stride[0], kind, image,
        tuple(tuple(map(float, bounds(limit))) for limit in limits),  # type: ignore[misc]
        parts[-1].residual is not None,
    )  # fmt: skip


def merge(
    steps: Sequence[Step], graph: topology.Graph, choose: Callable[[Block], Tile | None],
    able: Callable[[Step], bool] = lambda step: True,
) -> list[Step]:  # fmt: skip
    """The steps with blocks merged for which `choose` gives a tile; where it gives none, depthwise and project alone.

    able: whether a step may become part of a block.
    """
    readers = Counter(name for step in steps for name in step.reads)
    readers[graph.output] += 1
    writer = {step.output: step for step in steps}
    gone: set[int] = set()  # steps that are part of a block, by id

    def before(step: Step, last: Step, fits: Callable[[Any], bool]) -> Step | None:
        """The step that writes what this one alone reads, and the last one does not add, if it fits."""
        found = writer.get(step.inputs[0])
        if found is None or readers[found.output] != 1 or found.residual is not None or last.residual == found.output:
            return None
        return found if id(found) not in gone and fits(found.layer) and able(found) else None

    merged: dict[int, BlockStep] = {}  # by the id of its last step
    for last in steps:
        if not (is_pointwise(last.layer) and able(last)):
            continue
        depthwise = before(last, last, _is_depthwise)
        if depthwise is None:
            continue
        expand = before(depthwise, last, lambda layer: is_pointwise(layer) or _is_stem(layer))
        for parts in ([expand, depthwise, last], [depthwise, last]):
            if parts[0] is None:
                continue
            made = _merged(parts, choose)  # type: ignore[arg-type]
            if made is not None:
                merged[id(last)] = made
                gone |= {id(part) for part in parts}
                break
    return [merged.get(id(step), step) for step in steps if id(step) in merged or id(step) not in gone]


def _merged(parts: list[Step], choose: Callable[[Block], Tile | None]) -> BlockStep | None:
    block = block_of(parts)
    tile = choose(block)
    if tile is None:
        return None
    layers = list(chain.from_iterable(part.layers for part in parts))
    last = parts[-1]
    return BlockStep(
        layers, list(parts[0].inputs), last.output, last.residual, last.activation, list(parts), block, tile
    )  # fmt: skip


def merge_pool(
    steps: Sequence[Step], graph: topology.Graph, able: Callable[[Step], bool] = lambda step: True
) -> list[Step]:  # fmt: skip
    """The steps with each 1×1 convolution whose only reader is a global average pool merged with it.

    able: whether a convolution's step, or a pool's, may be part of it.
    """
    readers = Counter(name for step in steps for name in step.reads)
    readers[graph.output] += 1
    writer = {step.output: step for step in steps}
    merged: dict[int, PoolStep] = {}
    gone: set[int] = set()
    for pool in steps:
        if not (isinstance(pool.layer, kinds.GlobalAveragePool) and len(pool.layers) == 1 and able(pool)):
            continue
        conv = writer.get(pool.inputs[0])
        if conv is None or isinstance(conv, BlockStep) or conv.residual is not None or readers[conv.output] != 1:
            continue
        if is_pointwise(conv.layer) and able(conv):
            layers = [*conv.layers, *pool.layers]
            merged[id(pool)] = PoolStep(
                layers, list(conv.inputs), pool.output, None, conv.activation, [conv, pool]
            )  # fmt: skip
            gone.add(id(conv))
    return [merged.get(id(step), step) for step in steps if id(step) not in gone]
