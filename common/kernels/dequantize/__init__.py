"""dequantize: int8 to float numbers."""

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
def dequantize(
    x: Any, scale: float, zero_point: int = 0, *, dtype: Any = np.float32, out: Any = None, variant: str | None = None
) -> Any:
    """out = (x − zero_point) · scale, elementwise; the product rounded to float32, then to dtype.

    x: int8, any shape, C-contiguous or NHWC; out: float32 or float16 of the same shape and layout, of `dtype` where it
    is None. scale: above 0. ONNX's DequantizeLinear. Source: int8.py.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout, option or
    variant is invalid.
    """
    checks.array("x", x, None, allowed=layout.LAYOUTS, dtypes=arguments.INT8)
    factor, zero = arguments.scale("scale", scale), arguments.int8_number("zero_point", zero_point)
    where = layout.shared_layout(x=x)
    if out is None:
        if np.dtype(dtype) not in checks.DTYPES:
            raise TypeError(f"dtype must be {' or '.join(map(str, checks.DTYPES))}, got {np.dtype(dtype)}")
        out = layout.empty(x.shape, np.dtype(dtype), where)
    checks.array("out", out, x.shape, allowed=(where,))
    checks.apart(out, x=x)
    wide = vectors.vector_width(x) >= 4 and vectors.vector_width(out) >= 4
    chosen = ladder.choose(variant, out.dtype, where, best=["vectorised" if wide else "naive"])
    if chosen == "vectorised" and not wide:
        raise ValueError("dequantize: variant 'vectorised' takes arrays that begin at multiples of four elements")
    threads = x.size if chosen == "naive" else checks.blocks(x.size, 4)
    arrays = map(layout.as_stored, (x, out))
    ladder.kernel(chosen, out.dtype)((checks.blocks(threads, THREADS),), (THREADS,), (*arrays, factor, zero, x.size))
    return out
