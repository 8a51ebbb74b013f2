"""pointwise's rung "persistent": its tiles and tails under the simulator's eyes, its machine code, its candidates."""

import itertools
import sys

import numpy as np
import pytest
import torch.nn.functional as F
from kernel_checks import agrees, draw, f64, on_device, poisoned
from tiers import long, seldom

from common import cuda, kernels
from common.cuda import layout as layouts
from common.cuda.device import as_if
from common.cuda.machine_code import CARDS
from common.kernels.inspected import inspected, launches_on
from common.kernels.pointwise import persistent

H200 = CARDS["H200"]
on_gpu = cuda.backend() == "gpu"
pytestmark = pytest.mark.skipif(on_gpu and cuda.compute_capability() != 90, reason="wgmma needs a card of sm_90")
simulator_only = pytest.mark.skipif(on_gpu, reason="the trace is the simulator's")


def tile(bm, bn, teams, stages, keep, split=None):
    made = dict(zip(persistent.NAMES, (bm, bn, teams, stages, keep), strict=True))
    return made | {"SPLIT": split} if split else made


# one and two teams of one to four warpgroups, weights that stay and weights that come with the pixels
TILES = [
    tile(64, 32, 1, 2, 0), tile(64, 240, 2, 3, 1), tile(64, 96, 2, 2, 0), tile(128, 64, 2, 3, 1),
    tile(192, 80, 1, 3, 0), tile(128, 160, 1, 2, 1),
]  # fmt: skip


def ids(used):
    return "-".join(map(str, used.values()))


every_tile = pytest.mark.parametrize("used", TILES, ids=ids)


def problem(rng, p, c, o, residual=True, bias=True):
    """Arrays of a 1×1 convolution of p images of one pixel, fp16 in NHWC, and their right result in float64."""
    x, weight = draw(rng, p, c, 1, 1, dtype=np.float16), draw(rng, o, c, 1, 1, dtype=np.float16)
    given = {"x": x, "weight": weight}
    want = F.conv2d(f64(x), f64(weight))
    if bias:
        given["bias"] = draw(rng, o, dtype=np.float16)
        want = want + f64(given["bias"])[:, None, None]
    if residual:
        given["residual"] = draw(rng, p, o, 1, 1, dtype=np.float16)
        want = want + f64(given["residual"])
    return {name: on_device(array) for name, array in given.items()}, want


def check(rng, p, c, o, used, activation=None, **more):
    given, want = problem(rng, p, c, o, **more)
    out = poisoned((p, o, 1, 1), np.float16)
    kernels.pointwise(**given, activation=activation, out=out, variant="persistent", tile=used)
    agrees(out, want.clamp(0, 6) if activation else want, c)


@pytest.fixture
def two_blocks(monkeypatch):
    """A launch has as many blocks as two multiprocessors would get: each has tile after tile, on any machine."""
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 2)


@every_tile
@pytest.mark.parametrize(("p", "c", "o"), [(1, 8, 8), (49, 24, 24), (130, 96, 1000), (451, 160, 104)])
def test_a_tile_and_its_tails(rng, two_blocks, used, p, c, o):
    """Pixels, channels and outputs that end within a tile; several tiles of a block; slices of less than 64."""
    check(rng, p, c, o, used, "relu6")


@every_tile
@pytest.mark.parametrize("c", [16, 64, 72, 320])
def test_slices_of_channels(rng, two_blocks, used, c):
    check(rng, 97, c, 88, used, bias=False, residual=c == 72)


@long
@pytest.mark.parametrize(
    ("p", "c", "o"), list(itertools.product((1, 49, 130, 389), (8, 24, 96, 160), (8, 24, 160, 1000)))
)
def test_every_candidate(rng, two_blocks, p, c, o):
    for used in persistent.candidates(p, c, o, 12):
        check(rng, p, c, o, used, "relu6")


def traced(given, want, c, used):
    """The trace of one launch, whose outputs are right."""
    out = poisoned(want.shape, np.float16)
    with kernels.recorded() as launches:
        kernels.pointwise(**given, out=out, variant="persistent", tile=used)
    (launch,) = launches
    kernel = launch.compiled()
    cuda.allow_shared(kernel, launch.shared_limit)
    report = cuda.trace(kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    agrees(out, want, c)
    return report


TRACED = [tile(64, 32, 2, 2, 1), tile(64, 32, 2, 3, 0), tile(128, 32, 1, 2, 1)]


@seldom(6)
@simulator_only
@pytest.mark.parametrize("used", [*TRACED, *(pytest.param(t, marks=long) for t in TILES)], ids=ids)
def test_the_trace_finds_nothing(rng, two_blocks, used):
    """No race, no read before a copy has come, no bank conflict on the way out; more tiles than blocks, and tails."""
    o = used["BN"] + 8
    given, want = problem(rng, 3 * used["BM"] * used["TEAMS"] + 5, 200, o)
    report = traced(given, want, 200, used)
    assert report.findings == ()
    assert report.shared_stores.conflicts == 0


@every_tile
def test_the_same_bits_every_time(rng, used):
    given, _ = problem(rng, 700, 160, 96)
    first, *others = (
        cuda.asnumpy(kernels.pointwise(**given, variant="persistent", tile=used)).tobytes() for _ in range(3)
    )
    assert others == [first, first]


CLUSTERS = [tile(64, 32, 1, 2, 0, 2), tile(128, 96, 1, 3, 0, 2), tile(64, 64, 1, 8, 0, 2)]


@pytest.mark.parametrize("used", CLUSTERS, ids=ids)
@pytest.mark.parametrize(("p", "c", "o"), [(1, 128, 8), (130, 256, 104), (256, 640, 40)])
def test_blocks_of_a_cluster_share_the_channels(rng, used, p, c, o):
    check(rng, p, c, o, used, "relu6")
    check(rng, p, c, o, used, bias=False, residual=False)


@seldom(6)
@simulator_only
def test_the_trace_finds_nothing_in_a_cluster(rng):
    given, want = problem(rng, 69, 256, 40)
    report = traced(given, want, 256, CLUSTERS[0])
    assert report.findings == ()


@pytest.mark.parametrize(
    ("c", "changed", "told"),
    [
        (160, {}, "SPLIT 2 is for multiples of 128 channels, of 160"), (128, {"SPLIT": 3}, "SPLIT must be 1 or one of"),
        (128, {"TEAMS": 2}, "SPLIT is for float16 without a pool, with TEAMS 1 and KEEP 0"),
        (128, {"KEEP": 1}, "SPLIT is for float16"), (128, {"BN": 80}, "BN must be a multiple of 32"),
    ],
)  # fmt: skip
def test_clusters_that_are_not_possible(rng, c, changed, told):
    given, _ = problem(rng, 5, c, 32)
    with pytest.raises(ValueError, match=rf"^tile: .*{told}.*got "):
        kernels.pointwise(**given, variant="persistent", tile=tile(64, 64, 1, 3, 0, 2) | changed)


def test_a_cluster_is_for_halves_alone(rng):
    x, weight = (on_device(draw(rng, n, 128, 1, 1, dtype=np.float32)) for n in (5, 32))
    with pytest.raises(ValueError, match="SPLIT is for float16"):
        kernels.pointwise(x, weight, variant="persistent_halves", tile=tile(64, 64, 1, 2, 0, 2))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"BN": 48}, "BN must be one of"), ({"BM": 96}, "BM must be"), ({"TEAMS": 3}, "TEAMS must be 1 or 2"),
        ({"BM": 256, "TEAMS": 2}, "at most 256 pixels together"), ({"STAGES": 1}, "STAGES must be from 2"),
        ({"KEEP": 2}, "KEEP must be 0 or 1"), ({"BM": 192, "TEAMS": 1, "BN": 256}, "152 registers"),
        ({"BN": 256, "STAGES": 8, "KEEP": 0}, "bytes of shared memory are needed"), ({"BK": 64}, "must have BM"),
    ],
)  # fmt: skip
def test_tiles_that_are_not_possible(rng, changed, told):
    given, _ = problem(rng, 5, 160, 32)
    with pytest.raises(ValueError, match=rf"^tile: .*{told}.*got "):
        kernels.pointwise(**given, variant="persistent", tile=tile(64, 96, 2, 3, 1) | changed)


def test_weights_of_very_many_channels_do_not_stay(rng):
    check(rng, 3, 4096, 16, None)  # the first candidate
    given, _ = problem(rng, 3, 4096, 16)
    with pytest.raises(ValueError, match="KEEP is for at most 2048 channels, of 4096"):
        kernels.pointwise(**given, variant="persistent", tile=tile(64, 32, 1, 2, 1))


def test_a_tile_is_for_this_rung(rng):
    given, _ = problem(rng, 5, 16, 8)
    with pytest.raises(ValueError, match=r"tile must be given with variant 'persistent' or .*, got 'naive'"):
        kernels.pointwise(**given, variant="naive", tile=TILES[0])


# P, C, O at batch 256 where the rungs before are behind cuDNN; the tile expected first on an H200
LAYERS = {
    "expand 7×7 160>960": ((12544, 160, 960), (64, 160, 2, 8, 1)),
    "project 7×7 960>320": ((12544, 960, 320), (192, 160, 1, 4, 0)),
    "project 7×7 960>160": ((12544, 960, 160), (192, 80, 1, 5, 0)),
    "head 7×7 320>1280": ((12544, 320, 1280), (64, 192, 2, 8, 1)),
    "expand 14×14 96>576": ((50176, 96, 576), (64, 192, 2, 8, 1)),
    "linear 1280>1000": ((256, 1280, 1000), (64, 64, 1, 8, 0, 2)),
}


@pytest.fixture
def h200():
    with as_if(90, H200.multiprocessors, H200.shared_block):
        yield


@pytest.mark.parametrize("layer", LAYERS)
def test_candidates_for_a_layer(h200, layer):
    (p, c, o), first = LAYERS[layer]
    found = persistent.candidates(p, c, o)
    assert tuple(found[0].values()) == first
    assert all(persistent.problem(one, p, c, o) is None for one in found)
    assert all(persistent.size(one, p, c, o).blocks <= H200.multiprocessors for one in found)
    estimates = [persistent.cycles(one, p, c, o) for one in found]
    assert estimates == sorted(estimates)


def test_tiles_fill_the_multiprocessors(h200):
    """192×160 and 192×80 are 66 × 2 tiles of 12,544 pixels; of 64×240 each of 33 · 4 blocks has 5 or 6."""
    for used, p, c, o, blocks, most in (
        (tile(192, 160, 1, 4, 0), 12544, 960, 320, 132, 1),
        (tile(192, 80, 1, 5, 0), 12544, 960, 160, 132, 1),
        (tile(64, 240, 2, 8, 1), 12544, 160, 960, 132, 6),
        (tile(64, 192, 2, 8, 1), 50176, 96, 576, 132, 18),
    ):
        size = persistent.size(used, p, c, o)
        assert (size.blocks, size.most) == (blocks, most)


def machine_code(layer, used):
    """The kernel of a layer with that tile as an H200 gets it."""
    p, c, o = LAYERS[layer][0]

    def call():
        x, weight = (layouts.empty((n, c, 1, 1), np.dtype(np.float16), "NHWC") for n in (p, o))
        kernels.pointwise(x, weight, activation="relu6", variant="persistent", tile=used)

    (rung,) = launches_on("H200", call)
    return inspected(rung, "H200")


@seldom(6)
@pytest.mark.parametrize("layer", LAYERS)
def test_products_run_on_while_the_warps_go_on(layer):
    """Where ptxas cannot see that the sums are left alone it waits after each product; and nothing is spilled."""
    found = machine_code(layer, tile(*LAYERS[layer][1]))
    assert found.instructions["HGMMA"] > 0 and found.spills == 0
    assert found.instructions["WARPGROUP"] <= found.instructions["HGMMA"]


@long
@pytest.mark.parametrize("layer", LAYERS)
def test_no_candidate_spills(h200, layer):
    for used in persistent.candidates(*LAYERS[layer][0], 16):
        assert machine_code(layer, used).spills == 0, used


@pytest.mark.parametrize(
    ("shape", "dtype", "arithmetic", "rung"),
    [
        ((12544, 960, 320), "float16", None, "persistent"),
        ((50176, 96, 576), "float16", None, "persistent"),
        ((12544, 64, 384), "float16", None, "tensor_cores"),
        ((49, 960, 320), "float16", None, "split_k"),
        ((12544, 960, 320), "float32", "halves", "persistent_halves"),
        ((50176, 192, 64), "float32", "halves", "persistent_halves"),
        ((401408, 32, 16), "float32", "halves", "streaming"),
        ((392, 960, 320), "float32", "halves", "persistent_halves"),
        ((392, 960, 160), "float32", "halves", "split_k"),
        ((12544, 960, 320), "float32", None, "tensor_cores"),
    ],
)
def test_which_rung_is_the_default_on_hopper(h200, monkeypatch, shape, dtype, arithmetic, rung):
    module = sys.modules["common.kernels.pointwise"]
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    monkeypatch.setattr(cuda, "compute_capability", lambda: 90)
    best = module._best(module.Product(*shape, np.dtype(dtype).itemsize), arithmetic)
    assert module.ladder.choose(None, np.dtype(dtype), "NHWC", best, arithmetic) == rung
