"""clamp: values limited to a range; ReLU and ReLU6 are special cases."""

from typing import Any

from ... import cuda
from ...cuda import checks, layout
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung(layouts=layout.LAYOUTS)})


@cuda.operator
def clamp(x: Any, low: float, high: float, *, out: Any = None, variant: str | None = None) -> Any:
    """out = min(max(x, low), high), elementwise; NaN stays NaN, as in torch.clamp.

    x, out: arrays of one shape (any) and one layout, C-contiguous or NHWC; float32 or float16.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("x", x, None, allowed=layout.LAYOUTS)
    where = layout.shared_layout(x=x)
    lowest, highest = checks.bounds((low, high))
    out = checks.output(out, x.shape, like=x, layout=where)
    checks.apart(out, in_place=True, x=x)
    threads = 256
    kernel = ladder.kernel(ladder.choose(variant, x.dtype, where), x.dtype)
    arrays = map(layout.as_stored, (x, out))
    kernel((checks.blocks(x.size, threads),), (threads,), (*arrays, lowest, highest, x.size))
    return out


def relu(x: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = max(x, 0); see clamp."""
    return clamp(x, 0.0, float("inf"), out=out, variant=variant)


def relu6(x: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = min(max(x, 0), 6); see clamp."""
    return clamp(x, 0.0, 6.0, out=out, variant=variant)
