"""inverted_residual: MobileNetV2's block of three convolutions, from three kernels to one that a cluster shares."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks
from ...cuda import layout as layouts
from .. import vectors
from ..ladder import Ladder, Rung

# TILE_H×TILE_W outputs per block, SLICE hidden channels at a time, STAGES slices of weights in shared memory; SPLIT
# blocks of a cluster share a tile. What the launcher chooses for a shape stands here for a small one.
_TILE = {"THREADS": 256, "STRIDE": 1, "TILE_H": 4, "TILE_W": 4}
_SLICES = _TILE | {"SLICE": 32, "O_PADDED": 16}
_STAGES = _SLICES | {"STAGES": 2}
_REUSE = _STAGES | {"STRIP": 4, "ADDS_X": 0}
ladder = Ladder(
    __file__,
    {
        "naive": Rung({"THREADS": 256, "STRIDE": 1, "STEP": 0}, layouts=("NHWC",)),
        "fused": Rung({"THREADS": 256, "STRIDE": 1}, layouts=("NHWC",)),
        "halo": Rung(_TILE, layouts=("NHWC",)),
        "slices": Rung(_SLICES, layouts=("NHWC",)),
        "tensor_cores": Rung(_SLICES, layouts=("NHWC",)),
        "pipelined": Rung(_STAGES, layouts=("NHWC",)),
        "reuse": Rung(_REUSE, layouts=("NHWC",)),
        "cluster": Rung(_REUSE | {"SPLIT": 2}, layouts=("NHWC",)),
    },
)

TILES = ((8, 8), (4, 8), (4, 4))  # (TILE_H, TILE_W), the largest first; multiples of 16 pixels, for mma
SMALL_TILES = ((2, 4), (2, 2), (1, 2), (1, 1))  # of the rung "halo", whose tile shrinks as the hidden channels grow
WIDEST_SLICE = 128  # bytes of a slice's channels
MOST_SUMS = 32  # outputs that a thread of the rung "slices" keeps in registers
STAGES = 2  # slices of weights in shared memory
STRIP = 4  # rows of outputs that a thread of the rung "reuse" convolves below each other
LARGEST_CLUSTER = 8  # blocks; more are not portable


@dataclass(frozen=True)
class Shape:
    """The sizes of a block: x (n, channels, height, width), hidden channels, outputs; itemsize in bytes.

    adds_x: whether the residual is x itself.
    """

    n: int
    channels: int
    height: int
    width: int
    hidden: int
    outputs: int
    stride: int
    itemsize: int
    adds_x: bool = False

    @property
    def out_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        return (self.height - 1) // self.stride + 1, (self.width - 1) // self.stride + 1

    @property
    def piece(self) -> int:
        """Elements in 16 bytes."""
        return vectors.WIDEST // self.itemsize

    @property
    def o_padded(self) -> int:
        """Output channels rounded up to the 16 columns of two mma."""
        return _round_up(self.outputs, 16)

    def tiles(self, tile_h: int, tile_w: int) -> int:
        """Tiles of that many output pixels in all images."""
        out_h, out_w = self.out_size
        return self.n * checks.blocks(out_h, tile_h) * checks.blocks(out_w, tile_w)

    def pixels_in(self, tile_h: int, tile_w: int) -> int:
        """Hidden pixels under a tile, its halo included."""
        return ((tile_h - 1) * self.stride + 3) * ((tile_w - 1) * self.stride + 3)

    def recomputed(self, tile_h: int, tile_w: int) -> float:
        """Hidden pixels under all tiles, those outside of the image included, over those that there are."""
        computed = self.tiles(tile_h, tile_w) * self.pixels_in(tile_h, tile_w)
        return computed / (self.n * self.height * self.width)


@dataclass(frozen=True)
class Launch:
    """How to launch a rung: -D options that differ from the rung's own, blocks, bytes of dynamic shared memory."""

    switches: dict[str, int]
    blocks: int
    shared: int = 0


def _round_up(size: int, unit: int) -> int:
    return checks.blocks(size, unit) * unit


def naive(shape: Shape) -> list[Launch]:
    """Expand, depthwise and project: one thread per element."""
    pixels_in, pixels_out = shape.n * shape.height * shape.width, shape.n * math.prod(shape.out_size)
    elements = (pixels_in * shape.hidden, pixels_out * shape.hidden, pixels_out * shape.outputs)
    return [Launch({"STEP": step}, checks.blocks(size, _TILE["THREADS"])) for step, size in enumerate(elements)]


def fused(shape: Shape) -> Iterator[Launch]:
    """One block per output pixel: its 9 hidden pixels and dw."""
    yield Launch({}, shape.n * math.prod(shape.out_size), 10 * shape.hidden * shape.itemsize)


def _tiled(shape: Shape, tile_h: int, tile_w: int) -> tuple[dict[str, int], int, int, int]:
    """(switches, tiles, hidden pixels and output pixels of a tile)."""
    switches = {"TILE_H": tile_h, "TILE_W": tile_w}
    return switches, shape.tiles(tile_h, tile_w), shape.pixels_in(tile_h, tile_w), tile_h * tile_w


def halo(shape: Shape) -> Iterator[Launch]:
    """One block per tile: all hidden channels of its pixels; the largest tile first."""
    for tile in (*TILES, *SMALL_TILES):
        switches, blocks, pixels_in, pixels = _tiled(shape, *tile)
        yield Launch(switches, blocks, (pixels_in + pixels) * shape.hidden * shape.itemsize)


def slices(shape: Shape) -> Iterator[Launch]:
    """One block per tile: x, and a slice of hidden channels; no larger tile than registers have room for its sums."""
    size = WIDEST_SLICE // shape.itemsize
    for tile in TILES:
        switches, blocks, pixels_in, pixels = _tiled(shape, *tile)
        if pixels * shape.o_padded > MOST_SUMS * _TILE["THREADS"] and tile != TILES[-1]:
            continue
        elements = pixels_in * shape.channels + (pixels_in + pixels) * size
        yield Launch(switches | {"SLICE": size, "O_PADDED": shape.o_padded}, blocks, elements * shape.itemsize)


def _mma(shape: Shape, tile: tuple[int, int], size: int) -> tuple[Launch, int]:
    """A launch with rows for mma, and the bytes of a slice of both matrices of weights, which are not in it."""
    switches, blocks, pixels_in, pixels = _tiled(shape, *tile)
    x_row, row = _round_up(shape.channels, 2 * shape.piece) + shape.piece, size + shape.piece
    work = _round_up(pixels_in, 16) * x_row + (pixels_in + pixels) * row
    weights = size * x_row + shape.o_padded * row
    launch = Launch(switches | {"SLICE": size, "O_PADDED": shape.o_padded}, blocks, work * shape.itemsize)
    return launch, weights * shape.itemsize


def _candidates(shape: Shape) -> Iterator[tuple[tuple[int, int], int]]:
    """Tiles and slices, the largest first; slices are multiples of 16 channels."""
    for tile in TILES:
        for size in (WIDEST_SLICE // shape.itemsize, 16):
            yield tile, size


def tensor_cores(shape: Shape) -> Iterator[Launch]:
    """As slices, and the weights of a slice."""
    for tile, size in _candidates(shape):
        launch, weights = _mma(shape, tile, size)
        yield Launch(launch.switches, launch.blocks, launch.shared + weights)


def pipelined(shape: Shape) -> Iterator[Launch]:
    """As tensor_cores, but STAGES slices of all weights, the depthwise's included."""
    for tile, size in _candidates(shape):
        launch, weights = _mma(shape, tile, size)
        shared = launch.shared + STAGES * (weights + 9 * size * shape.itemsize)
        yield Launch(launch.switches | {"STAGES": STAGES}, launch.blocks, shared)


def reuse(shape: Shape) -> Iterator[Launch]:
    """As pipelined."""
    for launch in pipelined(shape):
        yield Launch(launch.switches | {"STRIP": STRIP, "ADDS_X": int(shape.adds_x)}, launch.blocks, launch.shared)


def cluster(shape: Shape) -> Iterator[Launch]:
    """As reuse: SPLIT blocks per tile, and the sums that come from all of them.

    SPLIT: as many as leave each block a slice, as long as each multiprocessor gets at most one block; at least 2.
    """
    for launch in reuse(shape):
        tile = launch.switches
        most = min(LARGEST_CLUSTER, checks.blocks(shape.hidden, tile["SLICE"]))
        split = 2
        while 2 * split <= most and 2 * split * launch.blocks <= cuda.multiprocessors():
            split *= 2
        pairs = tile["TILE_H"] * tile["TILE_W"] * shape.o_padded // 2
        shared = launch.shared + split * checks.blocks(pairs, split) * 8
        yield Launch(tile | {"SPLIT": split}, launch.blocks * split, shared)


CANDIDATES: dict[str, Callable[[Shape], Iterator[Launch]]] = {
    "fused": fused,
    "halo": halo,
    "slices": slices,
    "tensor_cores": tensor_cores,
    "pipelined": pipelined,
    "reuse": reuse,
    "cluster": cluster,
}


def launches(variant: str, shape: Shape) -> list[Launch]:
    """The launches of a rung: with the first tile whose data fit into a block's shared memory.

    ValueError if none does.
    """
    if variant == "naive":
        return naive(shape)
    for launch in CANDIDATES[variant](shape):
        if launch.shared <= cuda.shared_memory():
            return [launch]
    raise ValueError(
        f"inverted_residual: variant {variant!r} needs {launch.shared:,} bytes of shared memory with its smallest"
        f" tile for {shape.channels} channels, {shape.hidden} hidden and {shape.outputs} output channels of"
        f" {shape.itemsize} bytes, there are {cuda.shared_memory():,}"
    )


@cuda.operator
def inverted_residual(
    x: Any,
    expand: Any,
    expand_bias: Any,
    depthwise: Any,
    depthwise_bias: Any,
    project: Any,
    project_bias: Any = None,
    *,
    stride: int = 1,
    residual: Any = None,
    activations: tuple[Any, Any, Any] = ("relu6", "relu6", None),
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = project(depthwise(expand(x))) + residual, MobileNetV2's block (arXiv:1801.04381, section 3.3).

    x             (N, C, H, W), NHWC
    expand        (hidden, C, 1, 1)
    depthwise     (hidden, 1, 3, 3), padding 1
    project       (O, hidden, 1, 1)
    …_bias        (hidden,), (hidden,), (O,), or None
    stride        1 or 2, of the depthwise convolution
    residual      of the shape and layout of out, or None
    activations   after each of the three convolutions: None, "relu", "relu6" or bounds (low, high); the residual is
                  added before the last one
    out           (N, O, OH, OW), NHWC; None: a new array
    variant       a rung; default: the last one that the card runs

    float32 (from the rung "tensor_cores" on each product as three TF32 products) or float16, accumulated in float32.
    Channels and hidden channels must be multiples of 16 bytes, O of 4 elements, and every array but the biases must
    begin at a multiple of 16 bytes. The chapter's own fused kernel is common.optimize.blocks.inverted_residual.

    TypeError if an argument is not an array or has an unsupported or different dtype; ValueError if a shape, layout,
    option or variant is invalid, or no tile fits into the card's shared memory.
    """
    nhwc = ("NHWC",)
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=nhwc).shape
    hidden = checks.array("expand", expand, (None, c, 1, 1), like=x, allowed=layouts.LAYOUTS).shape[0]
    checks.array("depthwise", depthwise, (hidden, 1, 3, 3), like=x)
    o = checks.array("project", project, (None, hidden, 1, 1), like=x, allowed=layouts.LAYOUTS).shape[0]
    biases = {"expand_bias": expand_bias, "depthwise_bias": depthwise_bias, "project_bias": project_bias}
    for (name, bias), size in zip(biases.items(), (hidden, hidden, o), strict=True):
        if bias is not None:
            checks.array(name, bias, (size,), like=x)
    if stride not in (1, 2):
        raise ValueError(f"stride must be 1 or 2, got {stride!r}")
    bounds = [bound for activation in _three(activations) for bound in checks.bounds(activation)]
    itemsize = x.dtype.itemsize
    for name, size, unit in (
        ("channels of x", c, vectors.WIDEST // itemsize), ("hidden channels of expand", hidden, 16 // itemsize),
        ("output channels of project", o, 4),
    ):  # fmt: skip
        if size % unit:
            raise ValueError(f"the {name} must be a multiple of {unit} for {x.dtype}, got {size}")
    shape = Shape(n, c, h, w, hidden, o, stride, itemsize)
    out_shape = (n, o, *shape.out_size)
    if residual is not None:
        checks.array("residual", residual, out_shape, like=x, allowed=nhwc)
        is_x = out_shape == x.shape and vectors.address(residual) == vectors.address(x)
        shape = dataclasses.replace(shape, adds_x=is_x)
    variant = ladder.choose(variant, x.dtype, "NHWC")
    out = checks.output(out, out_shape, like=x, layout="NHWC")
    inputs = {"x": x, "expand": expand, "depthwise": depthwise, "project": project, "residual": residual}
    checks.apart(out, **inputs, **biases)
    for name, array in (inputs | {"out": out}).items():
        if array is not None and vectors.address(array) % vectors.WIDEST:
            raise ValueError(f"{name} must begin at a multiple of {vectors.WIDEST} bytes, got {vectors.address(array)}")

    scratch = _scratch(shape, x.dtype) if variant == "naive" else None
    arrays = (x, expand, expand_bias, depthwise, depthwise_bias, project, project_bias, residual, out)
    stored = tuple(array if array is None else layouts.as_stored(array) for array in arrays)
    for launch in launches(variant, shape):
        kernel = ladder.kernel(variant, x.dtype, **{"STRIDE": stride} | launch.switches)
        cuda.allow_shared(kernel, launch.shared)
        arguments = (*stored, scratch, n, h, w, c, hidden, o, *bounds)
        kernel((launch.blocks,), (_TILE["THREADS"],), arguments, shared_mem=launch.shared)
    return out


def _three(activations: Any) -> tuple[Any, Any, Any]:
    if not isinstance(activations, (tuple, list)) or len(activations) != 3:
        raise ValueError(f"activations must be three, after expand, depthwise and project, got {activations!r}")
    return tuple(activations)  # type: ignore[return-value]


def _scratch(shape: Shape, dtype: Any) -> Any:
    """Both hidden tensors, before and after the depthwise convolution. ValueError if there are too many elements."""
    pixels = shape.n * (shape.height * shape.width + math.prod(shape.out_size))
    checks.size("the hidden tensors of variant 'naive'", (pixels * shape.hidden,))
    return cuda.workspace((pixels * shape.hidden,), np.dtype(dtype))
