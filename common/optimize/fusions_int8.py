"""The fusion of an inverted-residual block of a quantized network into one kernel, for quantize.IntegerKernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cuda import layout as layouts
from ..network.registry import Arrays, Match, Part, Step, register
from ..quantize.kernels import OfRules, is_rule, residual_problem
from ..quantize.rules import IntegerAdd, IntegerConv, IntegerLinear, IntegerMean, Rule, int8_grid
from ..topology import layers as kinds
from . import few_rows
from .blocks_int8 import UNIT, Int8Convolution, Slid, divides, factors, inverted_residual_int8, suits
from .fusions import is_depthwise, is_pointwise, is_stem
from .head_int8 import Int8HeadTile, few_rows_int8, head_tile, pointwise_pool_int8
from .stage_int8 import Stage, StageBlock, chosen_stage, problem, stage_int8
from .tiles_int8 import Int8Block, Int8Tile, chosen_int8, key_of, rule

# (block, batch) → the tile to compute it with in one kernel, or None for separate kernels
Int8Choice = Callable[[Int8Block, int], Int8Tile | None]
# (consecutive blocks, batch) → whether to compute them in one kernel
StageChoice = Callable[[Sequence[Int8Block], int], bool]


def _conv(node: Any) -> Any:
    """The convolution of an "integer-conv" step whose output is codes; None for another node."""
    able = is_rule(node, IntegerConv) and Rule.output_grid(node) is not None
    return node.parts["conv"] if able else None


def _is_pointwise(node: Any) -> bool:
    layer = _conv(node)
    return layer is not None and is_pointwise(layer)


def _is_expand(node: Any) -> bool:
    layer = _conv(node)
    return layer is not None and (is_pointwise(layer) or is_stem(layer))


def _is_depthwise(node: Any) -> bool:
    layer = _conv(node)
    return layer is not None and is_depthwise(layer)


@dataclass(frozen=True, kw_only=True)
class Int8BlockStep(Step):
    """A block of a quantized network as one step, with its tile.

    parts: "quantize", of the picture that a stem reads, "expand", "depthwise", "project", "add".
    """

    block: Int8Block
    tile: Int8Tile

    @property
    def title(self) -> str:
        """The step in words: "InvertedResidual(56×56 24>144>24 +residual), int8"."""
        first = "Quantize + " * ("quantize" in self.parts)
        return f"{first}InvertedResidual({key_of(self.block)}{' +residual' * ('add' in self.parts)}), int8"


def block_of(parts: Any) -> Int8Block:
    """The Int8Block that the steps by name "expand" (if any), "depthwise" and "project" compute together."""
    depthwise, project = (parts[name].parts["conv"] for name in ("depthwise", "project"))
    _, hidden, height, width = depthwise.input_shapes[0]
    expand = parts["expand"].parts["conv"] if "expand" in parts else None
    channels = hidden if expand is None else expand.in_channels
    image = expand.input_shapes[0][2:] if expand is not None and is_stem(expand) else ()
    return Int8Block(
        height, width, channels, hidden, project.out_channels, depthwise.stride[0], expand is not None, *image
    )  # fmt: skip


def _with_end(call: Any, bounds: tuple[int, int], small: bool = False) -> Int8Convolution:
    """The Int8Convolution of a step's Call."""
    weight, bias, multiplier = call.args
    return Int8Convolution(weight, bias, multiplier, call.named["zero_point"], bounds, small)


def _convolutions(run: Any, step: Any, arrays: Any) -> tuple[Any, Any, dict[str, Int8Convolution], dict[str, Any]]:
    """(parts, Calls, Int8Convolutions, arguments for the residual) of a block's step, by name. arrays: its inputs."""
    parts: dict[str, Any] = {name: part for name, part in step.parts.items() if name != "quantize"}
    calls = {name: run.calls[part.output] for name, part in parts.items() if name != "add"}
    ends = {
        name: _with_end(call, call.named["bounds"], parts[name].output in run.small) for name, call in calls.items()
    }
    more: dict[str, Any] = {}
    if "add" in parts:
        more = run.residual_of(parts["project"], parts["add"], arrays)
        ends["project"] = _with_end(calls["project"], more.pop("bounds"), ends["project"].small)
    return parts, calls, ends, more


@register
class IntegerBlock(OfRules):
    """Fuses MobileNetV2's block of int8 convolutions into one kernel where `choose` has a tile.

    Pattern: 1×1 convolution → depthwise 3×3 → 1×1 convolution (→ addition), or without the first one, or with a stem,
    a 3×3 convolution of stride 2 on 3 channels, in its place; a stem also with the quantization of its picture.
    """

    name = "integer-block"
    pattern = (
        Part("quantize", kinds.Quantize, optional=True),
        Part("expand", Step, _is_expand, optional=True),
        Part("depthwise", Step, _is_depthwise),
        Part("project", Step, _is_pointwise),
        Part("add", Step, lambda node: is_rule(node, IntegerAdd), optional=True),
    )

    def __init__(self, choose: Int8Choice = chosen_int8) -> None:
        self.choose = choose

    def condition(self, match: Match) -> bool | str:
        if match.target is not None and any(
            match.target.replaces(operator) for operator in ("pointwise_int8", "depthwise_int8")
        ):
            return "one of its operators has a rung of its own"
        block, quantize = block_of(match.parts), match["quantize"]
        if quantize is not None and not (block.stem_h and divides(float(int8_grid(quantize.grid).scale[0]))):
            return "only a stem's kernel quantizes, numbers that it can divide"
        if any(size % UNIT for size in (0 if block.stem_h else block.channels, block.hidden, block.outputs)):
            return f"the kernel takes channels in multiples of {UNIT}"
        if block.stem_h and (block.stride != 1 or block.stem_w % 4):
            return "the kernel takes a stem on images of 4·n columns, before a depthwise convolution of stride 1"
        add = match["add"]
        if add is not None and match["depthwise"].output in add.fusion.codes_read(add):
            return "the addition reads a hidden tensor"
        return (add is not None and residual_problem(match["project"], add)) or True

    def build(self, match: Match) -> kinds.Layer | str:
        block = block_of(match.parts)
        tile = self.choose(block, match.graph.input_shape[0])
        if tile is None:
            return f"no tile for {block}: separate kernels are faster, or it does not fit"
        return Int8BlockStep.of(*match.nodes, fusion=self, parts=match.parts, block=block, tile=tile)

    def integer_kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        assert isinstance(step, Int8BlockStep)
        of_name = dict(zip(step.inputs, arrays.inputs, strict=True))
        parts, calls, ends, more = _convolutions(run, step, of_name)
        quantize: Any = step.parts.get("quantize")
        grid = None if quantize is None else int8_grid(quantize.grid)
        first = parts.get("expand", parts["depthwise"])
        x = of_name[(quantize or first).inputs[0]]
        zero = calls["expand" if "expand" in calls else "depthwise"].named["input_zero_point"]
        tile: Int8Tile | None = step.tile
        slid: Slid | None = None
        assert tile is not None
        able = grid is None or factors(float(grid.scale[0]), np.dtype(x.dtype)) is not None
        if not suits(tile, ends["project"], bool(more)) or (tile.alone and not able):
            tile = rule(step.block, step.input_shapes[0][0], chained=True)
        if tile is not None and tile.slides:
            try:
                slid = Slid(ends.get("expand"), ends["depthwise"], ends["project"], step.block.stride)
            except ValueError:  # sums that are not small, or clamped: what the choice of a tile cannot know
                tile = None
        if tile is None and step.block.stem_h:  # the stem is a kernel of its own, with an array of its own
            stem = parts["expand"]
            made = layouts.empty(stem.output_shape, np.dtype(np.int8), "NHWC")
            first_launches = []
            if grid is not None:
                picture, x = x, layouts.empty(x.shape, np.dtype(np.int8), "NHWC")
                first_launches += run.run("quantize", picture, grid.scale[0], grid.zero_point[0], out=x)
            first_launches += run.convolution(stem, x, made)
            return first_launches + run.fused(
                inverted_residual_int8, made, None, ends["depthwise"], ends["project"],
                input_zero_point=calls["depthwise"].named["input_zero_point"], out=arrays.out, **more,
            )  # fmt: skip
        return run.fused(
            inverted_residual_int8, x, ends.get("expand"), ends["depthwise"], ends["project"],
            stride=step.block.stride, input_zero_point=zero, out=arrays.out, tile=tile, slid=slid,
            scale=None if grid is None else float(grid.scale[0]), **more,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Int8StageStep(Step):
    """Consecutive blocks of a quantized network as one step. parts: "block 1", "block 2", …, each an Int8BlockStep."""

    @property
    def title(self) -> str:
        """The step in words: "Stage(14×14, 6 blocks, 64>96), int8"."""
        blocks = [part.block for part in self.parts.values() if isinstance(part, Int8BlockStep)]
        first, last = blocks[0], blocks[-1]
        return f"Stage({first.height}×{first.width}, {len(blocks)} blocks, {first.channels}>{last.outputs}), int8"


@register
class IntegerStage(OfRules):
    """Computes consecutive blocks that stage_int8 takes in one kernel where `choose` says so."""

    name = "integer-stage"
    pattern = (Part("block", Int8BlockStep, lambda node: not problem([node.block], 1), many=True),)

    def __init__(self, choose: StageChoice = chosen_stage) -> None:
        self.choose = choose

    def condition(self, match: Match) -> bool | str:
        blocks, batch = [node.block for node in match.nodes], match.graph.input_shape[0]  # type: ignore[attr-defined]
        if len(blocks) < 2:
            return "a stage has two blocks or more"
        if any("add" in node.parts and len(node.inputs) > 1 for node in match.nodes):  # type: ignore[attr-defined]
            return "a block adds something else than its input"
        return problem(blocks, batch) or self.choose(blocks, batch) or f"separate kernels for {batch} images"

    def build(self, match: Match) -> kinds.Layer | str:
        parts = {f"block {i}": node for i, node in enumerate(match.nodes, 1)}
        return Int8StageStep.of(*match.nodes, fusion=self, parts=parts)

    def integer_kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        parts: Any = list(step.parts.values())
        blocks, x = [], arrays.x
        for part in parts:
            _, _, ends, more = _convolutions(run, part, {part.inputs[0]: None})
            more.pop("residual", None)
            blocks.append(
                StageBlock(ends["expand"], ends["depthwise"], ends["project"], **more, stride=part.block.stride)
            )
        try:
            stage = Stage(blocks, len(x))
        except ValueError:  # sums that are not small, or clamped: one kernel after the other
            launches = []
            for part in parts:
                out = arrays.out if part is parts[-1] else layouts.empty(part.output_shape, np.dtype(np.int8), "NHWC")
                launches += part.fusion.integer_kernels(run, part, Arrays([x], None, out))
                x = out
            return launches
        return run.fused(stage_int8, x, stage, out=arrays.out)


def _is_mean(node: Any) -> bool:
    return is_rule(node, IntegerMean) and isinstance(node.parts["pool"], kinds.GlobalAveragePool)


@dataclass(frozen=True, kw_only=True)
class Int8HeadStep(Step):
    """The head of a quantized network as one step, with its tile. parts: "conv", "pool"."""

    tile: Int8HeadTile

    @property
    def title(self) -> str:
        """The step in words: "Head(7×7 320>1280), int8"."""
        layer: Any = self.layers_of("conv")
        height, width = layer.input_shapes[0][2:]
        return f"Head({height}×{width} {layer.in_channels}>{layer.out_channels}), int8"

    def layers_of(self, name: str) -> Any:
        """The layer that a part of the step computes."""
        part: Any = self.parts[name]
        return part.parts[name]


@register
class IntegerHead(OfRules):
    """Fuses a 1×1 convolution of codes with the mean over the whole image that follows it into one kernel."""

    name = "integer-head"
    pattern = (Part("conv", Step, _is_pointwise), Part("pool", Step, _is_mean))

    def condition(self, match: Match) -> bool | str:
        operators = ("pointwise_int8", "global_avg_pool_int8")
        if match.target is not None and any(map(match.target.replaces, operators)):
            return "one of its operators has a rung of its own"
        return True

    def build(self, match: Match) -> kinds.Layer | str:
        conv: Any = match["conv"]
        layer = conv.parts["conv"]
        _, channels, height, width = layer.input_shapes[0]
        tile = head_tile(height * width, channels, layer.out_channels, match.graph.input_shape[0])
        if tile is None:
            return f"no tile for {height * width} pixels of {channels} > {layer.out_channels} channels"
        return Int8HeadStep.of(*match.nodes, fusion=self, parts=match.parts, tile=tile)

    def integer_kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        assert isinstance(step, Int8HeadStep)
        conv, pool = (run.calls[step.parts[name].output] for name in ("conv", "pool"))
        shorter = run.shorter(step.parts["conv"])
        small = shorter.pop("small")
        return run.fused(
            pointwise_pool_int8, arrays.x, _with_end(conv, conv.named["bounds"], small), pool.args[0],
            pool_zero_point=pool.named["zero_point"], code_zero_point=pool.named["input_zero_point"], out=arrays.out,
            tile=step.tile, **shorter,
        )  # fmt: skip


@register
class IntegerFewRows(OfRules):
    """Computes a linear layer of codes whose output is floats, for few images, by the kernel for few rows."""

    name = "integer-few-rows"
    pattern = (Part("linear", Step, lambda node: is_rule(node, IntegerLinear) and Rule.output_grid(node) is None),)

    def condition(self, match: Match) -> bool | str:
        layer: Any = match["linear"].parts["linear"]
        if match.target is not None and match.target.replaces("linear_int8"):
            return "one of its operators has a rung of its own"
        return few_rows.problem(match.graph.input_shape[0], layer.in_features, layer.out_features, 1) or True

    def integer_kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        call = run.calls[step.parts["linear"].output]
        return run.fused(few_rows_int8, arrays.x.reshape(len(arrays.x), -1), *call.args, out=arrays.out)
