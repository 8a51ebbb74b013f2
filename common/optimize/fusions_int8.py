"""The fusion of an inverted-residual block of a quantized network into one kernel, for quantize.IntegerKernels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cuda import layout as layouts
from ..network.registry import Arrays, Match, Part, Step, register
from ..quantize.kernels import OfRules, is_rule, residual_problem
from ..quantize.rules import IntegerAdd, IntegerConv, Rule
from ..topology import layers as kinds
from .blocks_int8 import UNIT, Int8Convolution, Slid, inverted_residual_int8
from .fusions import is_depthwise, is_pointwise, is_stem
from .tiles_int8 import Int8Block, Int8Tile, chosen_int8, key_of

# (block, batch) → the tile to compute it with in one kernel, or None for separate kernels
Int8Choice = Callable[[Int8Block, int], Int8Tile | None]


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
    """A block of a quantized network as one step, with its tile. parts: "expand", "depthwise", "project", "add"."""

    block: Int8Block
    tile: Int8Tile

    @property
    def title(self) -> str:
        """The step in words: "InvertedResidual(56×56 24>144>24 +residual), int8"."""
        return f"InvertedResidual({key_of(self.block)}{' +residual' * ('add' in self.parts)}), int8"


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


@register
class IntegerBlock(OfRules):
    """Fuses MobileNetV2's block of int8 convolutions into one kernel where `choose` has a tile.

    Pattern: 1×1 convolution → depthwise 3×3 → 1×1 convolution (→ addition), or without the first one, or with a stem,
    a 3×3 convolution of stride 2 on 3 channels, in its place.
    """

    name = "integer-block"
    pattern = (
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
        block = block_of(match.parts)
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
        parts: dict[str, Any] = dict(step.parts)
        of_name = dict(zip(step.inputs, arrays.inputs, strict=True))
        calls = {name: run.calls[part.output] for name, part in parts.items() if name != "add"}
        ends = {
            name: _with_end(call, call.named["bounds"], parts[name].output in run.small) for name, call in calls.items()
        }
        first = parts.get("expand", parts["depthwise"])
        more: dict[str, Any] = {}
        if "add" in parts:
            more = run.residual_of(parts["project"], parts["add"], of_name)
            ends["project"] = _with_end(calls["project"], more.pop("bounds"), ends["project"].small)
        zero = calls["expand" if "expand" in calls else "depthwise"].named["input_zero_point"]
        tile: Int8Tile | None = step.tile
        slid: Slid | None = None
        assert tile is not None
        if tile.chained:
            try:
                slid = Slid(ends.get("expand"), ends["depthwise"], ends["project"], step.block.stride)
            except ValueError:  # sums that are not small, or clamped: what the choice of a tile cannot know
                tile = None
        if tile is None and step.block.stem_h:  # the stem is a kernel of its own, with an array of its own
            stem = parts["expand"]
            made = layouts.empty(stem.output_shape, np.dtype(np.int8), "NHWC")
            first_launches = run.convolution(stem, of_name[first.inputs[0]], made)
            return first_launches + run.recorded(
                inverted_residual_int8, made, None, ends["depthwise"], ends["project"],
                input_zero_point=calls["depthwise"].named["input_zero_point"], out=arrays.out, **more,
            )  # fmt: skip
        return run.recorded(
            inverted_residual_int8, of_name[first.inputs[0]], ends.get("expand"), ends["depthwise"], ends["project"],
            stride=step.block.stride, input_zero_point=zero, out=arrays.out, tile=tile, slid=slid, **more,
        )  # fmt: skip
