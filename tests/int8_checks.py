"""What the int8 operators' tests draw, and what "the same" means: every bit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from common import cuda, kernels
from common.kernels import int8
from common.kernels.one_step import nearest, one_step
from common.optimize import blocks_int8
from common.optimize.blocks_int8 import Int8Convolution


def drawn(rng, *shape):
    """Random int8 numbers of the whole range; −128 is among many."""
    return rng.integers(-128, 128, shape).astype(np.int8)


def constants(rng, weight):
    """(zero point, bias, multiplier) for weights (O, …): outputs that fill int8, a tenth of them beyond its ends."""
    o, products = weight.shape[0], weight[0].size
    bias = rng.integers(-3000, 3000, o).astype(np.int32)
    spread = 128 * 73 * np.sqrt(products) / 1.7
    return int(rng.integers(-50, 50)), bias, (127 / spread * rng.uniform(0.3, 1.2, o)).astype(np.float32)


def in_one_step(weight, bias, multiplier, zero_point):
    """(multipliers, parameters of one_step.one_step), all exact: a channel that has no fma becomes one that has."""
    multiplier = nearest(weight, bias, multiplier, zero_point)
    _, exact = one_step(weight, bias, multiplier, zero_point)
    assert exact.mean() > 0.9
    some = np.flatnonzero(exact)[0]
    weight[~exact], bias[~exact], multiplier[~exact] = weight[some], bias[some], multiplier[some]
    made, exact = one_step(weight, bias, multiplier, zero_point)
    assert exact.all()
    return multiplier, made


def nhwc(array):
    """An array (N, C, H, W) on the device, in NHWC."""
    return cuda.to_layout(cuda.asarray(array), "NHWC")


def on_device(array):
    """A copy of a NumPy array on the device, of four dimensions in NHWC."""
    return nhwc(array.copy()) if array.ndim == 4 else cuda.asarray(array.copy())


def poisoned(*shape):
    """An int8 output (N, C, H, W) in NHWC, full of a number that is not to be there."""
    return nhwc(np.full(shape, 99, np.int8))


def same(out, want):
    """Asserts that an array on the device is int8 and equals `want`."""
    got = cuda.asnumpy(out)
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, want)


@dataclass
class Call:
    """One call of an int8 operator, function(*arrays, out=…, variant=…), and its result in NumPy. names: of arrays."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    arrays: tuple[np.ndarray, ...]
    want: np.ndarray


def in_nhwc(array):
    """A NumPy array (N, C, H, W) that lies in memory as NHWC."""
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def calls(rng):
    """For each int8 operator one call that all of its rungs take, but for what the float operators' tests have."""
    x, y = in_nhwc(drawn(rng, 2, 12, 7, 5)), in_nhwc(drawn(rng, 2, 12, 7, 5))
    q = rng.standard_normal((3, 35)).astype(np.float32)
    found = {}

    def add(operator, names, arrays, want, **given):
        def function(*arrays, **rest):
            return getattr(kernels, operator)(*arrays, **given, **rest)

        found[operator] = Call(function, tuple(names.split()), arrays, in_nhwc(want) if want.ndim == 4 else want)

    product = "x weight bias multiplier"
    for operator, shape, where in (
        ("pointwise_int8", (20, 12, 1, 1), {}),
        ("conv2d_int8", (8, 12, 3, 2), {"stride": (2, 1), "padding": 1}),
        ("depthwise_int8", (12, 1, 3, 3), {"stride": 2, "padding": 1}),
    ):
        weight = in_nhwc(drawn(rng, *shape))
        zero_point, bias, multiplier = constants(rng, weight)
        pad = {} if operator == "pointwise_int8" else {"input_zero_point": 45}
        given = {"zero_point": zero_point, **where, **pad}
        groups = {"groups": 12} if operator == "depthwise_int8" else {}
        want = int8.conv2d(x, weight, bias, multiplier, **given, **groups)
        add(operator, product, (x, weight, bias, multiplier), want, **given)
    add("add_int8", "a b", (x, y), int8.add(x, y, (0.7, 0.4, 3.0)), scales=(0.7, 0.4, 3.0))
    mean = {"multiplier": 2.5, "input_zero_point": 4, "zero_point": -9}
    add("global_avg_pool_int8", "x", (x,), int8.global_avg_pool(x, **mean), **mean)
    windows = {"kernel_size": 3, "stride": 2, "padding": 1}
    add("pool2d_int8", "x", (x,), int8.max_pool2d(x, **windows), **windows)
    add("quantize", "x", (q,), int8.quantize(q, 0.02, 5), scale=0.02, zero_point=5)
    add("dequantize", "x", (x,), int8.dequantize(x, 0.02, 5), scale=0.02, zero_point=5)
    return found


# ---- Inverted-residual blocks


def block_of(rng, block, zero):
    """(expand, depthwise, project) of a block for an input with that zero point, as NumPy arrays."""
    made = []
    shapes = [(block.hidden, block.channels, 1, 1), (block.hidden, 1, 3, 3), (block.outputs, block.hidden, 1, 1)]
    if block.stem_h:
        shapes[0] = (block.hidden, 3, 3, 3)
    for shape in shapes[0 if block.expand else 1 :]:
        weight = drawn(rng, *shape)
        zero_point, bias, multiplier = constants(rng, weight)
        bounds = (zero_point, 120) if shape is not shapes[2] else (-128, 127)
        made.append(Int8Convolution(weight, int8.fold_zero_point(weight, bias, zero), multiplier, zero_point, bounds))
        zero = zero_point
    return ([] if block.expand else [None]) + made


def modelled(x, parts, stride, zero, **residual):
    """The block as three convolutions of the NumPy model."""
    for i, part in enumerate(parts):
        if part is not None:
            where = {"stride": stride, "padding": 1, "groups": x.shape[1], "input_zero_point": zero} if i == 1 else {}
            if i == 0 and part.weight.shape[2:] == (3, 3):  # a stem
                where = {"stride": 2, "padding": 1, "input_zero_point": zero}
            more = residual if i == 2 else {}
            given = {"zero_point": part.zero_point, "bounds": part.bounds}
            x = int8.conv2d(x, part.weight, part.bias, part.multiplier, **given, **where, **more)
            zero = part.zero_point
    return x


def third_in_two_roundings(monkeypatch):
    """From now on every third channel of a block takes two roundings: no fma was found for it."""
    right = blocks_int8.one_step

    def some(*given):
        made, exact = right(*given)
        return made, exact & (np.arange(len(exact)) % 3 > 0)

    monkeypatch.setattr(blocks_int8, "one_step", some)


def there_of(part):
    """An Int8Convolution with its arrays on the device; None stays."""
    if part is None:
        return None
    bias = None if part.bias is None else cuda.asarray(part.bias)
    return Int8Convolution(cuda.asarray(part.weight), bias, cuda.asarray(part.multiplier), part.zero_point, part.bounds)
