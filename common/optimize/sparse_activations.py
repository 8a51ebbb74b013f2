"""How many zeros a network's convolutions read: counted in what a real input leaves in memory, or made as wished.

    program = Network(model).program(x.shape)            every activation is kept
    program.input[...] = x; program.launch()
    for row in measure(program): print(row.layer, row.elements, row.pixels)
    x = Synthetic((8, 64, 56, 56), "pixels").at(0.9)     90 % of its pixels are zero in all channels

Only what ReLU or ReLU6 wrote has zeros, besides what a pool made of it and zeros of an image.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda
from ..topology import Conv2d
from .generate import ceil_div

PATTERNS = ("elements", "pixels", "tiles")  # what is zero as a whole, see Synthetic
TILE = 8  # pixels along a side of a tile
CHUNK = 32  # channels at a time


def whole(x: np.ndarray, channels: int, side: int = 1) -> float:
    """The share of x (N, C, H, W) in boxes of `channels` × side × side that are all zero, by number of boxes.

    Boxes at the end are as small as what is left. channels 0: all. NaN is not zero, −0.0 is.
    """
    n, c, h, w = x.shape
    channels = channels or c
    boxes = ceil_div(c, channels), ceil_div(h, side), ceil_div(w, side)
    filled = np.zeros((n, boxes[0] * channels, boxes[1] * side, boxes[2] * side), bool)
    filled[:, :c, :h, :w] = x != 0
    split = filled.reshape(n, boxes[0], channels, boxes[1], side, boxes[2], side)
    return 1.0 - float(split.any((2, 4, 6)).mean())


@dataclass(frozen=True)
class Zeros:
    """Shares of what a convolution reads that are all zero, 0 … 1.

    elements; pixels: in all channels; groups_8, groups_32: so many neighbouring channels of a pixel; tiles_4, tiles_8:
    32 channels of 4×4 and 8×8 pixels. after: the kind of layer that wrote it, or "input".
    """

    layer: str
    shape: str
    after: str
    elements: float
    pixels: float
    groups_8: float
    groups_32: float
    tiles_4: float
    tiles_8: float


def zeros(x: Any, layer: str = "", shape: str = "", after: str = "input") -> Zeros:
    """The shares of zeros in an array (N, C, H, W) of any layout."""
    x = cuda.asnumpy(x)
    boxes = ((1, 1), (0, 1), (8, 1), (CHUNK, 1), (CHUNK, 4), (CHUNK, 8))
    return Zeros(layer, shape, after, *(whole(x, channels, side) for channels, side in boxes))


def measure(program: Any) -> list[Zeros]:
    """What every convolution of a common.network program has read, after a launch. Its activations must be kept.

    ValueError where they share memory: what a convolution has read is then overwritten.
    """
    if program.plan.arena is not None:
        raise ValueError("program must keep every activation: net.program(shape), without arena=True")
    written = {step.output: type(step.layers[-1]).__name__ for step in program.steps}
    rows = []
    for step in program.steps:
        if isinstance(step.layer, Conv2d):
            tensor, name = step.inputs[0], step.layer.name
            rows.append(zeros(program.buffers[tensor], name, words(step.layer), written.get(tensor, "input")))
    return rows


def words(layer: Conv2d) -> str:
    """A convolution's shape as sparse.Shape tells it: "56×56 64>256 1×1"."""
    from .sparse import Shape

    n, c, h, w = layer.input_shapes[0]
    made = Shape(n, c, h, w, layer.out_channels, layer.kernel_size, layer.stride, layer.padding, layer.groups)
    return str(made)


def table(rows: Sequence[Zeros]) -> str:
    """The shares in percent, a line a convolution."""
    from ..text import aligned

    heads = ("layer", "shape", "after", "elements", "pixels", "8 ch.", "32 ch.", "4×4×32", "8×8×32")
    lines = [heads]
    for row in rows:
        shares = (row.elements, row.pixels, row.groups_8, row.groups_32, row.tiles_4, row.tiles_8)
        lines.append((row.layer, row.shape, row.after, *(f"{share:.1%}" for share in shares)))  # type: ignore[arg-type]
    return "\n".join(aligned(lines, right=tuple(range(3, 9))))


class Synthetic:
    """Inputs (N, C, H, W) of any sparsity, NHWC, positive where they are not zero, as a ReLU leaves them.

    pattern: what becomes zero as a whole. "elements": each by itself; "pixels": all channels of one; "tiles": 32
    channels of 8×8 pixels. What is zero at one sparsity is zero at all higher ones; 0 and 1 are exact.
    """

    def __init__(
        self, shape: tuple[int, int, int, int], pattern: str = "elements", dtype: Any = np.float32, seed: int = 0
    ) -> None:
        if pattern not in PATTERNS:
            raise ValueError(f"pattern must be one of {', '.join(PATTERNS)}, got {pattern!r}")
        n, c, h, w = shape
        random = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        values = np.abs(random.standard_normal(math.prod(shape), np.float32)).reshape(n, h, w, c) + np.float32(0.01)
        box = {"elements": (1, 1), "pixels": (c, 1), "tiles": (CHUNK, TILE)}[pattern]
        units = random.random((n, ceil_div(h, box[1]), ceil_div(w, box[1]), ceil_div(c, box[0])), np.float32)
        self._values = cuda.asarray(values)
        spread = [np.arange(size) // side for size, side in ((h, box[1]), (w, box[1]), (c, box[0]))]
        self._noise = cuda.asarray(np.ascontiguousarray(units[:, spread[0]][:, :, spread[1]][:, :, :, spread[2]]))

    def at(self, sparsity: float) -> Any:
        """The array in which that share of the pattern's units is zero. ValueError unless 0 ≤ sparsity ≤ 1."""
        if not 0 <= sparsity <= 1:
            raise ValueError(f"sparsity must be from 0 to 1, got {sparsity}")
        made = self._values * (self._noise >= np.float32(sparsity))
        return made.astype(self.dtype).transpose(0, 3, 1, 2)
