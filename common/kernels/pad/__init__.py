"""pad: constant padding of images."""

from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from ..ladder import Ladder, Rung

THREADS = 256  # per block

ladder = Ladder(__file__, {"naive": Rung(layouts=layout.LAYOUTS)})


@cuda.operator
def pad(x: Any, padding: Any, value: float = 0.0, *, out: Any = None, variant: str | None = None) -> Any:
    """out = x with a border of `value`: torch.nn.functional.pad with another order of the sides.

    x: (N, C, H, W), out: (N, C, top + H + bottom, left + W + right), both NCHW or both NHWC, float32 or float16.
    padding: ((top, bottom), (left, right)), or an int or a pair (height, width) for equal sides.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=layout.LAYOUTS).shape
    (top, bottom), (left, right) = checks.padding(padding)
    if not isinstance(value, (int, float, np.number)):
        raise TypeError(f"value must be a number, got {type(value).__name__}")
    shape = (n, c, top + h + bottom, left + w + right)
    if out is not None:
        checks.array("out", out, shape, like=x, allowed=layout.LAYOUTS)
    where = layout.shared_layout(x=x, out=out)
    out = checks.output(out, shape, like=x, layout=where)
    checks.apart(out, x=x)
    kernel = ladder.kernel(ladder.choose(variant, x.dtype, where), x.dtype)
    wide = c if where == "NHWC" else 1  # elements of a row that one pixel takes
    sizes = (h, w * wide, shape[2], shape[3] * wide, top, left * wide)
    arrays = map(layout.as_stored, (x, out))
    kernel((checks.blocks(out.size, THREADS),), (THREADS,), (*arrays, *sizes, np.float32(value), out.size))
    return out
