"""A whole inverted-residual block in one launch (common/optimize/fused/), against float64."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nvrtc import compile_with_nvrtc
from tiers import ALL, examples, in_turn, only_all, seldom

from common import cuda, kernels
from common.cuda import layout as layouts
from common.cuda.machine_code.inspection import inspect_source
from common.optimize import cost, generate, search, tiles
from common.optimize.blocks import inverted_residual
from common.optimize.generate import Block, Geometry, Tile

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma and cp.async need a card of sm_80")
both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float16])
ENDLESS = (-math.inf, math.inf)


def nhwc(array):
    return array if array is None else cuda.to_layout(cuda.asarray(array), "NHWC")


def drawn(rng, block, batch, dtype):
    """x and the six parameters, asymmetric, as PyTorch has them."""

    def some(*shape, scale=1.0):
        return (scale * (rng.standard_normal(shape) + 0.2)).astype(dtype)

    expand = expand_bias = None
    if block.expand != "none":
        taps = 3 if block.expand == "stem" else 1
        expand = some(block.hidden, block.channels, taps, taps, scale=(block.channels * taps * taps) ** -0.5)
        expand_bias = some(block.hidden)
    return [
        some(batch, *block.input_shape), expand, expand_bias, some(block.hidden, 1, 3, 3, scale=0.4),
        some(block.hidden), some(block.outputs, block.hidden, 1, 1, scale=block.hidden**-0.5), some(block.outputs),
    ]  # fmt: skip


def reference(block, arrays, residual):
    """The block in float64."""
    import torch
    from torch.nn.functional import conv2d

    x, w1, b1, w2, b2, w3, b3 = (a if a is None else torch.from_numpy(np.asarray(a, np.float64)) for a in arrays)
    h = x
    if w1 is not None:
        stem = block.expand == "stem"
        h = conv2d(h, w1, b1, 2 if stem else 1, 1 if stem else 0).clamp(*block.bounds[0])
    h = conv2d(h, w2, b2, block.stride, 1, groups=block.hidden).clamp(*block.bounds[1])
    h = conv2d(h, w3, b3)
    if residual is not None:
        h = h + torch.from_numpy(residual.astype(np.float64))
    return h.clamp(*block.bounds[2]).numpy()


def distance(result, expected):
    return np.linalg.norm(result.astype(np.float64) - expected) / np.linalg.norm(expected)


def close(result, expected, block, dtype):
    """The largest relative error: that of the longest of the three sums."""
    k = max(block.hidden, 9 * block.channels if block.expand == "stem" else block.channels)
    allowed = 2e-3 if dtype == np.float16 else 1e-6 * math.sqrt(k)
    error = distance(result, expected)
    assert error <= allowed, f"relative error {error:.1e}, allowed {allowed:.1e}"


def check(rng, block, batch, dtype, tile, launches=1):
    """Against float64; a residual once x itself, of which the kernel has what it needs, once another array."""
    arrays = drawn(rng, block, batch, dtype)
    given_arrays = [nhwc(a) if a is not None and a.ndim == 4 else a if a is None else cuda.asarray(a) for a in arrays]
    other = rng.standard_normal(arrays[0].shape).astype(dtype)
    bound = float(np.abs(arrays[0]).max())  # tiles of arithmetic "halves" need it
    residuals = [(given_arrays[0], arrays[0]), (nhwc(other), other)] if block.residual else [(None, None)]
    for residual, in_numpy in residuals:
        expected = reference(block, arrays, in_numpy)
        out = layouts.empty(expected.shape, dtype, "NHWC")
        for _ in range(launches):
            out[...] = np.nan
            inverted_residual(
                *given_arrays, stride=block.stride, residual=residual, activations=block.bounds, out=out, tile=tile,
                input_bound=bound,
            )  # fmt: skip
        close(cuda.asnumpy(out), expected, block, dtype)


SMALL = Block(14, 13, 24, 96, 24, 1, residual=True)
WHOLE = Block(7, 7, 32, 64, 40)
HALVED = Block(15, 12, 16, 48, 24, 2)
STEM = Block(9, 12, 3, 32, 16, 1, "stem", (18, 24))
ODD_STEM = Block(10, 8, 3, 32, 16, 2, "stem", (19, 16))
NO_EXPAND = Block(9, 10, 48, 48, 36, expand="none")
SAME = Block(7, 6, 40, 96, 40, residual=True)

TILES = [
    (SMALL, Tile(4, 4, slice=32, warps=2, strip=2)),
    (SMALL, Tile(7, 13, slice=96, warps=6, strip=7, stages=1, expand_m=3)),
    (SMALL, Tile(14, 4, slice=48, warps=6, pixel_warps=2, strip=7, expand_m=2, project_n=2)),
    (SMALL, Tile(2, 8, slice=32, warps=4, pixel_warps=2, strip=1, stages=3, persistent=2)),
    (SMALL, Tile(4, 4, slice=32, split=3, warps=2, strip=2, stages=1)),
    (SMALL, Tile(4, 8, slice=32, split=2, warps=2, strip=4)),
    (WHOLE, Tile(7, 7, images=2, slice=64, warps=2, strip=7, expand_m=2)),
    (WHOLE, Tile(7, 7, images=4, slice=32, warps=8, pixel_warps=4, strip=1)),
    (WHOLE, Tile(7, 7, slice=16, split=4, warps=4, pixel_warps=4, strip=1)),
    (SAME, Tile(7, 6, images=2, slice=32, warps=4, pixel_warps=2, strip=7, expand_m=2)),
    (SAME, Tile(7, 6, slice=16, split=3, warps=2, pixel_warps=2, strip=1, project_n=2)),
    (SAME, Tile(3, 6, slice=48, warps=6, pixel_warps=2, strip=1, project_n=3)),
    (HALVED, Tile(4, 3, slice=48, warps=3, strip=2, stages=1)),
    (HALVED, Tile(8, 6, slice=16, warps=2, pixel_warps=2, strip=4)),
    (HALVED, Tile(2, 6, slice=16, split=3, warps=2, pixel_warps=2, strip=1)),
    (STEM, Tile(4, 8, slice=32, warps=2, strip=4, stages=1)),
    (STEM, Tile(9, 12, slice=16, warps=4, pixel_warps=4, strip=3, persistent=1)),
    (ODD_STEM, Tile(2, 4, slice=32, warps=4, pixel_warps=2, strip=1)),
    (NO_EXPAND, Tile(3, 5, slice=48, warps=3, strip=3)),
    (NO_EXPAND, Tile(9, 4, slice=16, warps=4, pixel_warps=4, strip=3, persistent=2)),
    (SMALL, Tile(14, 13, slice=48, warps=3, pixel_warps=3, strip=14)),
    (SMALL, Tile(7, 8, slice=32, warps=10, pixel_warps=5, strip=7, project_n=2)),
    (SAME, Tile(7, 6, images=2, slice=16, warps=7, pixel_warps=7, strip=1)),
    (HALVED, Tile(8, 6, slice=48, warps=6, pixel_warps=6, strip=8, persistent=1)),
]


# of the depthwise convolution; 0: on tensor cores, which convolve halves alone
VECTORS = [(0, np.float16), (2, np.float32), (4, np.float16), (2, np.float16), (4, np.float32)]


@seldom(6)
@pytest.mark.parametrize(("of", "how"), in_turn(TILES, VECTORS), ids=str)
def test_every_kind_of_tile(rng, of, how):
    (block, tile), (vector, dtype) = of, how
    if tile.split > 1 and cuda.backend() == "gpu" and cuda.compute_capability() < 90:
        pytest.skip("clusters need a card of sm_90")
    check(rng, block, 3, dtype, dataclasses.replace(tile, vector=vector))


EVEN, ODD = Block(16, 12, 16, 48, 24, 2), Block(15, 13, 40, 64, 20, 2)
CHAINED = [
    (HALVED, TILES[12][1]), (HALVED, TILES[13][1]), (HALVED, TILES[14][1]), (HALVED, TILES[23][1]),
    (EVEN, Tile(8, 6, images=2, slice=48, warps=3, strip=2)),
    (EVEN, Tile(4, 3, slice=48, warps=2, pixel_warps=2, strip=4, persistent=1)),
    (ODD, Tile(4, 4, slice=32, warps=4, pixel_warps=4, strip=2, stages=2)),
    (ODD, Tile(2, 7, slice=64, warps=6, pixel_warps=3, strip=1, stages=1)),
    (SMALL, TILES[1][1]), (SMALL, TILES[2][1]), (SMALL, TILES[4][1]), (SAME, TILES[9][1]),
]  # fmt: skip
WIDE, WIDE_STEM = Block(15, 30, 24, 48, 24, residual=True), Block(9, 29, 3, 32, 16, 1, "stem", (18, 58))
WIDE_EVEN = Block(16, 36, 24, 96, 40, 2)
SLIDING = [
    (SMALL, TILES[1][1]), (SMALL, TILES[2][1]), (SMALL, TILES[3][1]), (SMALL, TILES[4][1]), (SAME, TILES[9][1]),
    (WIDE, Tile(5, 30, slice=48, warps=6, pixel_warps=2, strip=5, stages=1, project_n=2)),
    (WIDE, Tile(4, 28, slice=16, warps=4, pixel_warps=4, strip=2, persistent=1)),
    (WIDE, Tile(15, 14, slice=48, warps=3, strip=15)),
    (STEM, TILES[15][1]), (STEM, TILES[16][1]),
    (WIDE_STEM, Tile(3, 28, slice=32, warps=4, pixel_warps=2, strip=3)),
]  # fmt: skip
STRIDED = [
    *CHAINED[:8], (WIDE_EVEN, Tile(4, 14, slice=48, warps=6, pixel_warps=2, strip=4)),
    (WIDE_EVEN, Tile(2, 9, slice=32, warps=4, pixel_warps=4, strip=1, stages=3, project_n=2)),
]  # fmt: skip


# what chained tiles are tried with: dtype, arithmetic, vector of the same tile with hidden channels in shared memory
WAYS = [("float16", "tf32x3", 0), ("float32", "halves", 4), ("float32", "tf32x3", 2)]


@seldom(6)
@pytest.mark.parametrize(
    ("of", "way"), [*((of, WAYS[0]) for of in CHAINED), *in_turn(SLIDING, WAYS), *in_turn(STRIDED, WAYS[1:])], ids=str
)
def test_hidden_channels_in_registers(rng, of, way):
    """The sums are the same ones in the same order, borders of the image included."""
    dtype, arithmetic, vector = way
    block, tile = of[0], dataclasses.replace(of[1], vector=vector, arithmetic=arithmetic)
    if tile.split > 1 and cuda.backend() == "gpu" and cuda.compute_capability() < 90:
        pytest.skip("clusters need a card of sm_90")
    chained = dataclasses.replace(tile, chained=True)
    assert Geometry(block, chained, np.dtype(dtype).itemsize).hidden_bytes == 0
    check(rng, block, 3, np.dtype(dtype), chained)
    arrays = drawn(rng, block, 3, np.dtype(dtype))
    there = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in arrays]
    bound = float(np.abs(arrays[0]).max())
    options = {"stride": block.stride, "activations": block.bounds, "input_bound": bound}
    one, other = (inverted_residual(*there, tile=t, **options) for t in (tile, chained))
    assert np.array_equal(cuda.asnumpy(one), cuda.asnumpy(other))


def test_chained_hidden_channels_have_any_upper_bound(rng):
    """Also where zero weights and a large bias would show a pixel that is not there."""
    block = dataclasses.replace(ODD, bounds=((0.0, math.inf), (-1.0, 2.0), ENDLESS))
    arrays = drawn(rng, block, 2, np.float16)
    arrays[1][:], arrays[2][:] = 0, 3
    there = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in arrays]
    tile = Tile(4, 4, slice=32, warps=2, strip=2, vector=0, chained=True)
    out = inverted_residual(*there, stride=2, activations=block.bounds, tile=tile)
    close(cuda.asnumpy(out), reference(block, arrays, None), block, np.float16)


def test_chained_says_what_it_needs():
    tile = Tile(4, 4, slice=32, warps=2, strip=2, vector=0, chained=True)
    lower = dataclasses.replace(HALVED, bounds=((-1.0, 1.0), (0.0, 6.0), ENDLESS))
    for block, one, itemsize in (
        (ODD_STEM, tile, 4), (ODD_STEM, tile, 2), (HALVED, dataclasses.replace(tile, vector=2), 2),
        (NO_EXPAND, tile, 2),
        (lower, tile, 2), (SMALL, dataclasses.replace(tile, vector=4), 2),
    ):  # fmt: skip
        problems = list(Geometry(block, one, itemsize)._problems(232_448))
        assert any(problem.startswith("chained ") for problem in problems), problems


@seldom(6)
@pytest.mark.parametrize("of", CHAINED if ALL else CHAINED[1:7:2], ids=str)
def test_no_access_of_chained_ones_goes_wrong(of):
    if cuda.backend() == "gpu":
        pytest.skip("compute-sanitizer looks at the GPU: tests/every_kernel.py")
    report = traced(of[0], 2, "float16", dataclasses.replace(of[1], vector=0, chained=True))
    assert not report.findings, report


@pytest.mark.parametrize("card", ["sm_80", "sm_90"])
def test_nvrtc_compiles_chained_ones(card):
    options = [option for option in generate.options() if not option.startswith("-std")]
    for block, tile in (CHAINED[3], CHAINED[6]):
        text = generate.source(block, dataclasses.replace(tile, vector=0, chained=True), "float16")
        assert compile_with_nvrtc(text, card, options) is None


@seldom(6)
@both_dtypes
def test_many_images_walk_through_few_blocks(rng, dtype):
    """Persistent blocks take many tiles one after the other: what one leaves behind must not reach the next."""
    tile = Tile(4, 4, slice=48, warps=6, pixel_warps=2, strip=2, persistent=1, vector=0 if dtype == np.float16 else 2)
    check(rng, SMALL, 12 if cuda.backend() == "simulator" else 400, dtype, tile, launches=2)


@seldom(6)
@both_dtypes
@pytest.mark.parametrize(
    "bounds",
    [(ENDLESS, ENDLESS, ENDLESS), ((0.0, math.inf), (-1.0, 2.0), (0.0, 6.0)), ((-0.3, 0.7), (0.0, math.inf), ENDLESS)],
    ids=str,
)
def test_bounds(rng, dtype, bounds):
    block = dataclasses.replace(SMALL, bounds=bounds)
    check(rng, block, 2, dtype, Tile(7, 4, slice=32, warps=2, strip=7, vector=0 if dtype == np.float16 else 4))


@both_dtypes
def test_without_biases_through_the_operator(rng, dtype):
    arrays = drawn(rng, SMALL, 2, dtype)
    for i in (2, 4, 6):
        arrays[i] = None
    block = dataclasses.replace(SMALL, residual=False)
    out = inverted_residual(*(nhwc(a) for a in arrays))
    close(cuda.asnumpy(out), reference(block, arrays, None), block, dtype)


@both_dtypes
def test_nan_goes_no_further_than_its_window(rng, dtype):
    """One pixel that is not a number spoils the outputs whose window holds it, and no other."""
    block = dataclasses.replace(SMALL, residual=False)
    arrays = drawn(rng, block, 1, dtype)
    arrays[0][0, 3, 6, 5] = np.nan
    for vector in (0, 2) if dtype == np.float16 else (2, 4):
        given_arrays = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in arrays]
        out = inverted_residual(*given_arrays, tile=Tile(7, 4, slice=32, warps=2, strip=7, vector=vector))
        spoilt = np.isnan(cuda.asnumpy(out)).all(axis=1)[0]
        assert np.isnan(cuda.asnumpy(out)).any(axis=1)[0].sum() == spoilt.sum() == 9
        assert spoilt[5:8, 4:7].all()


@seldom(6)
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_blocks_with_ranked_tiles(data):
    """Whatever the ranking proposes computes the right thing."""
    size = st.integers(3, 15)
    block = Block(
        data.draw(size), data.draw(size), data.draw(st.sampled_from([8, 16, 24, 40])),
        data.draw(st.sampled_from([16, 32, 48, 96])), data.draw(st.sampled_from([4, 8, 24, 36])),
        data.draw(st.sampled_from([1, 2])),
    )  # fmt: skip
    batch, dtype = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([np.float32, np.float16]))
    arithmetic = data.draw(st.sampled_from(["tf32x3", "halves"]))
    clusters = cuda.backend() == "simulator" or cuda.compute_capability() >= 90
    every = cost.ranked(block, batch, np.dtype(dtype).itemsize, 4, cuda.shared_memory(), clusters, arithmetic)
    if every:
        check(np.random.default_rng(0), block, batch, dtype, every[data.draw(st.integers(0, len(every) - 1))])


# ---- Floats as pairs of halves


def halves(tile, vector=2):
    return dataclasses.replace(tile, arithmetic="halves", vector=vector)


STEMS = [(block, tile) for block, tile in TILES if block.expand == "stem"]
SPLIT = [(block, tile) for block, tile in TILES if block.expand != "stem"]


@seldom(6)
@pytest.mark.parametrize(("of", "vector"), in_turn(SPLIT + STEMS if ALL else SPLIT[1::4] + STEMS, [2, 4]), ids=str)
def test_halves_on_every_kind_of_tile(rng, of, vector):
    block, tile = of
    if tile.split > 1 and cuda.backend() == "gpu" and cuda.compute_capability() < 90:
        pytest.skip("clusters need a card of sm_90")
    check(rng, block, 3, np.float32, halves(tile, vector))


def by_fma(block, arrays):
    """The block by separate kernels without tensor cores."""
    x, w1, b1, w2, b2, w3, b3 = arrays
    h = kernels.pointwise(x, w1, b1, activation=block.bounds[0], variant="channels_last")
    h = kernels.depthwise(h, w2, b2, block.stride, 1, activation=block.bounds[1])
    return kernels.pointwise(h, w3, b3, activation=block.bounds[2], variant="channels_last")


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_halves_are_as_near_to_float64_as_other_ways(rng, size):
    """At any size of the input, since its bound makes the scale; the weights' size makes theirs.

    The simulator's tensor cores round their sums to nearest, so that here all three err alike.
    """
    block = Block(9, 8, 40, 96, 24, bounds=((0.0, 6.0), (0.0, 6.0), ENDLESS))
    arrays = drawn(rng, block, 2, np.float32)
    arrays[0] *= np.float32(size)
    arrays[1] /= np.float32(size)
    arrays[5] *= np.float32(size)
    arrays[6] *= np.float32(size)
    there = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in arrays]
    expected, tile = reference(block, arrays, None), Tile(3, 8, slice=48, warps=3, strip=3)
    bound = float(np.abs(arrays[0]).max())
    results = [inverted_residual(*there, tile=t, input_bound=bound) for t in (halves(tile), tile)]
    results.append(by_fma(block, there))
    mine, tf32x3, fma = (distance(cuda.asnumpy(one), expected) for one in results)
    assert mine <= 1.5 * min(tf32x3, fma) if cuda.backend() == "simulator" else mine <= 2.5 * tf32x3
    assert mine < 3e-7  # without any of the low parts: 1e-4


def test_halves_beyond_the_bound_do_not_pass_for_right_ones(rng):
    block = dataclasses.replace(SMALL, residual=False)
    arrays = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, block, 1, np.float32)]
    arrays[0][0, 3, 6, 5] = 100.0
    out = cuda.asnumpy(inverted_residual(*arrays, tile=halves(TILES[0][1]), input_bound=20.0))
    spoilt = np.isnan(out).all(axis=1)[0]
    assert spoilt[5:8, 4:7].all() and spoilt.sum() == 9


def test_halves_say_what_they_need(rng):
    x, *parameters = (nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, SMALL, 1, np.float32))
    tile = halves(TILES[0][1])
    for bound in (None, math.inf, -1.0, math.nan):
        with pytest.raises(ValueError, match=f"input_bound must be a finite magnitude.*got {bound}"):
            inverted_residual(x, *parameters, tile=tile, input_bound=bound)
    with pytest.raises(ValueError, match="needs a bounded depthwise convolution"):
        inverted_residual(x, *parameters, activations=("relu6", "relu", None), tile=tile, input_bound=9.0)
    for block, words in (
        (Block(7, 7, 12, 64, 40), "channels must be a multiple of 8"),
        (Block(7, 7, 16, 60, 40), "hidden channels must be a multiple of 8"),
    ):
        assert words in Geometry(block, dataclasses.replace(tile, slice=32), 4).problem(232_448)
    image, few = Block(112, 112, 3, 32, 16, 1, "stem", (224, 224)), halves(Tile(14, 16, slice=32, warps=2, strip=7))
    words = 'a stem\'s thread must hold at most 8 pairs of pixels with "halves", got 10'
    assert words in Geometry(image, few, 4).problem(232_448)
    other = dataclasses.replace(tile, arithmetic="bf16")
    assert "arithmetic must be tf32x3 or halves, got 'bf16'" in Geometry(SMALL, other, 4).problem(232_448)


# ---- A stem as pairs of halves: each tile measures its image

WIDE = Block(14, 16, 3, 32, 16, 1, "stem", (28, 32), ((-math.inf, math.inf), (-1e4, 1e4), ENDLESS))
OF_WIDE = [
    Tile(7, 8, slice=32, warps=4, pixel_warps=4, strip=7, stages=1, arithmetic="halves"),
    Tile(4, 16, slice=16, warps=3, pixel_warps=3, strip=2, stages=2, vector=4, arithmetic="halves", persistent=1),
]
of_wide = pytest.mark.parametrize("tile", OF_WIDE, ids=str)


def ran(block, arrays, tile):
    there = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in arrays]
    return cuda.asnumpy(inverted_residual(*there, stride=block.stride, activations=block.bounds, tile=tile))


def worst(block, arrays, tile):
    """The largest error of an element, of what is allowed: a few bits of its sums, 2^-38 of the largest x and dw.

    Sums are those of magnitudes, without clamps.
    """
    free = dataclasses.replace(block, bounds=(ENDLESS, ENDLESS, ENDLESS))
    magnitudes = [np.abs(a) for a in arrays]
    sums = reference(free, magnitudes, None)
    of_ones = reference(free, [np.ones_like(arrays[0]), *magnitudes[1:]], None)
    error = np.abs(ran(block, arrays, tile) - reference(block, arrays, None))
    of_dw = block.bounds[1][1] * magnitudes[5].sum(1)[None, :, :, 0, None]
    return (error / (2**-21 * sums + 2.0**-38 * (magnitudes[0].max() * of_ones + of_dw))).max()


@of_wide
@pytest.mark.parametrize("size", [1e-41, 1e-38, 1e-30, 1e-6, 1e6, 1e30, 1e38])
def test_a_stem_takes_images_of_any_size(rng, tile, size):
    """Where weights make up for it; 1e-38 and below also lie where floats have fewer bits."""
    arrays = drawn(rng, WIDE, 2, np.float32)
    arrays[0] = np.clip(arrays[0], -3, 3) * np.float32(size)
    of_weights = float(np.clip(size**-0.5, 2.0**-40, 2.0**60))
    arrays[1] *= np.float32(of_weights)
    arrays[3] *= np.float32(1 / (size * of_weights))
    for i in (2, 4):
        arrays[i][:] = 0
    assert np.isfinite(ran(WIDE, arrays, tile)).all() and worst(WIDE, arrays, tile) <= 1


@of_wide
def test_a_stem_takes_pixels_of_all_sizes(rng, tile):
    """From 1e-6 to 1e6, a single large pixel among small ones, none but zeros, and such as are hardly more."""
    arrays = drawn(rng, WIDE, 2, np.float32)
    arrays[3] *= np.float32(1e-3)
    every = (arrays[0] * 10.0 ** rng.uniform(-6, 6, arrays[0].shape)).astype(np.float32)
    one = 1e-3 * arrays[0]
    one[1, 2, 17, 20] = 3e5
    for x in (every, one, 0 * one, -np.abs(every), np.float32(1e-38) * arrays[0]):
        assert worst(WIDE, [x, *arrays[1:]], tile) <= 1


@of_wide
def test_a_large_pixel_leaves_other_tiles_as_they_are(rng, tile):
    arrays = drawn(rng, WIDE, 2, np.float32)
    without = ran(WIDE, arrays, tile)
    arrays[0][1, 2, 0, 0] = 1e9
    with_it = ran(WIDE, arrays, tile)
    assert (with_it[1, :, 0, 0] != without[1, :, 0, 0]).any() and (with_it[0] == without[0]).all()
    assert (with_it[1, :, tile.tile_h :] == without[1, :, tile.tile_h :]).all()


@of_wide
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_what_a_stem_computes_from_it_alone(rng, tile, value):
    """As by TF32 numbers: the outputs whose window holds it are NaN; others are what they are with 0 in its place."""
    arrays = drawn(rng, WIDE, 2, np.float32)
    arrays[0] *= 1e-4  # small, so that a scale that follows the infinity would leave nothing of it
    arrays[0][0, 1, 13, 15] = value
    out, other = ran(WIDE, arrays, tile), ran(WIDE, arrays, dataclasses.replace(tile, arithmetic="tf32x3"))
    spoilt = np.isnan(out)
    assert (spoilt == np.isnan(other)).all() and spoilt[0, :, 5:8, 6:9].all() and spoilt[0].any(0).sum() <= 16
    arrays[0][0, 1, 13, 15] = 0
    expected = reference(WIDE, arrays, None)
    assert np.abs(out - expected)[~spoilt].max() <= 1e-5 * np.abs(expected).max()
    assert np.isfinite(out[~spoilt]).all()


@pytest.mark.parametrize("vector", [2, 4])
def test_a_stem_of_halves_is_as_near_to_float64_as_of_tf32_numbers(rng, vector):
    arrays = drawn(rng, STEM, 2, np.float32)
    expected, tile = reference(STEM, arrays, None), Tile(9, 12, slice=32, warps=4, pixel_warps=4, strip=3, stages=1)
    mine, other = (distance(ran(STEM, arrays, t), expected) for t in (halves(tile, vector), tile))
    assert mine < 3e-7 and mine <= 2 * other  # without any of the low parts: 1e-4


@seldom(6)
@pytest.mark.parametrize("card", ["sm_80", "sm_90"])
def test_pixels_wait_in_registers(card):
    """Those of an image until its scale is known, without a spill; and half as many mma as of TF32 numbers."""
    block = Block(112, 112, 3, 32, 16, 1, "stem", (224, 224))
    tile = Tile(14, 16, slice=32, strip=14, stages=1, warps=8, pixel_warps=8, blocks=2, persistent=2)
    found = {}
    for one in (tile, halves(tile)):
        text, shared = generate.source(block, one, "float32"), Geometry(block, one, 4).shared
        try:
            found[one.arithmetic] = inspect_source((text, generate.options(), ()), generate.KERNEL, 256, shared, card)
        except RuntimeError as error:
            pytest.skip(str(error))
    mma = {name: one.instructions["HMMA"] for name, one in found.items()}
    assert found["halves"].spills == 0 and mma["halves"] * 2 == mma["tf32x3"]


@seldom(6)
def test_rows_of_a_measured_image_take_all_banks():
    """ldmatrix reads 8 rows of 16 bytes at a time, also where a tile of mma goes on in the next row of outputs."""
    if cuda.backend() == "gpu":
        pytest.skip("the trace is the simulator's")
    tile = Tile(14, 16, slice=32, warps=4, pixel_warps=4, strip=14, stages=1, arithmetic="halves")
    report = traced(WIDE, 1, "float32", tile)
    assert report.shared_loads.requests and report.shared_loads.conflicts == 0


# ---- What does not fit


def test_errors_name_the_argument(rng):
    x, *parameters = (nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, SMALL, 1, np.float32))
    with pytest.raises(ValueError, match=r"x must be dense in NHWC"):
        inverted_residual(cuda.to_layout(x, "NCHW"), *parameters)
    with pytest.raises(ValueError, match=r"expand must have shape \(96, 24, 1, 1\)"):
        inverted_residual(x, parameters[0][:, :16], *parameters[1:])
    with pytest.raises(ValueError, match=r"depthwise_bias must have shape \(96\)"):
        inverted_residual(x, *parameters[:3], parameters[3][:5], *parameters[4:])
    with pytest.raises(ValueError, match="depthwise must have shape"):
        inverted_residual(x, None, None, *parameters[2:])
    with pytest.raises(ValueError, match="strip must divide tile_h, 4, got 3"):
        inverted_residual(x, *parameters, tile=Tile(4, 4, slice=32, warps=2, strip=3))
    with pytest.raises(ValueError, match="vector must be 2 or 4, got 0"):
        inverted_residual(x, *parameters, tile=Tile(4, 4, slice=32, warps=2, strip=2, vector=0))
    with pytest.raises(ValueError, match="residual must have shape"):
        inverted_residual(x, *parameters, residual=x[:, :8])


@pytest.mark.parametrize(
    ("block", "tile", "words"),
    [
        (SMALL, Tile(4, 4, slice=40, warps=2), "slice must be a multiple of 16 for each of 2 warps"),
        (SMALL, Tile(4, 4, slice=32, warps=2, project_n=3), "project_n must divide the 2 warps"),
        (SMALL, Tile(40, 4, slice=32, warps=2), "the tile must fit into 14×13"),
        (SMALL, Tile(4, 4, slice=32, warps=2, stages=1), "stages must be at least 2"),
        (SMALL, Tile(4, 4, images=2, slice=32, warps=2, split=3), "split blocks take one image each"),
        (Block(7, 7, 20, 64, 40), Tile(4, 4, slice=32, warps=2), "channels must be a multiple of 8"),
        (Block(7, 7, 24, 60, 40), Tile(4, 4, slice=32, warps=2), "hidden channels must be a multiple of 8"),
        (Block(7, 7, 24, 64, 41), Tile(4, 4, slice=32, warps=2), "output channels must be a multiple of 4"),
        (Block(9, 9, 3, 32, 16, 1, "stem", (17, 17)), Tile(4, 4, slice=32, warps=2), "must be of even width"),
        (Block(112, 112, 320, 960, 320), Tile(16, 16, slice=64, warps=4), "bytes of shared memory"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_says_why(block, tile, words):
    assert words in Geometry(block, tile, 2).problem(232_448)


# ---- As a launch


def traced(block, batch, dtype, tile):
    problem = tiles.Problem(block, batch, dtype)
    arrays = search.Arrays(problem)
    launch = arrays.launch(problem, tile)
    kernel = launch.compiled()
    kernel.max_dynamic_shared_size_bytes = launch.shared_limit
    return cuda.trace(kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem)


@seldom(6)
@pytest.mark.parametrize(("of", "dtype"), in_turn(TILES if ALL else TILES[::2], ["float32", "float16"]), ids=str)
def test_no_access_goes_wrong(of, dtype):
    """Out of bounds, races, reads of what nothing wrote: the simulator's trace finds none."""
    if cuda.backend() == "gpu":
        pytest.skip("compute-sanitizer looks at the GPU: tests/every_kernel.py")
    block, tile = of
    tile = dataclasses.replace(tile, vector=0 if dtype == "float16" else 2)
    report = traced(block, 2, dtype, tile)
    assert not report.findings, report


@seldom(6)
@pytest.mark.parametrize("of", SPLIT + STEMS if ALL else [*SPLIT[3:8:4], *STEMS[1:]], ids=str)
def test_no_access_of_halves_goes_wrong(of):
    """A thread splits what it has fetched itself, before others may see it."""
    if cuda.backend() == "gpu":
        pytest.skip("compute-sanitizer looks at the GPU: tests/every_kernel.py")
    block, tile = of
    report = traced(block, 2, "float32", halves(tile))
    assert not report.findings, report


@both_dtypes
def test_generated_lines_fit_on_a_screen(dtype):
    large = Block(112, 112, 960, 960, 320, 2, image=(224, 224), residual=True)
    tile = halves(Tile(14, 14, slice=96, split=8, warps=12))
    text = generate.source(large, tile, np.dtype(dtype).name)
    assert max(map(len, text.splitlines())) <= generate.WIDTH


@seldom(6)
def test_memory_moves_once(rng):
    """x is read with its halo, y written, and nothing of the hidden channels reaches global memory."""
    if cuda.backend() == "gpu":
        pytest.skip("the trace is the simulator's")
    block = Block(14, 14, 32, 96, 32)
    report = traced(block, 1, "float16", Tile(14, 14, slice=96, warps=6, strip=7, stages=1, vector=0))
    moved = 32 * (report.global_loads.sectors + report.global_stores.sectors)
    assert block.bytes(1, 2) <= moved <= 1.1 * block.bytes(1, 2)


@seldom(6)
@pytest.mark.parametrize(
    ("card", "dtype"),
    [("sm_80", "float32"), ("sm_90", "float16"), *only_all([("sm_80", "float16"), ("sm_90", "float32")])],
)
def test_nvrtc_compiles_it(card, dtype):
    options = [option for option in generate.options() if not option.startswith("-std")]
    for block, tile in (TILES[i] for i in (1, 4, 7, 10, 13, 15, 18)):
        if tile.split > 1 and card == "sm_80":
            continue
        tile = dataclasses.replace(tile, vector=0 if dtype == "float16" else 4)
        assert compile_with_nvrtc(generate.source(block, tile, dtype), card, options) is None
        if dtype == "float32":
            assert compile_with_nvrtc(generate.source(block, halves(tile), dtype), card, options) is None


@both_dtypes
def test_it_is_recorded_as_one_launch(rng, dtype):
    arrays = [nhwc(a) if a.ndim == 4 else cuda.asarray(a) for a in drawn(rng, SMALL, 1, dtype)]
    out = layouts.empty((1, 24, 14, 13), dtype, "NHWC")
    with kernels.recorded() as launches:
        inverted_residual(*arrays, out=out, programmatic=True)
    assert len(launches) == 1 and launches[0].programmatic
    out[...] = np.nan
    launches[0]()
    assert np.isfinite(cuda.asnumpy(out)).all()
