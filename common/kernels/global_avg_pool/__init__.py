"""global_avg_pool: each channel's mean over height and width."""

from typing import Any

from ... import cuda
from ...cuda import checks
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung()})


@cuda.operator
def global_avg_pool(x: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out[n, c, 0, 0] = mean of x[n, c]: torch.nn.functional.adaptive_avg_pool2d(x, 1).

    x: (N, C, H, W) NCHW, any size; out: (N, C, 1, 1); float32 or float16.
    ValueError and TypeError name what does not fit.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4).shape
    out = checks.output(out, (n, c, 1, 1), like=x)
    threads = 64
    ladder.kernel(ladder.choose(variant, x.dtype), x.dtype)(
        (checks.blocks(n * c, threads),), (threads,), (x, out, n * c, h * w)
    )
    return out
