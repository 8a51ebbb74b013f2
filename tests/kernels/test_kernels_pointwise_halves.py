"""pointwise's rung "persistent_halves": floats as pairs of halves; its tiles, tails, accuracy and machine code."""

import numpy as np
import pytest
import torch.nn.functional as F
from kernel_checks import agrees, draw, f64, on_device, poisoned
from nvrtc import compile_with_nvrtc
from tiers import long, seldom

from common import cuda, kernels
from common.cuda import layout as layouts
from common.cuda.device import as_if
from common.cuda.machine_code import CARDS
from common.kernels.halves import Halves
from common.kernels.inspected import inspected, launches_on
from common.kernels.pair_of_halves import STEP, split
from common.kernels.pointwise import ladder, persistent
from common.kernels.tf32x3 import toward_zero

H200 = CARDS["H200"]
RUNG = "persistent_halves"
SLICE = 32  # terms of a sum within the tensor core
on_gpu = cuda.backend() == "gpu"
pytestmark = pytest.mark.skipif(on_gpu and cuda.compute_capability() != 90, reason="wgmma needs a card of sm_90")


def tile(bm, bn, teams, stages, keep):
    return dict(zip(persistent.NAMES, (bm, bn, teams, stages, keep), strict=True))


def ids(used):
    return "-".join(map(str, used.values()))


TILES = [tile(64, 32, 1, 2, 0), tile(64, 96, 2, 2, 1), tile(128, 64, 1, 3, 1), tile(192, 80, 1, 2, 0)]
every_tile = pytest.mark.parametrize("used", TILES, ids=ids)


def problem(rng, p, c, o, residual=True):
    """Arrays of a 1×1 convolution of p images of one pixel, and their right result in float64."""
    x, weight, bias = draw(rng, p, c, 1, 1), draw(rng, o, c, 1, 1), draw(rng, o)
    want = F.conv2d(f64(x), f64(weight), f64(bias))
    given = {"x": x, "weight": weight, "bias": bias}
    if residual:
        given["residual"] = draw(rng, p, o, 1, 1)
        want = want + f64(given["residual"])
    return {name: on_device(array) for name, array in given.items()}, want


def check(rng, p, c, o, used, **more):
    given, want = problem(rng, p, c, o, **more)
    halves = Halves.of(given["weight"], float(np.abs(cuda.asnumpy(given["x"])).max()))
    out = poisoned((p, o, 1, 1), np.float32)
    kernels.pointwise(**given, activation=(-1.0, 40.0), out=out, variant=RUNG, tile=used, arithmetic=halves)
    agrees(out, want.clamp(-1, 40), c, floor=0.5 * c**0.5)


@pytest.fixture
def two_blocks(monkeypatch):
    """A launch has as many blocks as two multiprocessors would get: each has tile after tile, on any machine."""
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 2)


@seldom(6)
@every_tile
@pytest.mark.parametrize(("p", "c", "o"), [(1, 4, 4), (49, 36, 24), (130, 96, 1000), (451, 160, 104)])
def test_a_tile_and_its_tails(rng, two_blocks, used, p, c, o):
    check(rng, p, c, o, used, residual=c != 36)


@long
@pytest.mark.parametrize(("p", "c", "o"), [(1, 8, 8), (49, 24, 1000), (130, 160, 24), (389, 96, 160)])
def test_every_candidate(rng, two_blocks, p, c, o):
    for used in persistent.candidates(p, c, o, 12, itemsize=4):
        check(rng, p, c, o, used)


@pytest.mark.skipif(on_gpu, reason="the trace is the simulator's")
@pytest.mark.parametrize(
    "used", [tile(64, 32, 2, 2, 1), tile(128, 32, 1, 2, 0), *(pytest.param(t, marks=long) for t in TILES)], ids=ids
)
def test_the_trace_finds_nothing(rng, two_blocks, used):
    """No race, no read before a copy has come, no bank conflict where floats are loaded; several tiles, and tails."""
    p, c, o = 2 * used["BM"] * used["TEAMS"] + 5, 68, used["BN"] + 4
    given, want = problem(rng, p, c, o)
    out = poisoned(want.shape, np.float32)
    with kernels.recorded() as launches:
        kernels.pointwise(**given, out=out, variant=RUNG, tile=used)
    (launch,) = launches
    kernel = launch.compiled()
    cuda.allow_shared(kernel, launch.shared_limit)
    report = cuda.trace(kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    agrees(out, want, c)
    assert report.findings == ()
    wide = [
        entry.counts for entry in report.lines if (entry.kind, entry.size, entry.counts.space) == ("load", 16, "shared")
    ]
    assert wide and all(counts.units == counts.ideal for counts in wide)


@pytest.mark.parametrize(("x_size", "w_size"), [(6.0, 1e-4), (1e-6, 3e3), (2e4, 0.5)])
def test_scales_take_any_magnitude(rng, x_size, w_size):
    x, weight = rng.random((7, 96, 1, 1)) * x_size, rng.random((32, 96, 1, 1)) * w_size
    x, weight = on_device(x.astype(np.float32)), on_device(weight.astype(np.float32))
    got = kernels.pointwise(x, weight, variant=RUNG, arithmetic=Halves.of(weight, x_size))
    want = F.conv2d(f64(cuda.asnumpy(x)), f64(cuda.asnumpy(weight))).numpy()
    assert np.linalg.norm(cuda.asnumpy(got) - want) < 3e-7 * np.linalg.norm(want)


def test_rows_hold_every_weight_once(rng):
    """32 high halves and their low ones; lane t's floats 8t + 4s + 2j + e are columns 2t + 8j + e of step s."""
    weight = draw(rng, 3, 40, 1, 1)
    rows = cuda.asnumpy(Halves(on_device(weight), 1.0, 4.0).rows)
    assert rows.shape == (3, 128) and rows.dtype == np.float16
    parts = rows.reshape(3, 2, 2, 32)  # o, slice, high or low, column
    want = np.stack(split(np.pad(weight.reshape(3, 40), ((0, 0), (0, 24))), 4.0)).reshape(2, 3, 2, 32)
    for channel in range(32):
        t, s, j, e = channel // 8, channel // 4 % 2, channel // 2 % 2, channel % 2
        np.testing.assert_array_equal(
            parts[..., 16 * s + 2 * t + 8 * j + e], want[..., channel].transpose(1, 2, 0), strict=True
        )


def truncated(x, weight, terms):
    """x · weightᵀ of pairs of halves in the rung's order, each wgmma truncating; sums of so many channels."""
    (x_high, x_low), (w_high, w_low) = (
        [part.astype(np.float64) for part in split(one, 2.0**10)] for one in (x, weight)
    )
    total = np.zeros((len(x), len(weight)), np.float32)
    for start in range(0, x.shape[1], terms):
        part = np.zeros_like(total)
        for a, b in ((x_low, w_high), (x_high, w_low), (x_high, w_high)):
            for k in range(start, min(start + terms, x.shape[1]), STEP):
                part = toward_zero(part + a[:, k : k + STEP] @ b[:, k : k + STEP].T)
        total = (total + part.astype(np.float64) * 2.0**-20).astype(np.float32)
    return total


def test_one_sum_of_all_channels_errs_more(rng):
    """Why sums leave the tensor cores: after a ReLU6, of 960 channels, they err by as much as a network may."""
    x, weight = (rng.random((64, 960), np.float32) * 6).clip(0, 6), rng.standard_normal((64, 960), np.float32) / 31
    for weights, short_most, long_least in ((weight, 2e-7, 4e-7), (np.abs(weight), 2e-7, 1e-6)):
        want = x.astype(np.float64) @ weights.astype(np.float64).T
        short, long_ones = (
            np.linalg.norm(truncated(x, weights, terms) - want) / np.linalg.norm(want) for terms in (SLICE, 960)
        )
        assert short < short_most and long_ones > long_least


def test_what_does_not_begin_at_16_bytes_goes_to_another_rung(rng):
    given, _ = problem(rng, 5, 22, 7)
    with kernels.recorded() as launches:
        kernels.pointwise(**given, variant=RUNG)
    assert [launch.name for launch in launches] == ["pointwise/tensor_cores"]


def test_nvrtc_takes_it_for_hopper():
    options = ladder.options(RUNG, np.float32, ladder.tile(RUNG))
    log = compile_with_nvrtc(ladder.source(RUNG), "sm_90a", [o for o in options if not o.startswith("-std")])
    assert log is None, log


def machine_code(p, c, o, used):
    def call():
        x, weight = (layouts.empty((n, c, 1, 1), np.dtype(np.float32), "NHWC") for n in (p, o))
        kernels.pointwise(x, weight, activation="relu6", variant=RUNG, tile=used, arithmetic=Halves(weight, 1.0, 1.0))

    (rung,) = launches_on("H200", call)
    return inspected(rung, "H200")


# batch 256
LAYERS = [(12544, 160, 960), (12544, 960, 160), (12544, 960, 320), (12544, 320, 1280)]


@pytest.mark.parametrize(("p", "c", "o"), LAYERS[1:3])
def test_a_sum_is_six_products_and_nothing_is_spilled(p, c, o):
    with as_if(90, H200.multiprocessors, H200.shared_block):
        found = machine_code(p, c, o, persistent.candidates(p, c, o, 1, itemsize=4)[0])
    assert found.instructions["HGMMA"] == 6 and found.spills == 0


@long
@pytest.mark.parametrize(("p", "c", "o"), LAYERS)
def test_no_candidate_spills(p, c, o):
    with as_if(90, H200.multiprocessors, H200.shared_block):
        for used in persistent.candidates(p, c, o, 16, itemsize=4):
            assert machine_code(p, c, o, used).spills == 0, used
