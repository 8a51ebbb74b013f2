"""The int8 kernels with the arguments of the NumPy model's functions: what runs the steps of a quantized network.

    OPERATORS["conv2d"](x, weight, bias, multiplier, stride=2, padding=1, input_zero_point=-128, …)

Each function computes what the function of its name computes on NumPy arrays, bit for bit (common.kernels.int8, and for
matrices common.quantize.rules). Arrays are moved to the device, activations in NHWC; the result is a NumPy array if the
first argument is one, else a device's. What no kernel takes is computed by the model: weights of int16, which are those
of an asymmetric grid, and sums of arrays that broadcast.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import cuda
from . import int8
from .add_int8 import add_int8
from .conv2d_int8 import conv2d_int8
from .depthwise_int8 import depthwise_int8
from .dequantize import dequantize as dequantize_kernel
from .global_avg_pool_int8 import global_avg_pool_int8
from .pointwise_int8 import linear_int8, pointwise_int8
from .pool2d_int8 import avg_pool2d_int8
from .quantize import quantize as quantize_kernel


def _there(array: Any) -> Any:
    """An array on the device, (N, C, H, W) in NHWC; None stays."""
    if array is None:
        return None
    moved = cuda.asarray(array)
    return cuda.to_layout(moved, "NHWC") if len(moved.shape) == 4 else moved


def _as(x: Any, result: Any) -> Any:
    """The result as NumPy's if x is."""
    return cuda.asnumpy(result) if isinstance(x, np.ndarray) else result


def quantize(x: Any, scale: float, zero_point: int = 0) -> Any:
    """int8.quantize: x float32 of any shape → int8."""
    return _as(x, quantize_kernel(_there(x), scale, zero_point))


def dequantize(q: Any, scale: float, zero_point: int = 0) -> Any:
    """int8.dequantize: q int8 of any shape → float32."""
    return _as(q, dequantize_kernel(_there(q), scale, zero_point))


def conv2d(
    x: Any, weight: Any, bias: Any, multiplier: Any, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, input_zero_point: int = 0, **end: Any,
) -> Any:  # fmt: skip
    """int8.conv2d: by pointwise_int8, depthwise_int8 or conv2d_int8. end: zero_point, bounds, residual, ….

    multiplier: one number, or one per output channel.
    """
    window = {"stride": stride, "padding": padding, "dilation": dilation}
    if weight.dtype != np.int8:
        given = window | {"groups": groups, "input_zero_point": input_zero_point} | end
        return int8.conv2d(*map(cuda.asnumpy, (x, weight, bias, multiplier)), **given)
    scales = np.broadcast_to(np.asarray(cuda.asnumpy(multiplier), np.float32), len(weight))
    arrays = [_there(array) for array in (x, weight, bias, np.ascontiguousarray(scales))]
    if end.get("residual") is not None:
        end = end | {"residual": _there(end["residual"])}
    o, per_group, *kernel = weight.shape
    plain = kernel == [1, 1] and (stride, padding) in ((1, 0), ((1, 1), 0), ((1, 1), ((0, 0), (0, 0))))
    if plain and groups == 1:
        out = pointwise_int8(*arrays, **end)
    elif per_group == 1 and o == groups and "residual" not in end:
        out = depthwise_int8(*arrays, **window, input_zero_point=input_zero_point, **end)
    else:
        out = conv2d_int8(*arrays, **window, groups=groups, input_zero_point=input_zero_point, **end)
    return _as(x, out)


def _matrix(
    x: Any, weight: Any, bias: Any, multiplier: Any, modelled: Callable[..., Any], **end: Any
) -> Any:  # fmt: skip
    if weight.dtype != np.int8:
        acc = int8.linear_accumulate(*map(cuda.asnumpy, (x.reshape(len(x), -1), weight, bias)))
        return modelled(acc, cuda.asnumpy(multiplier))
    scales = np.broadcast_to(np.asarray(cuda.asnumpy(multiplier), np.float32), len(weight))
    rows = cuda.asnumpy(x).reshape(len(x), -1)  # in NCHW's order, which that of the weights is
    arrays = map(cuda.asarray, (rows, weight, bias, np.ascontiguousarray(scales)))
    return _as(x, linear_int8(*arrays, **end))


def linear(x: Any, weight: Any, bias: Any, multiplier: Any, *, zero_point: int, bounds: tuple[int, int]) -> Any:
    """requantize(x · weightᵀ + bias): x (N, …) int8, weight (O, K), bias (O,) int32; (N, O) int8."""

    def modelled(acc: Any, multiplier: Any) -> Any:
        return int8.requantize(acc, multiplier, zero_point, *bounds)

    return _matrix(x, weight, bias, multiplier, modelled, zero_point=zero_point, bounds=bounds)


def linear_to_float(x: Any, weight: Any, bias: Any, multiplier: Any) -> Any:
    """(x · weightᵀ + bias) · multiplier: x (N, …) int8; (N, O) float32."""
    return _matrix(x, weight, bias, multiplier, int8.scaled, to_float=True)


def add(
    a: Any, b: Any, scales: int8.Scales, *, bounds: tuple[int, int] = (int8.LOW, int8.HIGH), offset: int = 0
) -> Any:
    """int8.add of arrays that may broadcast."""
    if a.shape != b.shape:
        return int8.add(cuda.asnumpy(a), cuda.asnumpy(b), scales, *bounds, offset)
    return _as(a, add_int8(_there(a), _there(b), scales, bounds=bounds, offset=offset))


def global_avg_pool(x: Any, multiplier: float, **points: int) -> Any:
    """int8.global_avg_pool. points: input_zero_point, zero_point."""
    return _as(x, global_avg_pool_int8(_there(x), multiplier, **points))


def avg_pool2d(x: Any, kernel_size: Any, multiplier: float, **more: Any) -> Any:
    """int8.avg_pool2d. more: its further arguments."""
    return _as(x, avg_pool2d_int8(_there(x), kernel_size, multiplier, **more))


OPERATORS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (quantize, dequantize, conv2d, linear, linear_to_float, add, global_avg_pool, avg_pool2d)
}
