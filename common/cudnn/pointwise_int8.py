"""cuDNN's 1×1 convolution of int8 numbers, as a library to compare with.

One graph: the product in int32, · multiplier + constant in float32, the clamp, the conversion to int8, which rounds to
the nearest even integer. The zero point is added before that rounding; so of numbers that are nearly half-way between
two codes some become the other one. cuDNN 9 has such graphs for dense convolutions alone; of a depthwise one it has the
product, and nothing behind it.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cuda import checks
from ..cuda import layout as layouts
from . import library
from .plans import WORKSPACE_LIMIT, Unsupported


def pointwise_int8(
    x: Any,
    weight: Any,
    bias: Any,
    multiplier: Any,
    *,
    zero_point: int = 0,
    bounds: tuple[int, int] = (-128, 127),
    out: Any = None,
) -> Callable[[], None]:
    """A launch of clamp(round((bias + Σ weight·x) · multiplier + zero_point)), with the fastest of cuDNN's plans.

    x: (N, C, H, W) and out: (N, O, H, W), int8, NHWC; weight: (O, C, 1, 1); bias: (O,) int32; multiplier: (O,) float32.
    Raises TypeError or ValueError for arrays that do not fit, RuntimeError without cuDNN, Unsupported (a RuntimeError)
    if it has no plan.
    """
    n, c, h, w = _codes("x", x, (None,) * 4)
    o = _codes("weight", weight, (None, c, 1, 1))[0]
    checks.array("bias", bias, (o,), dtypes=(np.dtype(np.int32),))
    checks.array("multiplier", multiplier, (o,), dtypes=(np.dtype(np.float32),))
    if not (-128 <= bounds[0] <= bounds[1] <= 127 and -128 <= zero_point <= 127):
        raise ValueError(f"bounds and zero_point must be in -128 … 127, got {bounds} and {zero_point}")
    library.require()
    import cupy

    out = layouts.empty((n, o, h, w), np.dtype(np.int8), "NHWC") if out is None else out
    _codes("out", out, (n, o, h, w))
    constant = (bias * multiplier + np.float32(zero_point)).astype(np.float32)
    arrays = {"x": x, "w": weight, "m": multiplier, "b": constant, "y": out}
    graph, uids = _graph((n, c, h, w), o, *bounds)
    pack = {uids[name]: array.data.ptr for name, array in arrays.items()}
    handle = library.handle()
    best: tuple[float, int, Any] | None = None
    for index in range(graph.get_execution_plan_count()):
        try:
            graph.build_plan_at_index(index)
        except Exception:  # not supported for this shape; the front end's exceptions have no common base class
            continue
        size = graph.get_workspace_size_plan_at_index(index)
        if size > WORKSPACE_LIMIT:
            continue
        workspace = cupy.empty(max(1, size), np.uint8)
        launch = functools.partial(graph.execute_plan_at_index, pack, workspace.data.ptr, index, handle=handle)
        us = _microseconds(launch)
        if best is None or us < best[0]:
            best = us, index, (launch, workspace, arrays)
    if best is None:
        raise Unsupported(f"cuDNN has no plan for a 1×1 convolution of int8, {c} > {o} channels of {n}×{h}×{w} pixels")
    launch, *kept = best[2]

    def run(_: Any = kept) -> None:  # the arrays live as long as the launch
        library.handle()  # set to the current stream
        launch()

    return run


def _codes(name: str, array: Any, shape: tuple[int | None, ...]) -> tuple[int, ...]:
    """The shape of an int8 array in NHWC."""
    checked: tuple[int, ...] = checks.array(name, array, shape, allowed=("NHWC",), dtypes=(np.dtype(np.int8),)).shape
    return checked


def _microseconds(launch: Callable[[], Any], times: int = 5) -> float:
    """The time of a launch, the least of a few."""
    import cupy

    found = []
    for _ in range(times):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        launch()
        end.record()
        end.synchronize()
        found.append(1e3 * cupy.cuda.get_elapsed_time(start, end))
    return min(found)


@functools.lru_cache(maxsize=64)
def _graph(shape: tuple[int, int, int, int], outputs: int, low: int, high: int) -> tuple[Any, dict[str, int]]:
    """(cuDNN's graph with its plans, its tensors' numbers by name)."""
    frontend = library.require()
    types = frontend.data_type
    graph = frontend.pygraph(
        io_data_type=types.INT8, intermediate_data_type=types.FLOAT, compute_data_type=types.FLOAT,
        handle=library.handle(),
    )  # fmt: skip
    n, c, h, w = shape

    def tensor(name: str, dims: tuple[int, ...], kind: Any) -> Any:
        return graph.tensor(name=name, dim=list(dims), stride=_strides(dims), data_type=kind)

    tensors = {"x": tensor("x", shape, types.INT8), "w": tensor("w", (outputs, c, 1, 1), types.INT8)}
    tensors |= {name: tensor(name, (1, outputs, 1, 1), types.FLOAT) for name in ("m", "b")}
    sums = graph.conv_fprop(
        image=tensors["x"], weight=tensors["w"], padding=[0, 0], stride=[1, 1], dilation=[1, 1],
        compute_data_type=types.INT32,
    )  # fmt: skip
    sums.set_data_type(types.INT32)
    scaled = graph.mul(a=sums, b=tensors["m"], compute_data_type=types.FLOAT)
    shifted = graph.add(a=scaled, b=tensors["b"], compute_data_type=types.FLOAT)
    y = graph.relu(input=shifted, lower_clip=float(low), upper_clip=float(high), compute_data_type=types.FLOAT)
    dims = (n, outputs, h, w)
    y.set_output(True).set_data_type(types.INT8).set_dim(list(dims)).set_stride(_strides(dims))
    try:
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([frontend.heur_mode.A, frontend.heur_mode.B, frontend.heur_mode.FALLBACK])
        graph.check_support()
    except Exception as error:  # the front end's exceptions have no common base class
        raise Unsupported(f"cuDNN has no plan for a 1×1 convolution of int8: {str(error).splitlines()[0]}") from None
    return graph, {name: t.get_uid() for name, t in (tensors | {"y": y}).items()}


def _strides(dims: tuple[int, ...]) -> list[int]:
    """Of an array (N, C, H, W) in NHWC."""
    _, c, h, w = dims
    return [c * h * w, 1, w * c, c]
