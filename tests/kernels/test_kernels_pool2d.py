"""pool2d against its definition in float64, and against PyTorch where that can do the same."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, every_rung_and_dtype, f64, on_device, poisoned
from tiers import examples

from common import cuda, kernels, topology
from common.kernels.pool2d import ladder

IN_LAYOUT = {name: rung.layouts for name, rung in ladder.rungs.items()}
kinds = pytest.mark.parametrize("kind", ["max", "average"])

# x, kernel_size, stride, padding, dilation
CASES = [((1, 1, 1, 1), 1, 1, 0, 1), ((2, 7, 17, 13), 3, 2, 1, 1), ((1, 33, 7, 7), 7, 1, 0, 1),
         ((2, 8, 9, 10), 2, None, 0, 1), ((3, 24, 5, 11), (1, 4), (2, 3), ((0, 0), (2, 1)), 1),
         ((1, 17, 12, 9), (3, 2), (1, 2), ((2, 0), (1, 0)), (2, 1)), ((2, 67, 1, 1), 2, 1, 1, 1),
         ((1, 16, 6, 5), 3, 5, 1, 1), ((2, 3, 8, 8), 5, 3, ((2, 4), (0, 3)), 1)]  # fmt: skip


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def sides(padding):
    if isinstance(padding, tuple) and isinstance(padding[0], tuple):
        return padding
    return tuple((side, side) for side in pair(padding))


def count_windows(size, k, stride, pads, dilation, ceil_mode):
    room = size + sum(pads) - dilation * (k - 1) - 1
    count = (math.ceil if ceil_mode else math.floor)(room / stride) + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + pads[0] else count


def reference(x, kernel, stride, padding, dilation, kind, ceil_mode, count_include_pad):
    """One window after the other, with its taps picked from the image."""
    kernel, dilation = pair(kernel), pair(dilation)
    stride, padding = kernel if stride is None else pair(stride), sides(padding)
    shape = x.shape[2:]
    starts = [
        [i * s - p[0] for i in range(count_windows(size, k, s, p, d, ceil_mode))]
        for size, k, s, p, d in zip(shape, kernel, stride, padding, dilation, strict=True)
    ]
    out = np.empty((*x.shape[:2], *map(len, starts)))
    for i, top in enumerate(starts[0]):
        for j, left in enumerate(starts[1]):
            taps = [[at + t * d for t in range(k)] for at, k, d in zip((top, left), kernel, dilation, strict=True)]
            rows, columns = ([t for t in side if 0 <= t < size] for side, size in zip(taps, shape, strict=True))
            window = x[:, :, rows][:, :, :, columns].astype(np.float64)
            if kind == "max":
                out[:, :, i, j] = window.max((2, 3), initial=-np.inf)
                continue
            padded = [[t for t in s if t < n + p[1]] for s, n, p in zip(taps, shape, padding, strict=True)]
            counted = padded if count_include_pad else (rows, columns)
            out[:, :, i, j] = window.sum((2, 3)) / (len(counted[0]) * len(counted[1]))
    return out


def pooled(x, variant, layout, *window, **options):
    """The rung's result, in memory that was NaN."""
    given = cuda.to_layout(on_device(x), layout)
    shape = kernels.pool2d(given, *window, **options).shape
    out = cuda.to_layout(poisoned(shape, x.dtype), layout)
    with cuda.guarded():
        assert kernels.pool2d(given, *window, out=out, variant=variant, **options) is out
    return out


def same(out, want, kind):
    """The maximum is one of the inputs; sums are rounded."""
    if kind == "max":
        np.testing.assert_array_equal(cuda.asnumpy(out).astype(np.float64), want)
    else:
        agrees(out, want, k=50, floor=0.1)


@every_rung_and_dtype("pool2d")
@kinds
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation"), CASES, ids=str)
def test_pool2d(rng, variant, dtype, kind, ceil_mode, count_include_pad, shape, kernel, stride, padding, dilation):
    x, window = draw(rng, *shape, dtype=dtype), (kernel, stride, padding, dilation)
    want = reference(x, *window, kind, ceil_mode, count_include_pad)
    options = {"kind": kind, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    for layout in IN_LAYOUT[variant]:
        same(pooled(x, variant, layout, *window, **options), want, kind)


@every_rung_and_dtype("pool2d")
@kinds
@settings(max_examples=examples(25))
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_any_window(variant, dtype, kind, data, seed):
    shape = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 40), st.integers(1, 12), st.integers(1, 12)))
    kernel = data.draw(st.tuples(*[st.integers(1, 5)] * 2))
    stride, dilation = (data.draw(st.tuples(*[st.integers(1, most)] * 2)) for most in (6, 3))
    padding = tuple(data.draw(st.tuples(*[st.integers(0, k - 1)] * 2)) for k in kernel)
    if kind == "average":
        dilation = (1, 1)
    fits = zip(shape[2:], kernel, padding, dilation, strict=True)
    assume(all(size + sum(pads) > d * (k - 1) for size, k, pads, d in fits))
    ceil_mode, include = data.draw(st.booleans()), data.draw(st.booleans())
    x, window = draw(np.random.default_rng(seed), *shape, dtype=dtype), (kernel, stride, padding, dilation)
    layout = data.draw(st.sampled_from(IN_LAYOUT[variant]))
    out = pooled(x, variant, layout, *window, kind=kind, ceil_mode=ceil_mode, count_include_pad=include)
    same(out, reference(x, *window, kind, ceil_mode, include), kind)
    assert out.shape[2:] == topology.layers.windows(list(shape[2:]), kernel, stride, padding, dilation, ceil_mode)


@both_dtypes
@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_arguments_as_in_pytorch(rng, dtype, layout, ceil_mode):
    functional = torch.nn.functional
    x = draw(rng, 2, 24, 15, 12, dtype=dtype)
    given = cuda.to_layout(on_device(x), layout)
    for window in ((3, 2, 1), (2,), ((3, 2), None, (1, 0)), (5, 3, 2), (3, 1, 1)):
        result = kernels.max_pool2d(given, *window, ceil_mode=ceil_mode)
        np.testing.assert_array_equal(cuda.asnumpy(result), functional.max_pool2d(f64(x), *window, ceil_mode=ceil_mode))
        for include in (True, False):
            result = kernels.avg_pool2d(given, *window, ceil_mode=ceil_mode, count_include_pad=include)
            agrees(result, functional.avg_pool2d(f64(x), *window, ceil_mode=ceil_mode, count_include_pad=include), k=25)
        agrees(kernels.avg_pool2d(given, *window), functional.avg_pool2d(f64(x), *window), k=25)
    result = kernels.max_pool2d(given, 3, 2, 1, 2, ceil_mode)
    np.testing.assert_array_equal(cuda.asnumpy(result), functional.max_pool2d(f64(x), 3, 2, 1, 2, ceil_mode))


@every_rung_and_dtype("pool2d")
@kinds
def test_nan_and_infinity_stay_in_their_windows(rng, variant, dtype, kind):
    x = draw(rng, 1, 8, 9, 9, dtype=dtype)
    x[0, 0, 4, 4], x[0, 1, 0, 0], x[0, 2] = np.nan, np.inf, -np.inf
    x[0, 3, 3, 3], x[0, 3, 4, 5] = np.nan, np.inf  # in one window, the NaN first
    x[0, 4, 3, 3], x[0, 4, 4, 5] = np.inf, np.nan
    pool = {"max": torch.nn.functional.max_pool2d, "average": torch.nn.functional.avg_pool2d}[kind]
    for layout in IN_LAYOUT[variant]:
        out = cuda.asnumpy(pooled(x, variant, layout, 3, 2, 1, kind=kind, count_include_pad=True))
        want = pool(f64(x), 3, 2, 1).numpy()
        np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
        np.testing.assert_array_equal(np.isinf(out), np.isinf(want))
        np.testing.assert_allclose(out, want, rtol=2e-3, atol=2e-3)


@every_rung("pool2d")
def test_sums_of_float16_are_float32(variant):
    """4,001 ones: a sum in float16 would stop at 2,048."""
    x = np.ones((1, 1, 1, 4001), np.float16)
    out = pooled(x, variant, IN_LAYOUT[variant][-1], (1, 4001), kind="average")
    assert cuda.asnumpy(out).item() == 1


@every_rung("pool2d")
@both_dtypes
@pytest.mark.parametrize("offset", range(1, 9))
def test_arrays_that_start_anywhere(rng, variant, dtype, offset):
    x = draw(rng, 2, 5, 7, 24, dtype=dtype)  # (N, H, W, C)
    whole, target = cuda.full(offset + x.size, np.nan, dtype), cuda.full(2 * 3 * 4 * 24 + offset + 9, 42, dtype)
    whole[offset:] = on_device(x.ravel())
    out = target[offset:][: 2 * 3 * 4 * 24].reshape(2, 3, 4, 24).transpose(0, 3, 1, 2)
    with cuda.guarded():
        given = whole[offset:].reshape(x.shape).transpose(0, 3, 1, 2)
        kernels.max_pool2d(given, 3, 2, 1, out=out, variant=variant)
    want = torch.nn.functional.max_pool2d(f64(x).permute(0, 3, 1, 2), 3, 2, 1)
    np.testing.assert_array_equal(cuda.asnumpy(out), want)
    around = np.delete(cuda.asnumpy(target), np.s_[offset : offset + out.size])
    assert around.size == offset + 9 and (around == 42).all()


def test_the_default_is_the_rung_for_the_layout(rng):
    x = on_device(draw(rng, 2, 7, 5, 3))
    with pytest.raises(ValueError, match="'channels_last' takes layout NHWC, got NCHW"):
        kernels.max_pool2d(x, 2, variant="channels_last")
    assert ladder.choose(None, np.float32, "NHWC") == "channels_last" and ladder.choose(None, np.float32) == "naive"
    assert kernels.max_pool2d(cuda.to_layout(x, "NHWC"), 1).strides == cuda.to_layout(x, "NHWC").strides
    one_channel = on_device(draw(rng, 2, 1, 5, 3))  # lies in either layout
    result = kernels.max_pool2d(one_channel, 1, variant="channels_last")
    np.testing.assert_array_equal(cuda.asnumpy(result), cuda.asnumpy(one_channel))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: kernels.pool2d(x, 3, kind="mean"), "kind must be 'max' or 'average', got 'mean'"),
        (lambda x: kernels.max_pool2d(x, 0), "kernel_size must be an integer of at least 1 or a pair of them, got 0"),
        (lambda x: kernels.max_pool2d(x, 2, 0), "stride must be an integer of at least 1 .* got 0"),
        (lambda x: kernels.max_pool2d(x, 2, 1, -1), "padding must be an integer of at least 0 .* got -1"),
        (lambda x: kernels.max_pool2d(x, (3, 2), 1, 2), r"padding must be below kernel_size \(3, 2\), got 2"),
        (lambda x: kernels.max_pool2d(x, 2, 1, 0, 0), "dilation must be an integer of at least 1 .* got 0"),
        (lambda x: kernels.avg_pool2d(x, 6), "the kernel reaches over 6 pixels, but the padded input has 5"),
        (lambda x: kernels.avg_pool2d(x[0], 2), r"x must have shape \(any, any, any, any\), got \(3, 5, 7\)"),
        (lambda x: kernels.avg_pool2d(x, 2, out=x), r"out must have shape \(2, 3, 2, 3\), got \(2, 3, 5, 7\)"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(cuda.full((2, 3, 5, 7), 1))
