"""fp32 products from TF32 products: the NumPy twin, and the rungs that do it on tensor cores."""

import numpy as np
import pytest

from common import cuda, kernels
from common.kernels import tf32x3

RNG = np.random.default_rng(3)


def test_big_and_small_are_the_number():
    x = (RNG.standard_normal(10_000) * np.exp(RNG.uniform(-30, 30, 10_000))).astype(np.float32)
    big, small = tf32x3.split(x)
    assert np.array_equal(big + small, x) and np.array_equal(tf32x3.cut(big), big)
    assert (np.abs(small) <= np.abs(x) * 2.0**-11 * 1.001).all()


@pytest.mark.parametrize(
    ("count", "exponents"), [(1, (-11, -9.9)), (2, (-12, -10.9)), (3, (-22, -20.9)), (4, (-23, -21.9))]
)
def test_errors_of_one_product(count, exponents):
    x, y = (RNG.standard_normal(100_000).astype(np.float32) for _ in range(2))
    exact = x.astype(np.float64) * y
    worst = np.log2(np.abs(tf32x3.products(x, y, count) / exact - 1).max())
    assert exponents[0] < worst < exponents[1]


def test_truncated_sums_err_one_way_unless_they_are_short():
    x, y = (RNG.standard_normal((300, 16384)).astype(np.float32) for _ in range(2))
    exact = (x.astype(np.float64) * y).sum(-1)

    def error(**options):
        return np.linalg.norm(tf32x3.dot(x, y, **options) - exact) / np.linalg.norm(exact)

    assert error() > 8 * error(truncate=False) and error(slice=32) < 2 * error(truncate=False)
    assert (np.abs(tf32x3.toward_zero(exact)) <= np.abs(exact)).all()


@pytest.mark.parametrize("slice", [0, 4, 20])
def test_a_slice_is_a_multiple_of_a_step(slice):
    with pytest.raises(ValueError, match="multiple of 8"):
        tf32x3.dot(np.ones(64), np.ones(64), slice=slice)


def _gemm(variant, x, w):
    return kernels.gemm(cuda.asarray(x), cuda.asarray(np.ascontiguousarray(w.T)), variant=variant)


def _gemm_transposed(variant, x, w):
    return kernels.linear(cuda.asarray(x), cuda.asarray(w), variant=variant)


def _pointwise(variant, x, w):
    image = cuda.to_layout(cuda.asarray(np.ascontiguousarray(x.T[None, :, None, :])), "NHWC")
    out = kernels.pointwise(image, cuda.asarray(w[:, :, None, None]), variant=variant)
    return cuda.asarray(np.ascontiguousarray(cuda.asnumpy(out)[0, :, 0, :].T))


RUNGS = [(_gemm, "three_tf32"), (_gemm_transposed, "three_tf32"), (_gemm, "split_k"), (_gemm_transposed, "split_k"),
         (_pointwise, "tensor_cores"), (_pointwise, "split_k"), (_pointwise, "streaming")]  # fmt: skip


@pytest.mark.parametrize(("call", "variant"), RUNGS, ids=lambda one: getattr(one, "__name__", one))
@pytest.mark.parametrize("sign", ["one sign", "both signs"])
def test_every_rung_has_the_accuracy_of_fp32(call, variant, sign):
    """Terms of one sign make truncated sums err one way; tensor cores truncate on a GPU, not on the simulator."""
    k = 320 if variant == "streaming" else 2048 if cuda.backend() == "simulator" else 32768
    x, w = (RNG.standard_normal(shape).astype(np.float32) for shape in ((24, k), (16, k)))
    if sign == "one sign":
        x, w = np.abs(x), np.abs(w)
    exact = x.astype(np.float64) @ w.T
    size = np.linalg.norm(exact)
    error = np.linalg.norm(cuda.asnumpy(call(variant, x, w)) - exact) / size
    assert error < 0.1 * 1e-6 * k**0.5
