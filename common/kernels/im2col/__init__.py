"""im2col: the pixels under each window of a convolution, as the columns of a matrix."""

from typing import Any

from ... import cuda
from ...cuda import checks
from .. import vectors
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung(), "windows": Rung(), "vectorised": Rung({"VECTOR": 4})})

THREADS = 256  # per block


@cuda.operator
def im2col(
    x: Any,
    kernel_size: Any,
    *,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out[n, c·kH·kW + kh·kW + kw, oh·oW + ow] = x[n, c, ih, iw], 0 in the padding: torch.nn.functional.unfold.

    x: (N, C, H, W) NCHW; out: (N, C·kH·kW, oH·oW); float32 or float16. kernel_size, dilation, stride: an int or a pair
    (height, width); padding: an int, a pair, or ((top, bottom), (left, right)).
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4).shape
    kh, kw = checks.pair("kernel_size", kernel_size, 1)
    (sh, sw), (dh, dw) = checks.pair("stride", stride, 1), checks.pair("dilation", dilation, 1)
    rows, columns = checks.padding(padding)
    oh, ow = checks.windows(h, kh, sh, rows, dh), checks.windows(w, kw, sw, columns, dw)
    out = checks.output(out, (n, c * kh * kw, oh * ow), like=x)
    checks.apart(out, x=x)

    variant = ladder.choose(variant, x.dtype)
    threads = out.size if variant == "naive" else out.size // (kh * kw)
    switches: dict[str, Any] = {}
    if variant == "vectorised":
        vector = vectors.vector_width(out, row=oh * ow)
        threads, switches = threads // vector, {"VECTOR": vector}
    ladder.kernel(variant, x.dtype, **switches)(
        (checks.blocks(threads, THREADS),), (THREADS,),
        (x, out, h, w, oh, ow, kh, kw, sh, sw, rows[0], columns[0], dh, dw, out.size),
    )  # fmt: skip
    return out
