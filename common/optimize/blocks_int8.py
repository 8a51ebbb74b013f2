"""An inverted-residual block in int8 as one launch: inverted_residual_int8.cu."""

import functools
import itertools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import cuda
from ..cuda import checks
from ..cuda import layout as layouts
from ..kernels import int8_arguments as arguments
from ..kernels import vectors
from ..kernels.int8 import HIGH, LOW
from ..kernels.ladder import header_options, prepared
from .generate import ceil_div

KERNEL = "inverted_residual_int8"
SOURCE = Path(__file__).with_name(f"{KERNEL}.cu")
SUMS = 64  # most int32 sums of project per thread
UNIT = 8  # channels are multiples of it


@dataclass(frozen=True)
class Int8Convolution:
    """One of the block's convolutions.

    weight: (O, C/groups, kH, kW) int8; bias: (O,) int32 with the zero point of its input folded in, or None;
    multiplier: (O,) float32; zero_point, bounds (low, high): of its output. As of kernels.pointwise_int8.
    small: whether int8.small_sums holds for it: fewer instructions per output. Without meaning for the last one.
    """

    weight: Any
    bias: Any
    multiplier: Any
    zero_point: int = 0
    bounds: tuple[int, int] = (LOW, HIGH)
    small: bool = False


@dataclass(frozen=True)
class Int8Tile:
    """The tiling of a block: what a thread block computes at a time.

    tile_h, tile_w: output pixels, of so many images. slice: hidden channels, a multiple of 32. strip: rows of outputs
    that a thread convolves, a divisor of tile_h. warps, of which warps_n lie side by side along the outputs.
    """

    tile_h: int
    tile_w: int
    images: int = 1
    slice: int = 32
    strip: int = 1
    warps: int = 8
    warps_n: int = 1


@dataclass(frozen=True)
class Int8Block:
    """The shapes of a block: height × width pixels of `channels`, `hidden` channels, `outputs`; whether it expands."""

    height: int
    width: int
    channels: int
    hidden: int
    outputs: int
    stride: int = 1
    expand: bool = True

    @property
    def out_size(self) -> tuple[int, int]:
        """(OUT_H, OUT_W)."""
        return (self.height - 1) // self.stride + 1, (self.width - 1) // self.stride + 1

    def blocks(self, tile: Int8Tile, batch: int) -> int:
        """Thread blocks of a launch."""
        rows, columns = self.out_size
        return ceil_div(rows, tile.tile_h) * ceil_div(columns, tile.tile_w) * ceil_div(batch, tile.images)

    def shared(self, tile: Int8Tile) -> int:
        """Bytes of shared memory of a thread block, as the kernel's SHARED."""
        rows, columns = self.out_size
        in_h, in_w = (tile.tile_h - 1) * self.stride + 3, (tile.tile_w - 1) * self.stride + 3
        real_h = self.height if tile.tile_h >= rows else in_h
        real_words = ceil_div(self.width + 1 if tile.tile_w >= columns else in_w, 4)
        row_words = max(real_words, ceil_div(tile.tile_w, 4) * self.stride + 1)
        pixels_in, pixels_out = 4 * tile.images * real_h * real_words, tile.images * tile.tile_h * tile.tile_w
        row_1, row = ceil_div(self.channels, 32) * 32 + 16, tile.slice + 16
        x = ceil_div(pixels_in, 32) * 32 * row_1 if self.expand else 0
        places = ceil_div(ceil_div(pixels_in, 32) * 32 // 4 * 8, 16) * 16
        hidden = 4 * (tile.images * in_h * row_words + 1) * (tile.slice + 4)
        stage = (tile.slice * row_1 if self.expand else 0) + 9 * tile.slice + ceil_div(self.outputs, 32) * 32 * row
        return x + places + hidden + ceil_div(pixels_out, 16) * 16 * row + 2 * stage

    def sums(self, tile: Int8Tile) -> int:
        """int32 sums of project that a thread holds in registers."""
        pixels = ceil_div(ceil_div(tile.images * tile.tile_h * tile.tile_w, 16), tile.warps // tile.warps_n)
        return 16 * pixels * ceil_div(ceil_div(self.outputs, 32), tile.warps_n)


def rule(block: Int8Block, batch: int) -> Int8Tile | None:
    """The largest tile of which two blocks fit into a multiprocessor's shared memory, else one; None if none does.

    Of tiles of one size the one with the longest slice. A rule for now: it is not fitted to a card.
    """
    rows, columns = block.out_size
    sizes = dict.fromkeys(
        (min(h, rows), min(w, columns)) for h, w in ((14, 14), (7, 14), (8, 8), (7, 7), (4, 8), (2, 4))
    )
    several = batch >= 2 * cuda.multiprocessors()
    for resident, (h, w), channels in itertools.product((2, 1), sizes, (64, 32)):
        pair = several and (h, w) == (rows, columns) and h * w < 100
        channels = min(channels, ceil_div(block.hidden, 32) * 32)
        for images, warps in itertools.product((2, 1) if pair else (1,), (8, 16)):
            strip = next(s for s in ((4, 7, 2, 1) if warps == 8 else (2, 1)) if h % s == 0)  # within its registers
            able = (Int8Tile(h, w, images, channels, strip, warps, across) for across in (1, 2, 4, 8))
            tile = min(able, key=block.sums)
            if resident * (block.shared(tile) + 1024) <= cuda.shared_memory() + 1024 and block.sums(tile) <= SUMS:
                return tile
    return None


def inverted_residual_int8(
    x: Any,
    expand: Int8Convolution | None,
    depthwise: Int8Convolution,
    project: Int8Convolution,
    *,
    stride: int = 1,
    input_zero_point: int = 0,
    residual: Any = None,
    residual_scales: Any = None,
    residual_offset: int = 0,
    residual_first: bool = False,
    out: Any = None,
    tile: Int8Tile | None = None,
) -> Any:
    """out = project(depthwise(expand(x))), each requantized as a kernel of its own would, + residual: one kernel.

    x: (N, C, H, W), residual and out: (N, O, OH, OW), int8, NHWC, NumPy or CuPy arrays. expand: 1×1, (hidden, C, 1, 1),
    or None; depthwise: 3×3 of padding 1 and stride 1 or 2, (hidden, 1, 3, 3); project: 1×1, (O, hidden, 1, 1).
    input_zero_point: of x, which pads a block without expand. residual, …: as of pointwise_int8.
    tile: default `rule`. Requires sm_80. C, hidden and O must be multiples of 8.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout or option is
    invalid, or if no tile fits the card.
    """
    n, c, h, w = arguments.nhwc("x", x, (None,) * 4).shape
    hidden = checks.array("depthwise.weight", depthwise.weight, (None, 1, 3, 3), dtypes=arguments.INT8).shape[0]
    o = checks.array("project.weight", project.weight, (None, hidden, 1, 1), dtypes=arguments.INT8).shape[0]
    if expand is not None:
        checks.array("expand.weight", expand.weight, (hidden, c, 1, 1), dtypes=arguments.INT8)
    elif hidden != c:
        raise ValueError(
            f"depthwise.weight must have shape ({c}, 1, 3, 3) without expand, got {depthwise.weight.shape}"
        )
    if stride not in (1, 2):
        raise ValueError(f"stride must be 1 or 2, got {stride!r}")
    if c % UNIT or hidden % UNIT or o % UNIT:
        raise ValueError(f"channels must be multiples of {UNIT}, got {c} > {hidden} > {o}")
    block = Int8Block(h, w, c, hidden, o, stride, expand is not None)
    shape = (n, o, *block.out_size)
    ends = [
        arguments.Epilogue(
            part.weight.shape[0], part.weight[0].size, part.bias, part.multiplier, part.zero_point, part.bounds, shape,
            *((residual, residual_scales, residual_offset, residual_first) if part is project else (None, None)),
        )
        for part in (expand, depthwise, project)
        if part is not None
    ]  # fmt: skip
    zero = arguments.int8_number("input_zero_point", input_zero_point)
    out = arguments.output(out, shape, x)
    checks.apart(out, x=x, residual=residual)
    tile = rule(block, n) if tile is None else tile
    if tile is None or block.shared(tile) > cuda.shared_memory():
        raise ValueError(f"{KERNEL}: no tile of {block} fits into {cuda.shared_memory()} bytes of shared memory")

    weights = [part.weight for part in (expand, depthwise, project) if part is not None]
    parameters = [array for end in ends for array in (end.bias, end.multiplier) if array is not None]
    moved = [x, out, *weights, *([] if residual is None else [residual])]
    if any(vectors.address(a) % vectors.WIDEST for a in (*parameters, *moved)):
        raise ValueError(f"{KERNEL}: all arrays must begin at multiples of {vectors.WIDEST} bytes")
    first = [None] * 3 if expand is None else [layouts.as_stored(expand.weight), ends[0].bias, ends[0].multiplier]
    rest = [v for part, end in zip((depthwise, project), ends[-2:], strict=True)
            for v in (layouts.as_stored(part.weight), end.bias, end.multiplier)]  # fmt: skip
    hidden_end = ends[0].numbers[:3] if expand is not None else (zero, LOW, HIGH)
    numbers = (n, *hidden_end, *ends[-2].numbers[:3], *ends[-1].numbers)
    stored = [array if array is None else layouts.as_stored(array) for array in (residual, out)]
    small = [int(part is not None and part.small and part.bounds == (LOW, HIGH)) for part in (expand, depthwise)]
    defines = ends[-1].switches | {"SMALL_EXPAND": small[0], "SMALL_DEPTHWISE": small[1]}
    switches = tuple(f"-D{name}={value}" for name, value in defines.items())
    build = functools.partial(_compiled, options(block, tile) + switches, cuda.backend())
    kernel = prepared(f"{KERNEL}/fused", build)
    cuda.allow_shared(kernel, block.shared(tile))
    grid, threads = block.blocks(tile, n), 32 * tile.warps
    kernel((grid,), (threads,), (layouts.as_stored(x), *first, *rest, *stored, *numbers), shared_mem=block.shared(tile))
    return out


def options(block: Int8Block, tile: Int8Tile) -> tuple[str, ...]:
    """NVRTC's options: every size is a constant of the kernel."""
    sizes = {name: int(value) for name, value in (asdict(block) | asdict(tile)).items()}
    return (*header_options(), *(f"-D{name.upper()}={value}" for name, value in sizes.items()))


@functools.lru_cache(maxsize=256)
def _compiled(given: tuple[str, ...], backend: str) -> Any:
    return cuda.RawKernel(SOURCE.read_text(encoding="utf-8"), KERNEL, options=given)
