"""permute: the dimensions of an array in another order, in memory as well."""

import math
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks
from .. import strided
from ..ladder import Ladder, Rung

THREADS = 256  # in a block

ladder = Ladder(__file__, {"naive": Rung(), "tiled": Rung({"TILE": 32})})


@cuda.operator
def permute(x: Any, dims: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = x.permute(dims), C-contiguous: dimension i of out is dimension dims[i] of x.

    x: of any order in memory, without gaps, so that (0, 1, 2, 3) brings an NHWC array to NCHW; out: C-contiguous;
    float32 or float16. More than four dimensions must be so that at most four are left when neighbours stay neighbours.
    variant: "tiled" takes orders in which the elements along out's last dimension do not lie side by side in x, but
    those along the one before do. ValueError and TypeError name what does not fit.
    """
    stored = _dense(x)
    order = _order(dims, x.shape)
    shape = tuple(x.shape[dim] for dim in order)
    out = checks.output(out, shape, like=x)
    itemsize = np.dtype(x.dtype).itemsize
    dimensions = strided.coalesce_dims(shape, tuple(x.strides[dim] // itemsize for dim in order))
    if len(dimensions) > 4:
        raise ValueError(f"dims must leave at most four dimensions to walk, got {order} for shape {tuple(x.shape)}")
    sizes, steps = zip(*strided.pad_to_4d(dimensions, 1), strict=True)
    turned = steps[2] == 1 and steps[3] > 1
    if variant == "tiled" and not turned:
        raise ValueError(f"variant 'tiled' takes orders that turn the last two dimensions to walk, got dims {order}")
    best = ["tiled" if turned and cuda.backend() == "gpu" else "naive"]
    chosen = ladder.choose(variant, x.dtype, best=best)
    blocks = checks.blocks(x.size, THREADS)
    if chosen == "tiled":
        tile = ladder.tile(chosen)["TILE"]
        blocks = math.prod(sizes[:2]) * checks.blocks(sizes[2], tile) * checks.blocks(sizes[3], tile)
    ladder.kernel(chosen, x.dtype)((blocks,), (THREADS,), (stored, out, *sizes, *steps))
    return out


def _dense(x: Any) -> Any:
    """x as it lies in memory, its dimensions in that order. ValueError if there are gaps."""
    if not hasattr(x, "shape") or not hasattr(x, "strides"):
        return checks.array("x", x, None)  # refuses it
    stored = x.transpose(tuple(sorted(range(len(x.shape)), key=lambda i: -x.strides[i])))
    if not stored.flags.c_contiguous:
        raise ValueError(f"x must lie in memory without gaps, got strides {x.strides} for shape {tuple(x.shape)}")
    return checks.array("x", stored, None)


def _order(dims: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    order = tuple(dims) if isinstance(dims, (tuple, list)) else None
    if order is None or not all(isinstance(d, int) for d in order) or sorted(order) != list(range(len(shape))):
        raise ValueError(f"dims must be an order of the {len(shape)} dimensions of x {tuple(shape)}, got {dims!r}")
    return order
