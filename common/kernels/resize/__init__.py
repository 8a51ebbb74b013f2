"""resize: images of another size, by the nearest pixel or by bilinear interpolation."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from ..ladder import Ladder, Rung

MODES = ("nearest", "linear")
COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
ROUNDING = {"floor": "down", "ceil": "up", "round_prefer_floor": "nearest_down", "round_prefer_ceil": "nearest_up"}
THREADS = 256  # per block

ladder = Ladder(
    __file__,
    {"naive": Rung({"COORDINATES": "half_pixel", "ROUNDING": "down", "LINEAR": 1, "NHWC": 0}, layouts=layout.LAYOUTS)},
)


@cuda.operator
def resize(
    x: Any,
    size: Any,
    *,
    mode: str = "linear",
    coordinates: str = "half_pixel",
    rounding: str = "floor",
    scales: Sequence[float] | None = None,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out[n, c, oh, ow] = x[n, c] at the position of (oh, ow): torch.nn.functional.interpolate, as ONNX's Resize.

    x: (N, C, H, W), out: (N, C, *size), both NCHW or both NHWC, float32 or float16. size: an int or (oH, oW).
    mode: "nearest", one pixel, or "linear", the four pixels around the position, weighted by distance.
    coordinates: the position of index i of out, per axis; scale is out / in by default:
        "asymmetric"          i / scale
        "half_pixel"          (i + 1/2) / scale - 1/2
        "pytorch_half_pixel"  as "half_pixel", or 0 where out has one pixel
        "align_corners"       i · (in - 1) / (out - 1), or 0 where out has one pixel
    rounding, of positions with mode "nearest": "floor", "ceil", "round_prefer_floor" or "round_prefer_ceil", to the
    nearest integer, of two equally near to the lower or the higher. PyTorch's "nearest" is "asymmetric" and "floor".
    scales: (height, width), positive; computed from the sizes if None.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=layout.LAYOUTS).shape
    oh, ow = checks.pair("size", size, 1)
    for name, value, known in (
        ("mode", mode, MODES),
        ("coordinates", coordinates, COORDINATES),
        ("rounding", rounding, tuple(ROUNDING)),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    scale_h, scale_w = (oh / h, ow / w) if scales is None else _scales(scales)
    if out is not None:
        checks.array("out", out, (n, c, oh, ow), like=x, allowed=layout.LAYOUTS)
    where = layout.shared_layout(x=x, out=out)
    out = checks.output(out, (n, c, oh, ow), like=x, layout=where)
    checks.apart(out, x=x)
    switches = {
        "COORDINATES": coordinates,
        "ROUNDING": ROUNDING[rounding],
        "LINEAR": int(mode == "linear"),
        "NHWC": int(where == "NHWC"),
    }
    kernel = ladder.kernel(ladder.choose(variant, x.dtype, where), x.dtype, **switches)
    sizes = (c, h, w, oh, ow, np.float32(scale_h), np.float32(scale_w), out.size)
    kernel((checks.blocks(out.size, THREADS),), (THREADS,), (*map(layout.as_stored, (x, out)), *sizes))
    return out


def _scales(scales: Any) -> tuple[float, float]:
    given = tuple(scales) if isinstance(scales, (tuple, list)) else ()
    if len(given) != 2 or not all(isinstance(s, (int, float, np.number)) and 0 < s < math.inf for s in given):
        raise ValueError(f"scales must be two positive numbers (height, width), got {scales!r}")
    return float(given[0]), float(given[1])
