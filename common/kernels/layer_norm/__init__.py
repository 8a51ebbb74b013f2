"""layer_norm: normalisation along one dimension, such as the channels of each pixel."""

from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from .. import strided
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung(layouts=layout.LAYOUTS), "warp_per_row": Rung(layouts=layout.LAYOUTS)})


@cuda.operator
def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    dim: int = 1,
    eps: float = 1e-5,
    *,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = (x - mean) / √(variance + eps) · weight + bias; mean and variance are taken along dimension dim.

    For the last dimension torch.nn.functional.layer_norm(x, x.shape[-1:]); dim 1 of (N, C, H, W) is ConvNeXt's
    LayerNorm2d. The variance is the biased one.
    x, out: of one shape with at least one dimension, C-contiguous or NHWC, float32 or float16, computed in float32.
    weight, bias: (x.shape[dim],) or None. dim: negative from the end. eps: a finite number of at least 0.
    variant: "warp_per_row" requires that the elements along dim are neighbours in memory.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("x", x, None, allowed=layout.LAYOUTS)
    where = layout.shared_layout(x=x)
    outer, columns, inner = strided.around(tuple(x.shape), dim, where)
    small = checks.at_least_zero("eps", eps)
    for name, array in (("weight", weight), ("bias", bias)):
        if array is not None:
            checks.array(name, array, (columns,), like=x)
    out = checks.output(out, x.shape, like=x, layout=where)
    checks.apart(out, x=x, weight=weight, bias=bias)
    if variant == "warp_per_row" and inner != 1:
        raise ValueError(f"variant 'warp_per_row' takes a dim whose elements are neighbours, got {dim} of {where}")
    # in the simulator a warp's shuffles take longer than one thread's loop
    best = ["warp_per_row" if inner == 1 and cuda.backend() == "gpu" else "naive"]
    chosen = ladder.choose(variant, x.dtype, where, best=best)
    rows, threads = outer * inner, 128
    blocks = checks.blocks(rows * (32 if chosen == "warp_per_row" else 1), threads)
    arrays = (layout.as_stored(x), weight, bias, layout.as_stored(out))
    ladder.kernel(chosen, x.dtype)((blocks,), (threads,), (*arrays, rows, columns, inner, np.float32(small)))
    return out
