"""mean along one dimension, such as over the channels of each pixel."""

from typing import Any

from ... import cuda
from ...cuda import checks, layout
from .. import strided
from ..ladder import Ladder, Rung

THREADS = 128  # per block

ladder = Ladder(__file__, {"naive": Rung(layouts=layout.LAYOUTS)})


@cuda.operator
def mean(x: Any, dim: int = 1, *, out: Any = None, variant: str | None = None) -> Any:
    """out = x.mean(dim, keepdim=True): the mean along dimension dim (negative: from the end), which has size 1 in out.

    x: of any shape with at least one dimension, C-contiguous or NHWC, out: in the same layout; float32 or float16,
    summed in float32. For height and width together see global_avg_pool.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("x", x, None, allowed=layout.LAYOUTS)
    where = layout.shared_layout(x=x)
    outer, columns, inner = strided.around(tuple(x.shape), dim, where)
    shape = tuple(1 if i == dim % x.ndim else size for i, size in enumerate(x.shape))
    out = checks.output(out, shape, like=x, layout=where)
    checks.apart(out, x=x)
    rows = outer * inner
    kernel = ladder.kernel(ladder.choose(variant, x.dtype, where), x.dtype)
    arrays = map(layout.as_stored, (x, out))
    kernel((checks.blocks(rows, THREADS),), (THREADS,), (*arrays, rows, columns, inner))
    return out
