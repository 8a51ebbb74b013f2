"""Consecutive inverted-residual blocks in int8 as one launch, for few images: stage_int8.cu."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import checks
from ..cuda import layout as layouts
from ..kernels import int8_arguments as arguments
from ..kernels import vectors
from ..kernels.int8 import LOW
from ..kernels.ladder import header_options, prepared
from .blocks_int8 import Int8Convolution, Slid, small_project
from .generate import SM_90A, architecture, ceil_div
from .tiles_int8 import Int8Block, row_bytes

KERNEL = "stage_int8"
SOURCE = Path(__file__).with_name(f"{KERNEL}.cu")
IMAGE, PARTS = 14, 4  # rows and columns of an image, and the thread blocks that take it
WARPS, ROWS, STAGES, W3S = 12, 4, 3, 2  # as in stage_int8.cu
SLICE = 16 * WARPS
TILED = ceil_div(SLICE, 128) * 128  # bytes of a row of dw and project at stride 1
CHANNELS, OUTPUTS = (32, 64, 96), (32, 64, 96, 128, 160, 192)  # of x; of a block of stride 2
WORDS = 8  # of a block's Numbers
OF_AN_H200 = 132  # multiprocessors: as many images as there the simulator takes
FEWEST = 9  # images: for fewer, kernels of a block each have more thread blocks, and are faster


@dataclass(frozen=True)
class StageBlock:
    """A block of a stage: its convolutions, as of inverted_residual_int8.

    residual_scales, residual_offset, residual_first: how x is added to its output; without scales it is not.
    """

    expand: Int8Convolution
    depthwise: Int8Convolution
    project: Int8Convolution
    residual_scales: Any = None
    residual_offset: int = 0
    residual_first: bool = False
    stride: int = 1

    @property
    def shape(self) -> Int8Block:
        """Its sizes, on images of a stage."""
        hidden, channels = self.expand.weight.shape[:2]
        return Int8Block(IMAGE, IMAGE, channels, hidden, self.project.weight.shape[0], self.stride)


def shared_bytes(blocks: Sequence[Int8Block]) -> int:
    """Bytes of shared memory of a thread block."""
    most = _most(blocks)
    words = 4 * _turns(blocks) + len(blocks) * (2 * max(block.outputs for block in blocks) + WORDS)  # of the plan
    weights = STAGES * SLICE * (row_bytes(most) + 48) + W3S * _slot(blocks)
    tiles = ROWS * 16 * (row_bytes(most) + 2 * TILED)
    whole = weights + tiles + 2 * WARPS * 256 + 4 * words + 8 * (STAGES + W3S + 2 + 2 * WARPS)
    return ceil_div(whole, 1024) * 1024  # as wgmma aligns it


def problem(blocks: Sequence[Int8Block], batch: int) -> str | None:
    """Why the kernel cannot compute these blocks one after the other for so many images; None if it can."""
    if not blocks:
        return "a stage has one block or more, got none"
    for i, block in enumerate(blocks):
        if (block.height, block.width, block.expand) != (IMAGE, IMAGE, True) or block.stem_h:
            return f"a stage has blocks that expand, on images of {IMAGE}×{IMAGE}, got {block}"
        if block.stride == 2 and i < len(blocks) - 1:
            return f"only a stage's last block has stride 2, got {block}"
        if block.channels not in CHANNELS or block.outputs not in (CHANNELS if block.stride == 1 else OUTPUTS):
            return f"a stage takes 32, 64 or 96 channels, and {OUTPUTS} outputs of stride 2, got {block}"
        if block.hidden % SLICE:
            return f"a stage takes {SLICE}, {2 * SLICE}, … hidden channels, got {block}"
    for one, other in pairwise(blocks):
        if one.outputs != other.channels:
            return f"a block takes the channels of the one before, got {one.outputs} and {other.channels}"
    room = cuda.multiprocessors() if cuda.backend() == "gpu" else OF_AN_H200
    if PARTS * batch > room:
        return f"a stage has {PARTS} multiprocessors for an image, got {batch} images for {room}"
    if shared_bytes(blocks) > cuda.shared_memory():
        return f"a stage of {len(blocks)} blocks does not fit into {cuda.shared_memory()} bytes of shared memory"
    if cuda.backend() == "gpu" and cuda.compute_capability() != 90:
        return f"a stage needs wgmma, which is in sm_90 alone, this card is sm_{cuda.compute_capability()}"
    return None


def chosen_stage(blocks: Sequence[Int8Block], batch: int) -> bool:
    """Whether to compute these blocks, of which `problem` is None, as a stage: for as many images as it is faster."""
    return batch >= FEWEST


def _most(blocks: Sequence[Int8Block]) -> int:
    """The most channels of what lies in shared memory as x."""
    return max(max(block.channels, block.outputs if block.stride == 1 else 0) for block in blocks)


def _turns(blocks: Sequence[Int8Block]) -> int:
    """Slices of hidden channels of all blocks."""
    return sum(block.hidden // SLICE for block in blocks)


def _project_bytes(block: Int8Block) -> int:
    """Bytes of a slice of project."""
    return block.outputs * (TILED if block.stride == 1 else row_bytes(SLICE))


def _slot(blocks: Sequence[Int8Block]) -> int:
    """Bytes in which a slice of each block's project has room."""
    return ceil_div(max(map(_project_bytes, blocks)), 1024) * 1024


class Stage:
    """Consecutive blocks for so many images: their constants on the device, and the memory where thread blocks meet.

    For one launch at a time. Raises ValueError if a block's hidden sums are not small, or clamped (Slid), and for
    blocks that have a `problem`.
    """

    def __init__(self, blocks: Sequence[StageBlock], batch: int) -> None:
        self.blocks, self.batch = tuple(blocks), batch
        for i, block in enumerate(self.blocks):
            _check(f"blocks[{i}]", block)
        shapes = [block.shape for block in self.blocks]
        if not_able := problem(shapes, batch):
            raise ValueError(f"{KERNEL}: {not_able}")
        most = _most(shapes)
        most_outputs = max(shape.outputs for shape in shapes)
        slid = [Slid(one.expand, one.depthwise, one.project, one.stride) for one in self.blocks]
        made, turns, plan, alike, at = [], [], [], [], 0
        for block, shape, one in zip(self.blocks, shapes, slid, strict=True):
            switches, numbers = self._ends(block, shape)
            made.append(one.tiled_stages(SLICE) if block.stride == 1 else cuda.asnumpy(one.stages(SLICE)))
            sizes = SLICE * (row_bytes(shape.channels) + 48) // 16, _project_bytes(shape) // 16
            for _ in range(shape.hidden // SLICE):
                turns.append((at, *sizes, 0))
                at += sum(sizes)
            ends = np.zeros((2, most_outputs), np.int32)
            ends[0, : shape.outputs] = cuda.asnumpy(one.project_bias)
            ends[1, : shape.outputs] = cuda.asnumpy(block.project.multiplier).view(np.int32)
            zero = np.uint32((block.expand.zero_point - LOW & 255) * 0x01010101)
            whole, reals = np.array([*numbers[:3], numbers[6]], np.int32), np.array(numbers[3:6], np.float32)
            plan += [ends.ravel(), zero.reshape(1).view(np.int32), whole[:3], reals.view(np.int32), whole[3:]]
            adds = block.residual_scales is not None
            how = int(adds), switches.get("ONE_SUM", 0), int(block.residual_first)
            small = small_project(block.project, adds)
            alike.append((shape.channels, shape.outputs, block.stride, small, *how, shape.hidden // SLICE))
        runs = [(*key, sum(1 for _ in some)) for key, some in groupby(alike)]
        zeros = [part.zero_point for block in self.blocks for part in (block.expand, block.depthwise)]
        sizes_of_all = {
            "CHANNELS": shapes[0].channels, "LAST": shapes[-1].outputs, "LAST_STRIDE": shapes[-1].stride, "MOST": most,
            "MOST_OUT": most_outputs, "W3": _slot(shapes), "TURNS": len(turns), "COUNT": len(shapes),
            "ODD": int(any(zero % 2 for zero in zeros)), "ONE_STEP": int(not any(one.slow for one in slid)),
            "BLOCKS": "".join(f"BLOCK({','.join(map(str, run))})" for run in runs),
        }  # fmt: skip
        self.switches = tuple(f"-D{name}={value}" for name, value in sizes_of_all.items())
        self.weights = cuda.asarray(np.concatenate(made))
        self.plan = cuda.asarray(np.concatenate([np.array(turns, np.int32).ravel(), *plan]))
        packets = 2 * batch * 2 * IMAGE * most // 8
        self.packets = cuda.asarray(np.zeros(4 * packets, np.int32))
        self.counters = cuda.asarray(np.zeros(PARTS * batch, np.uint32))

    def _ends(self, block: StageBlock, shape: Int8Block) -> Any:
        """The switches and numbers of a block's last sums, see arguments.Epilogue."""
        part, adds = block.project, block.residual_scales is not None
        size = (self.batch, shape.outputs, *shape.out_size)
        stand_in = layouts.empty(size, np.dtype(np.int8), "NHWC") if adds else None
        added = (block.residual_scales, block.residual_offset, block.residual_first) if adds else (None,)
        ends = part.bias, part.multiplier, part.zero_point, part.bounds
        end = arguments.Epilogue(shape.outputs, shape.hidden, *ends, size, stand_in, *added)
        if adds and (shape.channels, shape.stride) != (shape.outputs, 1):
            raise ValueError(f"{KERNEL}: x is added to an output of its shape, got {shape}")
        return end.ends_as(small_project(part, adds))


def _check(name: str, block: StageBlock) -> None:
    """TypeError or ValueError unless a block's weights are those of its three convolutions."""

    def weight(part: str, shape: tuple[int | None, ...]) -> Any:
        return checks.array(f"{name}.{part}.weight", getattr(block, part).weight, shape, dtypes=arguments.INT8)

    hidden = weight("expand", (None, None, 1, 1)).shape[0]
    weight("depthwise", (hidden, 1, 3, 3)), weight("project", (None, hidden, 1, 1))
    if block.stride not in (1, 2):
        raise ValueError(f"{name}.stride must be 1 or 2, got {block.stride!r}")


def stage_int8(x: Any, blocks: Sequence[StageBlock] | Stage, *, out: Any = None, programmatic: bool = False) -> Any:
    """out = the blocks one after the other, as inverted_residual_int8 computes each, bit for bit, as one kernel.

    x: (N, C, 14, 14) int8, NHWC; out: of the last block. blocks: of 32, 64 or 96 channels and 192·n hidden ones; the
    last one may have stride 2, and then up to 192 outputs. Or the Stage of them, for launches that are repeated. An
    image takes four multiprocessors. programmatic: as in inverted_residual. Requires sm_90.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout or option is
    invalid, if the blocks are not those of `problem`, or if Slid refuses one.
    """
    n, c = arguments.nhwc("x", x, (None, None, IMAGE, IMAGE)).shape[:2]
    stage = blocks if isinstance(blocks, Stage) else Stage(blocks, n)
    shapes = [block.shape for block in stage.blocks]
    if (stage.batch, shapes[0].channels) != (n, c):
        raise ValueError(f"x must have shape ({stage.batch}, {shapes[0].channels}, {IMAGE}, {IMAGE}), got {x.shape}")
    shape = (n, shapes[-1].outputs, *shapes[-1].out_size)
    out = layouts.empty(shape, np.dtype(np.int8), "NHWC") if out is None else arguments.nhwc("out", out, shape)
    checks.apart(out, x=x)
    if any(vectors.address(a) % vectors.WIDEST for a in (x, out)):
        raise ValueError(f"{KERNEL}: x and out must begin at multiples of {vectors.WIDEST} bytes")
    build = functools.partial(_compiled, (*header_options(), *stage.switches), cuda.backend())
    kernel = prepared(KERNEL, build, programmatic)
    shared = shared_bytes(shapes)
    cuda.allow_shared(kernel, shared)
    given = layouts.as_stored(x), stage.weights, stage.plan, stage.packets, stage.counters, layouts.as_stored(out), n
    kernel((PARTS * n,), (32 * WARPS,), given, shared_mem=shared)
    return out


def job(given: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """(source, options) of the kernel, for cubin.build_all. given: the options, without a card's."""
    return SOURCE.read_text(encoding="utf-8"), (*given, *architecture(SM_90A))


@functools.lru_cache(maxsize=64)
def _compiled(given: tuple[str, ...], backend: str) -> Any:
    source, all_options = job(given)
    # thread blocks wait for one another: a card has room for all, see `problem`
    return cuda.RawKernel(source, KERNEL, options=all_options, enable_cooperative_groups=backend == "simulator")
