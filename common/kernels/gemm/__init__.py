"""gemm: the product of two matrices, with bias and activation; a linear layer is one."""

from typing import Any

from ... import cuda
from ...cuda import checks
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung()})


@cuda.operator
def gemm(
    a: Any,
    b: Any,
    bias: Any = None,
    *,
    transpose_b: bool = False,
    activation: Any = None,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = activation(a @ b + bias), or a @ b.T with transpose_b.

    a: (M, K); b: (K, N), or (N, K) with transpose_b; bias: (N,) or None, added to every row; out: (M, N). Row-major,
    float32 or float16, accumulated in float32. activation: None, "relu", "relu6" or bounds (low, high).
    ValueError and TypeError name what does not fit.
    """
    m, k = checks.array("a", a, (None, None)).shape
    n = checks.array("b", b, (None, k) if transpose_b else (k, None), like=a).shape[0 if transpose_b else 1]
    if bias is not None:
        checks.array("bias", bias, (n,), like=a)
    low, high = checks.bounds(activation)
    out = checks.output(out, (m, n), like=a)

    block = (32, 8)
    grid = (checks.blocks(n, block[0]), checks.blocks(m, block[1]))
    kernel = ladder.kernel(ladder.choose(variant, a.dtype), a.dtype, TRANSPOSE_B=int(transpose_b))
    kernel(grid, block, (a, b, bias, out, m, n, k, low, high))
    return out


def linear(x: Any, weight: Any, bias: Any = None, *, out: Any = None, variant: str | None = None) -> Any:
    """out = x @ weight.T + bias: torch.nn.functional.linear.

    x: (N, in_features), weight: (out_features, in_features), bias: (out_features,) or None, out: (N, out_features).
    """
    return gemm(x, weight, bias, transpose_b=True, out=out, variant=variant)
