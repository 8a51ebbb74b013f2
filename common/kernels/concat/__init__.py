"""concat: concatenation of arrays along a dimension."""

import math
from collections.abc import Sequence
from typing import Any

from ... import cuda
from ...cuda import checks, layout
from .. import vectors
from ..ladder import Ladder, Rung

THREADS = 256  # per block

ladder = Ladder(
    __file__,
    {
        "naive": Rung(layouts=layout.LAYOUTS),
        "vectorised": Rung(tiles={"VECTOR": 4}, layouts=layout.LAYOUTS),
    },
)


@cuda.operator
def concat(arrays: Sequence[Any], dim: int = 1, *, out: Any = None, variant: str | None = None) -> Any:
    """out = the arrays concatenated along dimension dim ≥ 1: torch.cat. One launch per array.

    arrays: a non-empty list or tuple of arrays whose shapes differ only in dimension dim; all of them and out in one
    layout, C-contiguous or NHWC; float32 or float16.
    Raises TypeError if arrays is not such a list, or has elements that are no arrays or of unsupported or mixed dtypes;
    ValueError if a shape, layout, dim or variant is invalid.
    """
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise TypeError(f"arrays must be a list or tuple of at least one array, got {_described(arrays)}")
    first = checks.array("arrays[0]", arrays[0], None, allowed=layout.LAYOUTS)
    rank = len(first.shape)
    if not isinstance(dim, int) or not 1 <= dim < rank:
        raise ValueError(f"dim must be a dimension after the batch of arrays[0] {tuple(first.shape)}, got {dim!r}")
    before, after = tuple(first.shape[:dim]), tuple(first.shape[dim + 1 :])
    for i, array in enumerate(arrays):
        checks.array(f"arrays[{i}]", array, (*before, None, *after), like=first, allowed=layout.LAYOUTS)
    shape = (*before, sum(array.shape[dim] for array in arrays), *after)
    if out is not None:
        checks.array("out", out, shape, like=first, allowed=layout.LAYOUTS)
    where = layout.shared_layout(**{f"arrays[{i}]": array for i, array in enumerate(arrays)}, out=out)
    out = checks.output(out, shape, like=first, layout=where)
    checks.apart(out, **{f"arrays[{i}]": array for i, array in enumerate(arrays)})
    chosen = ladder.choose(variant, first.dtype, where)

    order = (0, 2, 3, 1) if where == "NHWC" else tuple(range(rank))
    outer, inner = (order[: order.index(dim)], order[order.index(dim) + 1 :])
    rows, below = (math.prod(shape[i] for i in some) for some in (outer, inner))
    offset = 0
    for array in arrays:
        columns, row_length = array.shape[dim] * below, shape[dim] * below
        _copy(chosen, array, out, rows, columns, offset, row_length)
        offset += columns
    return out


def _copy(variant: str, x: Any, out: Any, rows: int, columns: int, offset: int, row_length: int) -> None:
    """Launch the copy of one array into `out`, from element `offset` of each row on."""
    vector = 1
    switches: dict[str, Any] = {}
    if variant == "vectorised":
        starts = math.gcd(offset, columns, row_length) if rows > 1 else offset  # every row starts at a multiple
        switches["VECTOR"] = vector = vectors.vector_width(x, out, row=starts)
    blocks = checks.blocks(rows * checks.blocks(columns, vector), THREADS)
    kernel = ladder.kernel(variant, x.dtype, **switches)
    kernel((blocks,), (THREADS,), (*map(layout.as_stored, (x, out)), rows, columns, offset, row_length))


def _described(arrays: Any) -> str:
    return f"an empty {type(arrays).__name__}" if isinstance(arrays, (list, tuple)) else type(arrays).__name__
