"""The argument `arithmetic` of gemm, pointwise and conv2d: what multiplies, its accuracy and its errors."""

import numpy as np
import pytest
from kernel_checks import agrees, draw, f64, poisoned

from common import cuda, kernels
from common.cuda.arrays import shapes_only
from common.kernels.halves import Halves, packed
from common.kernels.pair_of_halves import scale_of, split

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma of halves by 16 needs a card of sm_80")

PAIRED = ("tensor_cores", "split_k", "streaming")


def pointwise(x, weight, residual=None, activation=None, **options):
    """NumPy arrays in and out: x (N, C, H, W), weight (O, C, 1, 1)."""
    given = [None if one is None else cuda.to_layout(cuda.asarray(one), "NHWC") for one in (x, residual)]
    out = cuda.to_layout(poisoned((len(x), len(weight), *x.shape[2:]), np.float32), "NHWC")
    kernels.pointwise(given[0], weight, residual=given[1], activation=activation, out=out, **options)
    return cuda.asnumpy(out)


@pytest.mark.parametrize("variant", PAIRED)
@pytest.mark.parametrize(
    "size", [(1, 1, 1, 1, 1), (2, 7, 3, 5, 17), (1, 20, 5, 7, 36), (1, 136, 7, 7, 40), (3, 33, 4, 4, 8)]
)
def test_pointwise_of_halves(rng, variant, size):
    n, c, h, w, o = size
    x, weight, residual = draw(rng, n, c, h, w), cuda.asarray(draw(rng, o, c, 1, 1)), draw(rng, n, o, h, w)
    halves = Halves.of(weight, float(np.abs(x).max()))
    got = pointwise(x, weight, residual, (-1.0, 20.0), variant=variant, arithmetic=halves)
    want = np.einsum("nchw,oc->nohw", f64(x), f64(cuda.asnumpy(weight))[:, :, 0, 0]) + f64(residual).numpy()
    agrees(got, want.clip(-1, 20), c, floor=0.5 * c**0.5)


@pytest.mark.parametrize("variant", PAIRED)
@pytest.mark.parametrize(("x_size", "w_size"), [(6.0, 1e-4), (1e-6, 3e3), (2e4, 0.5)])
def test_scales_take_any_magnitude(rng, variant, x_size, w_size):
    """Of one sign and a whole slice more than a mantissa apart from 1: 1e-6 is no half."""
    x, weight = (
        (rng.random((1, 96, 5, 5)) * x_size).astype(np.float32),
        (rng.random((16, 96)) * w_size).astype(np.float32),
    )
    weight = cuda.asarray(weight[:, :, None, None])
    got = pointwise(x, weight, variant=variant, arithmetic=Halves.of(weight, x_size))
    want = np.einsum("nchw,oc->nohw", f64(x), f64(cuda.asnumpy(weight))[:, :, 0, 0])
    assert np.linalg.norm(got - want) < 3e-7 * np.linalg.norm(want)


def test_a_number_beyond_the_bound_is_nan_and_not_a_wrong_number(rng):
    x, weight = draw(rng, 1, 16, 2, 2), cuda.asarray(draw(rng, 8, 16, 1, 1))
    halves = Halves.of(weight, float(np.abs(x).max()))
    x[0, 3, 1, 0] = 1e4
    got = pointwise(x, weight, arithmetic=halves)
    assert np.isnan(got[:, :, 1, 0]).all() and np.isnan(got).sum() == 8


def test_packed_weights_hold_every_number_once(rng):
    weight = draw(rng, 3, 21)
    words = packed(weight, 8.0, 4.0)
    assert words.shape == (3 * 32 + 4,) and list(words[-4:]) == [8.0, 1 / 32, 0, 0]
    pairs = words[:-4].view(np.float16).reshape(3, 2, 2, 2, 4, 2)  # o, group of 16, part, piece, t, of a pair
    parts = pairs.transpose(2, 0, 1, 3, 5, 4).reshape(2, 3, 32)
    np.testing.assert_array_equal(parts[:, :, :21], split(weight, 4.0))
    assert not parts[:, :, 21:].any()


@pytest.mark.parametrize("transpose_b", [False, True])
def test_gemm_of_halves(rng, transpose_b):
    a, b = 1e-5 * draw(rng, 33, 70), 100 * draw(rng, *((24, 70) if transpose_b else (70, 24)))
    weight = cuda.asarray(b)
    halves = Halves.of(weight, float(np.abs(a).max()))
    got = kernels.gemm(cuda.asarray(a), weight, transpose_b=transpose_b, arithmetic=halves, variant="three_halves")
    want = f64(a) @ (f64(b).T if transpose_b else f64(b))
    agrees(got, want, 70)
    assert halves.x_scale > 2**14 > halves.w_scale


CALLS = {
    "gemm": lambda how: kernels.gemm(*(cuda.asarray(np.ones((40, 40), np.float32)) for _ in "ab"), arithmetic=how),
    "pointwise": lambda how: kernels.pointwise(
        cuda.to_layout(cuda.asarray(np.ones((1, 40, 5, 8), np.float32)), "NHWC"),
        cuda.asarray(np.ones((40, 40, 1, 1), np.float32)), arithmetic=how,
    ),
    "conv2d": lambda how: kernels.conv2d(
        *(cuda.to_layout(cuda.asarray(np.ones(shape, np.float32)), "NHWC") for shape in ((1, 3, 9, 9), (8, 3, 3, 3))),
        arithmetic=how,
    ),
}  # fmt: skip


@pytest.mark.parametrize("operator", CALLS)
@pytest.mark.parametrize("arithmetic", ["fma", "tf32x3"])
def test_the_named_arithmetic_chooses_the_rung(operator, arithmetic):
    words = {"fma": "fp32", "tf32x3": "tensor-core tf32 three times, fp32 accumulate"}
    with kernels.recorded() as launches:
        CALLS[operator](arithmetic)
    name, _, variant = launches[0].name.partition("/")
    assert name == operator and kernels.arithmetic(operator, variant, "fp32") == words[arithmetic]


@pytest.mark.parametrize(("channels", "outputs", "size"), [(33, 19, 5), (960, 160, 7), (24, 48, 12)])
def test_split_k_without_tensor_cores(rng, channels, outputs, size):
    x, weight = draw(rng, 1, channels, size, size), draw(rng, outputs, channels, 1, 1)
    how = {"variant": "split_k", "arithmetic": "fma"}
    y = pointwise(x, cuda.asarray(weight), **how)
    with kernels.recorded() as launches:
        pointwise(x, cuda.asarray(weight), **how)
    assert [launch.name for launch in launches] == ["pointwise/split_k by FMA"]
    exact = np.einsum("nchw,oc->nohw", x.astype(float), weight[:, :, 0, 0].astype(float))
    assert np.linalg.norm(y - exact) <= 5e-7 * np.linalg.norm(exact)


def test_a_launch_of_halves_says_so(rng):
    weight = cuda.asarray(draw(rng, 8, 16, 1, 1))
    with kernels.recorded() as launches:
        pointwise(draw(rng, 1, 16, 2, 2), weight, arithmetic=Halves.of(weight, 4.0))
    assert [launch.name for launch in launches] == ["pointwise/split_k of halves"]


def test_arguments_that_do_not_fit_are_refused(rng):
    x, weight = draw(rng, 1, 16, 2, 2), cuda.asarray(draw(rng, 8, 16, 1, 1))
    with pytest.raises(
        ValueError, match='arithmetic must be "fma", "tf32x3", Halves of the weights or None, got \'tf32\''
    ):
        pointwise(x, weight, arithmetic="tf32")
    with pytest.raises(ValueError, match="got 'halves'"):
        pointwise(x, weight, arithmetic="halves")
    with pytest.raises(ValueError, match="variant 'channels_last' does not have arithmetic 'tf32x3'"):
        pointwise(x, weight, arithmetic="tf32x3", variant="channels_last")
    with pytest.raises(ValueError, match=r"Halves of weights \(8, 16, 1, 1\), got \(4, 16, 1, 1\)"):
        pointwise(x, weight, arithmetic=Halves.of(weight[:4], 1.0))
    with pytest.raises(ValueError, match="must be None for float16 arrays"):
        kernels.gemm(*(cuda.asarray(np.ones((2, 2), np.float16)) for _ in "ab"), arithmetic="fma")
    with pytest.raises(
        ValueError, match="no variant takes float32 arrays in NCHW on this card with arithmetic 'tf32x3'"
    ):
        kernels.pointwise(cuda.asarray(x), weight, arithmetic="tf32x3")
    with pytest.raises(TypeError, match="weight must be a float32 array, got float16"):
        Halves.of(weight.astype(np.float16), 1.0)
    with pytest.raises(ValueError, match="bound must be"):
        Halves.of(weight, np.inf)


def test_weights_of_zeros_have_a_scale(rng):
    weight = cuda.asarray(np.zeros((8, 16, 1, 1), np.float32))
    assert Halves.of(weight, 1.0).w_scale == scale_of(0) == 1
    assert not pointwise(draw(rng, 1, 16, 2, 2), weight, arithmetic=Halves.of(weight, 8.0)).any()


@pytest.mark.skipif(cuda.backend() != "simulator", reason="traces are of the simulator")
@pytest.mark.parametrize("variant", PAIRED)
def test_a_trace_finds_nothing(rng, variant):
    x, weight = (cuda.asarray(draw(rng, *shape)) for shape in ((1, 20, 5, 7), (12, 20, 1, 1)))
    x = cuda.to_layout(x, "NHWC")
    reports = kernels.trace("pointwise", variant, x, weight, arithmetic=Halves.of(weight, 8.0))
    assert [report.findings for report in reports] == [()]


def test_what_a_plan_asks_for_is_not_kept(rng):
    """They are shapes without memory: a kernel that got them later would read outside of it."""
    halves = Halves.of(cuda.asarray(draw(rng, 8, 36, 1, 1)), 1.0)
    with shapes_only():
        rows, words = halves.rows, halves.words
    assert rows.shape == halves.rows.shape == (8, 128) and words.shape == halves.words.shape == (8 * 48 + 4,)
    for made in (halves.rows, halves.words):
        assert np.abs(cuda.asnumpy(made)).max() > 0
    assert halves.rows is halves.rows and halves.words is halves.words
