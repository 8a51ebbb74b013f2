"""int8 inference in NumPy: what the int8 kernels compute, bit for bit (include/requantize.h).

A real number r is stored as q = round(r / scale) + zero_point in int8, so r ≈ scale · (q − zero_point). All kernels
take int8. A uint8 tensor holds the same numbers 128 higher: an importer subtracts 128 from its values and its zero
point. Weights are symmetric, with zero point 0, and have one scale per tensor or per output channel.

The product of an input with zero point z and weights w is Σ w·(x − z) + bias = Σ w·x + (bias − z·Σw): the term in
brackets is one int32 per output channel, made before inference (`fold_zero_point`), and the kernels sum w·x as stored.
A pixel of the padding has the real value 0, which is stored as z: there x = z, not 0.

    acc = Σ w·x + bias                                  int32, exact
    y = clamp(round(acc · multiplier) + zero_point)     multiplier = scale_x · scale_w / scale_y, float32

acc is converted to float32 (exact up to 2^24, to the nearest even beyond), the product is rounded once, to float32,
then to the nearest integer, ties to even, as ONNX's QuantizeLinear rounds. The clamp goes from −128 to 127, or less:
ReLU6 is a clamp from the stored 0 to the stored 6 (`bounds`). A sum of two tensors with scales of their own is

    y = clamp(round(fma(a, scale_a, fma(b, scale_b, shift))))     scale_a = scale of a / scale of y, all float32

(`residual_scales`). A convolution with a residual rounds twice, to the convolution's own int8 output and to that of
the sum, as the two operators do one after the other: fusing them changes no bit.

Shapes are PyTorch's (N, C, H, W), (O, C/groups, kH, kW); the memory layout of the arrays is free here.
Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
2018, sections 2.1–2.4 (there with a fixed-point multiplier).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cuda import checks

LOW, HIGH = -128, 127
DEPTH = 2**16  # the longest sum: |Σ w·x| ≤ 2^14 · DEPTH = 2^30
SMALL = 2**22  # sums below it are exact floats beside 1.5·2^23: include/requantize.h
BIAS = 2**30 - 1  # the largest |bias − z·Σw|: with it |acc| < 2^31

Int8 = NDArray[np.int8]
Int32 = NDArray[np.int32]
Float32 = NDArray[np.float32]
Scales = tuple[float, float, float]


# ---- Parameters, made before inference


def fold_zero_point(weight: Int8, bias: Int32 | None, zero_point: int) -> Int32:
    """bias − zero_point · Σ weight per output channel, (O,) int32: the bias that the kernels take.

    weight: (O, …) int8; bias: (O,) int32 in steps of scale_x · scale_w, or None; zero_point: that of the input.
    ValueError if a channel sums more than DEPTH products, or if the result exceeds BIAS: int32 sums could overflow.
    """
    o = weight.shape[0]
    depth = weight.size // o
    if depth > DEPTH:
        raise ValueError(f"weight must have at most {DEPTH} weights per output channel, got {depth}")
    given = np.zeros(o, np.int64) if bias is None else np.asarray(bias, np.int64)
    folded = given - zero_point * weight.reshape(o, -1).sum(axis=1, dtype=np.int64)
    if np.abs(folded).max() > BIAS:
        raise ValueError(f"bias − zero_point · Σ weight must stay within ±{BIAS}, got {np.abs(folded).max()}")
    return folded.astype(np.int32)


def small_sums(weight: Int8, bias: Int32 | None, multiplier: Any) -> bool:
    """Whether no sum Σ w·x + bias of a convolution, and none · multiplier, reaches SMALL, whatever x is.

    weight: (O, …) int8; bias: (O,) int32 with the zero point folded in, or None; multiplier: (O,) float32.
    """
    most = 128.0 * np.abs(weight.astype(np.int64)).reshape(len(weight), -1).sum(axis=1)
    most = most if bias is None else most + np.abs(np.asarray(bias, np.int64))
    return bool((most < SMALL).all() and (most * np.asarray(multiplier, np.float64) < SMALL).all())


def bounds(activation: Any, scale: float, zero_point: int) -> tuple[int, int]:
    """The clamp (low, high) that an activation is, in int8: relu6 → (the stored 0, the stored 6), within [−128, 127].

    activation: None, "relu", "relu6" or real bounds (low, high), as of checks.bounds; scale, zero_point: of the output.
    """
    low, high = (float(np.clip(np.rint(bound / np.float32(scale)), -512, 512)) for bound in checks.bounds(activation))
    return int(np.clip(low + zero_point, LOW, HIGH)), int(np.clip(high + zero_point, LOW, HIGH))


def residual_scales(a: tuple[float, int], b: tuple[float, int], y: tuple[float, int]) -> Scales:
    """(scale_a, scale_b, shift) of y = a + b, from the (scale, zero point) of a, b and y; each rounded to float32."""
    scale_a, scale_b = a[0] / y[0], b[0] / y[0]
    shift = y[1] - scale_a * a[1] - scale_b * b[1]
    return float(np.float32(scale_a)), float(np.float32(scale_b)), float(np.float32(shift))


# ---- The arithmetic of requantize.h


def _rounded(v: Float32, zero_point: int, low: int, high: int) -> Int8:
    """clamp(round(v) + zero_point, low, high), ties to even; NaN gives low."""
    inside = np.fmin(np.fmax(v, np.float32(low - zero_point)), np.float32(high - zero_point))
    return (np.rint(inside).astype(np.int32) + zero_point).astype(np.int8)


def requantize(
    acc: Int32, multiplier: Any, zero_point: int = 0, low: int = LOW, high: int = HIGH, axis: int = 1
) -> Int8:
    """clamp(round(acc · multiplier) + zero_point, low, high), int8 in the shape of acc.

    acc: int32; multiplier: float32, a number or one per index of `axis`.
    """
    return _rounded(scaled(acc, multiplier, axis), zero_point, low, high)


def scaled(acc: Int32, multiplier: Any, axis: int = 1) -> Float32:
    """acc · multiplier in float32, rounded once: what `requantize` rounds, and the logits of the last layer."""
    m = np.asarray(multiplier, np.float32)
    if m.ndim == 1:
        m = m.reshape([-1 if i == axis % acc.ndim else 1 for i in range(acc.ndim)])
    with np.errstate(over="ignore"):
        return np.asarray(acc, np.int32).astype(np.float32) * m


def fma(a: Any, b: Any, c: Any) -> Float32:
    """a · b + c in float32 with one rounding, elementwise, for float32 or int8 arguments.

    The product is exact in float64. The sum is rounded to odd there, which makes its second rounding, to float32, right
    (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
    """
    product, c = np.asarray(a, np.float64) * np.asarray(b, np.float64), np.asarray(c, np.float64)
    total = np.asarray(product + c)
    back = total - product
    error = (product - (total - back)) + (c - back)
    inexact_and_even = (error != 0) & (total.view(np.int64) % 2 == 0)
    return np.where(inexact_and_even, np.nextafter(total, np.copysign(np.inf, error)), total).astype(np.float32)


def add(a: Int8, b: Int8, scales: Scales, low: int = LOW, high: int = HIGH, offset: int = 0) -> Int8:
    """clamp(round(fma(a, scale_a, fma(b, scale_b, shift))), low, high) of int8 arrays of one shape.

    a, b, low, high and the result are `offset` lower than the numbers that are computed with: of a uint8 model, offset
    128, the sum is that of the numbers in the file. With a shift for numbers 128 lower its float32 sums would round
    otherwise.
    """
    scale_a, scale_b, shift = map(np.float32, scales)
    first, second = a.astype(np.int16) + offset, b.astype(np.int16) + offset
    total = fma(first, scale_a, fma(second, scale_b, shift))
    return (np.rint(np.clip(total, low + offset, high + offset)) - offset).astype(np.int8)


def quantize(x: Float32, scale: float, zero_point: int = 0) -> Int8:
    """clamp(round(x / scale) + zero_point), int8; the quotient in float32. NaN gives −128."""
    with np.errstate(over="ignore"):
        return _rounded(np.asarray(x, np.float32) / np.float32(scale), zero_point, LOW, HIGH)


def dequantize(q: Int8, scale: float, zero_point: int = 0) -> Float32:
    """(q − zero_point) · scale in float32."""
    return (q.astype(np.int32) - np.int32(zero_point)).astype(np.float32) * np.float32(scale)


# ---- Operators


def _int32(exact: NDArray[np.float64]) -> Int32:
    """Integers computed in float64 as int32. OverflowError if one does not fit."""
    if np.abs(exact).max(initial=0) >= 2**31:
        raise OverflowError(f"a sum of {np.abs(exact).max():.0f} does not fit into int32")
    return exact.astype(np.int32)


def _patches(x: Int8, kernel: tuple[int, int], stride: Any, padding: Any, dilation: Any, fill: int) -> Int8:
    """The windows of x (N, C, H, W) under each tap, (N, C, kH, kW, oH, oW), a view of x padded with `fill`."""
    (sh, sw), (dh, dw) = checks.pair("stride", stride, 1), checks.pair("dilation", dilation, 1)
    rows, columns = checks.padding(padding)
    wide = np.pad(x, ((0, 0), (0, 0), rows, columns), constant_values=fill)
    reach = (dh * (kernel[0] - 1) + 1, dw * (kernel[1] - 1) + 1)
    windows = np.lib.stride_tricks.sliding_window_view(wide, reach, axis=(2, 3))
    return windows[:, :, ::sh, ::sw, ::dh, ::dw].transpose(0, 1, 4, 5, 2, 3)


def accumulate(
    x: Int8, weight: Int8, bias: Int32 | None = None, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, input_zero_point: int = 0,
) -> Int32:  # fmt: skip
    """acc = Σ w·x + bias of a convolution, (N, O, oH, oW) int32.

    x: (N, C, H, W) int8, padded with input_zero_point; weight: (O, C/groups, kH, kW) int8; bias: (O,) int32 with the
    zero point folded in (`fold_zero_point`). stride, padding, dilation, groups: as of kernels.conv2d.
    OverflowError if a sum does not fit into int32.
    """
    n, c = x.shape[:2]
    o, depth, kh, kw = weight.shape
    taps = _patches(x, (kh, kw), stride, padding, dilation, input_zero_point)
    oh, ow = taps.shape[-2:]
    columns = taps.reshape(n, groups, c // groups * kh * kw, oh * ow).astype(np.float64)
    rows = weight.reshape(groups, o // groups, depth * kh * kw).astype(np.float64)
    exact = (rows @ columns).reshape(n, o, oh, ow)
    return _int32(exact if bias is None else exact + np.asarray(bias, np.float64)[:, None, None])


def conv2d(
    x: Int8, weight: Int8, bias: Int32 | None, multiplier: Any, *, zero_point: int = 0,
    bounds: tuple[int, int] = (LOW, HIGH), residual: Int8 | None = None, residual_scales: Scales | None = None,
    residual_offset: int = 0, residual_first: bool = False, **geometry: Any,
) -> Int8:  # fmt: skip
    """y = requantize(acc), (N, O, oH, oW) int8; with a residual y = add(requantize(acc), residual).

    zero_point, bounds: of y; with a residual zero_point is that of the requantized product, which saturates at −128 and
    127 only, and bounds clamp the sum; residual_scales, residual_offset: scales and offset of `add`; residual_first:
    y = add(residual, requantize(acc)), whose float32 sum may round otherwise. geometry: stride, padding, dilation,
    groups, input_zero_point of `accumulate`.
    """
    acc = accumulate(x, weight, bias, **geometry)
    if residual is None:
        return requantize(acc, multiplier, zero_point, *bounds)
    if residual_scales is None:
        raise ValueError("residual_scales must be (scale_a, scale_b, shift) for a residual, got None")
    terms = requantize(acc, multiplier, zero_point), residual
    return add(*(terms[::-1] if residual_first else terms), residual_scales, *bounds, residual_offset)


def linear_accumulate(x: Int8, weight: Int8, bias: Int32 | None = None) -> Int32:
    """acc = x · weightᵀ + bias: x (M, K) int8, weight (N, K) int8, bias (N,) int32; (M, N) int32. As `accumulate`."""
    exact = x.astype(np.float64) @ weight.astype(np.float64).T
    return _int32(exact if bias is None else exact + np.asarray(bias, np.float64))


def _pool_taps(
    x: NDArray[Any], kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, fill: int,
    beyond: int,
) -> NDArray[Any]:  # fmt: skip
    """The windows of a pooling, (N, C, kH, kW, oH, oW): x, `fill` in its padding, `beyond` where ceil_mode reaches."""
    kernel, rows_columns = checks.pair("kernel_size", kernel_size, 1), checks.padding(padding)
    steps = kernel if stride is None else checks.pair("stride", stride, 1)
    apart = checks.pair("dilation", dilation, 1)
    more = []
    for extent, k, s, pads, d in zip(x.shape[2:], kernel, steps, rows_columns, apart, strict=True):
        count = checks.pool_windows(extent, k, s, pads, d, ceil_mode)
        more.append((0, max(0, (count - 1) * s + d * (k - 1) + 1 - extent - sum(pads))))
    wide = np.pad(x, ((0, 0), (0, 0), *rows_columns), constant_values=fill)
    wide = np.pad(wide, ((0, 0), (0, 0), *more), constant_values=beyond)
    return _patches(wide, kernel, steps, 0, apart, 0)


def avg_pool2d(
    x: Int8, kernel_size: Any, multiplier: float, *, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = False, input_zero_point: int = 0, zero_point: int = 0,
) -> Int8:  # fmt: skip
    """requantize(Σ (x − input_zero_point), multiplier / count), the quotient in float32; (N, C, oH, oW) int8.

    x: (N, C, H, W) int8; multiplier: scale_x / scale_y. count: of a window's pixels inside of the image, or with
    count_include_pad inside of the image and its padding. kernel_size, stride, padding, ceil_mode: as of pool2d.
    """
    where = kernel_size, stride, padding, 1, ceil_mode
    taps = _pool_taps(x.astype(np.int32) - input_zero_point, *where, 0, 0)
    acc = taps.sum(axis=(2, 3), dtype=np.int32)
    ones = _pool_taps(np.ones((1, 1, *x.shape[2:]), np.int32), *where, int(count_include_pad), 0)
    quotient = np.float32(multiplier) / ones.sum(axis=(2, 3)).astype(np.float32)
    return _rounded(acc.astype(np.float32) * quotient, zero_point, LOW, HIGH)


def global_avg_pool(x: Int8, multiplier: float, *, input_zero_point: int = 0, zero_point: int = 0) -> Int8:
    """`avg_pool2d` over all H·W pixels: (N, C, H, W) int8 → (N, C, 1, 1) int8."""
    return avg_pool2d(x, x.shape[2:], multiplier, input_zero_point=input_zero_point, zero_point=zero_point)


def max_pool2d(
    x: Int8, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Int8:
    """The largest x of each window, (N, C, oH, oW) int8, in the scale of x; padding never wins. As kernels.pool2d."""
    return _pool_taps(x, kernel_size, stride, padding, dilation, ceil_mode, LOW, LOW).max(axis=(2, 3))
