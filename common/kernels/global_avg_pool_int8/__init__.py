"""global_avg_pool_int8: the mean of each channel of int8 numbers."""

from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from .. import int8_arguments as arguments
from .. import vectors
from ..int8 import DEPTH
from ..ladder import Ladder, Rung

ladder = Ladder(
    __file__,
    {"naive": Rung({}, arguments.DTYPE, ("NHWC",)), "words": Rung({"WARPS": 4}, arguments.DTYPE, ("NHWC",))},
)

THREADS = 64  # per block of naive
PIXELS = 128 * DEPTH  # the largest window: |Σ x| and |pixels · zero point| stay below 2^30


@cuda.operator
def global_avg_pool_int8(
    x: Any,
    multiplier: float,
    *,
    input_zero_point: int = 0,
    zero_point: int = 0,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out[n, c, 0, 0] = clamp(round(Σ (x[n, c] − input_zero_point) · (multiplier / (H·W))) + zero_point).

    x: (N, C, H, W), NHWC; out: (N, C, 1, 1): int8. multiplier: scale_x / scale_out; the quotient is float32's.
    zero_point: of out. The rung words takes channels in multiples of 4. Source: int8.py.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout, option or
    variant is invalid.
    """
    n, c, h, w = arguments.nhwc("x", x, (None,) * 4).shape
    factor = arguments.scale("multiplier", multiplier) / np.float32(h * w)
    zeros = [
        arguments.int8_number(*one) for one in (("input_zero_point", input_zero_point), ("zero_point", zero_point))
    ]
    if h * w > PIXELS:
        raise ValueError(f"x must have at most {PIXELS} pixels per image, got {h * w}")
    out = arguments.output(out, (n, c, 1, 1), x)
    checks.apart(out, x=x)
    wide = min(vectors.vector_width(x, row=c), vectors.vector_width(out, row=c)) >= 4
    chosen = ladder.choose(variant, x.dtype, "NHWC", best=["words" if wide else "naive"])
    if chosen == "words" and not wide:
        raise ValueError(f"global_avg_pool_int8: variant 'words' takes rows of whole words of 4 channels, got {c}")
    threads = 32 * ladder.tile(chosen)["WARPS"] if chosen == "words" else THREADS
    blocks = checks.blocks(n * c, 128 if chosen == "words" else THREADS)
    arrays = map(layout.as_stored, (x, out))
    numbers = (n, c, h * w, -h * w * zeros[0], np.float32(factor), zeros[1])
    ladder.kernel(chosen, x.dtype)((blocks,), (threads,), (*arrays, *numbers))
    return out
