"""Search of the fastest tiles for the int8 blocks of a network on this card: python -m common tune --dtype int8."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from .. import cuda, kernels, topology, weights
from ..cuda import layout as layouts
from ..kernels import int8, one_step
from ..network.steps import fuse
from ..optimize import search, tiles
from ..optimize.blocks_int8 import Int8Convolution, Slid, inverted_residual_int8, suits
from ..optimize.features import missing
from ..optimize.fusions import InvertedResidual
from ..optimize.generate import Block, Tile
from ..optimize.search import Timer
from ..optimize.tiles_int8 import FoundInt8, Int8Block, Int8Tile, key_of, remember, shortlist
from . import driver
from .tuning import BATCHES, check_search

ZERO = int8.LOW  # the zero point of every tensor, that of a ReLU's output
SEPARATE = "separate"  # the three kernels of the convolutions
SCALE = 2 / 255  # of the picture that a stem's block reads


def blocks_of(model: Any, batch: int) -> list[Int8Block]:
    """The distinct blocks of a float32 network (ONNX ModelProto or path) that one int8 kernel can compute."""
    graph, _ = weights.fold_batch_norm(*topology.read_onnx_with_parameters(model))
    found: dict[Int8Block, None] = {}

    def note(block: Block, batch: int, _: str) -> Tile | None:
        if block.expand == "stem":  # and the block that follows it without: what is fused if the stem's sums are large
            if block.image[1] % 4 == 0:
                rest = block.height, block.width, 3, block.hidden, block.outputs, block.stride, True, *block.image
                found[Int8Block(*rest)] = None
            return None
        channels = block.channels if block.expand == "pointwise" else block.hidden
        sizes = block.height, block.width, channels, block.hidden, block.outputs
        found[Int8Block(*sizes, block.stride, block.expand == "pointwise")] = None
        return tiles.rule(block, batch, 2)

    fuse(graph.with_batch(batch), InvertedResidual(note))
    return [
        block
        for block in found
        if not any(size % 8 for size in (0 if block.stem_h else block.channels, block.hidden, block.outputs))
    ]


class Arrays:
    """Random arrays of a block at a batch size, on the device, and `expected`: what separate kernels compute, flat."""

    def __init__(self, block: Int8Block, batch: int, seed: int = 0) -> None:
        self.block, random = block, np.random.default_rng(seed)

        def codes(*shape: int) -> np.ndarray:
            return random.integers(-128, 128, shape).astype(np.int8)

        stem = block.stem_h > 0
        size = (block.stem_h, block.stem_w) if stem else (block.height, block.width)
        few = codes(min(batch, 8), block.channels, *size)
        self.x = cuda.to_layout(cuda.asarray(np.resize(few, (batch, *few.shape[1:]))), "NHWC")
        self.picture = kernels.dequantize(self.x, SCALE, ZERO) if stem else None  # what a stem's block reads
        self.programmatic = not missing("programmatic launches")  # as in a network
        taps = 3 if stem else 1
        shapes = [
            (block.hidden, block.channels, taps, taps),
            (block.hidden, 1, 3, 3),
            (block.outputs, block.hidden, 1, 1),
        ]
        parts = [self._convolution(codes(*shape), random) for shape in shapes[0 if block.expand else 1 :]]
        self.expand = parts[0] if block.expand else None
        self.depthwise, self.project = parts[-2:]
        # a block whose output may be added to its input adds it, as all of them do in MobileNetV2
        adds = block.expand and block.stride == 1 and block.channels == block.outputs
        scales = int8.residual_scales((0.9, ZERO), (1.1, ZERO), (1.3, ZERO))
        self.residual = {"residual": self.x, "residual_scales": scales} if adds else {}
        self.slid: Slid | None = None  # of tiles that slide, made for the first one
        self.hidden = [
            layouts.empty((batch, block.hidden, *size), np.dtype(np.int8), "NHWC")
            for size in ((block.height, block.width), block.out_size)
        ]
        self.out = layouts.empty((batch, block.outputs, *block.out_size), np.dtype(np.int8), "NHWC")
        for launch in self.separate():
            launch()
        self.expected = layouts.flat(self.out).copy()

    @staticmethod
    def _convolution(weight: np.ndarray, random: np.random.Generator) -> Int8Convolution:
        """A convolution whose outputs fill int8."""
        o, products = weight.shape[0], weight[0].size
        bias = int8.fold_zero_point(weight, random.integers(-1000, 1000, o, np.int32), ZERO)
        multiplier = (100 / (73 * 73 * np.sqrt(products)) * random.uniform(0.5, 1.5, o)).astype(np.float32)
        multiplier = one_step.nearest(weight, bias, multiplier, ZERO)  # as in a network
        small = int8.small_sums(weight, bias, multiplier)
        there = cuda.to_layout(cuda.asarray(weight), "NHWC")
        return Int8Convolution(there, cuda.asarray(bias), cuda.asarray(multiplier), ZERO, small=small)

    def separate(self) -> list[Any]:
        """The launches of the convolutions, each by the kernel that its launcher chooses."""
        stride, x = self.block.stride, self.x
        with kernels.recorded(self.programmatic) as launches:
            if self.block.stem_h:
                kernels.quantize(self.picture, SCALE, ZERO, out=x)
                given = {"input_zero_point": ZERO, "zero_point": ZERO, "out": self.hidden[0]}
                x = kernels.conv2d_int8(x, *self._of(self.expand), 2, 1, **given)  # type: ignore[arg-type]
            elif self.expand is not None:
                given = {"zero_point": ZERO, "out": self.hidden[0], "small": self.expand.small}
                x = kernels.pointwise_int8(x, *self._of(self.expand), **given)  # type: ignore[arg-type]
            x = kernels.depthwise_int8(
                x, *self._of(self.depthwise), stride, 1, input_zero_point=ZERO, zero_point=ZERO, out=self.hidden[1]
            )
            kernels.pointwise_int8(
                x, *self._of(self.project), zero_point=ZERO, out=self.out, small=self.project.small, **self.residual
            )
        return list(launches)

    @staticmethod
    def _of(part: Int8Convolution) -> tuple[Any, Any, Any]:
        return part.weight, part.bias, part.multiplier

    def fused(self, tile: Int8Tile) -> Any:
        """The launch of the block as one kernel."""
        if tile.slides and self.slid is None:
            self.slid = Slid(self.expand, self.depthwise, self.project, self.block.stride)
        more = self.residual | ({} if self.picture is None else {"scale": SCALE})
        with kernels.recorded(self.programmatic) as launches:
            inverted_residual_int8(
                self.x if self.picture is None else self.picture,
                self.expand,
                self.depthwise,
                self.project,
                stride=self.block.stride,
                input_zero_point=ZERO,
                out=self.out,
                tile=tile,
                slid=self.slid,
                programmatic=self.programmatic,
                **more,
            )
        return launches[0]

    def right(self) -> bool:
        """Whether `out` has every bit of `expected`."""
        return bool((layouts.flat(self.out) == self.expected).all())


@dataclass(frozen=True)
class TimedInt8:
    """Tiles of a block timed on a card: µs of each whose bits are right, of the rule's and of the separate kernels."""

    us: dict[Int8Tile, float]
    separate_us: float
    rule_us: float
    wrong: tuple[str, ...] = ()


def search_block(block: Int8Block, batch: int, tried: int, timer: Timer | None = None) -> FoundInt8 | None:
    """The fastest of `tried` tiles, a `shortlist`, beside the separate kernels; as time_tiles."""
    timed = time_tiles(block, batch, tried, timer)
    if timed is None:
        return None
    best = min(timed.us, key=lambda tile: timed.us[tile])
    return FoundInt8(block, batch, best, timed.us[best], timed.separate_us, timed.rule_us, timed.wrong)


def time_tiles(
    block: Int8Block, batch: int, tried: int, timer: Timer | None = None, further: Sequence[Int8Tile | None] = ()
) -> TimedInt8 | None:
    """Compile, check and time `tried` tiles, a `shortlist`, and further ones, beside the separate kernels.

    None if no tile is right. timer: replaces search.medians, for tests. NoGpu on the simulator without a timer.
    """
    arrays, wrong = Arrays(block, batch), []
    every = [*shortlist(block, batch, tried), *(tile for tile in further if tile)]
    tiles = dict.fromkeys(tile for tile in every if suits(tile, arrays.project, bool(arrays.residual)))
    able: dict[str, Int8Tile] = {str(tile): tile for tile in tiles}
    launches: dict[str, Any] = {}
    prepared = {name: arrays.fused(tile) for name, tile in able.items()}
    kernels.compile_together(prepared.values())
    for name, launch in prepared.items():
        arrays.out.fill(99)
        try:
            launch()
        except Exception as error:  # the compiler's and CUDA's exceptions have no common base
            wrong.append(f"{name}: {' '.join(str(error).split())[:200]}")
            continue
        if arrays.right():
            launches[name] = launch
        else:
            wrong.append(f"{name}: other bits than the separate kernels")
    if not launches:
        return None
    several = arrays.separate()
    kernels.compile_together(several)

    def separate() -> None:
        for launch in several:
            launch()

    us = (timer or search.medians)({**launches, SEPARATE: separate})
    times = {able[name]: us[name] for name in launches}
    return TimedInt8(times, us[SEPARATE], next(iter(times.values())), tuple(wrong))


def tune(
    model: Any, batches: Sequence[int] = BATCHES, tried: int = 24, save_to: Path | None = None,
    console: Console | None = None, timer: Timer | None = None,
) -> list[FoundInt8]:  # fmt: skip
    """Search the fastest tile for every distinct int8 block of a network, and keep the results.

    tried: candidates to time per block. save_to: a further file for the results, in the format of tiles_int8.json.
    NoGpu on the simulator; ValueError for invalid batches or `tried`, and for a card before sm_80.
    """
    console = console or Console(highlight=False)
    check_search(batches, tried, timer)
    every: list[FoundInt8] = []
    for batch in batches:
        results = []
        blocks = blocks_of(model, batch)
        for block in blocks:  # which grows
            found = search_block(block, batch, tried, timer)
            if found is None:
                console.print(f"{key_of(block)}: [red]no candidate was right[/]")
                continue
            for text in found.wrong:
                console.print(f"{key_of(block)}: left out: {escape(text)}", soft_wrap=True)
            results.append(found)
            if found.tile is None and block.expand and not block.stem_h:  # what can still be one kernel
                blocks.append(replace(block, channels=block.hidden, expand=False))
        every += results
        console.print(driver.table([_shown(found) for found in results], 2, f"batch {batch}, int8"))
        for path in (None, *([save_to] if save_to else [])):
            console.print(f"kept in {remember(results, path)}", soft_wrap=True)
    return every


def describe(tile: Int8Tile | None) -> str:
    """A tile in words."""
    if tile is None:
        return "separate kernels"
    kinds = {"alone": "single warps, ", "sliding": "chained, ", "warpgroups": "warpgroups, ", "bands": "bands, "}
    kind = kinds.get(tile.kind, "")
    more = f" × {tile.images} images" * (tile.images > 1) + f", clusters of {tile.split}" * (tile.split > 1)
    return f"{kind}{tile.tile_h}×{tile.tile_w}{more}, {tile.slice} channels, strips of {tile.strip}, {tile.warps} warps"


def _shown(found: FoundInt8) -> dict[str, str]:
    return {
        "block": key_of(found.block),
        "tile": describe(found.best) + ("" if found.tile else "; separate kernels are faster"),
        "measured µs": f"{found.us:,.2f}", "rule's µs": f"{found.rule_us:,.2f}",
        "separate µs": f"{found.separate_us:,.2f}", "gain": f"{found.separate_us / found.us:.2f}×",
    }  # fmt: skip
