"""depthwise_int8: depthwise convolution of int8 numbers with a requantizing epilogue."""

from typing import Any

from ... import cuda
from ...cuda import checks, layout
from ...cuda.machine_code import CARDS
from .. import int8_arguments as arguments
from .. import vectors
from ..int8 import HIGH, LOW
from ..ladder import Ladder, Rung

ladder = Ladder(
    __file__,
    {
        "naive": Rung({}, arguments.DTYPE, ("NHWC",)),
        "dp4a": Rung({"STRIDE": 1, "ROWS": 4}, arguments.DTYPE, ("NHWC",)),
        "strips": Rung(
            {
                "STRIDE": 1,
                "WIDTH": 7,
                "CHANNELS": 960,
                "PADDING": 2,
                "PAD_LEFT": 1,
                "COLUMNS": 7,
                "ROWS": 7,
                "THREADS": 64,
            },
            arguments.DTYPE,
            ("NHWC",),
        ),
    },
)

THREADS = 128  # per block
COLUMNS = {1: 8, 2: 4}  # the most of a strip, by stride
ROWS = (7, 4, 2, 1)  # of a strip
FILLED = 256  # threads of a multiprocessor that "strips" needs to be faster


@cuda.operator
def depthwise_int8(
    x: Any,
    weight: Any,
    bias: Any,
    multiplier: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    *,
    input_zero_point: int = 0,
    zero_point: int = 0,
    bounds: tuple[int, int] = (LOW, HIGH),
    out: Any = None,
    variant: str | None = None,
    small: bool = False,
    one_step: Any = None,
) -> Any:
    """out = clamp(round(acc · multiplier) + zero_point), acc the depthwise convolution of x + bias, in int8.

    x: (N, C, H, W), NHWC, padded with input_zero_point; weight: (C, 1, kH, kW); out: (N, C, oH, oW), NHWC: int8. bias:
    (C,) int32, the zero point of x folded in (int8.fold_zero_point), or None. multiplier: (C,) float32. stride,
    padding, dilation: as of depthwise. zero_point, bounds (low, high): of out. Source: int8.py.
    The rungs dp4a and strips take 3×3 filters of stride 1 or 2 without dilation, and channels in multiples of 4. small:
    whether int8.small_sums holds, with which "strips" needs fewer instructions; one_step: the (3, C) int32 of
    one_step.one_step for these arguments, if every channel is exact, with which it needs fewer still.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout, option or
    variant is invalid.
    """
    n, c, h, w = arguments.nhwc("x", x, (None,) * 4).shape
    checks.array("weight", weight, (c, 1, None, None), dtypes=arguments.INT8)
    steps, pads, apart, shape = checks.convolution(x.shape, weight.shape, stride, padding, dilation, c)
    oh, ow, kernel = *shape[2:], weight.shape[2:]
    end = arguments.Epilogue(
        c, kernel[0] * kernel[1], bias, multiplier, zero_point, bounds, shape, None, None, one_step=one_step
    )
    zero = arguments.int8_number("input_zero_point", input_zero_point)
    out = arguments.output(out, shape, x)
    checks.apart(out, x=x, weight=weight, bias=bias, multiplier=multiplier)

    fits = kernel == (3, 3) and apart == (1, 1) and steps in ((1, 1), (2, 2))
    fits = fits and vectors.vector_width(x, weight, out, row=c) >= 4 and end.piece(out, c) >= 4
    if variant in ("dp4a", "strips") and not fits:
        raise ValueError(
            f"depthwise_int8: variant {variant!r} takes 3×3 filters of stride 1 or 2 and rows of whole words of 4"
            f" channels, got {kernel[0]}×{kernel[1]}, stride {steps}, dilation {apart}, {c} channels"
        )
    columns = min(ow, COLUMNS.get(steps[0], 1))
    rows = _rows(n * checks.blocks(ow, columns) * (c // 4), oh)
    whole = steps == (1, 1) and columns == ow and rows > 0  # strips as wide as the image, and enough of them
    best = ["strips" if whole else "dp4a"] if fits else ["naive"]
    chosen, block = ladder.choose(variant, x.dtype, "NHWC", best=best), THREADS
    tile = ladder.tile(chosen)
    if chosen == "strips":
        full = end.bounds == (LOW, HIGH)
        tile |= {"STRIDE": steps[0], "WIDTH": w, "CHANNELS": c, "PADDING": sum(pads[1]), "PAD_LEFT": pads[1][0]}
        tile |= {"COLUMNS": columns, "ROWS": rows or 1, "SMALL_SUMS": int(small and full)}
        tile["ONE_STEP"] = int(end.in_one_step)
        strips = n * checks.blocks(oh, tile["ROWS"]) * checks.blocks(ow, columns)
        block, threads = tile["THREADS"], strips * (c // 4)
    elif chosen == "dp4a":
        tile |= {"STRIDE": steps[0]}
        columns = 2 if steps[0] == 1 else 1
        threads = n * checks.blocks(oh, tile["ROWS"]) * checks.blocks(ow, columns) * (c // 4)
    else:
        threads = n * c * oh * ow
    given = (x, weight, *end.constants(bool(tile.get("ONE_STEP"))), out)
    stored = [array if array is None else layout.as_stored(array) for array in given]
    sizes = (n, c, h, w, oh, ow, *kernel, *steps, pads[0][0], pads[1][0], *apart)
    kernel_of = ladder.kernel(chosen, x.dtype, **tile)
    kernel_of((checks.blocks(threads, block),), (block,), (*stored, *sizes, zero, *end.numbers[:3]))
    return out


def _rows(strips: int, height: int) -> int:
    """Rows of a strip: the most of ROWS with which each multiprocessor has enough threads; 0: no number gives enough.

    strips: threads, if one goes down the image. The simulator chooses as for an H200.
    """
    enough = FILLED * (cuda.multiprocessors() if cuda.backend() == "gpu" else CARDS["H200"].multiprocessors)
    return next((rows for rows in ROWS if strips * checks.blocks(height, rows) >= enough), 0)
