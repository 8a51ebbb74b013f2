"""Registers and occupancy of recorded rungs, computed here: a record's launch, compiled for its card without one."""

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import cuda, kernels
from ..cuda import layout as layouts
from ..cuda.machine_code import Inspection
from ..kernels.inspected import inspected, launches_on
from .results import Record

DTYPES = {"fp32": np.float32, "fp16": np.float16}


def inspection(record: Record, card: str = "H200") -> Inspection:
    """The machine code of a rung's record, as its launcher launches it on a card for the record's case.

    ValueError for a record of the suite "kernels" that is of no rung with a kernel of its own; RuntimeError where NVRTC
    or nvdisasm is missing.
    """
    keys = ("operator", "kind", "shape", "batch", "precision")
    return _inspection(*(record[key] for key in keys), record.get("layout"), record["implementation"], card)


@functools.lru_cache(maxsize=256)
def _inspection(
    operator: str, kind: str, shape: str, batch: int, precision: str, layout: str | None, implementation: str, card: str
) -> Inspection:
    variant = implementation.rpartition("/")[2]
    call = call_of(operator, kind, shape, batch, precision, layout)
    made = launches_on(card, lambda: call(variant))
    own = [one for one in made if one.launch.name == f"{operator}/{variant}"]
    if not own:
        raise ValueError(f"{operator}/{variant} has no kernel of its own")
    return inspected(own[0], card)


def _call_of_codes(function: Any, numbers: list[int], batch: int, residual: bool) -> Callable[[str], Any]:
    """The same of a 1×1 convolution or a linear layer in int8. numbers: [height, width,] channels, outputs."""
    *size, c, o = numbers
    height, width = size or (1, 1)

    def codes(*shape: int) -> Any:
        return layouts.empty(shape, np.dtype(np.int8), "NHWC")

    def run(variant: str) -> Any:
        more = {"residual": codes(batch, o, height, width), "residual_scales": (1.0, 1.0, 0.0)} if residual else {}
        constants = cuda.empty((o,), np.int32), cuda.empty((o,), np.float32)
        return function(codes(batch, c, height, width), codes(o, c, 1, 1), *constants, **more, variant=variant)

    return run


def call_of(
    operator: str, kind: str, shape: str, batch: int, precision: str, layout: str | None
) -> Callable[[str], Any]:
    """A function that calls the operator as a case of the suite "kernels" does, with a rung of that name.

    kind, shape: the record's, "depthwise" and "112×112 96 stride 2". It makes its arrays with shapes alone.
    """
    numbers = [int(number) for number in re.findall(r"\d+", shape)]
    residual = "+residual" in shape
    function = getattr(kernels, operator)
    if precision == "int8":
        return _call_of_codes(function, numbers, batch, residual)
    dtype = DTYPES[precision]

    def image(n: int, c: int, h: int, w: int, of: str = layout or "NCHW") -> Any:
        return layouts.empty((n, c, h, w), dtype, of)

    def matrix(*sizes: int) -> Any:
        return cuda.empty(sizes, dtype)

    def run(variant: str) -> Any:
        if kind == "gemm":
            m, n, k = numbers
            return function(matrix(m, k), matrix(k, n), variant=variant)
        if kind == "linear":
            k, n = numbers
            return function(matrix(batch, k), matrix(n, k), matrix(n), transpose_b=True, variant=variant)
        height, width, c, *rest = numbers
        if kind == "inverted residual":
            hidden, outputs, stride = *rest[:2], rest[2] if len(rest) > 2 else 1
            size = (height - 1) // stride + 1, (width - 1) // stride + 1
            return function(
                image(batch, c, height, width), image(hidden, c, 1, 1), matrix(hidden), image(hidden, 1, 3, 3),
                matrix(hidden), image(outputs, hidden, 1, 1), matrix(outputs), stride=stride,
                residual=image(batch, outputs, *size) if residual else None, variant=variant,
            )  # fmt: skip
        if kind == "add":
            return function(image(batch, c, height, width), image(batch, c, height, width), variant=variant)
        if kind == "pool":
            return function(image(batch, c, height, width), variant=variant)
        if kind.startswith("depthwise"):
            stride = rest[0] if rest else 1
            out = image(batch, c, (height - 1) // stride + 1, (width - 1) // stride + 1)
            window = {"stride": stride, "padding": 1, "variant": variant}
            if kind.endswith("input"):
                return function(out, image(c, 1, 3, 3, "NCHW"), (batch, c, height, width), **window)
            x = image(batch, c, height, width)
            if kind.endswith("weight"):
                return function(out, x, (3, 3), **window)
            return function(x, image(c, 1, 3, 3, "NCHW"), matrix(c), **window)
        outputs, stride, side = rest[0], rest[1] if len(rest) > 1 else 1, 1 if kind in POINTWISE else 3
        more: dict[str, Any] = {"variant": variant}
        if operator == "conv2d":
            more["stride"] = stride
        if operator != "pointwise":
            more["padding"] = side // 2
        if residual:
            more["residual"] = image(batch, outputs, height, width)
        return function(image(batch, c, height, width), image(outputs, c, side, side), matrix(outputs), **more)

    return run


POINTWISE = ("expand", "project", "head")
