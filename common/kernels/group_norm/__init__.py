"""group_norm: normalisation of groups of channels over all pixels of an image."""

import math
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from ..ladder import Ladder, Rung

# on the simulator a barrier costs more than the additions that it saves
THREADS = {"gpu": 256, "simulator": 32}  # per block, a power of two

ladder = Ladder(__file__, {"naive": Rung({"THREADS": 256, "NHWC": 0}, layouts=layout.LAYOUTS)})


@cuda.operator
def group_norm(
    x: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = (x - mean) / √(variance + eps) · weight + bias, per image and group: torch.nn.functional.group_norm.

    Mean and (biased) variance are those of C / num_groups neighbouring channels over all pixels. num_groups = C is
    torch.nn.functional.instance_norm.
    x, out: (N, C) or (N, C, …) of one layout, C-contiguous or NHWC, float32 or float16; computed in float32.
    num_groups: divides C. weight, bias: (C,) or None. eps: a finite number of at least 0.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("x", x, None, allowed=layout.LAYOUTS)
    if x.ndim < 2:
        raise ValueError(f"x must have at least two dimensions (N, C), got shape {tuple(x.shape)}")
    n, c, *extent = x.shape
    if not isinstance(num_groups, int) or num_groups < 1 or c % num_groups:
        raise ValueError(f"num_groups must be an integer that divides the {c} channels of x, got {num_groups!r}")
    small = checks.at_least_zero("eps", eps)
    for name, array in (("weight", weight), ("bias", bias)):
        if array is not None:
            checks.array(name, array, (c,), like=x)
    where = layout.shared_layout(x=x)
    out = checks.output(out, x.shape, like=x, layout=where)
    checks.apart(out, x=x, weight=weight, bias=bias)
    threads = THREADS[cuda.backend()]
    kernel = ladder.kernel(ladder.choose(variant, x.dtype, where), x.dtype, THREADS=threads, NHWC=int(where == "NHWC"))
    arrays = (layout.as_stored(x), weight, bias, layout.as_stored(out))
    kernel((n * num_groups,), (threads,), (*arrays, c, math.prod(extent), num_groups, np.float32(small)))
    return out
