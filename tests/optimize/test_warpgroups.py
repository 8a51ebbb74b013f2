"""Tiles with warpgroups (common/optimize/fused/warpgroups.h): a whole block with Hopper's wgmma and bulk copies."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nvrtc import compile_with_nvrtc
from test_inverted_residual import close, drawn, nhwc, reference, traced
from tiers import ALL, examples, seldom

from common import cuda, kernels
from common.cuda import layout as layouts
from common.cuda.device import as_if
from common.kernels import vectors
from common.optimize import blocks, cost, generate, persistent, search, tiles
from common.optimize.blocks import inverted_residual
from common.optimize.generate import WGMMA_WIDTHS, Block, Geometry, Tile

on_gpu = cuda.backend() == "gpu"
pytestmark = pytest.mark.skipif(on_gpu and cuda.compute_capability() != 90, reason="wgmma needs a card of sm_90")
H200 = 132, 232_448  # multiprocessors, bytes of shared memory
ENDLESS = (-math.inf, math.inf)


def tile_of(block, tile_h, warpgroups, **more):
    return Tile(tile_h, block.out_size[1], warps=4 * warpgroups, warpgroups=warpgroups, **more)


def run(block, arrays, tile, launches=1, **options):
    """The output, of the last of several launches."""
    x, *others = (a if a is None else nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in arrays)
    out = layouts.empty((len(x), block.outputs, *block.out_size), np.float16, "NHWC")
    for _ in range(launches):
        out[...] = np.nan
        inverted_residual(
            x, *others, stride=block.stride, residual=x if block.residual else None, activations=block.bounds,
            out=out, tile=tile, **options,
        )  # fmt: skip
    return cuda.asnumpy(out)


def check(rng, block, batch, tile, launches=1):
    arrays = drawn(rng, block, batch, np.float16)
    result = run(block, arrays, tile, launches)
    close(result, reference(block, arrays, arrays[0] if block.residual else None), block, np.float16)
    return arrays, result


SEVEN = Block(7, 7, 32, 192, 32, residual=True)
ODD = Block(7, 6, 48, 192, 64)
STRIDED, STRIDED_ODD = Block(8, 6, 16, 64, 96, 2), Block(11, 9, 80, 128, 96, 2)
TALL = Block(9, 7, 32, 192, 32, residual=True)
MANY = Block(7, 7, 80, 192, 320)
LARGE = Block(14, 14, 16, 128, 16, residual=True)

# several images and a batch that is no multiple of them; one slice; heights that do not divide; strips that overlap
TILES = [
    (SEVEN, tile_of(SEVEN, 7, 2, images=2, strip=4)),
    (ODD, tile_of(ODD, 7, 4, split=3, strip=2)),
    (STRIDED, tile_of(STRIDED, 4, 4, strip=2)),
    (STRIDED, tile_of(STRIDED, 3, 2, strip=3)),
    (STRIDED_ODD, tile_of(STRIDED_ODD, 6, 2, images=1, strip=4)),
    (STRIDED_ODD, tile_of(STRIDED_ODD, 3, 4, strip=1)),
    (TALL, tile_of(TALL, 4, 2, strip=2)),
    (TALL, tile_of(TALL, 9, 4, split=2, strip=7)),
    (MANY, tile_of(MANY, 7, 4, images=2, split=2, strip=4)),
    (LARGE, tile_of(LARGE, 14, 4, strip=7)),
    (LARGE, tile_of(LARGE, 7, 2, strip=4)),
]


@seldom(6)
@pytest.mark.parametrize(("block", "tile"), TILES, ids=str)
def test_every_kind_of_tile(rng, block, tile):
    """Right, and the same to the last bit in the next launch."""
    arrays, result = check(rng, block, 3, tile)
    assert np.array_equal(run(block, arrays, tile, launches=2), result)


def test_sums_of_a_cluster_lie_over_what_was_needed_before_if_there_is_no_room():
    over = {Geometry(block, tile, 2).warpgroups.over for block, tile in TILES if tile.split > 1}
    assert over == {False, True}


@seldom(6)
@pytest.mark.parametrize(("block", "tile"), TILES if ALL else [*TILES[:3], *TILES[6:9]], ids=str)
def test_no_access_goes_wrong(block, tile):
    """Out of bounds, races, reads of what nothing wrote or no copy has brought: the simulator's trace finds none."""
    if on_gpu:
        pytest.skip("compute-sanitizer looks at the GPU: tests/every_kernel.py")
    report = traced(block, 3, "float16", tile)
    assert not report.findings, report


@seldom(6)
@pytest.mark.parametrize("place", [0, 2, 6])
def test_many_images_walk_through_few_blocks(rng, monkeypatch, place):
    """A thread block takes tile after tile: what one leaves behind must not reach the next, nor copies overtake it."""
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 2)
    block, tile = TILES[place]
    assert Geometry(block, tile, 2).grid(9, 2) == 2
    check(rng, block, 9, tile)
    if not on_gpu:
        report = traced(block, 7, "float16", tile)
        assert not report.findings, report


@seldom(6)
@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_blocks(data):
    """Whatever Geometry finds no problem with computes what separate kernels compute."""
    draw = data.draw
    stride, groups = draw(st.sampled_from([1, 2])), draw(st.sampled_from([2, 4]))
    residual = stride == 1 and draw(st.booleans())
    channels = 16 * draw(st.integers(1, 6))
    block = Block(
        draw(st.integers(2, 12)), draw(st.integers(2, 14)), channels, 64 * draw(st.integers(1, 4)),
        channels if residual else draw(st.sampled_from([n * w for n in (1, 2, 4) for w in WGMMA_WIDTHS if w < 100])),
        stride, residual=residual,
    )  # fmt: skip
    tile_h = draw(st.integers(1, block.out_size[0]))
    images = draw(st.integers(1, 3)) if tile_h == block.out_size[0] else 1
    split, strip = draw(st.integers(1, 4)), draw(st.integers(1, tile_h))
    tile = tile_of(block, tile_h, groups, images=images, split=split, strip=strip)
    if Geometry(block, tile, 2).problem(cuda.shared_memory()) is None:
        problem = tiles.Problem(block, draw(st.integers(1, 4)), "float16")
        arrays = search.Arrays(problem)
        arrays.out[...] = np.nan
        arrays.launch(problem, tile)()
        assert arrays.error() <= search.TOLERANCES["float16"]


@seldom(6)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_without_biases(rng, place):
    block, tile = TILES[place]
    arrays = drawn(rng, block, 2, np.float16)
    for i in (2, 4, 6):
        arrays[i] = None
    close(run(block, arrays, tile), reference(block, arrays, arrays[0] if block.residual else None), block, np.float16)


@seldom(6)
@pytest.mark.parametrize(
    "bounds",
    [(ENDLESS, ENDLESS, ENDLESS), ((-0.3, 0.7), (-1.0, 2.0), (0.0, 6.0)), ((1.0, 2.0), (0.0, math.inf), ENDLESS)],
    ids=str,
)
def test_bounds(rng, bounds):
    """Also one whose least value is not 0: around the image it is 0 still."""
    block, tile = TILES[6]
    check(rng, dataclasses.replace(block, bounds=bounds), 2, tile)


@seldom(6)
@pytest.mark.parametrize("place", [0, 6])
def test_nan_goes_no_further_than_its_window(rng, place):
    """Not into the next image, nor into the tile below, whose memory it was read to."""
    block, tile = dataclasses.replace(TILES[place][0], residual=False), TILES[place][1]
    arrays = drawn(rng, block, 3, np.float16)
    arrays[0][1, 3, 6, 3] = np.nan
    spoilt = np.isnan(run(block, arrays, tile)).any(axis=1)
    assert spoilt[1, 5:8, 2:5].all() and spoilt.sum() == spoilt[1, 5:8, 2:5].size


# ---- What does not fit


NO_EXPAND = Block(7, 7, 64, 64, 32, expand="none")
OTHER = dataclasses.replace(MANY, residual=True)


def changed(place, **changes):
    return TILES[place][0], dataclasses.replace(TILES[place][1], **changes)


@pytest.mark.parametrize(
    ("block", "tile", "words"),
    [
        (*changed(0, warpgroups=3, warps=12), "warpgroups must be 0, 2 or 4, got 3"),
        (*changed(0, warps=4), "warps must be 4 for each of 2 warpgroups, got 4"),
        (NO_EXPAND, tile_of(NO_EXPAND, 7, 2), 'warpgroups need a "pointwise" expand, got "none"'),
        (*changed(0, slice=32), "warpgroups take slices of 64 channels, got 32"),
        (Block(7, 7, 32, 96, 32), TILES[0][1], "hidden channels must be a multiple of 64 for warpgroups, got 96"),
        (Block(7, 7, 24, 64, 32), TILES[0][1], "channels must be a multiple of 16 for warpgroups, got 24"),
        (Block(21, 21, 16, 64, 32, 3), TILES[0][1], "stride must be 1 or 2, got 3"),
        (OTHER, TILES[8][1], "warpgroups add no residual but x"),
        (*changed(0, chained=True), "tiles with warpgroups are neither chained nor persistent"),
        (*changed(0, persistent=1), "tiles with warpgroups are neither chained nor persistent"),
        (*changed(0, tile_w=6), "tile_w must be the whole width, 7, for warpgroups, got 6"),
        (*changed(0, tile_h=8), "the tile must fit into 7×7"),
        (*changed(0, tile_h=6), "several images take the whole height, 7, got tile_h 6"),
        (*changed(0, strip=8), "strip must be from 1 to tile_h, 7, got 8"),
        (*changed(9, images=2), "a tile must have at most 256 pixels of x, for warpgroups, got 392"),
        (
            Block(28, 9, 16, 64, 16), Tile(17, 9, warps=16, warpgroups=4),
            "a tile must have at most 256 pixels of y, in rows of 8, for warpgroups, got 272",
        ),
        (*changed(0, images=3), "147 pixels of x need 4 warpgroups, got 2"),
        (
            Block(7, 7, 32, 64, 72), tile_of(SEVEN, 7, 4),
            "4 warpgroups side by side need 4 × one of "
            "(16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 240, 256) output channels, got 72",
        ),
        (*changed(1, split=4), "split must leave a slice of 3 to each block, got 4"),
        (*changed(1, split=9), "split must be from 1 to 8, the blocks of a cluster, got 9"),
        (
            Block(14, 14, 16, 128, 256), Tile(14, 14, split=2, warps=16, warpgroups=4),
            "the sums of a cluster must fit where everything else was",
        ),
        (
            Block(14, 14, 160, 576, 160), Tile(14, 14, warps=16, warpgroups=4),
            "needs 302,080 bytes of shared memory, there are 232,448",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_says_why(block, tile, words):
    assert words in list(Geometry(block, tile, 2)._problems(232_448))


def test_floats_and_other_cards_have_no_such_tile(monkeypatch):
    block, tile = TILES[0]
    assert Geometry(block, tile, 4).problem(232_448) == "warpgroups multiply float16 alone"
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    for capability in (80, 89, 100):
        monkeypatch.setattr(cuda, "compute_capability", lambda capability=capability: capability)
        words = f"warpgroups need a card of sm_90, this one is sm_{capability}"
        assert Geometry(block, tile, 2).problem(232_448) == words
    monkeypatch.setattr(cuda, "compute_capability", lambda: 90)
    assert Geometry(block, tile, 2).problem(232_448) is None


def test_another_residual_is_refused_or_computed_by_another_tile(rng, monkeypatch):
    block, tile = TILES[0]
    x, *others = (nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float16))
    other = nhwc(rng.standard_normal(x.shape).astype(np.float16))
    with pytest.raises(ValueError, match="warpgroups add no residual but x"):
        inverted_residual(x, *others, residual=other, tile=tile)
    monkeypatch.setattr(blocks, "chosen", lambda *_: tile)
    with kernels.recorded() as launches:
        inverted_residual(x, *others, residual=other)
        inverted_residual(x, *others, residual=x)
    assert [launch.name.split("/")[1] for launch in launches] == ["fused", "warpgroups"]


def test_arrays_begin_where_a_bulk_copy_can_read(rng):
    block, tile = TILES[0]
    arrays = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float16)]
    for i in (2, 3, 5):
        shape = arrays[i].shape
        moved = cuda.empty((arrays[i].size + 1,), np.float16)[1:]
        moved[...] = arrays[i].reshape(-1)
        given = [*arrays[:i], moved.reshape(shape), *arrays[i + 1 :]]
        assert vectors.address(given[i]) % 16
        with pytest.raises(ValueError, match="each array must begin at a multiple of 16 bytes"):
            inverted_residual(*given, residual=given[0], tile=tile)


# ---- The source, and machine code


@seldom(6)
@pytest.mark.parametrize("card", ["sm_90a", "sm_90", "sm_80"])
def test_nvrtc_compiles_it(card):
    options = [option for option in generate.options() if not option.startswith("-std")]
    for block, tile in (TILES[i] for i in (0, 3, 8)):
        if tile.split == 1 or card != "sm_80":
            assert compile_with_nvrtc(generate.source(block, tile, "float16"), card, options) is None


def test_it_is_compiled_for_sm_90a(monkeypatch):
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    monkeypatch.setattr(cuda, "compute_capability", lambda: 90)
    block, tile = TILES[0]
    other = Tile(7, 7, slice=32, warps=2)
    options = [generate.job(generate.source(block, one, "float16"))[1][-1] for one in (tile, other)]
    assert options == ["-arch=sm_90a", "-arch=sm_90"]


def test_generated_lines_fit_on_a_screen():
    large = Block(112, 112, 960, 960, 320, 2, bounds=((-1.25, 6.0), (-1.25, math.inf), ENDLESS))
    text = generate.source(large, Tile(14, 56, split=8, warps=16, warpgroups=4), "float16")
    assert max(map(len, text.splitlines())) <= generate.WIDTH


# ---- Candidates and what is kept


def test_candidates_are_for_many_images_of_few_pixels():
    seven = Block(7, 7, 160, 960, 160, residual=True)
    every = list(cost.warpgroup_candidates(seven, 256, 2, *H200, True))
    assert tile_of(seven, 7, 2, images=2, strip=4) in every and len(set(every)) == len(every)
    assert all(Geometry(seven, tile, 2).problem(H200[1]) is None for tile in every)
    assert set(every) <= set(cost.ranked(seven, 256, 2, *H200))
    for batch, itemsize, clusters in ((32, 2, True), (256, 4, True), (256, 2, False)):
        assert not list(cost.warpgroup_candidates(seven, batch, itemsize, *H200, clusters))
    assert not list(cost.warpgroup_candidates(Block(28, 28, 32, 192, 32, residual=True), 256, 2, *H200, True))


def test_a_search_tries_them(monkeypatch):
    """And the rule, which a search may not follow, does not choose one."""
    seven = Block(7, 7, 160, 960, 160, residual=True)
    with as_if(90, *H200):
        tried = search.most_promising(tiles.Problem(seven, 256, "float16"), 12)
        assert 0 < sum(tile.warpgroups > 0 for tile in tried) < len(tried)
        assert tiles.rule(seven, 256, 2).warpgroups == 0


def test_what_was_found_is_kept_and_chosen(monkeypatch, tmp_path):
    monkeypatch.setattr(tiles, "cache_path", lambda: tmp_path / "tiles.json")
    monkeypatch.setattr(tiles, "SHIPPED", tmp_path / "shipped.json")
    monkeypatch.setattr(tiles, "_tables", {})
    block, tile = TILES[0]
    tiles.remember([tiles.Found(tiles.Problem(block, 64, "float16"), tile, 2.0, 3.0, 1.5, tile)])
    assert tiles.chosen(block, 64, "float16") == tile and tiles.chosen(block, 32, "float16") == tile
    assert tiles.chosen(block, 1, "float16") != tile  # two images
    assert tiles.describe(tile) == "7×7, 64 channels, 8 warps, 2 images, 2 warpgroups"


def test_the_persistent_kernel_takes_no_such_tile():
    block, tile = TILES[0]
    with pytest.raises(ValueError, match="no tiles of 8 warps fit"):
        persistent.chosen([block], "float16", 2, multiprocessors=4, warps=(8,), clusters=(1,), tiles=[tile])
