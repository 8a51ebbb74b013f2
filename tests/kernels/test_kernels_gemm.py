"""gemm and linear against float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, draw, every_rung_and_dtype, f64, on_device, poisoned
from tiers import examples, seldom

from common import cuda, kernels
from common.kernels.gemm import geometry, ladder

SHAPES = [  # M, N, K; in the last two rows are whole vectors, and tiles end in their midst
    (1, 1, 1), (1, 33, 7), (33, 31, 1), (67, 129, 37), (1, 10, 1280), (9, 12, 20), (130, 136, 40),
]  # fmt: skip
ACTIVATIONS = {None: (-np.inf, np.inf), "relu": (0, np.inf), "relu6": (0, 6), (-0.5, 1.5): (-0.5, 1.5)}


def check_gemm(rng, dtype, m, n, k, transpose_b, with_bias, activation, variant=None):
    a = draw(rng, m, k, dtype=dtype)
    b = draw(rng, *((n, k) if transpose_b else (k, n)), dtype=dtype)
    bias = draw(rng, n, dtype=dtype) if with_bias else None
    out = kernels.gemm(
        on_device(a), on_device(b), on_device(bias),
        transpose_b=transpose_b, activation=activation, out=poisoned((m, n), dtype), variant=variant,
    )  # fmt: skip
    reference = f64(a) @ (f64(b).T if transpose_b else f64(b))
    if with_bias:
        reference += f64(bias)
    agrees(out, reference.clamp(*ACTIVATIONS[activation]), k, floor=0.5 * k**0.5)


@every_rung_and_dtype("gemm")
@pytest.mark.parametrize("transpose_b", [False, True], ids=["b", "bT"])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_gemm(rng, variant, dtype, m, n, k, transpose_b):
    check_gemm(rng, dtype, m, n, k, transpose_b, with_bias=True, activation=None, variant=variant)


@every_rung_and_dtype("gemm")
@pytest.mark.parametrize("with_bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_gemm_bias_and_activation(rng, variant, dtype, with_bias, activation):
    check_gemm(rng, dtype, 17, 33, 7, False, with_bias, activation, variant)


ABLE = [(v, t) for t in (np.float32, np.float16) for v in kernels.variants("gemm", t) if ladder.takes(v, t)]


@seldom(6)
@settings(max_examples=examples(100))
@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.booleans(),
    st.sampled_from(list(ACTIVATIONS)), st.sampled_from(ABLE), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_gemm_of_any_shape(m, n, k, transpose_b, with_bias, activation, able, seed):
    variant, dtype = able
    check_gemm(np.random.default_rng(seed), dtype, m, n, k, transpose_b, with_bias, activation, variant)


@every_rung_and_dtype("gemm")
@pytest.mark.parametrize("with_bias", [False, True], ids=["", "bias"])
def test_linear(rng, variant, dtype, with_bias):
    x, weight = draw(rng, 3, 37, dtype=dtype), draw(rng, 11, 37, dtype=dtype)
    bias = draw(rng, 11, dtype=dtype) if with_bias else None
    out = kernels.linear(
        on_device(x), on_device(weight), on_device(bias), out=poisoned((3, 11), dtype), variant=variant
    )
    agrees(out, f64(x) @ f64(weight).T + (f64(bias) if with_bias else 0), k=37)


@every_rung_and_dtype("gemm", dtypes=("float16",))
def test_gemm_sums_float16_in_float32(variant, dtype):
    """4,001 ones: a sum in float16 would stop at 2,048."""
    ones = np.ones((1, 4001), dtype)
    out = kernels.gemm(on_device(ones), on_device(ones), transpose_b=True, out=poisoned((1, 1), dtype), variant=variant)
    assert abs(cuda.asnumpy(out).item() - 4001) <= 1  # 4,001 is not a float16


@every_rung_and_dtype("gemm", dtypes=("float32",))
def test_gemm_keeps_nan_through_its_activation(variant, dtype):
    a, b = np.array([[1, np.nan], [1, 2]], np.float32), np.ones((2, 3), np.float32)
    out = kernels.gemm(
        on_device(a), on_device(b), activation="relu6", out=poisoned((2, 3), np.float32), variant=variant
    )
    np.testing.assert_array_equal(np.isnan(cuda.asnumpy(out)), [[True] * 3, [False] * 3])


def elsewhere(array):
    """The same numbers on the device, one element off an address that is a multiple of 16 bytes."""
    around = cuda.full(array.size + 1, np.nan, array.dtype)
    around[1:] = cuda.asarray(array).ravel()
    return around[1:].reshape(array.shape)


@every_rung_and_dtype("gemm")
@pytest.mark.parametrize("moved", ["a", "b", "bias", "out"])
def test_an_array_may_begin_anywhere(rng, variant, dtype, moved):
    """Rows that are whole vectors, in an array that does not begin where one may: element by element, then."""
    arrays = {
        "a": draw(rng, 9, 24, dtype=dtype),
        "b": draw(rng, 24, 16, dtype=dtype),
        "bias": draw(rng, 16, dtype=dtype),
    }
    arrays["out"] = np.full((9, 16), np.nan, dtype)
    given = {name: elsewhere(array) if name == moved else cuda.asarray(array) for name, array in arrays.items()}
    kernels.gemm(**given, variant=variant)
    agrees(given["out"], f64(arrays["a"]) @ f64(arrays["b"]) + f64(arrays["bias"]), k=24, floor=0.5)


FMA_RUNGS = ["naive", "coalesced", "shared_tiles", "register_column", "register_block", "vectorised", "warp_tiles",
             "double_buffered"]  # fmt: skip


@pytest.mark.parametrize("variant", FMA_RUNGS)
@pytest.mark.parametrize("transpose_b", [0, 1], ids=["b", "bT"])
@pytest.mark.parametrize(("m", "n", "k"), [(7, 17, 33), (33, 36, 20)])
def test_a_trace_finds_nothing(rng, variant, transpose_b, m, n, k):
    """No race, no read of shared memory that nobody wrote, nothing past the end; every element of C is written once."""
    tile = ladder.tile(variant)
    if "VECTOR" in tile and k % 4 + n % 4:
        tile["VECTOR"] = 1
    a, b = draw(rng, m, k), draw(rng, *((n, k) if transpose_b else (k, n)))
    out = np.full((m, n), np.nan, np.float32)
    kernel = ladder.kernel(variant, np.float32, TRANSPOSE_B=transpose_b, **tile)
    arguments = (a, b, draw(rng, n), out, m, n, k, np.float32(0), np.float32(6))
    report = cuda.trace(kernel, *geometry(tile, m, n), arguments)
    assert report.findings == () and not np.isnan(out).any()
    assert report.global_stores.bytes == out.nbytes


def traced(rng, variant, size):
    tile = ladder.tile(variant)
    a, b, out = draw(rng, size, size), draw(rng, size, size), np.full((size, size), np.nan, np.float32)
    arguments = (a, b, None, out, size, size, size, np.float32(-np.inf), np.float32(np.inf))
    return cuda.trace(ladder.kernel(variant, np.float32, **tile), *geometry(tile, size, size), arguments)


@seldom(6)
def test_rungs_move_what_their_headers_say(rng):
    """Floats loaded for a product: from global memory 1/BM + 1/BN, from shared memory 1/TM + 1/TN."""
    for variant in FMA_RUNGS[2:]:
        tile, size = ladder.tile(variant), 128
        report, products = traced(rng, variant, size), size**3
        assert report.global_loads.bytes / 4 == products * (1 / tile["BM"] + 1 / tile["BN"]), variant
        assert report.shared_loads.bytes / 4 <= products * (1 / tile.get("TM", 1) + 1 / tile.get("TN", 1)), variant


def test_neighbours_in_a_row_touch_fewer_sectors(rng):
    naive, coalesced = (traced(rng, variant, 32) for variant in ("naive", "coalesced"))
    steps = 32 * 32  # 32 warps, 32 products each
    assert naive.global_loads.sectors == (32 + 1) * steps and naive.global_stores.sectors == 32 * 32
    assert coalesced.global_loads.sectors == (1 + 4) * steps and coalesced.global_stores.sectors == 4 * 32


def test_warp_tiles_read_without_conflicts(rng):
    assert traced(rng, "vectorised", 128).shared_loads.conflicts > 0
    assert traced(rng, "warp_tiles", 128).shared_loads.conflicts == 0
    assert traced(rng, "double_buffered", 128).shared_loads.conflicts == 0
