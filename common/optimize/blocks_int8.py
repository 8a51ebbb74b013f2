"""An inverted-residual block in int8 as one launch: inverted_residual_int8.cu."""

import dataclasses
import functools
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
from .tiles_int8 import Int8Block, Int8Tile, rule

KERNEL = "inverted_residual_int8"
SOURCE = Path(__file__).with_name(f"{KERNEL}.cu")
UNIT = 8  # channels are multiples of it


@dataclass(frozen=True)
class Int8Convolution:
    """One of the block's convolutions.

    weight: (O, C/groups, kH, kW) int8; bias: (O,) int32 with the zero point of its input folded in, or None;
    multiplier: (O,) float32; zero_point, bounds (low, high): of its output. As of kernels.pointwise_int8.
    small: whether int8.small_sums holds for it: fewer instructions per output.
    """

    weight: Any
    bias: Any
    multiplier: Any
    zero_point: int = 0
    bounds: tuple[int, int] = (LOW, HIGH)
    small: bool = False


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
    small = [_small(part) for part in (expand, depthwise, project)]
    if residual is not None:  # bounds are of the sum; the product's codes are all of int8
        small[2] = _small(dataclasses.replace(project, bounds=(LOW, HIGH)))
    defines = ends[-1].switches | dict(zip(("SMALL_EXPAND", "SMALL_DEPTHWISE", "SMALL_PROJECT"), small, strict=True))
    switches = tuple(f"-D{name}={value}" for name, value in defines.items())
    build = functools.partial(_compiled, options(block, tile) + switches, cuda.backend())
    kernel = prepared(f"{KERNEL}/fused", build)
    cuda.allow_shared(kernel, block.shared(tile))
    grid, threads = block.blocks(tile, n), 32 * tile.warps
    kernel((grid,), (threads,), (layouts.as_stored(x), *first, *rest, *stored, *numbers), shared_mem=block.shared(tile))
    return out


def _small(part: Int8Convolution | None) -> int:
    """SMALL of requantize.h for a convolution."""
    return int(part is not None and part.small and tuple(part.bounds) == (LOW, HIGH))


def options(block: Int8Block, tile: Int8Tile) -> tuple[str, ...]:
    """NVRTC's options: every size is a constant of the kernel."""
    sizes = {name: int(value) for name, value in (asdict(block) | asdict(tile)).items()}
    return (*header_options(), *(f"-D{name.upper()}={value}" for name, value in sizes.items()))


@functools.lru_cache(maxsize=256)
def _compiled(given: tuple[str, ...], backend: str) -> Any:
    return cuda.RawKernel(SOURCE.read_text(encoding="utf-8"), KERNEL, options=given)
