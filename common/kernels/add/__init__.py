"""add: the sum of two arrays, the residual connection of a network."""

from typing import Any

from ... import cuda
from ...cuda import checks, layout
from .. import vectors
from ..ladder import Ladder, Rung

ladder = Ladder(
    __file__,
    {
        "naive": Rung(layouts=layout.LAYOUTS),
        "grid_stride": Rung(layouts=layout.LAYOUTS),
        "unrolled": Rung(tiles={"UNROLL": 4}, layouts=layout.LAYOUTS),
        "vectorised": Rung(tiles={"VECTOR": 4}, layouts=layout.LAYOUTS),
    },
)

THREADS = 256  # per block
BLOCKS = 8  # resident blocks per multiprocessor: 2,048 threads


@cuda.operator
def add(a: Any, b: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = a + b, elementwise.

    a, b, out: arrays of one shape (any) and one layout, C-contiguous or NHWC; float32 or float16.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("a", a, None, allowed=layout.LAYOUTS)
    checks.array("b", b, a.shape, like=a, allowed=layout.LAYOUTS)
    where = layout.shared_layout(a=a, b=b)
    out = checks.output(out, a.shape, like=a, layout=where)
    checks.apart(out, in_place=True, a=a, b=b)
    chosen = ladder.choose(variant, a.dtype, where)
    switches: dict[str, int] = {}
    if chosen == "unrolled":
        switches["UNROLL"] = 16 // a.dtype.itemsize  # as many bytes per thread as one vector
    elif chosen == "vectorised":
        switches["VECTOR"] = vectors.vector_width(a, b, out)
    blocks = checks.blocks(a.size, THREADS * max(switches.values(), default=1))
    if chosen == "grid_stride":
        blocks = min(blocks, BLOCKS * cuda.multiprocessors())
    arrays = map(layout.as_stored, (a, b, out))
    ladder.kernel(chosen, a.dtype, **switches)((blocks,), (THREADS,), (*arrays, a.size))
    return out
