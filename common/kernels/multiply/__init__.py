"""multiply: elementwise product with broadcasting, as in squeeze-and-excite blocks."""

from typing import Any

from ... import cuda
from ...cuda import layout
from .. import broadcasting
from ..ladder import Ladder, Rung

ladder = Ladder(
    __file__,
    {
        "naive": Rung(layouts=layout.LAYOUTS),
        "vectorised": Rung(tiles={"VECTOR": 4}, layouts=layout.LAYOUTS),
    },
)


@cuda.operator
def multiply(a: Any, b: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = a · b, elementwise; dimensions of size 1 are broadcast.

    a, b: arrays of equal rank, for example (N, C, H, W) and (N, C, 1, 1); out: of the broadcast shape. All in one
    layout, C-contiguous or NHWC ((N, C, 1, 1) fits both); float32 or float16.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    return broadcasting.launch(ladder, a, b, out, variant)
