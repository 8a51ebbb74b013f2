"""winograd_weight: the filter transform of Winograd's algorithm for 3×3 convolutions."""

from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung({"M": 2})})

PADDED_C, PADDED_O = 8, 64  # input and output channels are padded to multiples of these for ../winograd


def shape_of(out_channels: int, in_channels: int, tile: int) -> tuple[int, int, int]:
    """(A², C_padded, O_padded), the shape of the transformed filters of F(tile×tile, 3×3), with A = tile + 2."""
    c, o = checks.blocks(in_channels, PADDED_C) * PADDED_C, checks.blocks(out_channels, PADDED_O) * PADDED_O
    return (tile + 2) ** 2, c, o


@cuda.operator
def winograd_weight(weight: Any, tile: int = 2, *, out: Any = None, variant: str | None = None) -> Any:
    """U = G g Gᵀ of every 3×3 filter g, for `winograd(…, transformed=U)` (Lavin and Gray 2015, section 4.1).

    weight: (O, C, 3, 3), float32 or float16; tile: 2 for F(2×2, 3×3) or 4 for F(4×4, 3×3).
    out: ((tile + 2)², C padded to a multiple of 8, O to a multiple of 64), float32; the padding is zeros.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    o, c = checks.array("weight", weight, (None, None, 3, 3)).shape[:2]
    if tile not in (2, 4):
        raise ValueError(f"tile must be 2 or 4, got {tile!r}")
    out = checks.output(out, shape_of(o, c, tile), like=np.empty(0, np.float32))
    checks.apart(out, weight=weight)
    _, c_padded, o_padded = out.shape
    threads = 128
    kernel = ladder.kernel(ladder.choose(variant, weight.dtype), weight.dtype, M=tile)
    blocks = (checks.blocks(c_padded * o_padded, threads),)
    kernel(blocks, (threads,), (weight, out, o, c, o_padded, c_padded))
    return out
