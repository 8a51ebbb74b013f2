"""winograd_weight: 3×3 filters as Winograd's algorithm multiplies them."""

from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung({"M": 2})})

PADDED_C, PADDED_O = 8, 64  # what the kernels of ../winograd take at a time


def shape_of(out_channels: int, in_channels: int, tile: int) -> tuple[int, int, int]:
    """(A², C_padded, O_padded), the shape of the filters of F(tile×tile, 3×3), with A = tile + 2."""
    c, o = checks.blocks(in_channels, PADDED_C) * PADDED_C, checks.blocks(out_channels, PADDED_O) * PADDED_O
    return (tile + 2) ** 2, c, o


@cuda.operator
def winograd_weight(weight: Any, tile: int = 2, *, out: Any = None, variant: str | None = None) -> Any:
    """U = G g Gᵀ of every 3×3 filter g, for `winograd(…, transformed=U)` (Lavin and Gray 2015, section 4.1).

    weight: (O, C, 3, 3), float32 or float16; tile: 2 for F(2×2, 3×3) or 4 for F(4×4, 3×3).
    out: ((tile + 2)², C rounded up to 8s, O rounded up to 64s) float32, zeros where there is no filter.
    ValueError and TypeError name what does not fit.
    """
    o, c = checks.array("weight", weight, (None, None, 3, 3)).shape[:2]
    if tile not in (2, 4):
        raise ValueError(f"tile must be 2 or 4, got {tile!r}")
    out = checks.output(out, shape_of(o, c, tile), like=np.empty(0, np.float32))
    _, c_padded, o_padded = out.shape
    threads = 128
    kernel = ladder.kernel(ladder.choose(variant, weight.dtype), weight.dtype, M=tile)
    blocks = (checks.blocks(c_padded * o_padded, threads),)
    kernel(blocks, (threads,), (weight, out, o, c, o_padded, c_padded))
    return out
