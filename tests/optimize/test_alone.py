"""Tiles of single warps (common/optimize/fused/alone.h, alone_pairs.h): a warp computes outputs of a block alone."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nvrtc import compile_with_nvrtc
from test_inverted_residual import close, drawn, nhwc, reference, traced
from test_warpgroups import ENDLESS
from tiers import ALL, examples, seldom

from common import cuda, kernels
from common.cuda import layout as layouts
from common.cuda.device import as_if
from common.optimize import blocks, cost, generate, persistent, search, tiles
from common.optimize.blocks import inverted_residual
from common.optimize.fragments import fragments, pair_fragments
from common.optimize.generate import Block, Geometry, Tile, alone_plane, alone_size, alone_words

on_gpu = cuda.backend() == "gpu"
H200 = 132, 232_448  # multiprocessors, bytes of shared memory


def tile_of(strip, warps=2, stages=1, **more):
    fields = {"slice": 16, "strip": strip, "vector": 0, "stages": stages, "warps": warps, "pixel_warps": warps}
    return Tile(strip, 14, **(fields | more), alone=True)


def dtype_of(tile):
    return np.float32 if tile.arithmetic == "halves" else np.float16


def run(block, arrays, tile, launches=1):
    """The output, of the last of several launches."""
    x, *others = (a if a is None else nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in arrays)
    out = layouts.empty((len(x), block.outputs, *block.out_size), dtype_of(tile), "NHWC")
    for _ in range(launches):
        out[...] = np.nan
        inverted_residual(
            x, *others, stride=block.stride, residual=x if block.residual else None, activations=block.bounds,
            out=out, tile=tile, input_bound=float(np.nanmax(np.abs(arrays[0]))),
        )  # fmt: skip
    return cuda.asnumpy(out)


def check(rng, block, batch, tile, launches=1):
    arrays = drawn(rng, block, batch, dtype_of(tile))
    result = run(block, arrays, tile, launches)
    close(result, reference(block, arrays, arrays[0] if block.residual else None), block, dtype_of(tile))
    return arrays, result


EVEN = Block(8, 14, 24, 32, 24, residual=True)
ODD = Block(9, 17, 32, 48, 32, residual=True)
NARROW = Block(5, 3, 8, 16, 16)
WIDE = Block(6, 28, 64, 32, 16)
STRIDED, STRIDED_ODD = Block(8, 28, 16, 32, 24, 2), Block(7, 31, 24, 48, 32, 2)
STEM, STEM_ODD = Block(8, 28, 3, 32, 16, 1, "stem", (16, 56)), Block(9, 10, 3, 32, 16, 1, "stem", (17, 20))

# all numbers of channels that lie in shared memory in ways of their own; heights and widths that do not divide
TILES = [
    (EVEN, tile_of(4)),
    (EVEN, tile_of(7, stages=2)),
    (ODD, tile_of(4, stages=2)),
    (NARROW, tile_of(1, warps=1)),
    (WIDE, tile_of(2)),
    (STRIDED, tile_of(2, stages=2)),
    (STRIDED_ODD, tile_of(3)),
    (STEM, tile_of(4)),
    (STEM_ODD, tile_of(4, warps=3)),
    (STEM_ODD, tile_of(10, warps=1)),
    (EVEN, tile_of(4, warps=4, pixel_warps=2)),
    (ODD, tile_of(2, warps=3, pixel_warps=1, stages=2)),
    (STRIDED_ODD, tile_of(3, warps=4, pixel_warps=2)),
]
POINTWISE = [(block, tile) for block, tile in TILES if block.expand == "pointwise"]
STREAMED = [(block, dataclasses.replace(tile, streams=True)) for block, tile in POINTWISE]
PAIRS = [(block, dataclasses.replace(tile, arithmetic="halves")) for block, tile in POINTWISE]  # of floats
EVERY = [*TILES, *STREAMED, *PAIRS]


@seldom(6)
@pytest.mark.parametrize(("block", "tile"), EVERY, ids=str)
def test_every_kind_of_tile(rng, block, tile):
    """Right, and the same to the last bit in the next launch."""
    arrays, result = check(rng, block, 3, tile)
    assert np.array_equal(run(block, arrays, tile, launches=2), result)


@seldom(6)
@pytest.mark.parametrize(("block", "tile"), EVERY if ALL else EVERY[1::3], ids=str)
def test_no_access_goes_wrong(block, tile):
    """Out of bounds, races, reads of what nothing wrote or no copy has brought: the simulator's trace finds none."""
    if on_gpu:
        pytest.skip("compute-sanitizer looks at the GPU: tests/every_kernel.py")
    report = traced(block, 3, np.dtype(dtype_of(tile)).name, tile)
    assert not report.findings, report


@seldom(6)
@pytest.mark.parametrize("of", [TILES[i] for i in (0, 1, 2, 5, 7, 9, 10, 11)] + STREAMED[1::4] + PAIRS[1::4], ids=str)
def test_many_items_walk_through_few_warps(rng, monkeypatch, of):
    """A warp takes item after item: what one leaves behind must not reach the next, nor copies overtake it."""
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 1)
    block, tile = of
    assert Geometry(block, tile, 2).grid(9, 1) == 1 < 9 * Geometry(block, tile, 2).alone.items / tile.pixel_warps
    check(rng, block, 9, tile)
    if not on_gpu:
        report = traced(block, 5, np.dtype(dtype_of(tile)).name, tile)
        assert not report.findings, report


@seldom(6)
@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_blocks(data):
    """Whatever Geometry finds no problem with computes what separate kernels compute."""
    draw = data.draw
    stem, stride = draw(st.booleans()), draw(st.sampled_from([1, 2]))
    residual = not stem and stride == 1 and draw(st.booleans())
    channels = 8 * draw(st.integers(1, 8))
    height, width = draw(st.integers(1, 12)), draw(st.integers(1, 32))
    if stem:
        image = draw(st.integers(1, 24)), 4 * draw(st.integers(1, 16))
        size = ((n - 1) // 2 + 1 for n in image)
        block = Block(*size, 3, 32, 16, 1, "stem", image)
    else:
        outputs = channels if residual else 8 * draw(st.integers(1, 8))
        block = Block(height, width, channels, 16 * draw(st.integers(1, 4)), outputs, stride, residual=residual)
    strip = draw(st.sampled_from([4, 10]) if stem else st.integers(1, 8))
    items, parts = draw(st.integers(1, 4)), 1 if stem else draw(st.integers(1, 4))
    tile = tile_of(strip, items * parts, 1 if stem else draw(st.integers(1, 2)), pixel_warps=items)
    dtype = "float16" if stem else draw(st.sampled_from(["float16", "float32"]))
    if dtype == "float32":
        tile = dataclasses.replace(tile, arithmetic="halves")
    elif not stem:
        tile = dataclasses.replace(tile, streams=draw(st.booleans()))
    if Geometry(block, tile, np.dtype(dtype).itemsize).problem(cuda.shared_memory()) is None:
        problem = tiles.Problem(block, draw(st.integers(1, 4)), dtype, tile.arithmetic)
        arrays = search.Arrays(problem)
        arrays.out[...] = np.nan
        arrays.launch(problem, tile)()
        assert arrays.error() <= search.TOLERANCES[dtype]


@seldom(6)
@pytest.mark.parametrize("of", [TILES[i] for i in (0, 2, 5, 7, 11)] + STREAMED[2:3] + PAIRS[2:6:3], ids=str)
def test_without_biases(rng, of):
    block, tile = of
    arrays = drawn(rng, block, 2, dtype_of(tile))
    for i in (2, 4, 6):
        arrays[i] = None
    expected = reference(block, arrays, arrays[0] if block.residual else None)
    close(run(block, arrays, tile), expected, block, dtype_of(tile))


@seldom(6)
@pytest.mark.parametrize(
    "bounds", [((0.0, math.inf), ENDLESS, ENDLESS), ((0.0, 0.7), (-1.0, 2.0), (0.0, 6.0))], ids=str
)
@pytest.mark.parametrize("of", [TILES[2], TILES[6], TILES[8], PAIRS[2], PAIRS[6]], ids=str)
def test_bounds(rng, bounds, of):
    block, tile = of
    if tile.arithmetic == "halves" and math.isinf(bounds[1][1]):  # which bounds what is split
        bounds = (bounds[0], (-40.0, 40.0), bounds[2])
    check(rng, dataclasses.replace(block, bounds=bounds), 2, tile)


@seldom(6)
@pytest.mark.parametrize("of", [TILES[1], TILES[5], STREAMED[5], PAIRS[1], PAIRS[5]], ids=str)
def test_nan_goes_no_further_than_its_window(rng, of):
    """Not into the next image, nor into the item below, whose memory it was read to."""
    block, tile = dataclasses.replace(of[0], residual=False), of[1]
    arrays = drawn(rng, block, 3, dtype_of(tile))
    arrays[0][1, 3, 6, 3] = np.nan
    spoilt = np.isnan(run(block, arrays, tile)).any(axis=1)
    rows, columns = (slice(3, 4), slice(1, 3)) if block.stride == 2 else (slice(5, 8), slice(2, 5))
    assert spoilt[1, rows, columns].all() and spoilt.sum() == spoilt[1, rows, columns].size


# ---- The weights


def test_each_weight_lies_where_a_product_reads_it(rng):
    """Each parameter of a plane stands once in its words: a bias twice as often, taps also in the other order."""
    for block in (EVEN, STRIDED, STEM):
        arrays = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float16)]
        found = cuda.asnumpy(fragments(block, *arrays[1:]))
        assert found.shape == (alone_size(block),) and found.dtype == np.uint32
        last = found[block.hidden // 16 * alone_words(block) * 32 :].view(np.float32)
        assert np.array_equal(last[: block.outputs], cuda.asnumpy(arrays[6]).astype(np.float32))
        halves = found[: -len(last)].view(np.float16)
        for array in (arrays[1], arrays[5]):
            values, counts = np.unique(cuda.asnumpy(array), return_counts=True)
            times = {v: np.count_nonzero(halves == v) for v in values[:50]}
            assert all(times[v] >= n for v, n in zip(values[:50], counts[:50], strict=True)), block


def test_weights_that_stream_lie_once_in_a_plane(rng):
    """Taps and biases once; the rest as often as where a thread block has all of them."""
    for block in (EVEN, STRIDED, NARROW):
        arrays = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float16)]
        found = cuda.asnumpy(fragments(block, *arrays[1:], streams=True))
        assert found.shape == (alone_size(block, 2, streams=True),)
        planes = found[: block.hidden // 16 * alone_plane(block)].reshape(block.hidden // 16, -1)
        biases, taps = planes[:, -128:-96].view(np.float32), planes[:, -96:].view(np.float16).reshape(-1, 12)
        for half, bias in enumerate((arrays[2], arrays[4])):
            stored = np.sort(biases[:, half * 16 : half * 16 + 16].reshape(-1))
            assert np.array_equal(stored, np.sort(cuda.asnumpy(bias).astype(np.float32)))
        depthwise = cuda.asnumpy(arrays[3]).reshape(block.hidden, 9)
        order = [0, 2, 3, 5, 6, 8, 1, 4, 7] if block.stride == 1 else [0, 1, 3, 4, 6, 7, 2, 5, 8]
        assert np.array_equal(taps[:, :9], depthwise[:, order]) and not taps[:, 9].any()


def test_pairs_add_up_to_the_weights(rng):
    """High and low halves of both products, scaled; taps and biases of the depthwise convolution by its own scale."""
    block = STRIDED
    arrays = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float32)]
    words, (x_scale, _, hidden, dw, sums) = pair_fragments(block, 3.0, *arrays[1:])
    found, planes, eights = cuda.asnumpy(words), block.hidden // 16, block.outputs // 8
    assert found.shape == (alone_size(block, 4),) and x_scale == 8192 and 3 * x_scale < 65_504
    of_lanes = planes * (2 + eights) * 128
    parts = found[:of_lanes].view(np.float16).astype(np.float64).reshape(planes, 2 + eights, 32, 2, 2, 2).sum(axis=3)
    expand = cuda.asnumpy(arrays[1]).reshape(planes, 2, 8, 2, 4, 2) / (hidden * x_scale)  # plane, h, g, b, t, e
    assert np.allclose(parts[:, :2], expand.transpose(0, 1, 2, 4, 3, 5).reshape(planes, 2, 32, 2, 2), rtol=1e-6)
    project = cuda.asnumpy(arrays[5]).reshape(eights, 8, planes, 2, 4, 2) / (sums * dw)  # n, g, plane, b, t, e
    assert np.allclose(parts[:, 2:], project.transpose(2, 0, 1, 4, 3, 5).reshape(planes, eights, 32, 2, 2), rtol=1e-6)
    table = found[of_lanes : of_lanes + planes * 176].view(np.float32).reshape(planes, 11, 4, 2, 2)
    channels = table.transpose(0, 3, 2, 4, 1).reshape(block.hidden, 11)  # plane, h, t, e
    assert np.array_equal(channels[:, :9], cuda.asnumpy(arrays[3]).reshape(-1, 9) * dw)
    assert np.array_equal(channels[:, 9], cuda.asnumpy(arrays[2]))
    assert np.array_equal(channels[:, 10], cuda.asnumpy(arrays[4]) * dw)


# ---- What does not fit


def changed(place, **changes):
    return TILES[place][0], dataclasses.replace(TILES[place][1], **changes)


def other(place, **changes):
    return dataclasses.replace(TILES[place][0], **changes), TILES[place][1]


@pytest.mark.parametrize(
    ("block", "tile", "words"),
    [
        (*other(4, expand="none"), 'single warps need a "pointwise" expand or a "stem", got "none"'),
        (*other(4, stride=3), "stride must be 1 or 2 for single warps, got 3"),
        (*other(7, stride=2), "stride must be 1 for single warps, got 2"),
        (
            *other(4, bounds=((-1.0, 6.0), (0.0, 6.0), ENDLESS)),
            "single warps need an expand that is clamped below at 0, got bounds (-1.0, 6.0)",
        ),
        (*other(4, hidden=40), "hidden channels must be a multiple of 16 for single warps, got 40"),
        (*other(4, channels=12), "channels must be a multiple of 8 for single warps, got 12"),
        (*other(4, outputs=20), "output channels must be a multiple of 8 for single warps, got 20"),
        (*other(7, hidden=48), "a stem of single warps has 3>32>16 channels, got stem, 8×28 3>48>16"),
        (*other(7, image=(16, 54)), "the width of a stem's image must be a multiple of 4 for single warps, got 54"),
        (*other(4, residual=True), "single warps add no residual but x"),
        (*changed(0, chained=True), "tiles of single warps are neither chained nor have warpgroups"),
        (*changed(0, images=2), "single warps take 1 image, all hidden channels, 16 at a time: got Tile("),
        (*changed(0, tile_w=7), "single warps take strip × 14 outputs, got 4×7, strip 4"),
        (*changed(0, strip=9, tile_h=9), "strip must be from 1 to 8 rows, got 9"),
        (*changed(10, pixel_warps=3), "pixel_warps must divide at most 32 warps, got 3 of 4"),
        (*changed(10, pixel_warps=1), "at most 2 single warps can share 32 hidden channels, got 4"),
        (*changed(7, pixel_warps=1), "at most 1 single warps can share 32 hidden channels, got 2"),
        (*changed(0, stages=3), "stages must be 1 or 2 for single warps, got 3"),
        (*changed(7, stages=2), "stages must be 1 for single warps, got 2"),
        (*changed(7, streams=True), "a stem's weights do not stream"),
        (EVEN, Tile(4, 14, streams=True), "weights stream to single warps alone"),
        (*changed(7, strip=5, tile_h=5), "strip + 2 must be a multiple of 6 for a stem of single warps, got strip 5"),
        (*other(1, outputs=40, residual=False), "strip · outputs / 2 must be at most 112 registers, got 140"),
        (
            Block(7, 28, 8, 16, 64), tile_of(3),
            "y must fit where x was: 3072 elements into 640",
        ),
        (
            Block(56, 56, 64, 384, 64), tile_of(2, warps=32, stages=2),
            "needs 745,728 bytes of shared memory, there are 232,448",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_says_why(block, tile, words):
    assert any(found.startswith(words) for found in Geometry(block, tile, 2)._problems(232_448))


@pytest.mark.parametrize(
    ("block", "tile", "words"),
    [
        (*TILES[0], 'single warps multiply floats as pairs of halves, arithmetic "halves", got \'tf32x3\''),
        (STEM, dataclasses.replace(TILES[7][1], arithmetic="halves"), "a stem of single warps is of float16"),
        (EVEN, dataclasses.replace(PAIRS[0][1], streams=True), "weights stream to single warps in float16 alone"),
        (
            dataclasses.replace(EVEN, bounds=((0.0, 6.0), ENDLESS, ENDLESS)), PAIRS[0][1],
            'arithmetic "halves" needs a bounded depthwise convolution, got bounds (-inf, inf)',
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_of_floats_says_why(block, tile, words):
    assert words in list(Geometry(block, tile, 4)._problems(232_448))


def test_floats_need_a_bound_on_x(rng):
    block, tile = PAIRS[0]
    x, *others = (nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float32))
    with pytest.raises(ValueError, match="input_bound must be a finite magnitude"):
        inverted_residual(x, *others, residual=x, tile=tile)


def test_another_residual_is_refused_and_a_call_without_a_tile_takes_another_one(rng, monkeypatch):
    """Of single warps the host puts the weights in order, which takes longer than the kernel: networks do it once."""
    block, tile = TILES[0]
    x, *others = (nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float16))
    given = nhwc(rng.standard_normal(x.shape).astype(np.float16))
    with pytest.raises(ValueError, match="single warps add no residual but x"):
        inverted_residual(x, *others, residual=given, tile=tile)
    monkeypatch.setattr(blocks, "chosen", lambda *_: tile)
    with kernels.recorded() as launches:
        inverted_residual(x, *others, residual=x)
        inverted_residual(x, *others, residual=x, tile=tile)
    assert [launch.name.split("/")[1] for launch in launches] == ["fused", "alone"]


def test_arrays_begin_where_16_bytes_can_be_read(rng):
    block, tile = TILES[0]
    arrays = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float16)]
    moved = cuda.empty((arrays[0].size + 1,), np.float16)[1:]
    moved[...] = cuda.asarray(cuda.asnumpy(arrays[0]).transpose(0, 2, 3, 1).reshape(-1))
    x = moved.reshape(1, 8, 14, 24).transpose(0, 3, 1, 2)
    with pytest.raises(ValueError, match="x and out must begin at a multiple of 16 bytes"):
        inverted_residual(x, *arrays[1:], residual=x, tile=tile)


# ---- The source, and machine code


@seldom(6)
@pytest.mark.parametrize("card", ["sm_90", "sm_80"])
def test_nvrtc_compiles_it(card):
    options = [option for option in generate.options() if not option.startswith("-std")]
    for block, tile in (TILES[1], TILES[5], TILES[7], TILES[10], STREAMED[8], PAIRS[1], PAIRS[9]):
        text = generate.source(block, tile, np.dtype(dtype_of(tile)).name)
        assert compile_with_nvrtc(text, card, options) is None


def test_generated_lines_fit_on_a_screen():
    large = Block(112, 112, 960, 960, 320, 2, bounds=((0.0, 6.0), (-1.25, math.inf), ENDLESS))
    for dtype in generate.TYPES:
        text = generate.source(large, tile_of(1, blocks=2), dtype)
        assert max(map(len, text.splitlines())) <= generate.WIDTH


# ---- Candidates and what is kept


def test_candidates_fit_and_are_tried():
    """By a search; the rule, which a search may not follow, does not choose one."""
    early = Block(56, 56, 24, 144, 24, residual=True)
    every = list(cost.alone_candidates(early, 256, 2, *H200, True, "tf32x3"))
    assert every and len(set(every)) == len(every)
    assert all(Geometry(early, tile, 2).problem(H200[1]) is None for tile in every)
    assert set(every) <= set(cost.ranked(early, 256, 2, *H200))
    assert not any(tile.streams for tile in every)  # all weights fit, and are read once
    assert {tile.streams for tile in cost.alone_candidates(early, 8, 2, *H200, True, "tf32x3")} == {False, True}
    pairs = list(cost.alone_candidates(early, 256, 4, *H200, True, "halves"))
    assert {tile.arithmetic for tile in pairs} == {"halves"}
    assert {tile for tile in cost.ranked(early, 256, 4, *H200, arithmetic="halves") if tile.alone} == set(pairs)
    assert not any(tile.alone for tile in cost.ranked(early, 256, 4, *H200))
    with as_if(90, *H200):
        for problem in (tiles.Problem(early, 256, "float16"), tiles.Problem(early, 256, "float32", "halves")):
            tried = search.most_promising(problem, 12)
            assert 0 < sum(tile.alone for tile in tried) < len(tried)
        assert not any(tile.alone for tile in search.most_promising(tiles.Problem(early, 256, "float32"), 12))
        assert not tiles.rule(early, 256, 2).alone


def test_predicted_times_are_near_measured_ones():
    """Of batch 256 on an H200, each alone: the mean of the differences, and the largest one."""
    measured = {
        (Block(56, 56, 24, 144, 24, residual=True), tile_of(7, 8, persistent=1)): 105.4,
        (Block(56, 56, 24, 144, 24, residual=True), tile_of(4, 4, blocks=2, persistent=2)): 115.3,
        (Block(112, 112, 16, 96, 24, 2), tile_of(4, 8, 2, persistent=1)): 101.9,
        (Block(56, 56, 24, 144, 32, 2), tile_of(2, 4, blocks=2, persistent=2)): 60.3,
        (Block(28, 28, 32, 192, 32, residual=True), tile_of(4, 8, persistent=1)): 47.7,
        (Block(112, 112, 3, 32, 16, 1, "stem", (224, 224)), tile_of(28, 8, persistent=1)): 88.9,
        (Block(112, 112, 3, 32, 16, 1, "stem", (224, 224)), tile_of(4, 4, blocks=2, persistent=2)): 129.1,
    }
    ratios = [cost.predicted(block, tile, 2, 256, *H200) / us for (block, tile), us in measured.items()]
    assert np.mean(np.abs(np.log(ratios))) < 0.15 and max(np.abs(np.log(ratios))) < 0.3
    measured = {
        (Block(56, 56, 24, 144, 24, residual=True), tile_of(7, 8, persistent=1)): 254.0,
        (Block(56, 56, 24, 144, 24, residual=True), tile_of(4, 4, blocks=2, persistent=2)): 269.3,
        (Block(112, 112, 16, 96, 24, 2), tile_of(2, 4, blocks=3, persistent=3)): 260.0,
        (Block(56, 56, 24, 144, 32, 2), tile_of(2, 8, persistent=1)): 140.9,
        (Block(28, 28, 32, 192, 32, residual=True), tile_of(7, 8, persistent=1)): 103.0,
    }
    ratios = [cost.predicted(block, tile, 4, 256, *H200) / us for (block, tile), us in measured.items()]
    assert np.mean(np.abs(np.log(ratios))) < 0.1 and max(np.abs(np.log(ratios))) < 0.2


def test_what_was_found_is_kept_and_chosen(monkeypatch, tmp_path):
    monkeypatch.setattr(tiles, "cache_path", lambda: tmp_path / "tiles.json")
    monkeypatch.setattr(tiles, "SHIPPED", tmp_path / "shipped.json")
    monkeypatch.setattr(tiles, "_tables", {})
    block, tile = TILES[1]
    tiles.remember([tiles.Found(tiles.Problem(block, 64, "float16"), tile, 2.0, 3.0, 1.5, tile)])
    assert tiles.chosen(block, 64, "float16") == tile and tiles.chosen(block, 1, "float16") == tile
    assert tiles.describe(tile) == "7×14, 16 channels, 2 warps, single warps"


def test_the_persistent_kernel_takes_no_such_tile():
    block, tile = TILES[0]
    with pytest.raises(ValueError, match="no tiles of 2 warps fit"):
        persistent.chosen([block], "float16", 2, multiprocessors=4, warps=(2,), clusters=(1,), tiles=[tile])
