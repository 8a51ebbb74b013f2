"""quantize: float numbers to int8."""

from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from .. import int8_arguments as arguments
from .. import vectors
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung(layouts=layout.LAYOUTS), "vectorised": Rung(layouts=layout.LAYOUTS)})

THREADS = 256  # per block


@cuda.operator
def quantize(x: Any, scale: float, zero_point: int = 0, *, out: Any = None, variant: str | None = None) -> Any:
    """out = clamp(round(x / scale) + zero_point, −128, 127), elementwise, ties to even; NaN gives −128.

    x: float32 or float16, any shape, C-contiguous or NHWC; out: int8 of the same shape and layout. scale: above 0.
    The quotient is float32's: ONNX's QuantizeLinear. Source: int8.py.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout, option or
    variant is invalid.
    """
    checks.array("x", x, None, allowed=layout.LAYOUTS)
    factor, zero = arguments.scale("scale", scale), arguments.int8_number("zero_point", zero_point)
    where = layout.shared_layout(x=x)
    if out is None:
        out = layout.empty(x.shape, np.dtype(np.int8), where)
    checks.array("out", out, x.shape, allowed=(where,), dtypes=arguments.INT8)
    checks.apart(out, x=x)
    wide = vectors.vector_width(x) >= 4 and vectors.vector_width(out) >= 4
    chosen = ladder.choose(variant, x.dtype, where, best=["vectorised" if wide else "naive"])
    if chosen == "vectorised" and not wide:
        raise ValueError("quantize: variant 'vectorised' takes arrays that begin at multiples of four elements")
    threads = x.size if chosen == "naive" else checks.blocks(x.size, 4)
    arrays = map(layout.as_stored, (x, out))
    ladder.kernel(chosen, x.dtype)((checks.blocks(threads, THREADS),), (THREADS,), (*arrays, factor, zero, x.size))
    return out
