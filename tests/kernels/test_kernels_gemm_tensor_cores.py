"""gemm's rungs on tensor cores: their tiles and tails, their accuracy, and what they ask of memory."""

import hashlib

import numpy as np
import pytest
from kernel_checks import agrees, draw, f64, on_device, poisoned
from nvrtc import compile_with_nvrtc
from test_kernels_gemm import check_gemm
from tiers import seldom

from common import cuda, kernels
from common.kernels.gemm import BY_TENSOR_MAP, SMALLER, SPLIT, geometry, ladder, shared_bytes, tensor_maps, tile_of

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma and cp.async need a card of sm_80")

RUNGS = [
    (variant, np.dtype(dtype).type)
    for variant in ("tensor_cores", "three_tf32", "split_k", "warpgroups", *BY_TENSOR_MAP)
    for dtype in ladder.rungs[variant].dtypes
]
every_pair = pytest.mark.parametrize(("variant", "dtype"), RUNGS, ids=lambda x: x if isinstance(x, str) else x.__name__)
both_ways = pytest.mark.parametrize("transpose_b", [False, True], ids=["b", "bT"])


def tiles(variant):
    """Every tile that the launcher may choose."""
    base = ladder.tile(variant)
    return [
        base,
        *(base | tile for tile in (SPLIT if variant == "split_k" else [t for _, t in SMALLER.get(variant, ())])),
    ]


on_a_gpu = pytest.mark.skipif(cuda.backend() != "gpu", reason="on the simulator it takes too long")
EVERY_TILE = [(v, dtype, tile) for v, dtype in RUNGS for tile in tiles(v)]


def launch(variant, a, b, bias, out, tile, transpose_b, vector=None, trace=False):
    """A launch with that tile, whatever the launcher would choose."""
    (m, k), n = a.shape, out.shape[1]
    vector = vector or 16 // a.dtype.itemsize
    given = tile if variant in BY_TENSOR_MAP else {**tile, "VECTOR": vector}
    kernel = ladder.kernel(variant, a.dtype, TRANSPOSE_B=int(transpose_b), **given)
    shared = shared_bytes(tile, a.dtype.itemsize)
    kernel.max_dynamic_shared_size_bytes = max(shared, 48 * 1024)
    grid, block = geometry(tile, m, n)
    if variant in BY_TENSOR_MAP:
        a, b = tensor_maps(tile, a, b, transpose_b)
    args = (a, b, bias, out, m, n, k, np.float32(-np.inf), np.float32(np.inf))
    if trace:
        return cuda.trace(kernel, grid, block, args, shared)
    return kernel(grid, block, args, shared_mem=shared)


@pytest.mark.parametrize(
    ("variant", "dtype", "tile"),
    EVERY_TILE,
    ids=lambda x: x if isinstance(x, str) else "×".join(map(str, x.values())) if isinstance(x, dict) else x.__name__,
)
@both_ways
def test_a_tile_and_its_tails(rng, variant, dtype, tile, transpose_b):
    """One row and column of tiles more than one, with a K that ends within a slice, and one shorter than all slices."""
    for m, n, k in ((tile["BM"] + 1, tile["BN"] + 8, 5 * tile.get("BK", 64) + 8), (tile["BM"] - 1, 8, 16)):
        a, b = draw(rng, m, k, dtype=dtype), draw(rng, *((n, k) if transpose_b else (k, n)), dtype=dtype)
        bias, out = draw(rng, n, dtype=dtype), poisoned((m, n), dtype)
        launch(variant, *map(on_device, (a, b, bias)), out, tile, transpose_b)
        agrees(out, f64(a) @ (f64(b).T if transpose_b else f64(b)) + f64(bias), k)


@every_pair
@both_ways
@pytest.mark.parametrize(("n", "k"), [(24, 40), (26, 38), (25, 37), (25, 40), (24, 37)])
def test_rows_that_begin_anywhere(rng, variant, dtype, transpose_b, n, k):
    check_gemm(rng, dtype, 19, n, k, transpose_b, True, "relu6", variant)


@every_pair
@pytest.mark.parametrize("offset", [1, 2, 4])
def test_matrices_that_begin_anywhere(rng, variant, dtype, offset):
    a, b = draw(rng, 9, 32, dtype=dtype), draw(rng, 32, 24, dtype=dtype)

    def moved(x):
        place = cuda.zeros(x.size + offset, dtype)[offset:].reshape(x.shape)
        place[...] = on_device(x)
        return place

    agrees(
        kernels.gemm(moved(a), moved(b), out=moved(np.full((9, 24), np.nan, dtype)), variant=variant),
        f64(a) @ f64(b),
        32,
    )


@pytest.mark.parametrize("variant", ["three_tf32", "split_k"])
@pytest.mark.parametrize("kind", ["many magnitudes", "cancelling", "one sign"])
def test_three_products_are_as_good_as_a_float(rng, variant, kind):
    """Where plain TF32 errs by more than is allowed. Sums that cancel are judged by the size of their terms."""
    k = 1000
    a, b = rng.standard_normal((19, k)), rng.standard_normal((k, 24))
    if kind == "many magnitudes":
        a, b = a * np.exp(rng.uniform(-12, 12, a.shape)), b * np.exp(rng.uniform(-12, 12, b.shape))
    if kind == "cancelling":
        a[:, 1::2], b[1::2] = a[:, ::2], -b[::2] * (1 + 1e-5)
    if kind == "one sign":
        a, b = np.abs(a), np.abs(b)
    a, b = a.astype(np.float32), b.astype(np.float32)
    out = kernels.gemm(on_device(a), on_device(b), out=poisoned((19, 24), np.float32), variant=variant)
    sizes = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    agrees(out, f64(a) @ f64(b), k, floor=float(np.linalg.norm(sizes) / np.sqrt(sizes.size * k)))


@pytest.mark.parametrize("variant", ["three_tf32", "split_k"])
@pytest.mark.parametrize("k", [16384, pytest.param(262144, marks=on_a_gpu)])
def test_three_products_of_a_long_sum(rng, variant, k):
    """Tensor cores round sums towards zero: left to themselves their errors grow as K, and not as its root."""
    a, b = (np.abs(rng.standard_normal((8, k))).astype(np.float32) for _ in range(2))
    out = kernels.gemm(on_device(a), on_device(b), transpose_b=True, out=poisoned((8, 8), np.float32), variant=variant)
    agrees(out, f64(a) @ f64(b).T, k)


@every_pair
def test_nan_goes_where_it_belongs(variant, dtype):
    """Also NaNs whose fraction is in the bits that TF32 drops, and to no other row or column."""
    a, b = np.ones((5, 40), dtype), np.ones((40, 8), dtype)
    a[1, 7], b[33, 2] = np.nan, np.nan
    if dtype == np.float32:
        a[3, 39] = np.array([0x7F800001], np.uint32).view(np.float32)[0]
    out = cuda.asnumpy(kernels.gemm(on_device(a), on_device(b), out=poisoned((5, 8), dtype), variant=variant))
    want = np.zeros((5, 8), bool)
    want[1] = want[:, 2] = True
    want[3] |= dtype == np.float32
    np.testing.assert_array_equal(np.isnan(out), want)
    assert (out[~want] == 40).all()


@every_pair
def test_the_same_bits_every_time(rng, variant, dtype):
    a, b = on_device(draw(rng, 5, 1280, dtype=dtype)), on_device(draw(rng, 24, 1280, dtype=dtype))
    runs = {
        hashlib.sha256(cuda.asnumpy(kernels.gemm(a, b, transpose_b=True, variant=variant)).tobytes()).hexdigest()
        for _ in range(5)
    }
    assert len(runs) == 1


@pytest.mark.parametrize(("variant", "dtype"), [("tensor_cores", np.float16), ("three_tf32", np.float32)])
@both_ways
def test_no_two_pieces_meet_in_a_bank(rng, variant, dtype, transpose_b):
    """Copies, ldmatrix and the way out: every request has as few wavefronts as its bytes need."""
    tile = tiles(variant)[-1]
    m, n, k = tile["BM"], tile["BN"], 3 * tile["BK"]
    a, b = draw(rng, m, k, dtype=dtype), draw(rng, *((n, k) if transpose_b else (k, n)), dtype=dtype)
    out = np.full((m, n), np.nan, dtype)
    report = launch(variant, a, b, None, out, tile, transpose_b, trace=True)
    assert report.findings == () and not np.isnan(out).any()
    assert report.shared_loads.conflicts == 0 and report.shared_stores.conflicts == 0


@seldom(6)
@every_pair
def test_the_trace_finds_nothing(rng, variant, dtype):
    """No race, no read of what is not there yet, no access past an end: two tiles each way, and tails."""
    tile = tiles(variant)[-1]
    m, n, k = tile["BM"] + 3, tile["BN"] + 5, 77
    if variant in BY_TENSOR_MAP:  # rows of multiples of 16 bytes
        tile |= {"BM": 64, "BN": 64, "WN": 64, "STAGES": 3}
        m, n, k = 67, 72, 328
    a, b, bias = draw(rng, m, k, dtype=dtype), draw(rng, n, k, dtype=dtype), draw(rng, n, dtype=dtype)
    out = np.full((m, n), np.nan, dtype)
    report = launch(variant, a, b, bias, out, tile, True, vector=1, trace=True)
    assert report.findings == ()
    agrees(out, f64(a) @ f64(b).T + f64(bias), k)


def test_tiles_go_with_the_size_of_the_result(monkeypatch):
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 132)

    def chosen(variant, m, n, dtype=np.float16):
        tile = tile_of(variant, dtype, m, n)
        return tile["BM"], tile["BN"]

    assert chosen("warpgroups", 4096, 4096) == (256, 128)
    assert chosen("warpgroups", 1568, 1280) == (128, 128)
    assert chosen("warpgroups", 1024, 1024) == (64, 128)
    assert chosen("persistent", 4096, 4096) == (128, 256)
    assert chosen("persistent", 12544, 320) == (128, 192)  # 2 waves either way
    assert chosen("persistent", 1024, 1024) == (64, 128)
    assert chosen("three_tf32", 4096, 4096, np.float32) == (128, 128)
    assert chosen("three_tf32", 1024, 1024, np.float32) == (64, 64)
    assert [chosen("split_k", m, 1000) for m in (1, 32, 256)] == [(16, 8), (16, 16), (32, 32)]


def on_a_card(monkeypatch, capability):
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    monkeypatch.setattr(cuda, "compute_capability", lambda: capability)
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 132)


@pytest.mark.parametrize(
    ("capability", "dtype", "size", "rung"),
    [
        (90, np.float16, 4096, "persistent"),
        (90, np.float32, 4096, "three_tf32"),
        (90, np.float32, 64, "split_k"),
        (89, np.float16, 64, "split_k"),
        (86, np.float32, 4096, "double_buffered"),
        (80, np.float16, 4096, "tensor_cores"),
        (100, np.float16, 4096, "tensor_cores"),
        (75, np.float16, 4096, "warp_tiles"),
        (75, np.float32, 64, "warp_tiles"),
    ],
)
def test_the_default_rung_on_a_card(monkeypatch, capability, dtype, size, rung):
    from common.kernels.gemm import _best

    on_a_card(monkeypatch, capability)
    assert ladder.choose(None, dtype, best=_best(np.dtype(dtype), size, size)) == rung


def test_warpgroups_are_compiled_for_hopper_alone(monkeypatch):
    for capability, asked in ((80, False), (90, True), (100, False)):
        on_a_card(monkeypatch, capability)
        assert ladder.architecture("warpgroups") == (("-arch=sm_90a",) if asked else ())
        assert ladder.architecture("tensor_cores") == ()


@seldom(6)
@pytest.mark.parametrize("variant", ["warpgroups", *BY_TENSOR_MAP])
def test_nvrtc_takes_the_warpgroups_for_hopper(variant):
    """test_nvrtc.py compiles every kernel for cards without an a, where wgmma.h has its C++."""
    for transpose_b in (0, 1):
        switches = {**ladder.tile(variant), "TRANSPOSE_B": transpose_b}
        options = ladder.options(variant, np.float16, switches)
        log = compile_with_nvrtc(ladder.source(variant), "sm_90a", [o for o in options if not o.startswith("-std")])
        assert log is None, log


@seldom(6)
@pytest.mark.parametrize("variant", ["warpgroups", *BY_TENSOR_MAP])
def test_products_run_on_while_the_warps_go_on(variant):
    """Where ptxas cannot see that the sums are left alone it waits after each product, and says so (C7515)."""
    found = kernels.inspect("gemm", variant, dtype="float16")
    assert found.instructions["HGMMA"] > found.instructions["WARPGROUP"] > 0
    assert found.spills == 0
