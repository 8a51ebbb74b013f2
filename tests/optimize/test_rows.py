"""Tiles of rows (common/optimize/fused/rows.h): thread blocks that take rows of an image."""

import dataclasses
import math

import numpy as np
import pytest
from every_kernel import row_blocks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nvrtc import compile_with_nvrtc
from test_alone import H200, check, run
from test_inverted_residual import close, drawn, nhwc, reference, traced
from test_warpgroups import ENDLESS
from tiers import ALL, examples, seldom

from common import cuda, kernels
from common.cuda.device import as_if
from common.optimize import blocks, cost, generate, search, tiles
from common.optimize.blocks import inverted_residual
from common.optimize.fragments import part_fragments
from common.optimize.generate import Block, Geometry, RowsSizes, Tile

on_gpu = cuda.backend() == "gpu"
TILES = row_blocks()
FIRST, SLICED, STRIDED, BESIDE, MANY = TILES
SINGLE = FIRST[0], dataclasses.replace(FIRST[1], split=1, slice=16, stages=3)  # one product of project a slice
EVERY = [*TILES, SINGLE]


@seldom(6)
@pytest.mark.parametrize(("block", "tile"), EVERY, ids=str)
def test_every_kind_of_tile(rng, block, tile):
    """Right, also of an image whose neighbour is missing, and the same to the last bit in the next launch."""
    arrays, result = check(rng, block, 3, tile)
    assert np.array_equal(run(block, arrays, tile, launches=2), result)


@seldom(6)
@pytest.mark.parametrize(("block", "tile"), EVERY if ALL else EVERY[::2], ids=str)
def test_no_access_goes_wrong(block, tile):
    """Out of bounds, races, reads of what nothing wrote or no copy has brought: the simulator's trace finds none."""
    if on_gpu:
        pytest.skip("compute-sanitizer looks at the GPU: tests/every_kernel.py")
    report = traced(block, 3, "float16", tile)
    assert not report.findings, report


@seldom(6)
@pytest.mark.parametrize(("block", "tile"), EVERY, ids=str)
def test_many_tiles_walk_through_few_thread_blocks(rng, monkeypatch, block, tile):
    """A cluster takes tile after tile: what one leaves behind must not reach the next, nor copies overtake it."""
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 2 * tile.split)
    g = Geometry(block, tile, 2)
    assert g.grid(5, 2 * tile.split) == 2 * tile.split < 5 // tile.images * g.tiles * tile.split
    check(rng, block, 5, tile)
    if not on_gpu:
        report = traced(block, 5, "float16", tile)
        assert not report.findings, report


@seldom(6)
@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_blocks(data):
    """Whatever Geometry finds no problem with computes what separate kernels compute."""
    draw = data.draw
    stride, images = draw(st.sampled_from([1, 2])), draw(st.integers(1, 2))
    residual, channels = stride == 1 and draw(st.booleans()), 32 * draw(st.integers(1, 3))
    size = draw(st.integers(1, 9)), draw(st.integers(1, 14 * stride // images))
    slice, split, parts = 16 * draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    outputs = channels if residual else 16 * draw(st.integers(1, 7))
    block = Block(*size, channels, slice * split * parts, outputs, stride, residual=residual)
    strip = draw(st.sampled_from([1, 2]))
    rows = strip * draw(st.integers(1, 2))
    warps = rows // strip * draw(st.integers(1, 3))
    tile = Tile(
        rows, block.out_size[1], images, slice, split, strip, 0, draw(st.integers(1, parts)), warps, persistent=1,
        rows=True,
    )  # fmt: skip
    if Geometry(block, tile, 2).problem(cuda.shared_memory()) is None:
        problem = tiles.Problem(block, draw(st.integers(1, 4)), "float16")
        arrays = search.Arrays(problem)
        arrays.out[...] = np.nan
        arrays.launch(problem, tile)()
        assert arrays.error() <= search.TOLERANCES["float16"]


@seldom(6)
@pytest.mark.parametrize("of", [FIRST, MANY], ids=str)
def test_without_biases(rng, of):
    block, tile = of
    arrays = drawn(rng, block, 2, np.float16)
    for i in (2, 4, 6):
        arrays[i] = None
    expected = reference(block, arrays, arrays[0] if block.residual else None)
    close(run(block, arrays, tile), expected, block, np.float16)


@seldom(6)
@pytest.mark.parametrize(
    "bounds", [((0.0, math.inf), ENDLESS, ENDLESS), ((0.0, 0.7), (-1.0, 2.0), (0.0, 6.0))], ids=str
)
@pytest.mark.parametrize("of", [FIRST, STRIDED], ids=str)
def test_bounds(rng, bounds, of):
    check(rng, dataclasses.replace(of[0], bounds=bounds), 2, of[1])


@seldom(6)
@pytest.mark.parametrize("of", [SLICED, BESIDE, MANY], ids=str)
def test_nan_goes_no_further_than_its_window(rng, of):
    """Not into the image beside it, nor into the next tile, whose memory it was read to."""
    block, tile = dataclasses.replace(of[0], residual=False), of[1]
    arrays = drawn(rng, block, 3, np.float16)
    arrays[0][1, 3, 5, 3] = np.nan
    spoilt = np.isnan(run(block, arrays, tile)).any(axis=1)
    rows, columns = (slice(2, 4), slice(1, 3)) if block.stride == 2 else (slice(4, 7), slice(2, 5))
    rows = slice(rows.start, min(rows.stop, block.out_size[0]))
    assert spoilt[1, rows, columns].all() and spoilt.sum() == spoilt[1, rows, columns].size


# ---- The weights


def test_each_weight_lies_once_in_its_slice(rng):
    """Of hidden and of project, per thread block of a cluster; biases of project in every slice."""
    for block, tile in EVERY:
        arrays = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float16)]
        sizes, found = RowsSizes(block, tile), cuda.asnumpy(part_fragments(block, tile, *arrays[1:]))
        assert found.dtype == np.uint32 and found.shape == (sizes.words,)
        slices = found.reshape(sizes.parts, tile.split, -1).swapaxes(0, 1).reshape(sizes.parts * tile.split, -1)
        expand, project = (cuda.asnumpy(arrays[i]).reshape(len(arrays[i]), -1) for i in (1, 5))
        depthwise = cuda.asnumpy(arrays[3]).reshape(block.hidden, 9)
        for i, words in enumerate(slices):
            mine = slice(i * tile.slice, (i + 1) * tile.slice)
            hidden, rest = words[: 4 * sizes.of_hidden].reshape(sizes.eights, -1), words[4 * sizes.of_hidden :]
            fragments, biases = hidden[:, :-64].view(np.float16), hidden[:, -64:-48].view(np.float32)
            assert np.array_equal(np.sort(fragments.reshape(-1)), np.sort(expand[mine].reshape(-1)))
            assert np.array_equal(biases[:, :8].reshape(-1), cuda.asnumpy(arrays[2])[mine].astype(np.float32))
            assert np.array_equal(biases[:, 8:].reshape(-1), cuda.asnumpy(arrays[4])[mine].astype(np.float32))
            taps = np.ascontiguousarray(hidden[:, -48:]).view(np.float16).reshape(-1, 12)
            order = [0, 2, 3, 5, 6, 8, 1, 4, 7] if block.stride == 1 else [0, 1, 3, 4, 6, 7, 2, 5, 8]
            assert np.array_equal(taps[:, :9], depthwise[mine][:, order]) and not taps[:, 9].any()
            products, bias = rest[: -block.outputs].view(np.float16), rest[-block.outputs :].view(np.float32)
            assert np.array_equal(np.sort(products), np.sort(project[:, mine].reshape(-1)))
            assert np.array_equal(bias, cuda.asnumpy(arrays[6]).astype(np.float32))


# ---- What does not fit


def changed(of, **changes):
    return of[0], dataclasses.replace(of[1], **changes)


def other(of, **changes):
    return dataclasses.replace(of[0], **changes), of[1]


@pytest.mark.parametrize(
    ("block", "tile", "words"),
    [
        (*other(SLICED, expand="none"), 'tiles of rows need a "pointwise" expand, got "none"'),
        (*other(SLICED, stride=3), "stride must be 1 or 2, got 3"),
        (
            *other(SLICED, bounds=((-1.0, 6.0), (0.0, 6.0), ENDLESS)),
            "tiles of rows need an expand that is clamped below at 0, got bounds (-1.0, 6.0)",
        ),
        (*other(STRIDED, residual=True), "tiles of rows add no residual but x"),
        (*changed(SLICED, chained=True), "tiles of rows are neither chained nor of single warps nor have warpgroups"),
        (*other(SLICED, channels=48), "channels must be a multiple of 32 for tiles of rows, outputs of 16, got"),
        (*other(SLICED, outputs=40), "channels must be a multiple of 32 for tiles of rows, outputs of 16, got"),
        (*changed(SLICED, images=2), "tiles of rows take 14 columns of an image or 7 of two, got Tile("),
        (*other(SLICED, width=15), "tiles of rows take 14 columns of an image or 7 of two, got Tile("),
        (*changed(SLICED, tile_w=7), "tiles of rows take whole rows of 6×13 outputs, got 4×7"),
        (*changed(SLICED, tile_h=8), "tiles of rows take whole rows of 6×13 outputs, got 8×13"),
        (*changed(FIRST, split=9), "split must be from 1 to 8, the blocks of a cluster, got 9"),
        (*changed(FIRST, slice=40), "slice must be a multiple of 16, and split · slice divide 96 hidden channels"),
        (*changed(FIRST, slice=32), "slice must be a multiple of 16, and split · slice divide 96 hidden channels"),
        (*changed(FIRST, warps=1), "warps must take 1 to 4 eights each of a slice of 48, got 1 warps"),
        (*changed(SLICED, strip=3), "strip must divide tile_h, 4, and the quotient 4 warps, got 3"),
        (*changed(SLICED, warps=5), "strip must divide tile_h, 4, and the quotient 5 warps, got 2"),
        (*changed(MANY, warps=1, slice=32), "a warp must have at most 64 sums of outputs, got 80"),
        (*changed(SLICED, stages=4), "stages must be from 1 to the 3 slices of a thread block, got 4"),
        (
            Block(14, 14, 160, 960, 320), Tile(4, 14, 1, 240, 1, 4, 0, 1, 12, rows=True),
            "needs 300,832 bytes of shared memory, there are 232,448",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_says_why(block, tile, words):
    found = list(Geometry(block, tile, 2)._problems(232_448))
    assert any(one.startswith(words) for one in found), found


def test_floats_and_older_cards_are_refused(monkeypatch):
    block, tile = FIRST
    assert "tiles of rows are of float16" in list(Geometry(block, tile, 4)._problems(232_448))
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    with as_if(86, *H200):
        problem = Geometry(block, tile, 2).problem(232_448)
    assert problem == "tiles of rows need a card from sm_90 on, this one is sm_86"


def test_another_residual_is_refused_and_a_call_without_a_tile_takes_another_one(rng, monkeypatch):
    block, tile = FIRST
    x, *others = (nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float16))
    given = nhwc(rng.standard_normal(x.shape).astype(np.float16))
    with pytest.raises(ValueError, match="tiles of rows add no residual but x"):
        inverted_residual(x, *others, residual=given, tile=tile)
    monkeypatch.setattr(blocks, "chosen", lambda *_: tile)
    with kernels.recorded() as launches:
        inverted_residual(x, *others, residual=x)
        inverted_residual(x, *others, residual=x, tile=tile)
    assert [launch.name.split("/")[1] for launch in launches] == ["fused", "rows"]


# ---- The source, candidates and what is kept


@seldom(6)
def test_nvrtc_compiles_it():
    options = [option for option in generate.options() if not option.startswith("-std")]
    for block, tile in EVERY:
        text = generate.source(block, tile, "float16")
        assert compile_with_nvrtc(text, "sm_90", options) is None
        assert max(map(len, text.splitlines())) <= generate.WIDTH


def test_candidates_fit_and_are_tried():
    """By a search; the rule, which a search may not follow, does not choose one."""
    late = Block(7, 7, 160, 960, 320)
    every = list(cost.rows_candidates(late, 8, 2, *H200, True))
    assert every and len(set(every)) == len(every)
    assert all(Geometry(late, tile, 2).problem(H200[1]) is None for tile in every)
    assert set(every) <= set(cost.ranked(late, 8, 2, *H200))
    assert not list(cost.rows_candidates(late, 8, 4, *H200, True))
    assert not list(cost.rows_candidates(late, 8, 2, *H200, False))
    assert not list(cost.rows_candidates(late, 256, 2, *H200, True))
    assert not list(cost.rows_candidates(Block(56, 56, 32, 144, 32), 8, 2, *H200, True))
    with as_if(90, *H200):
        tried = search.most_promising(tiles.Problem(late, 8, "float16"), 12)
        assert 0 < sum(tile.rows for tile in tried) < len(tried)
        assert not tiles.rule(late, 8, 2).rows


def test_predicted_times_are_near_measured_ones():
    """On an H200, each alone."""
    middle, late = Block(14, 14, 64, 384, 64, residual=True), Block(14, 14, 96, 576, 96, residual=True)
    last = Block(7, 7, 160, 960, 320)

    def tile(h, columns, slice, split, warps, strip=2, images=1, stages=1):
        return Tile(h, columns, images, slice, split, strip, 0, stages, warps, persistent=1, rows=True)

    measured = {
        (middle, 8, tile(2, 14, 192, 2, 10)): 3.41,
        (middle, 1, tile(1, 14, 96, 4, 8, 1)): 2.28,
        (middle, 32, tile(4, 14, 128, 1, 8, 4, stages=3)): 8.54,
        (late, 8, tile(2, 14, 288, 2, 12)): 5.4,
        (late, 1, tile(1, 14, 96, 6, 8, 1)): 2.61,
        (last, 8, tile(2, 7, 160, 6, 12, images=2)): 6.67,
        (Block(14, 14, 96, 576, 160, 2), 32, tile(2, 7, 288, 2, 12, images=2)): 8.67,
    }
    ratios = [cost.predicted(block, tile, 2, batch, *H200) / us for (block, batch, tile), us in measured.items()]
    assert np.mean(np.abs(np.log(ratios))) < 0.2 and max(np.abs(np.log(ratios))) < 0.4


def test_what_was_found_is_kept_and_chosen(monkeypatch, tmp_path):
    monkeypatch.setattr(tiles, "cache_path", lambda: tmp_path / "tiles.json")
    monkeypatch.setattr(tiles, "SHIPPED", tmp_path / "shipped.json")
    monkeypatch.setattr(tiles, "_tables", {})
    block, tile = BESIDE
    with as_if(90, *H200):
        tiles.remember([tiles.Found(tiles.Problem(block, 8, "float16"), tile, 2.0, 3.0, 1.5, tile)])
        assert tiles.chosen(block, 8, "float16") == tile and tiles.chosen(block, 2, "float16") == tile
        assert tiles.chosen(block, 1, "float16") != tile  # it takes two images
    assert tiles.describe(tile) == "2×7, 32 channels, 6 warps, 2 images, cluster of 3, persistent, rows"
