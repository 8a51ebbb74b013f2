"""Fusions of this package: an inverted-residual block, the head, a linear layer of few rows, a complete network.

Network(model, optimize="latency")                          those of the composition, see compositions
fuse(graph, InvertedResidual(choose), PointwisePool())      the steps of a graph; choose: a Choice
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .. import cuda
from ..cuda import layout as layouts
from ..cuda.checks import bounds
from ..network.operators import kernel_of
from ..network.registry import Arrays, Fusion, Match, Part, Step, as_step, first, register
from ..network.steps import ConvStep
from ..topology import layers as kinds
from . import few_rows, head
from .blocks import inverted_residual
from .generate import Block, Geometry, Tile
from .tiles import chosen

# (block, batch, "float32" or "float16") → the tile to compute it with in one kernel, or None for separate kernels
Choice = Callable[[Block, int, str], Tile | None]

CONVOLUTION = (kinds.Conv2d, ConvStep)


def _dense(layer: Any, kernel: tuple[int, int], stride: tuple[int, int], padding: int) -> bool:
    return (
        isinstance(layer, kinds.Conv2d)
        and layer.groups == 1
        and (layer.kernel_size, layer.stride, layer.dilation) == (kernel, stride, (1, 1))
        and layer.padding == ((padding, padding),) * 2
    )


def is_pointwise(node: Any) -> bool:
    """Whether a layer, or the first of a step, is a 1×1 convolution of stride 1."""
    return _dense(first(node), (1, 1), (1, 1), 0)


def is_stem(node: Any) -> bool:
    """Whether a layer, or the first of a step, is a 3×3 convolution of stride 2 and padding 1 on 3 channels."""
    layer = first(node)
    return _dense(layer, (3, 3), (2, 2), 1) and layer.in_channels == 3


def is_depthwise(node: Any) -> bool:
    """Whether a layer, or the first of a step, is a depthwise 3×3 convolution of padding 1 and stride 1 or 2."""
    layer = first(node)
    return (
        isinstance(layer, kinds.Conv2d)
        and layer.groups == layer.in_channels == layer.out_channels
        and (layer.kernel_size, layer.dilation, layer.padding) == ((3, 3), (1, 1), ((1, 1), (1, 1)))
        and layer.stride in ((1, 1), (2, 2))
    )


def _residual(node: Any) -> str | None:
    return node.residual if isinstance(node, Step) else None


def _activation(node: Any) -> Any:
    return node.activation if isinstance(node, Step) else None


def _alone(node: Any) -> bool:
    return _residual(node) is None


def _on_fma_units(match: Match) -> str | None:
    """Why a match is not fused into a kernel that multiplies on tensor cores, if the user wants none; else None."""
    wanted = match.target is not None and match.target.arithmetic == "fma"
    return "it multiplies on tensor cores, and arithmetic is 'fma'" if wanted else None


def _replaced(match: Match) -> str | None:
    """Why a match is not fused, if the user chose a rung or a function for one of its operators; else None."""
    for layer in map(first, match.nodes):
        operator = {kinds.GlobalAveragePool: "global_avg_pool", kinds.Linear: "gemm"}.get(type(layer), "")
        operator = kernel_of(layer) if isinstance(layer, kinds.Conv2d) else operator
        if match.target is not None and match.target.replaces(operator):
            return f"{operator} has a rung or a function of its own"
    return None


def _dtype(match: Match) -> str:
    return "float16" if match.target is not None and match.target.dtype == "fp16" else "float32"


def _itemsize(match: Match) -> int:
    return np.dtype(_dtype(match)).itemsize


@dataclass(frozen=True, kw_only=True)
class BlockStep(Step):
    """A block as one step, with its tile. parts: "expand" (if any), "depthwise" and "project", as steps."""

    block: Block
    tile: Tile

    @property
    def title(self) -> str:
        """The step in words: "InvertedResidual(56×56 24>144>24 +residual)"."""
        return f"InvertedResidual({self.block})"


def block_of(parts: Sequence[kinds.Layer]) -> Block:
    """The Block that layers or steps [expand,] depthwise, project compute together."""
    depthwise, project, expand = first(parts[-2]), first(parts[-1]), first(parts[0])
    _, hidden, height, width = depthwise.input_shapes[0]
    kind, image, activation = "none", (0, 0), None
    if len(parts) == 3:
        kind, activation = ("stem" if is_stem(expand) else "pointwise"), _activation(parts[0])
        image = expand.input_shapes[0][2:] if kind == "stem" else image
    limits = (activation, _activation(parts[-2]), _activation(parts[-1]))
    return Block(
        height, width, expand.input_shapes[0][1], hidden, project.out_channels, depthwise.stride[0], kind, image,
        tuple(tuple(map(float, bounds(limit))) for limit in limits),  # type: ignore[misc]
        _residual(parts[-1]) is not None,
    )  # fmt: skip


@register
class InvertedResidual(Fusion):
    """Fuses MobileNetV2's block into one kernel where `choose` returns a tile, else possibly its last two layers.

    Pattern: 1×1 convolution or stem → depthwise 3×3 → 1×1 convolution (+ residual), or the last two alone.
    """

    name = "inverted-residual"
    pattern = (
        Part("expand", CONVOLUTION, lambda node: _alone(node) and (is_pointwise(node) or is_stem(node)), optional=True),
        Part("depthwise", CONVOLUTION, lambda node: _alone(node) and is_depthwise(node)),
        Part("project", CONVOLUTION, is_pointwise),
    )

    def __init__(self, choose: Choice = chosen) -> None:
        self.choose = choose

    def condition(self, match: Match) -> bool | str:
        project, hidden = match["project"], match["depthwise"].output
        if project.inputs[0] != hidden or _residual(project) == hidden:
            return "the last convolution adds what it reads"
        return _replaced(match) or _on_fma_units(match) or True

    def build(self, match: Match) -> kinds.Layer | str:
        block = block_of(match.nodes)
        tile = self._tile(block, match)
        if tile is None:
            return f"no tile for {block}: separate kernels are faster, or it does not fit"
        last = match["project"]
        if tile.kind and _residual(last) not in (None, match.nodes[0].inputs[0]):
            return f"the tile chosen for {block} has {tile.kind}, and they add no residual but the block's input"
        return BlockStep.of(
            *match.nodes, residual=_residual(last), activation=_activation(last), fusion=self,
            parts={name: as_step(part) for name, part in match.parts.items()}, block=block, tile=tile,
        )  # fmt: skip

    def _tile(self, block: Block, match: Match) -> Tile | None:
        """The tile that `choose` returns; of arithmetic "halves" if the network has that and the block can have it."""
        wanted, batch = _dtype(match), match.graph.input_shape[0]
        if match.target is None or not match.target.by_halves:
            return self.choose(block, batch, wanted)
        if self.choose is chosen:
            return chosen(block, batch, wanted, "halves")
        tile = self.choose(block, batch, wanted)
        halves = None if tile is None else replace(tile, arithmetic="halves")
        fits = halves and Geometry(block, halves, np.dtype(wanted).itemsize).problem(cuda.shared_memory()) is None
        return halves if fits else tile

    def kernels(self, run: Any, step: Any, arrays: Arrays) -> list[Any]:
        tile, products = step.tile, [first(part) for name, part in step.parts.items() if name != "depthwise"]
        if tile.arithmetic == "halves" and not all(map(run.may_be_halves, products)):
            tile = replace(tile, arithmetic="tf32x3")  # without a bound on what they read, see network.ranges
        return run.fused(
            inverted_residual, arrays.x, *weights_of(step, run.weights), stride=step.block.stride,
            residual=arrays.residual, activations=step.block.bounds, out=arrays.out, tile=tile,
            input_bound=run.bound(step.inputs[0]) if tile.arithmetic == "halves" else None,
        )  # fmt: skip


def weights_of(step: Step, weights: Callable[[Any], tuple[Any, Any]]) -> list[Any]:
    """[weight, bias] of expand, depthwise and project in a flat list, with None for what is absent.

    weights: returns (weight, bias) of a layer.
    """
    parts = [step.parts.get(name) for name in ("expand", "depthwise", "project")]
    return [array for part in parts for array in ((None, None) if part is None else weights(first(part)))]


class PoolStep(Step):
    """A 1×1 convolution, its activation and the global average pool after it."""


@register
class PointwisePool(Fusion):
    """Fuses the head's 1×1 convolution and the global average pool that reads its output into one kernel."""

    name = "pointwise-pool"
    pattern = (
        Part("convolution", CONVOLUTION, lambda node: _alone(node) and is_pointwise(node)),
        Part("pool", kinds.GlobalAveragePool),
    )

    def condition(self, match: Match) -> bool | str:
        layer, itemsize, shared = first(match["convolution"]), _itemsize(match), cuda.shared_memory()
        n, outputs, h, w = layer.output_shape
        made = head.Head(h * w, layer.in_channels, outputs)
        tile = head.head_rule(made, n, itemsize, cuda.multiprocessors(), shared)
        return (
            _replaced(match) or _on_fma_units(match) or head.HeadGeometry(made, tile, itemsize).problem(shared) or True
        )

    def build(self, match: Match) -> kinds.Layer | str:
        activation = _activation(match["convolution"])
        return PoolStep.of(*match.nodes, activation=activation, fusion=self, parts=match.parts)

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.fused(
            head.pointwise_pool, arrays.x, *run.weights(step.layer), activation=step.activation, out=arrays.out
        )


@register
class PersistentPool(PointwisePool):
    """The same by rung 8 of pointwise, whose tiles are images, for LEAST to MOST of them: fp16, sm_90."""

    name = "persistent-pool"
    LEAST: ClassVar[int] = 8
    MOST: ClassVar[int] = 64

    def condition(self, match: Match) -> bool | str:
        if _dtype(match) != "float16":
            return "the persistent kernel takes fp16"
        if cuda.backend() == "gpu" and cuda.compute_capability() != 90:
            return f"the persistent kernel needs sm_90, this card is sm_{cuda.compute_capability()}"
        images = match.graph.input_shape[0]
        if images > self.MOST:
            return f"{images} images, at most {self.MOST}: beyond, tiles that are not filled cost more than a launch"
        if images < self.LEAST:
            return f"{images} images, at least {self.LEAST}: of fewer, head.h computes each in more thread blocks"
        return _replaced(match) or bool(self._tiles(first(match["convolution"]))) or "no tile fits"

    @staticmethod
    def _tiles(layer: Any) -> list[dict[str, int]]:
        n, outputs, h, w = layer.output_shape
        return head.pooled_tiles(head.Head(h * w, layer.in_channels, outputs), n, 1)

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        (tile,) = self._tiles(step.layer)
        given = arrays.x, *run.weights(step.layer)
        return run.fused(head.pointwise_pool, *given, activation=step.activation, out=arrays.out, tile=tile)


@register
class FewRows(Fusion):
    """A linear layer for at most head.most_rows images, by a kernel specialized for few rows."""

    name = "few-rows"
    pattern = (Part("linear", kinds.Linear),)

    def condition(self, match: Match) -> bool | str:
        layer, rows = match["linear"], match.graph.input_shape[0]
        itemsize, shared = _itemsize(match), cuda.shared_memory()
        if rows > head.most_rows(_dtype(match)):
            return f"{rows} rows, at most {head.most_rows(_dtype(match))} are few"
        if rows > head.MOST_ROWS:
            problem = few_rows.problem(rows, layer.in_features, layer.out_features, itemsize)
            return _replaced(match) or problem or True
        linear = head.Linear(layer.in_features, layer.out_features)
        tile = head.linear_rule(linear, itemsize, cuda.multiprocessors(), shared)
        return _replaced(match) or head.LinearGeometry(linear, tile, itemsize).problem(shared) or True

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        x, before = run.rows(arrays.x)
        return [*before, *run.fused(head.few_rows, x, *run.weights(step.layer), out=arrays.out)]


def _is_phase(node: kinds.Layer) -> bool:
    layer = first(node)
    if isinstance(layer, kinds.Reshape):
        return all(map(layouts.is_plain, (*layer.input_shapes, layer.output_shape)))  # a view
    return isinstance(node, (BlockStep, PoolStep)) or isinstance(layer, kinds.Linear)


class WholeNetwork(Fusion):
    """Matches a chain of blocks, a head and linear layers: the phases of a persistent kernel.

    Not used as a pass: the steps keep their own launches, and the persistent kernel is an additional launch for all.
    """

    name = "whole-network"
    pattern = (Part("phases", kinds.Layer, _is_phase, many=True),)

    def condition(self, match: Match) -> bool | str:
        if len(match.nodes) != len(match.graph):
            return f"{len(match.nodes)} of {len(match.graph)} steps are a chain of blocks, a head and linear layers"
        adds = next((node for node in match.nodes if _residual(node) not in (None, node.inputs[0])), None)
        return f"{adds.name} adds another tensor than its input" if adds else True

    @staticmethod
    def phases(match: Match, weights: Callable[[Any], tuple[Any, Any]]) -> list[tuple[Any, list[Any]]]:
        """The `phases` of persistent.Persistent, (layer, arrays) each. weights: returns (weight, bias) of a layer."""
        found: list[tuple[Any, list[Any]]] = []
        for node in match.nodes:
            layer: Any = first(node)
            if isinstance(node, BlockStep):
                found.append((node.block, weights_of(node, weights)))
            elif isinstance(node, PoolStep):
                _, c, h, w = layer.input_shapes[0]
                low, high = map(float, bounds(node.activation))
                found.append((head.Head(h * w, c, layer.out_channels, (low, high)), list(weights(layer))))
            elif isinstance(layer, kinds.Linear):
                found.append((head.Linear(layer.in_features, layer.out_features), list(weights(layer))))
        return found
