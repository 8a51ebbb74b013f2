"""conv2d_int8: convolution of int8 numbers with a requantizing epilogue."""

from typing import Any

from ... import cuda
from ...cuda import checks, layout
from .. import int8_arguments as arguments
from .. import vectors
from ..int8 import HIGH, LOW
from ..ladder import Ladder, Rung

# A block computes BM pixels × BN outputs, a warp WM×WN of them, BK taps and channels at a time.
ladder = Ladder(
    __file__,
    {
        "naive": Rung({}, arguments.DTYPE, ("NHWC",)),
        "tensor_cores": Rung(
            {"BM": 128, "BN": 32, "BK": 64, "WM": 32, "WN": 32, "VECTOR": 16, "PIECE": 16}, arguments.DTYPE, ("NHWC",)
        ),
    },
)

THREADS = 256  # per block of naive
GRID_ROWS = 65_535  # CUDA's limit on gridDim.y


@cuda.operator
def conv2d_int8(
    x: Any,
    weight: Any,
    bias: Any,
    multiplier: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    input_zero_point: int = 0,
    zero_point: int = 0,
    bounds: tuple[int, int] = (LOW, HIGH),
    residual: Any = None,
    residual_scales: Any = None,
    residual_offset: int = 0,
    residual_first: bool = False,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = clamp(round(acc · multiplier) + zero_point), acc the convolution of x + bias, in int8.

    x: (N, C, H, W), NHWC, padded with input_zero_point; weight: (O, C/groups, kH, kW), NHWC; out: (N, O, oH, oW), NHWC:
    int8. bias, multiplier, zero_point, bounds, residual, residual_scales, residual_offset, residual_first: as of
    pointwise_int8. stride, padding, dilation, groups: as of conv2d. Source: int8.py. The rung tensor_cores
    takes no groups.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout, option or
    variant is invalid.
    """
    n, c, h, w = arguments.nhwc("x", x, (None,) * 4).shape
    arguments.nhwc("weight", weight, (None,) * 4)
    steps, pads, apart, shape = checks.convolution(x.shape, weight.shape, stride, padding, dilation, groups)
    o, per_group, *kernel = weight.shape
    depth = per_group * kernel[0] * kernel[1]
    end = arguments.Epilogue(
        o, depth, bias, multiplier, zero_point, bounds, shape, residual, residual_scales, residual_offset,
        residual_first,
    )  # fmt: skip
    zero = arguments.int8_number("input_zero_point", input_zero_point)
    out = arguments.output(out, shape, x)
    checks.apart(out, x=x, weight=weight, bias=bias, multiplier=multiplier, residual=residual)
    if variant == "tensor_cores" and groups > 1:
        raise ValueError(f"conv2d_int8: variant 'tensor_cores' takes groups 1, got {groups}")

    quick = groups == 1 and cuda.backend() != "simulator"  # barriers and tiles are slow on a CPU
    chosen = ladder.choose(variant, x.dtype, "NHWC", best=["tensor_cores", "naive"] if quick else ["naive"])
    oh, ow = shape[2:]
    if chosen == "naive":
        tile, threads = {}, THREADS
        grid: tuple[int, ...] = (checks.blocks(n * o * oh * ow, THREADS),)
    else:
        tile = ladder.tile(chosen) | {"BK": 32 if depth <= 32 else 64, "BN": 32 if o <= 32 else 64}
        tile["VECTOR"] = 16 if vectors.vector_width(x, weight, row=c) == vectors.WIDEST else 1
        tile["PIECE"] = end.piece(out, o)
        down = checks.blocks(n * oh * ow, tile["BM"])
        rows = min(down, GRID_ROWS)
        grid = (checks.blocks(o, tile["BN"]), rows, checks.blocks(down, rows))
        threads = tile["BM"] // tile["WM"] * (tile["BN"] // tile["WN"]) * 32
    arrays = (x, weight, end.bias, end.multiplier, end.residual, out)
    stored = (array if array is None else layout.as_stored(array) for array in arrays)
    sizes = (n, c, h, w, o, oh, ow, *kernel, *steps, pads[0][0], pads[1][0], *apart, groups)
    ladder.kernel(chosen, x.dtype, **tile, **end.switches)(grid, (threads,), (*stored, *sizes, zero, *end.numbers))
    return out
