"""`out` that shares memory with an input: refused by name, but for the operators that work in place."""

import numpy as np
import pytest
from int8_checks import calls, on_device

from common import cuda, kernels
from common.cuda import checks, layout

IN_PLACE = ("add", "activate", "binary", "clamp", "multiply")
INT8 = [name for name in kernels.INT8_OPERATORS if name != "add_int8"]  # which test_kernels_int8.py has


def arrays(*shapes):
    return [cuda.full(shape, 1.0, np.float32) for shape in shapes]


def overlapping(shape, out_shape):
    """Two arrays of these shapes that share memory."""
    count, out_count = int(np.prod(shape)), int(np.prod(out_shape))
    both = cuda.full(max(count, out_count), 1.0, np.float32)
    return both[:count].reshape(shape), both[:out_count].reshape(out_shape)


X, W, B = (1, 4, 6, 6), (4, 4, 3, 3), (4,)
CALLS = {
    "permute": ("x", (2, 3), (3, 2), lambda x, out: kernels.permute(x, (1, 0), out=out)),
    "pad": ("x", X, (1, 4, 8, 8), lambda x, out: kernels.pad(x, ((1, 1), (1, 1)), out=out)),
    "strided_slice": ("x", X, (1, 2, 6, 6), lambda x, out: kernels.strided_slice(x, (0, 1, 0, 0), out.shape, out=out)),
    "softmax": ("x", (3, 5), (3, 5), lambda x, out: kernels.softmax(x, -1, out=out)),
    "gemm": ("a", (4, 4), (4, 4), lambda x, out: kernels.gemm(x, arrays((4, 4))[0], out=out)),
    "gemm of b": ("b", (4, 4), (4, 4), lambda x, out: kernels.gemm(arrays((4, 4))[0], x, out=out)),
    "gemm's bias": ("bias", B, (2, 4), lambda x, out: kernels.gemm(*arrays((2, 4), (4, 4)), x, out=out)),
    "global_avg_pool": ("x", X, (1, 4, 1, 1), lambda x, out: kernels.global_avg_pool(x, out=out)),
    "pool2d": ("x", X, (1, 4, 3, 3), lambda x, out: kernels.max_pool2d(x, 2, 2, out=out)),
    "concat": ("arrays[0]", X, (1, 8, 6, 6), lambda x, out: kernels.concat([x, *arrays(X)], 1, out=out)),
    "im2col": ("x", X, (1, 36, 36), lambda x, out: kernels.im2col(x, 3, padding=1, out=out)),
    "conv2d": ("x", X, X, lambda x, out: kernels.conv2d(x, *arrays(W), None, 1, 1, out=out)),
    "conv2d's weight": ("weight", W, X, lambda x, out: kernels.conv2d(*arrays(X), x, None, 1, 1, out=out)),
    "conv2d's residual": (
        "residual", X, X, lambda x, out: kernels.conv2d(*arrays(X, W), None, 1, 1, residual=x, out=out),
    ),
    "pointwise": ("x", X, X, lambda x, out: kernels.pointwise(x, *arrays((4, 4, 1, 1)), out=out)),
    "pointwise's residual": (
        "residual", X, X, lambda x, out: kernels.pointwise(*arrays(X, (4, 4, 1, 1)), residual=x, out=out),
    ),
    "depthwise": ("x", X, X, lambda x, out: kernels.depthwise(x, *arrays((4, 1, 3, 3)), None, 1, 1, out=out)),
    "depthwise's bias": ("bias", B, X, lambda x, out: kernels.depthwise(*arrays(X, (4, 1, 3, 3)), x, 1, 1, out=out)),
    "depthwise_backward_input": (
        "grad", X, X, lambda x, out: kernels.depthwise_backward_input(x, *arrays((4, 1, 3, 3)), X, 1, 1, out=out),
    ),
    "depthwise_backward_weight": (
        "x", X, (4, 1, 3, 3), lambda x, out: kernels.depthwise_backward_weight(*arrays(X), x, (3, 3), 1, 1, out=out),
    ),
    "resize": ("x", X, (1, 4, 9, 9), lambda x, out: kernels.resize(x, 9, out=out)),
    "conv_transpose2d": ("x", X, (1, 4, 8, 8), lambda x, out: kernels.conv_transpose2d(x, *arrays(W), out=out)),
    "conv_transpose2d's residual": (
        "residual", X, X, lambda x, out: kernels.conv_transpose2d(*arrays((1, 4, 4, 4), W), residual=x, out=out),
    ),
    "layer_norm": ("x", X, X, lambda x, out: kernels.layer_norm(x, out=out)),
    "group_norm": ("x", X, X, lambda x, out: kernels.group_norm(x, 2, out=out)),
    "group_norm's bias": ("bias", B, X, lambda x, out: kernels.group_norm(*arrays(X), 2, *arrays(B), x, out=out)),
    "mean": ("x", X, (1, 1, 6, 6), lambda x, out: kernels.mean(x, out=out)),
    "winograd": ("x", X, X, lambda x, out: kernels.winograd(x, *arrays(W), None, 1, out=out)),
    "winograd_weight": ("weight", W, (16, 8, 64), lambda x, out: kernels.winograd_weight(x, out=out)),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_out_that_shares_memory_with_an_input_is_refused(call):
    name, shape, out_shape, launch = CALLS[call]
    given, out = overlapping(shape, out_shape)
    with pytest.raises(ValueError) as raised:
        launch(given, out)
    assert str(raised.value).startswith(f"out and {name} share memory: the kernel reads one")
    launch(given, arrays(out_shape)[0])  # the same call with an array of its own is right


@pytest.mark.parametrize("operator", INT8)
def test_out_that_shares_memory_with_an_int8_operators_input_is_refused(rng, operator):
    call = calls(rng)[operator]
    for i, name in enumerate(call.names):
        own, want = call.arrays[i], call.want
        both = cuda.full(max(own.nbytes, want.nbytes), 1, np.int8)

        def shared(like, both=both):
            return layout.shaped(both[: like.nbytes].view(like.dtype), like.shape, "NHWC" if like.ndim == 4 else "NCHW")

        arrays = [shared(own) if j == i else on_device(array) for j, array in enumerate(call.arrays)]
        out = shared(want)
        with pytest.raises(ValueError, match=f"^out and {name} share memory: the kernel reads one"):
            call.function(*arrays, out=out)


def test_every_operator_is_tried():
    tried = {call.split("'")[0].split(" ")[0] for call in CALLS} | set(IN_PLACE) | set(INT8) | {"add_int8"}
    assert tried == set(kernels.OPERATORS)


@pytest.mark.parametrize("operator", IN_PLACE)
def test_in_place_is_right_and_a_part_is_not(operator, rng):
    call = {
        "add": lambda x, out: kernels.add(x, arrays(x.shape)[0], out=out),
        "multiply": lambda x, out: kernels.multiply(x, arrays(x.shape)[0], out=out),
        "binary": lambda x, out: kernels.divide(x, arrays(x.shape)[0], out=out),
        "clamp": lambda x, out: kernels.clamp(x, -1.0, 1.0, out=out),
        "activate": lambda x, out: kernels.activate(x, "sigmoid", out=out),
    }[operator]
    values = rng.standard_normal((1, 3, 5, 7)).astype(np.float32)
    want = cuda.asnumpy(call(cuda.asarray(values), None))
    x = cuda.asarray(values)
    np.testing.assert_array_equal(cuda.asnumpy(call(x, x)), want)
    both = cuda.full(109, 1.0, np.float32)
    with pytest.raises(ValueError, match="share memory in part: out may be the same array, or one of its own"):
        call(both[:105].reshape(1, 3, 5, 7), both[4:].reshape(1, 3, 5, 7))


def test_neighbours_in_one_buffer_are_apart():
    buffer = cuda.full(64, 1.0, np.float32)
    checks.apart(buffer[:32], x=buffer[32:], y=None)
    checks.apart(buffer[32:], x=buffer[:32])
    with pytest.raises(ValueError, match="out and y share memory"):
        checks.apart(buffer[:33], x=None, y=buffer[32:])
    rows = buffer.reshape(8, 8)
    with pytest.raises(ValueError, match="out and x share memory"):
        checks.apart(rows[:, ::-1], x=rows[7:])
