"""permute: reorder the dimensions of an array in memory."""

import math
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks
from .. import strided
from ..ladder import Ladder, Rung

THREADS = 256  # per block

ladder = Ladder(__file__, {"naive": Rung(), "tiled": Rung({"TILE": 32})})


@cuda.operator
def permute(x: Any, dims: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = x.permute(dims), C-contiguous: dimension i of out is dimension dims[i] of x.

    x: dense, in any memory order, so dims (0, 1, 2, 3) converts an NHWC array to NCHW; out: C-contiguous; float32 or
    float16. After merging dimensions that stay adjacent, at most four may remain. variant: "tiled" requires that, among
    these, the last but one dimension of out is contiguous in x and the last is not.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    stored = _dense(x)
    order = _order(dims, x.shape)
    shape = tuple(x.shape[dim] for dim in order)
    out = checks.output(out, shape, like=x)
    checks.apart(out, x=x)
    itemsize = np.dtype(x.dtype).itemsize
    dimensions = strided.coalesce_dims(shape, tuple(x.strides[dim] // itemsize for dim in order))
    if len(dimensions) > 4:
        raise ValueError(f"dims must leave at most four dimensions to walk, got {order} for shape {tuple(x.shape)}")
    sizes, steps = zip(*strided.pad_to_4d(dimensions, 1), strict=True)
    transposed = steps[2] == 1 and steps[3] > 1
    if variant == "tiled" and not transposed:
        raise ValueError(f"variant 'tiled' takes orders that turn the last two dimensions to walk, got dims {order}")
    best = ["tiled" if transposed and cuda.backend() == "gpu" else "naive"]
    chosen = ladder.choose(variant, x.dtype, best=best)
    blocks = checks.blocks(x.size, THREADS)
    if chosen == "tiled":
        tile = ladder.tile(chosen)["TILE"]
        blocks = math.prod(sizes[:2]) * checks.blocks(sizes[2], tile) * checks.blocks(sizes[3], tile)
    ladder.kernel(chosen, x.dtype)((blocks,), (THREADS,), (stored, out, *sizes, *steps))
    return out


def _dense(x: Any) -> Any:
    """x with its dimensions in memory order. Raises ValueError if it is not dense."""
    if not hasattr(x, "shape") or not hasattr(x, "strides"):
        return checks.array("x", x, None)  # raises TypeError
    stored = x.transpose(tuple(sorted(range(len(x.shape)), key=lambda i: -x.strides[i])))
    if not stored.flags.c_contiguous:
        raise ValueError(f"x must lie in memory without gaps, got strides {x.strides} for shape {tuple(x.shape)}")
    return checks.array("x", stored, None)


def _order(dims: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    order = tuple(dims) if isinstance(dims, (tuple, list)) else None
    if order is None or not all(isinstance(d, int) for d in order) or sorted(order) != list(range(len(shape))):
        raise ValueError(f"dims must be an order of the {len(shape)} dimensions of x {tuple(shape)}, got {dims!r}")
    return order
