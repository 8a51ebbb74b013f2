"""common/kernels/include/ptx.h: what its wrappers do is the same on a GPU and on the simulator. One body for both."""

import numpy as np
import pytest

from common import cuda
from common.kernels.ladder import INCLUDE

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma and cp.async need a card of sm_80")


def run(source, arrays, block=32):
    kernel = cuda.RawKernel(source, "probe", options=("-std=c++17", f"-I{INCLUDE}"))
    kernel((1,), (block,), arrays)


# lane i loads the fragments of its own and stores what it gets
MMA = """#include "ptx.h"
extern "C" __global__ void probe(const scalar* A, const scalar* B, const float* C, float* D) {  // row-major
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4];
    for (int i = 0; i < 4; ++i) d[i] = C[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
    unsigned a[4], b[2];
    FRAGMENTS
    for (int i = 0; i < 4; ++i) D[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}"""
HALVES = """
    for (int i = 0; i < 4; ++i) a[i] = *(const unsigned*)&A[(g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8];
    for (int i = 0; i < 2; ++i) {
        const __half* two = B + (2 * t + 8 * i) * 8 + g;
        b[i] = __half_as_ushort(two[0]) | (unsigned)__half_as_ushort(two[8]) << 16;
    }
    mma_f16(d, a, b);"""
TF32 = """
    for (int i = 0; i < 4; ++i) a[i] = to_tf32(A[(g + i % 2 * 8) * 8 + t + i / 2 * 4]);
    for (int i = 0; i < 2; ++i) b[i] = to_tf32(B[(t + 4 * i) * 8 + g]);
    mma_tf32(d, a, b);"""


HALVES_K8 = """
    for (int i = 0; i < 4; ++i) a[i] = *(const unsigned*)&A[(g + i % 2 * 8) * 8 + 2 * t];
    const __half* two = B + 2 * t * 8 + g;
    b[0] = __half_as_ushort(two[0]) | (unsigned)__half_as_ushort(two[8]) << 16;
    const unsigned rows[2] = {a[0], a[1]};
    mma_f16_k8(d, rows, b[0]);"""
HALVES_OUT_OF_PLACE = HALVES.replace(
    "mma_f16(d, a, b);", "const float c[4] = {d[0], d[1], d[2], d[3]}; mma_f16(d, a, b, c);"
)


def round_to_tf32(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize(
    ("fragments", "dtype", "k"),
    [
        (HALVES, np.float16, 16),
        (HALVES_OUT_OF_PLACE, np.float16, 16),
        (HALVES_K8, np.float16, 8),
        (TF32, np.float32, 8),
    ],
    ids=["f16", "f16 of another sum", "f16 of 8 columns", "tf32"],
)
def test_mma(rng, fragments, dtype, k):
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((16, k), (k, 8)))
    c, d = rng.standard_normal((16, 8)).astype(np.float32), cuda.full((16, 8), np.nan)
    source = MMA.replace("FRAGMENTS", fragments).replace("scalar", "__half" if dtype == np.float16 else "float")
    run(source, [*map(cuda.asarray, (a, b, c)), d])
    exact = [x.astype(np.float64) if dtype == np.float16 else round_to_tf32(x).astype(np.float64) for x in (a, b)]
    np.testing.assert_allclose(cuda.asnumpy(d), exact[0] @ exact[1] + c, rtol=2e-6, atol=2e-6)


def test_mma_of_bytes_is_exact_and_wraps(rng):
    """Random bytes, −128 in all places among them, on sums up to the ends of int32."""
    source = """#include "ptx.h"
    extern "C" __global__ void probe(const signed char* A, const signed char* B, const int* C, int* D) {  // B: (8, 32)
        int g = threadIdx.x / 4, t = threadIdx.x % 4, d[4];
        for (int i = 0; i < 4; ++i) d[i] = C[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
        unsigned a[4], b[2];
        for (int i = 0; i < 4; ++i) a[i] = *(const unsigned*)&A[(g + i % 2 * 8) * 32 + 4 * t + i / 2 * 16];
        for (int i = 0; i < 2; ++i) b[i] = *(const unsigned*)&B[g * 32 + 4 * t + i * 16];
        mma_s8(d, a, b);
        for (int i = 0; i < 4; ++i) D[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
    }"""
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 32), (8, 32)))
    a[3], b[5] = -128, -128
    c = rng.integers(-(2**31), 2**31, (16, 8)).astype(np.int32)
    c[3, 5] = 2**31 - 1
    d = cuda.zeros((16, 8), np.int32)
    run(source, [*map(cuda.asarray, (a, b, c)), d])
    exact = a.astype(np.int64) @ b.T.astype(np.int64) + c
    assert exact[3, 5] >= 2**31
    np.testing.assert_array_equal(cuda.asnumpy(d), exact.astype(np.int32))


def test_mma_of_bytes_adds_to_another_sum(rng):
    """The sum stays as it is; the result is elsewhere."""
    source = """#include "ptx.h"
    extern "C" __global__ void probe(const signed char* A, const signed char* B, const int* C, int* D, int* after) {
        int g = threadIdx.x / 4, t = threadIdx.x % 4, c[4], d[4] = {7, 7, 7, 7};
        for (int i = 0; i < 4; ++i) c[i] = C[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
        unsigned a[4], b[2];
        for (int i = 0; i < 4; ++i) a[i] = *(const unsigned*)&A[(g + i % 2 * 8) * 32 + 4 * t + i / 2 * 16];
        for (int i = 0; i < 2; ++i) b[i] = *(const unsigned*)&B[g * 32 + 4 * t + i * 16];
        mma_s8(d, a, b, c);
        for (int i = 0; i < 4; ++i) {
            D[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
            after[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
        }
    }"""
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 32), (8, 32)))
    c = rng.integers(-(2**30), 2**30, (16, 8)).astype(np.int32)
    d, after = (cuda.zeros((16, 8), np.int32) for _ in range(2))
    run(source, [*map(cuda.asarray, (a, b, c)), d, after])
    np.testing.assert_array_equal(cuda.asnumpy(d), a.astype(np.int32) @ b.T.astype(np.int32) + c)
    np.testing.assert_array_equal(cuda.asnumpy(after), c)


def test_four_integers_are_clamped_and_packed(rng):
    """The ends of int8 and of int32 among them."""
    special = [-(2**31), 2**31 - 1, -129, -128, -1, 0, 127, 128, 255, 256, -256, 1]
    x = np.concatenate([rng.integers(-400, 400, 4 * 256 - len(special)), special]).astype(np.int32)
    source = """#include "ptx.h"
    extern "C" __global__ void probe(const int4* x, unsigned* saturated) {
        const int4 four = x[threadIdx.x];
        saturated[threadIdx.x] = pack_saturated(four.x, four.y, four.z, four.w);
    }"""
    saturated = cuda.zeros(256, np.uint32)
    run(source, [cuda.asarray(x), saturated], 256)
    np.testing.assert_array_equal(cuda.asnumpy(saturated).view(np.int8), x.clip(-128, 127))


def test_to_tf32_rounds_to_nearest(rng):
    x = np.concatenate([rng.standard_normal(251), [0.0, 1 + 2**-11, -1 - 2**-11, 1 + 2**-12, 3e38 / 1e3]]).astype(
        np.float32
    )
    source = """#include "ptx.h"
    extern "C" __global__ void probe(const float* x, unsigned* y) { y[threadIdx.x] = to_tf32(x[threadIdx.x]); }"""
    y = cuda.zeros(256, np.uint32)
    run(source, [cuda.asarray(x), y], 256)
    np.testing.assert_array_equal(cuda.asnumpy(y) & 0xFFFFE000, round_to_tf32(x).view(np.uint32))


def test_two_halves_in_a_register(rng):
    """Rounded to nearest, negative ones to zero; the larger, the smaller; NaN stays NaN."""
    special = [0.0, -0.0, 6.0, -6.0, 65504.0, 1e-8, np.inf, -np.inf, np.nan, 1 + 2**-11, 1 + 3 * 2**-11, -1e-3]
    x = np.concatenate([rng.standard_normal(500), special]).astype(np.float32)
    bound = np.float16(0.5)
    source = """#include "ptx.h"
    extern "C" __global__ void probe(const float2* x, unsigned bound, unsigned* relu, unsigned* high, unsigned* low) {
        const int i = threadIdx.x;
        relu[i] = pack_relu(x[i].x, x[i].y);
        __half2 two = __floats2half2_rn(x[i].x, x[i].y);
        high[i] = max_halves(*(unsigned*)&two, bound), low[i] = min_halves(*(unsigned*)&two, bound);
    }"""
    outs = [cuda.zeros(256, np.uint32) for _ in range(3)]
    both = np.uint32(int(bound.view(np.uint16)) * 0x10001)
    run(source, [cuda.asarray(x), both, *outs], 256)
    relu, high, low = (cuda.asnumpy(out).view(np.float16).astype(np.float32) for out in outs)
    rounded = x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(relu, np.where(np.isnan(x), x, np.maximum(rounded, 0)))
    np.testing.assert_array_equal(high, np.where(np.isnan(x), x, np.maximum(rounded, np.float32(bound))))
    np.testing.assert_array_equal(low, np.where(np.isnan(x), x, np.minimum(rounded, np.float32(bound))))


def test_clamp_keeps_nan():
    x = np.array([-np.inf, -1, -0.0, 0, 3, 6, 6.5, np.inf, np.nan] + [1.0] * 23, np.float32)
    source = """#include "ptx.h"
    extern "C" __global__ void probe(const float* x, float* y) {
        y[threadIdx.x] = clamp(x[threadIdx.x], 0.0f, 6.0f);
    }"""
    y = cuda.full(32, -1)
    run(source, [cuda.asarray(x), y])
    np.testing.assert_array_equal(cuda.asnumpy(y), np.clip(x, 0, 6))


@pytest.mark.parametrize("transposed", [False, True], ids=["", "trans"])
def test_ldmatrix(transposed):
    """Element [row][column] of matrix m holds the number 64·m + 8·row + column."""
    source = f"""#include "ptx.h"
    extern "C" __global__ void probe(const __half* x, unsigned* y) {{
        __shared__ __align__(16) __half s[4 * 64 + 4 * 8];
        for (int i = threadIdx.x; i < 256; i += 32) s[i / 64 * 72 + i % 64] = x[i];  // a gap between the matrices
        __syncwarp();
        unsigned r[4];
        ldmatrix_x4{"_trans" if transposed else ""}(r, s + threadIdx.x / 8 * 72 + threadIdx.x % 8 * 8);
        for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = r[i];
    }}"""
    y = cuda.zeros((32, 4), np.uint32)
    run(source, [cuda.asarray(np.arange(256, dtype=np.float16)), y])
    got = cuda.asnumpy(y).view(np.float16).reshape(8, 4, 4, 2)  # g, t, matrix, which of the two
    matrices = np.arange(256, dtype=np.float16).reshape(4, 8, 8)
    want = (matrices.transpose(0, 2, 1) if transposed else matrices).reshape(4, 8, 4, 2).transpose(1, 2, 0, 3)
    np.testing.assert_array_equal(got, want)


def test_stmatrix_is_the_opposite_of_ldmatrix():
    """The row whose address lane i gives: its fragments lie in lanes 4·(i % 8) … + 3, register i / 8."""
    source = """#include "ptx.h"
    extern "C" __global__ void probe(const unsigned* x, __half* y) {
        __shared__ __align__(16) __half s[4 * 72];
        unsigned r[4];
        for (int i = 0; i < 4; ++i) r[i] = x[threadIdx.x * 4 + i];
        stmatrix_x4(s + threadIdx.x / 8 * 72 + threadIdx.x % 8 * 8, r);
        __syncwarp();
        for (int i = threadIdx.x; i < 256; i += 32) y[i] = s[i / 64 * 72 + i % 64];
    }"""
    matrices = np.arange(256, dtype=np.float16).reshape(4, 8, 4, 2)  # matrix, g, t, which of the two
    y = cuda.zeros(256, np.float16)
    run(source, [cuda.asarray(np.ascontiguousarray(matrices.transpose(1, 2, 0, 3)).view(np.uint32).ravel()), y])
    np.testing.assert_array_equal(cuda.asnumpy(y), np.arange(256))


@pytest.mark.parametrize("size", [4, 8, 16])
def test_cp_async_copies_in_groups(size):
    """Two groups: after the wait for all but one the first is there; what lies outside arrives as zeros."""
    n = size // 4
    source = f"""#include "ptx.h"
    extern "C" __global__ void probe(const float* x, float* y) {{
        __shared__ __align__(16) float s[2 * 32 * {n}];
        float *first = s + threadIdx.x * {n}, *second = first + 32 * {n};
        cp_async_{size}(first, x + threadIdx.x * {n});
        cp_async_commit();
        cp_async_{size}(second, x + (32 + threadIdx.x) * {n}, threadIdx.x != 3);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();
        for (int i = 0; i < {n}; ++i) y[threadIdx.x * {n} + i] = s[(31 - threadIdx.x) * {n} + i];
        cp_async_wait<0>();
        __syncthreads();
        for (int i = 0; i < {n}; ++i) y[(32 + threadIdx.x) * {n} + i] = s[(63 - threadIdx.x) * {n} + i];
    }}"""
    x = np.arange(1, 64 * n + 1, dtype=np.float32)
    y = cuda.full(64 * n, np.nan)
    run(source, [cuda.asarray(x), y])
    x.reshape(2, 32, n)[1, 3] = 0
    np.testing.assert_array_equal(cuda.asnumpy(y), x.reshape(2, 32, n)[:, ::-1].ravel())


def test_a_copy_that_nobody_waited_for_is_nan_on_the_simulator():
    if cuda.backend() != "simulator":
        pytest.skip("on a GPU the copy may have arrived by then")
    source = """#include "ptx.h"
    extern "C" __global__ void probe(const float* x, float* y) {
        __shared__ __align__(16) float s[128];
        cp_async_16(s + 4 * threadIdx.x, x + 4 * threadIdx.x);
        cp_async_commit();
        y[threadIdx.x] = s[4 * threadIdx.x];
    }"""
    y = cuda.zeros(32)
    run(source, [cuda.asarray(np.ones(128, np.float32)), y])
    assert np.isnan(y).all()


def test_a_wait_completes_no_more_copies_than_it_must_on_the_simulator():
    """So that a wait for too few groups, or one before the commit, shows."""
    if cuda.backend() != "simulator":
        pytest.skip("on a GPU the copies may have arrived by then")
    source = """#include "ptx.h"
    extern "C" __global__ void probe(const float* x, float* y) {
        __shared__ float s[3];
        for (int i = 0; i < 3; ++i) {
            cp_async_4(s + i, x + i);
            if (i < 2) cp_async_commit();
        }
        cp_async_wait<1>();
        for (int i = 0; i < 3; ++i) y[i] = s[i];
        cp_async_wait<0>();
        for (int i = 0; i < 3; ++i) y[3 + i] = s[i];
    }"""
    y = cuda.zeros(6)
    run(source, [cuda.asarray(np.ones(3, np.float32)), y], block=1)
    np.testing.assert_array_equal(y, [1, np.nan, np.nan, 1, 1, np.nan])


def test_the_trace_counts_copies_and_matrices():
    """cp.async: a load and a store of 16 bytes a lane; ldmatrix: four wavefronts where rows lie in different banks."""
    source = """#include "ptx.h"
    extern "C" __global__ void probe(const __half* x, unsigned* y) {
        __shared__ __align__(16) __half s[256];
        cp_async_16(s + 8 * threadIdx.x, x + 8 * threadIdx.x);
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        unsigned r[4];
        ldmatrix_x4(r, s + 8 * threadIdx.x);
        y[threadIdx.x] = r[0];
    }"""
    kernel = cuda.RawKernel(source, "probe", options=("-std=c++17", f"-I{INCLUDE}"))
    report = cuda.trace(kernel, (1,), (32,), [np.zeros(256, np.float16), np.zeros(32, np.uint32)])
    assert not report.findings
    assert report.global_loads.sectors == 16
    assert report.shared_loads.wavefronts == 4 and report.shared_stores.wavefronts == 4
