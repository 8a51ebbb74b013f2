"""The head with its pool in one launch, and the linear layer of few rows (common/optimize/head.h)."""

import itertools

import numpy as np
import pytest
from nvrtc import compile_with_nvrtc
from tiers import seldom

from common import cuda, kernels
from common.cuda.device import as_if
from common.cuda.machine_code import CARDS
from common.optimize import generate
from common.optimize import head as heads
from common.optimize.head import (
    Head,
    HeadGeometry,
    HeadTile,
    Linear,
    LinearTile,
    few_rows,
    pointwise_pool,
    pooled_tiles,
)
from common.weights.sources import SOURCES

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float16])
needs_sm_80 = pytest.mark.skipif(cuda.compute_capability() < 80, reason="needs a card of sm_80")
pytestmark = needs_sm_80
H200 = CARDS["H200"]


def draw(rng, *shape, dtype, scale=1.0):
    return (scale * (rng.standard_normal(shape) + 0.3)).astype(dtype)


def agrees(out, reference, k):
    """‖out − reference‖ ≤ tolerance · ‖reference‖."""
    result = cuda.asnumpy(out)
    assert result.shape == reference.shape
    allowed = 2e-3 if result.dtype == np.float16 else 1e-6 * np.sqrt(k)
    error = np.linalg.norm(result.astype(np.float64) - reference) / np.linalg.norm(reference)
    assert error <= allowed, f"relative error {error:.1e}, allowed {allowed:.1e}"


def nhwc(array):
    return cuda.to_layout(cuda.asarray(array), "NHWC")


def problem(rng, dtype, n, c, o, h, w):
    x, weight = draw(rng, n, c, h, w, dtype=dtype), draw(rng, o, c, 1, 1, dtype=dtype, scale=c**-0.5)
    bias = draw(rng, o, dtype=dtype)
    sums = np.einsum("nchw,oc->nohw", x.astype(np.float64), weight[..., 0, 0].astype(np.float64))
    wanted = np.clip(sums + bias.astype(np.float64)[:, None, None], 0, 6).mean((2, 3), keepdims=True)
    return x, weight, bias, wanted


TILES = [
    None,
    HeadTile(16, 1, 4, 2),
    HeadTile(16, 1, 2, 4),
    HeadTile(32, 2, 2, 1, x_stages=2),
    HeadTile(64, 2, 1, 2, x_stages=2, beside=2),
    HeadTile(32, 1, 3, 1, beside=2),
]


@both_dtypes
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize(("n", "c", "o", "h", "w"), [(1, 40, 72, 7, 7), (3, 24, 20, 5, 4), (2, 328, 33, 1, 1)])
def test_head_against_float64(rng, dtype, tile, n, c, o, h, w):
    x, weight, bias, wanted = problem(rng, dtype, n, c, o, h, w)
    out = cuda.full((n, o, 1, 1), np.nan, dtype)
    given = nhwc(x), nhwc(weight), cuda.asarray(bias)
    result = pointwise_pool(*given, activation="relu6", out=out, tile=tile)
    assert result is out
    agrees(out, wanted, c)
    first = cuda.asnumpy(out).copy()
    pointwise_pool(*given, activation="relu6", out=out, tile=tile)
    np.testing.assert_array_equal(cuda.asnumpy(out), first)


@both_dtypes
def test_head_without_bias_and_activation(rng, dtype):
    x, weight, _, _ = problem(rng, dtype, 2, 16, 24, 3, 5)
    sums = np.einsum("nchw,oc->nohw", x.astype(np.float64), weight[..., 0, 0].astype(np.float64))
    agrees(pointwise_pool(nhwc(x), nhwc(weight)), sums.mean((2, 3), keepdims=True), 16)


def test_head_is_what_the_operators_compute(rng):
    x, weight, bias, _ = problem(rng, np.float32, 2, 32, 48, 4, 4)
    given = nhwc(x), nhwc(weight), cuda.asarray(bias)
    wanted = kernels.global_avg_pool(kernels.pointwise(*given, activation="relu6"))
    agrees(pointwise_pool(*given, activation="relu6"), cuda.asnumpy(wanted).astype(np.float64), 32)


def test_head_names_what_does_not_fit(rng):
    x, weight, bias, _ = problem(rng, np.float32, 1, 8, 16, 3, 3)
    given = nhwc(x), nhwc(weight), cuda.asarray(bias)
    with pytest.raises(ValueError, match=r"x must be dense in NHWC"):
        pointwise_pool(cuda.asarray(x), *given[1:])
    with pytest.raises(ValueError, match=r"weight must have shape \(any, 8, 1, 1\)"):
        pointwise_pool(given[0], nhwc(weight[:, :4]), given[2])
    with pytest.raises(TypeError, match="bias must be float32"):
        pointwise_pool(*given[:2], cuda.asarray(bias.astype(np.float16)))
    with pytest.raises(ValueError, match=r"tile's channels must be a multiple of 32, got HeadTile\(channels=16"):
        pointwise_pool(*given, tile=HeadTile(16, 2))
    x, weight, _, _ = problem(rng, np.float32, 1, 6, 16, 3, 3)
    with pytest.raises(ValueError, match="channels must be a multiple of 4, got 6"):
        pointwise_pool(nhwc(x), nhwc(weight))


@both_dtypes
@pytest.mark.parametrize("tile", [None, LinearTile(1, 4), LinearTile(3, 2), LinearTile(8, 1)], ids=str)
@pytest.mark.parametrize(("n", "k", "o"), [(1, 1280, 10), (3, 40, 33), (4, 264, 7), (2, 8, 1)])
def test_linear_against_float64(rng, dtype, tile, n, k, o):
    x, weight, bias = draw(rng, n, k, dtype=dtype), draw(rng, o, k, dtype=dtype), draw(rng, o, dtype=dtype)
    out = cuda.full((n, o), np.nan, dtype)
    few_rows(*map(cuda.asarray, (x, weight, bias)), out=out, tile=tile)
    agrees(out, x.astype(np.float64) @ weight.astype(np.float64).T + bias.astype(np.float64), k)
    without = few_rows(cuda.asarray(x), cuda.asarray(weight), tile=tile)
    agrees(without, x.astype(np.float64) @ weight.astype(np.float64).T, k)


@pytest.mark.parametrize(("n", "k", "o"), [(5, 1280, 40), (8, 24, 10), (17, 704, 16), (64, 80, 33)])
def test_halves_of_more_rows_on_tensor_cores(rng, n, k, o):
    x, weight, bias = (draw(rng, *shape, dtype=np.float16) for shape in ((n, k), (o, k), (o,)))
    out = cuda.full((n, o), np.nan, np.float16)
    with cuda.guarded():
        few_rows(*map(cuda.asarray, (x, weight, bias)), out=out)
    agrees(out, x.astype(np.float64) @ weight.astype(np.float64).T + bias.astype(np.float64), k)
    without = few_rows(cuda.asarray(x), cuda.asarray(weight))
    agrees(without, x.astype(np.float64) @ weight.astype(np.float64).T, k)


def test_linear_names_what_does_not_fit():
    x, weight = cuda.zeros((5, 8)), cuda.zeros((3, 8))
    with pytest.raises(ValueError, match="at most 4 rows, got 5"):
        few_rows(x, weight)
    with pytest.raises(ValueError, match="at most 64 rows, got 65"):
        few_rows(cuda.zeros((65, 8), np.float16), weight.astype(np.float16))
    with pytest.raises(ValueError, match="tile is for at most 4 rows of x, got 5"):
        few_rows(cuda.zeros((5, 8), np.float16), weight.astype(np.float16), tile=LinearTile())
    with pytest.raises(ValueError, match="must be multiples of 16 bytes, got 12 columns"):
        few_rows(cuda.zeros((5, 12), np.float16), cuda.zeros((3, 12), np.float16))
    with pytest.raises(ValueError, match="K must be a multiple of 4, got 7"):
        few_rows(cuda.zeros((1, 7)), cuda.zeros((3, 7)))
    with pytest.raises(TypeError, match="weight must be float32"):
        few_rows(x[:2], weight.astype(np.float16))


@both_dtypes
def test_launches_are_recorded(rng, dtype):
    x, weight, bias, wanted = problem(rng, dtype, 1, 16, 32, 3, 3)
    out = cuda.full((1, 32, 1, 1), np.nan, dtype)
    with kernels.recorded() as launches:
        pointwise_pool(nhwc(x), nhwc(weight), cuda.asarray(bias), activation="relu6", out=out, programmatic=True)
        few_rows(out.reshape(1, 32), cuda.zeros((4, 32), dtype), cuda.full(4, 2, dtype))
    channels = 32 if dtype == np.float16 else 16
    assert [launch.name for launch in launches] == [f"pointwise_pool/{channels}_channels", "few_rows/1_rows"]
    assert np.isnan(cuda.asnumpy(out)).all()
    for launch in launches:
        launch()
    agrees(out, wanted, 16)


@both_dtypes
def test_rule_fits_every_card(dtype):
    itemsize = np.dtype(dtype).itemsize
    for batch, shared in itertools.product((1, 2, 8, 64, 1000), (99 * 1024, 163 * 1024, 227 * 1024)):
        head = Head(49, 320, 1280)
        tile = heads.head_rule(head, batch, itemsize, 132, shared)
        assert HeadGeometry(head, tile, itemsize).problem(shared) is None


@pytest.mark.skipif(cuda.backend() != "simulator", reason="the simulator sees every access")
@both_dtypes
def test_no_access_goes_wrong(rng, dtype):
    x, weight, bias, wanted = problem(rng, dtype, 2, 24, 40, 3, 3)
    out = cuda.full((2, 40, 1, 1), np.nan, dtype)
    with cuda.guarded():
        pointwise_pool(nhwc(x), nhwc(weight), cuda.asarray(bias), activation="relu6", out=out)
        logits = few_rows(out.reshape(2, 40), cuda.asarray(weight.reshape(40, 24)[:, :8].reshape(8, 40)))
    agrees(out, wanted, 24)
    assert np.isfinite(cuda.asnumpy(logits)).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("card", ["sm_80", "sm_90"])
def test_nvrtc_compiles_both(card, dtype):
    head, itemsize = Head(49, 320, 1280), np.dtype(dtype).itemsize
    for batch in (1, 128):
        tile = heads.head_rule(head, batch, itemsize, 132, 227 * 1024)
        assert compile_with_nvrtc(heads.head_source(head, tile, dtype), card, generate.options()) is None
    linear = Linear(1280, SOURCES["seeded"].num_classes)
    assert compile_with_nvrtc(heads.linear_source(linear, LinearTile(8, 4), dtype), card, generate.options()) is None


POOLED = [dict(zip(("BM", "BN", "TEAMS", "STAGES", "KEEP"), sizes, strict=True)) for sizes in (
    (64, 32, 2, 2, 1), (64, 96, 2, 3, 0), (128, 64, 1, 2, 1),
)]  # fmt: skip


@pytest.mark.parametrize("tile", POOLED, ids=lambda tile: "-".join(map(str, tile.values())))
@pytest.mark.parametrize(
    ("n", "c", "o", "h", "w"), [(1, 40, 72, 7, 7), (5, 160, 104, 7, 7), (3, 24, 16, 8, 8), (2, 8, 8, 1, 1)]
)
def test_the_persistent_head_against_float64(rng, monkeypatch, n, c, o, h, w, tile):
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 2)  # tile after tile, on any machine
    x, weight, bias, wanted = problem(rng, np.float16, n, c, o, h, w)
    given = nhwc(x), nhwc(weight), cuda.asarray(bias)
    out = cuda.full((n, o, 1, 1), np.nan, np.float16)
    assert pointwise_pool(*given, activation="relu6", out=out, tile=tile) is out
    agrees(out, wanted, c)
    again = pointwise_pool(*given, activation="relu6", tile=tile)
    np.testing.assert_array_equal(cuda.asnumpy(again), cuda.asnumpy(out))


@seldom(6)
@pytest.mark.skipif(cuda.backend() == "gpu", reason="the trace is the simulator's")
@pytest.mark.parametrize("tile", POOLED, ids=lambda tile: "-".join(map(str, tile.values())))
def test_the_trace_of_the_persistent_head_finds_nothing(rng, monkeypatch, tile):
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 2)
    x, weight, bias, wanted = problem(rng, np.float16, 7, 136, 40, 5, 5)
    out = cuda.full((7, 40, 1, 1), np.nan, np.float16)
    with kernels.recorded() as launches:
        pointwise_pool(nhwc(x), nhwc(weight), cuda.asarray(bias), activation="relu6", out=out, tile=tile)
    (launch,) = launches
    kernel = launch.compiled()
    cuda.allow_shared(kernel, launch.shared_limit)
    assert cuda.trace(kernel, launch.grid, launch.block, launch.args, launch.shared_mem).findings == ()
    agrees(out, wanted, 136)


def test_tiles_of_a_persistent_head():
    with as_if(90, H200.multiprocessors, H200.shared_block):
        found = pooled_tiles(Head(49, 320, 1280), 256, 5)
        assert len(found) == 5
        assert all(tile["TEAMS"] == 2 and tile["KEEP"] for tile in found[:1])  # sums are added beside products
        assert pooled_tiles(Head(49, 36, 1280), 8) == pooled_tiles(Head(400, 32, 64), 8) == []


@pytest.mark.parametrize(
    ("shape", "changed", "told"),
    [
        ((2, 16, 9, 8), {}, "tile: BM must be at least the 72 pixels of an image, got "),
        ((2, 12, 7, 7), {}, "rows of x, weight and out must begin at multiples of 16 bytes"),
        ((2, 16, 7, 7), {"BN": 48}, "tile: BN must be one of"),
    ],
)
def test_the_persistent_head_names_what_does_not_fit(rng, shape, changed, told):
    n, c, h, w = shape
    x, weight, bias, _ = problem(rng, np.float16, n, c, 24, h, w)
    with pytest.raises(ValueError, match=told):
        pointwise_pool(nhwc(x), nhwc(weight), cuda.asarray(bias), tile=POOLED[0] | changed)
    x, weight, bias, _ = problem(rng, np.float32, 1, 8, 16, 3, 3)
    with pytest.raises(ValueError, match="variant 'persistent' takes dtype float16, got float32"):
        pointwise_pool(nhwc(x), nhwc(weight), cuda.asarray(bias), tile=POOLED[0])
