"""winograd: dense 3×3 convolutions of stride 1 by Winograd's algorithm."""

from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks
from ..ladder import Ladder, Rung
from ..winograd_weight import shape_of, winograd_weight

# A block computes BO output channels of BP tiles, BC input channels at a time; a thread TO×TP sums of each of its
# warp's products.
ladder = Ladder(
    __file__,
    {
        "naive": Rung(),
        "fused_f2x2": Rung({"WARPS": 8, "BO": 64, "BP": 32, "BC": 8, "TO": 8, "TP": 8}),
        "fused_f4x4": Rung({"WARPS": 12, "BO": 32, "BP": 32, "BC": 8, "TO": 8, "TP": 4}),
    },
)
TILE = {"naive": 2, "fused_f2x2": 2, "fused_f4x4": 4}  # outputs along a side of a tile


@cuda.operator
def winograd(
    x: Any,
    weight: Any,
    bias: Any = None,
    padding: Any = 0,
    *,
    residual: Any = None,
    activation: Any = None,
    transformed: Any = None,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = activation(conv2d(x, weight) + bias + residual) for 3×3 filters.

    Winograd's algorithm F(2×2, 3×3) or F(4×4, 3×3): S. Winograd 1980; A. Lavin and S. Gray, "Fast Algorithms for
    Convolutional Neural Networks", 2015.

    x: (N, C, H, W), weight: (O, C, 3, 3), bias: (O,) or None, residual: as out or None, out: (N, O, oH, oW); NCHW,
    float32 or float16, transforms and sums in float32. Stride 1, no groups, no dilation. padding: an int, a pair, or
    ((top, bottom), (left, right)). activation: None, "relu", "relu6" or bounds (low, high).
    transformed: winograd_weight(weight, TILE[variant]), float32; without it every call transforms the filters in an
    extra launch.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4).shape
    checks.array("weight", weight, (None, c, 3, 3), like=x)
    _, (rows, columns), _, (_, o, oh, ow) = checks.convolution(x.shape, weight.shape, 1, padding, 1, 1)
    if bias is not None:
        checks.array("bias", bias, (o,), like=x)
    if residual is not None:
        checks.array("residual", residual, (n, o, oh, ow), like=x)
    low, high = checks.bounds(activation)
    variant = ladder.choose(variant, x.dtype, best=_best(o, oh * ow))
    tile = TILE[variant]
    if transformed is None:
        transformed = winograd_weight(weight, tile)
    _, c_padded, o_padded = checks.array(
        "transformed", transformed, shape_of(o, c, tile), like=np.empty(0, np.float32)
    ).shape
    out = checks.output(out, (n, o, oh, ow), like=x)
    checks.apart(out, x=x, weight=weight, bias=bias, residual=residual, transformed=transformed)

    tiles_h, tiles_w = checks.blocks(oh, tile), checks.blocks(ow, tile)
    tiles = n * tiles_h * tiles_w
    kernel = ladder.kernel(variant, x.dtype)
    sizes = ladder.tile(variant)
    if variant == "naive":
        blocks, threads, shared = checks.blocks(tiles, 128) * o, 128, 0
    else:
        blocks = checks.blocks(tiles, sizes["BP"]) * checks.blocks(o, sizes["BO"])
        threads, shared = 32 * sizes["WARPS"], shared_bytes(tile, sizes)
        cuda.allow_shared(kernel, shared)
    kernel(
        (blocks,), (threads,),
        (x, transformed, bias, residual, out, c, h, w, o, oh, ow, rows[0], columns[0], tiles_h, tiles_w, tiles,
         c_padded, o_padded, low, high),
        shared_mem=shared,
    )  # fmt: skip
    return out


def shared_bytes(tile: int, sizes: dict[str, int]) -> int:
    """Bytes of shared memory per block: two buffers of transformed tiles and filters (the epilogue needs less)."""
    return 4 * 2 * (tile + 2) ** 2 * sizes["BC"] * (sizes["BP"] + sizes["BO"])


def _best(out_channels: int, pixels: int) -> list[str]:
    """Preferred rungs: on a GPU F(4×4), unless its tiles would be mostly padding; on the simulator "naive"."""
    if cuda.backend() == "simulator":
        return ["naive"]
    return ["fused_f4x4", "fused_f2x2"] if pixels >= 14 * 14 else ["fused_f2x2"]
