"""Wrong arguments: an error that names the argument, what was expected and what came; and nothing is written."""

import numpy as np
import pytest

from common import cuda, kernels


def ones(*shape, dtype=np.float32):
    return cuda.full(shape, 1, dtype)


def gaps(*shape):
    """An array of that shape that lies in memory the other way round."""
    return ones(*shape[::-1]).T


def conv2d(**changed):
    """A valid call, but for what is changed."""
    arguments = {"x": ones(2, 6, 7, 5), "weight": ones(4, 3, 3, 3), "bias": ones(4), "groups": 2} | changed
    return kernels.conv2d(**arguments)


def gemm(**changed):
    return kernels.gemm(**({"a": ones(3, 7), "b": ones(7, 5), "bias": ones(5)} | changed))


def im2col(**changed):
    return kernels.im2col(**({"x": ones(1, 2, 7, 5), "kernel_size": 3} | changed))


F16, F64, INT = np.float16, np.float64, np.int32
WRONG = [
    # call, its output's shape, what is changed, the error, the words it must have: argument, expected, got
    (conv2d, {"x": ones(2, 6, 7)}, ValueError, "x", "(any, any, any, any)", "(2, 6, 7)"),
    (conv2d, {"x": [[[[1.0]]]]}, TypeError, "x", "array", "list"),
    (conv2d, {"x": 1.0}, TypeError, "x", "array", "float"),
    (conv2d, {"x": None}, TypeError, "x", "array", "NoneType"),
    (conv2d, {"x": ones(2, 6, 7, 5, dtype=INT)}, TypeError, "x", "float32 or float16", "int32"),
    (conv2d, {"x": ones(2, 6, 7, 5, dtype=F64)}, TypeError, "x", "float32 or float16", "float64"),
    (conv2d, {"x": ones(2, 6, 7, 5, dtype=F16)}, TypeError, "weight", "float16", "float32"),
    (conv2d, {"x": gaps(2, 6, 7, 5)}, ValueError, "x", "dense in NCHW or NHWC", "strides"),
    (conv2d, {"x": ones(0, 6, 7, 5)}, ValueError, "x", "from 1", "(0, 6, 7, 5)"),
    (conv2d, {"weight": ones(4, 6, 3, 3)}, ValueError, "weight", "(any, 3, any, any)", "(4, 6, 3, 3)"),
    (conv2d, {"weight": ones(4, 3, 3)}, ValueError, "weight", "(any, 3, any, any)", "(4, 3, 3)"),
    (conv2d, {"weight": ones(5, 3, 3, 3)}, ValueError, "groups", "divide", "5 output channels"),
    (conv2d, {"weight": gaps(4, 3, 3, 3)}, ValueError, "weight", "dense in NCHW or NHWC", "strides"),
    (conv2d, {"bias": ones(5)}, ValueError, "bias", "(4)", "(5,)"),
    (conv2d, {"bias": ones(4, dtype=F16)}, TypeError, "bias", "float32", "float16"),
    (conv2d, {"bias": [1, 2, 3, 4]}, TypeError, "bias", "array", "list"),
    (conv2d, {"groups": 4}, ValueError, "groups", "divides the 6 channels", "4"),
    (conv2d, {"groups": 0}, ValueError, "groups", "integer", "0"),
    (conv2d, {"groups": 2.0}, ValueError, "groups", "integer", "2.0"),
    (conv2d, {"stride": 0}, ValueError, "stride", "at least 1", "0"),
    (conv2d, {"stride": (1, 2, 3)}, ValueError, "stride", "pair", "(1, 2, 3)"),
    (conv2d, {"dilation": -1}, ValueError, "dilation", "at least 1", "-1"),
    (conv2d, {"dilation": 1.5}, ValueError, "dilation", "integer", "1.5"),
    (conv2d, {"padding": -1}, ValueError, "padding", "at least 0", "-1"),
    (conv2d, {"padding": ((0, 0), (0, -1))}, ValueError, "padding", "at least 0", "-1"),
    (conv2d, {"padding": "same"}, ValueError, "padding", "integer", "'same'"),
    (conv2d, {"padding": (0, 0, 0, 0)}, ValueError, "padding", "pair", "(0, 0, 0, 0)"),
    (conv2d, {"weight": ones(4, 3, 8, 3)}, ValueError, "kernel", "8", "7"),
    (conv2d, {"dilation": (1, 3)}, ValueError, "kernel", "7", "5"),
    (conv2d, {"residual": ones(2, 4, 7, 5)}, ValueError, "residual", "(2, 4, 5, 3)", "(2, 4, 7, 5)"),
    (conv2d, {"activation": "gelu"}, ValueError, "activation", "'relu6'", "'gelu'"),
    (conv2d, {"activation": (6, 0)}, ValueError, "activation", "low", "(6, 0)"),
    (conv2d, {"activation": (0, float("nan"))}, ValueError, "activation", "low", "nan"),
    (conv2d, {"activation": (0, 3, 6)}, ValueError, "activation", "pair", "(0, 3, 6)"),
    (conv2d, {"activation": ("0", 6)}, ValueError, "activation", "pair", "('0', 6)"),
    (conv2d, {"variant": "fastest"}, ValueError, "variant", "naive", "'fastest'"),
    (gemm, {"a": ones(3, 8)}, ValueError, "b", "(8, any)", "(7, 5)"),
    (gemm, {"transpose_b": True}, ValueError, "b", "(any, 7)", "(7, 5)"),
    (gemm, {"a": ones(7)}, ValueError, "a", "(any, any)", "(7,)"),
    (gemm, {"b": ones(7, 5, dtype=F16)}, TypeError, "b", "float32", "float16"),
    (gemm, {"b": gaps(7, 5)}, ValueError, "b", "C-contiguous", "strides"),
    (gemm, {"bias": ones(7)}, ValueError, "bias", "(5)", "(7,)"),
    (gemm, {"activation": "relu7"}, ValueError, "activation", "'relu6'", "'relu7'"),
    (gemm, {"variant": "7_tiled"}, ValueError, "variant", "naive", "'7_tiled'"),
    (im2col, {"kernel_size": 0}, ValueError, "kernel_size", "at least 1", "0"),
    (im2col, {"kernel_size": 8}, ValueError, "kernel", "8", "7"),
    (im2col, {"x": ones(2, 7, 5)}, ValueError, "x", "(any, any, any, any)", "(2, 7, 5)"),
    (im2col, {"padding": -1}, ValueError, "padding", "at least 0", "-1"),
    (im2col, {"variant": "no"}, ValueError, "variant", "naive", "'no'"),
]  # fmt: skip
SHAPES = {conv2d: (2, 4, 5, 3), gemm: (3, 5), im2col: (1, 18, 15)}


@pytest.mark.parametrize(
    ("call", "changed", "error", "name", "expected", "got"),
    WRONG,
    ids=[f"{call.__name__}-{next(iter(changed))}-{i}" for i, (call, changed, *_) in enumerate(WRONG)],
)
def test_wrong_arguments(call, changed, error, name, expected, got):
    out = cuda.full(SHAPES[call], np.nan)
    with pytest.raises(error) as caught:
        call(**changed, out=out)
    message = str(caught.value)
    assert name in message.split(" must ")[0] and expected in message and got in message
    assert np.isnan(cuda.asnumpy(out)).all()


@pytest.mark.parametrize("call", SHAPES)
def test_the_calls_above_are_right_but_for_their_change(call):
    assert np.isfinite(cuda.asnumpy(call(out=cuda.full(SHAPES[call], np.nan)))).all()


@pytest.mark.parametrize(
    ("out", "error", "expected", "got"),
    [
        (ones(2, 4, 5, 4), ValueError, "(2, 4, 5, 3)", "(2, 4, 5, 4)"),
        (ones(2, 4, 5, 3, dtype=F16), TypeError, "float32", "float16"),
        (gaps(2, 4, 5, 3), ValueError, "dense in NCHW or NHWC", "strides"),
        ([0.0], TypeError, "array", "list"),
    ],
    ids=["shape", "dtype", "strides", "list"],
)
def test_wrong_out(out, error, expected, got):
    with pytest.raises(error, match="out") as caught:
        conv2d(out=out)
    assert expected in str(caught.value) and got in str(caught.value)


POINTWISE = {
    "add": lambda x, **rest: kernels.add(x, ones(3, 7), **rest),
    "relu6": kernels.relu6,
    "relu": kernels.relu,
    "softmax": kernels.softmax,
    "global_avg_pool": kernels.global_avg_pool,
    "sigmoid": kernels.sigmoid,
    "multiply": lambda a, **rest: kernels.multiply(a, ones(3, 7), **rest),
    "divide": lambda a, **rest: kernels.divide(a, ones(3, 7), **rest),
    "strided_slice": lambda x, **rest: kernels.strided_slice(x, (0, 1), (2, 3), **rest),
    "resize": lambda x, **rest: kernels.resize(x, 3, **rest),
    "conv_transpose2d": lambda x, **rest: kernels.conv_transpose2d(x, ones(1, 1, 1, 1), **rest),
    "layer_norm": kernels.layer_norm,
    "group_norm": lambda x, **rest: kernels.group_norm(x, 1, **rest),
    "mean": kernels.mean,
    "max_pool2d": lambda x, **rest: kernels.max_pool2d(x, 1, **rest),
    "pad": lambda x, **rest: kernels.pad(x, 1, **rest),
}


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize(
    ("x", "error", "got"),
    [
        ([1.0, 2.0], TypeError, "list"),
        (None, TypeError, "NoneType"),
        (ones(3, 7, dtype=INT), TypeError, "int32"),
        (ones(3, 7, dtype=F64), TypeError, "float64"),
        (gaps(1, 1, 3, 7), ValueError, "strides"),
        (ones(0, 3, 7, 7), ValueError, "(0, 3, 7, 7)"),
    ],
    ids=["list", "None", "int32", "float64", "strides", "empty"],
)
def test_wrong_arrays(name, x, error, got):
    with pytest.raises(error, match=r"^[ax] must") as caught:
        POINTWISE[name](x)
    assert got in str(caught.value)


def test_a_read_only_out_is_refused():
    if cuda.backend() == "gpu":
        pytest.skip("CuPy has no read-only arrays")
    out = np.full((3, 7), np.nan, np.float32)
    out.flags.writeable = False
    with pytest.raises((TypeError, ValueError), match=r"'out'.*read-only"):
        kernels.relu6(ones(3, 7), out=out)


def test_add_wants_equal_shapes_and_dtypes():
    with pytest.raises(ValueError, match=r"b must have shape \(3, 7\), got \(7,\)"):
        kernels.add(ones(3, 7), ones(7))
    with pytest.raises(TypeError, match=r"b must be float32 .* got float16"):
        kernels.add(ones(7), ones(7, dtype=F16))


@pytest.mark.parametrize("bounds", [(1, 0), (float("nan"), 1)])
def test_clamp_wants_bounds_in_order(bounds):
    with pytest.raises(ValueError, match="low must not exceed high, got"):
        kernels.clamp(ones(7), *bounds)


def test_softmax_wants_a_dimension_and_global_avg_pool_four():
    with pytest.raises(ValueError, match="x must have at least one dimension"):
        kernels.softmax(ones())
    with pytest.raises(ValueError, match="dim must be an integer from -2 to 1, got 2"):
        kernels.softmax(ones(3, 7), 2)
    with pytest.raises(ValueError, match=r"x must have shape \(any, any, any, any\), got \(3, 7\)"):
        kernels.global_avg_pool(ones(3, 7))


@pytest.mark.parametrize("operator", kernels.OPERATORS)
def test_unknown_rungs(operator):
    with pytest.raises(ValueError, match=rf"operator must be one of .*{operator}.* got 'pool'"):
        kernels.variants("pool")
    assert kernels.variants(operator)[0] == "naive"


def test_more_outputs_than_an_int_can_count_are_refused():
    """2,100 images of 1,024 × 1,024 would have an index beyond 2³¹ − 1."""
    image = ones(1, 1, 64, 64)
    with pytest.raises(ValueError, match=r"out must have from 1 to 2147483647 elements"):
        kernels.conv2d(image, ones(1, 1, 1, 1), padding=32768)
