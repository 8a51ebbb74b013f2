"""The share of zeros that a network's convolutions read: measured after a launch, or in synthetic inputs.

    program = Network(model).program(x.shape)            no arena: every activation can be read after the launch
    program.input[...] = x; program.launch()
    for row in measure(program): print(row.layer, row.elements, row.pixels)
    x = Synthetic((8, 64, 56, 56), "pixels").at(0.9)     90 % of its pixels are zero in all channels

Zeros come from ReLU and ReLU6, from pools of their outputs, and from zeros of the image.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda
from ..topology import Conv2d
from .generate import ceil_div

PATTERNS = ("elements", "pixels", "tiles")  # the units that become zero, see Synthetic
TILE = 8  # pixels along a side of a tile
CHUNK = 32  # channels at a time


def zero_box_share(x: np.ndarray, channels: int, side: int = 1) -> float:
    """The share, 0 … 1, of boxes of `channels` × side × side elements of x (N, C, H, W) that are all zero.

    Boxes at the borders may be smaller. channels 0: all channels. NaN is not zero, −0.0 is.
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
    """The shares of zeros, 0 … 1, in the input of a convolution.

    layer, shape          the convolution's name, and its shape in words
    after                 the type of the layer that wrote the input, or "input"
    elements              zero elements
    pixels                pixels that are zero in all channels
    groups_8, groups_32   groups of 8 and 32 adjacent channels of a pixel that are all zero
    tiles_4, tiles_8      boxes of 32 channels × 4×4 and 8×8 pixels that are all zero
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
    """The shares of zeros in an array (N, C, H, W) of any layout. Other arguments: as of Zeros."""
    x = cuda.asnumpy(x)
    boxes = ((1, 1), (0, 1), (8, 1), (CHUNK, 1), (CHUNK, 4), (CHUNK, 8))
    return Zeros(layer, shape, after, *(zero_box_share(x, channels, side) for channels, side in boxes))


def measure(program: Any) -> list[Zeros]:
    """The zeros in the input of every convolution of a common.network program, after a launch.

    ValueError for a program with an arena, whose later steps overwrite activations.
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
    """A convolution's shape in words, as str(sparse.Shape): "56×56 64>256 1×1"."""
    from .sparse import Shape

    n, c, h, w = layer.input_shapes[0]
    made = Shape(n, c, h, w, layer.out_channels, layer.kernel_size, layer.stride, layer.padding, layer.groups)
    return str(made)


def table(rows: Sequence[Zeros]) -> str:
    """A text table of the shares in percent, one line per convolution."""
    from ..text import aligned

    heads = ("layer", "shape", "after", "elements", "pixels", "8 ch.", "32 ch.", "4×4×32", "8×8×32")
    lines = [heads]
    for row in rows:
        shares = (row.elements, row.pixels, row.groups_8, row.groups_32, row.tiles_4, row.tiles_8)
        lines.append((row.layer, row.shape, row.after, *(f"{share:.1%}" for share in shares)))  # type: ignore[arg-type]
    return "\n".join(aligned(lines, right=tuple(range(3, 9))))


class Synthetic:
    """Random inputs (N, C, H, W), NHWC, of a given sparsity; nonzero elements are positive, as after a ReLU.

    pattern: the unit that becomes zero: "elements", single elements; "pixels", all channels of a pixel; "tiles", 32
    channels of 8×8 pixels. The zeros at one sparsity are also zeros at all higher ones; 0 and 1 are exact.
    ValueError for another pattern.
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
        """The array of the backend in which this share of the units is zero. ValueError unless 0 ≤ sparsity ≤ 1."""
        if not 0 <= sparsity <= 1:
            raise ValueError(f"sparsity must be from 0 to 1, got {sparsity}")
        made = self._values * (self._noise >= np.float32(sparsity))
        return made.astype(self.dtype).transpose(0, 3, 1, 2)
