"""global_avg_pool against float64: windows of any size, in either layout."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, every_rung_and_dtype, f64, on_device, poisoned
from tiers import examples

from common import cuda, kernels
from common.kernels.global_avg_pool import ladder

IN_LAYOUT = {name: rung.layouts[0] for name, rung in ladder.rungs.items()}

# one pixel, one channel; primes; whole vectors (36, 64 pixels); windows that no block of whole warps has
SHAPES = [(1, 1, 1, 1), (2, 7, 7, 7), (1, 17, 33, 5), (3, 67, 1, 13), (2, 24, 6, 6), (1, 5, 8, 8), (1, 3, 7, 10),
          (2, 2, 3, 43), (1, 2, 17, 31), (7, 33, 1, 1), (2, 8, 1, 2)]  # fmt: skip


def pooled(x, variant, offset=0):
    """The rung's result for an array that lies as the rung wants it, `offset` elements behind an array's beginning."""
    n, c = x.shape[:2]
    in_order = x.transpose(0, 2, 3, 1) if IN_LAYOUT[variant] == "NHWC" else x
    whole = cuda.full(offset + x.size, np.nan, x.dtype)
    whole[offset:] = on_device(np.ascontiguousarray(in_order).ravel())
    array = whole[offset:].reshape(in_order.shape)
    if IN_LAYOUT[variant] == "NHWC":
        array = array.transpose(0, 3, 1, 2)
    with cuda.guarded():
        return kernels.global_avg_pool(array, out=poisoned((n, c, 1, 1), x.dtype), variant=variant)


@every_rung_and_dtype("global_avg_pool")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_global_avg_pool(rng, variant, dtype, shape):
    x = draw(rng, *shape, dtype=dtype)
    agrees(pooled(x, variant), f64(x).mean((2, 3), keepdim=True), k=x[0, 0].size, floor=0.1)


@every_rung_and_dtype("global_avg_pool")
@settings(max_examples=examples(6))
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 70), st.integers(1, 21), st.integers(1, 21)),
    offset=st.integers(0, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_arrays_of_any_shape_that_start_anywhere(variant, dtype, shape, offset, seed):
    x = draw(np.random.default_rng(seed), *shape, dtype=dtype)
    agrees(pooled(x, variant, offset), f64(x).mean((2, 3), keepdim=True), k=x[0, 0].size, floor=0.1)


@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@both_dtypes
@pytest.mark.parametrize("n", [1, 3])
def test_the_pool_of_mobilenetv2(rng, layout, dtype, n):
    x = draw(rng, n, 1280, 7, 7, dtype=dtype)
    out = kernels.global_avg_pool(cuda.to_layout(on_device(x), layout), out=poisoned((n, 1280, 1, 1), dtype))
    agrees(out, f64(x).mean((2, 3), keepdim=True), k=49)


@every_rung("global_avg_pool")
def test_sums_of_float16_are_float32(variant):
    """4,001 ones: a sum in float16 would stop at 2,048."""
    assert cuda.asnumpy(pooled(np.ones((1, 1, 1, 4001), np.float16), variant)).item() == 1


@every_rung("global_avg_pool")
def test_nan_and_infinity_stay_in_their_channel(rng, variant):
    x = draw(rng, 2, 9, 7, 7)
    x[0, 3, 6, 6], x[1, 8, 0, 0], x[0, 0, 3, 3] = np.nan, np.nan, np.inf
    out = cuda.asnumpy(pooled(x, variant))[:, :, 0, 0]
    assert np.argwhere(np.isnan(out)).tolist() == [[0, 3], [1, 8]] and out[0, 0] == np.inf
    assert np.isfinite(out).sum() == 18 - 3


@every_rung("global_avg_pool")
def test_the_input_may_lie_in_both_layouts(rng, variant):
    """One channel, or one pixel: whichever layout the rung is for, the array has it."""
    for shape in ((3, 1, 5, 7), (3, 7, 1, 1)):
        x = draw(rng, *shape)
        out = kernels.global_avg_pool(on_device(x), out=poisoned((*shape[:2], 1, 1), np.float32), variant=variant)
        agrees(out, f64(x).mean((2, 3), keepdim=True), k=35)


@every_rung("global_avg_pool")
def test_a_rung_says_which_layout_it_takes(rng, variant):
    other = "NCHW" if IN_LAYOUT[variant] == "NHWC" else "NHWC"
    x = cuda.to_layout(on_device(draw(rng, 2, 3, 7, 5)), other)
    with pytest.raises(ValueError, match=rf"{variant!r} takes layout {IN_LAYOUT[variant]}, got {other}"):
        kernels.global_avg_pool(x, variant=variant)


BLOCKS = ["interleaved", "strided_index", "sequential", "warp_shuffle"]
KERNEL_CASES = [
    *[(name, {}, 3, threads) for name in BLOCKS[:3] for threads in (1, 2, 3, 5, 7, 31, 33, 49, 63, 100, 255, 256)],
    *[("warp_shuffle", {}, 3, threads) for threads in (32, 64, 96, 160, 224, 256)],
    *[("channels_per_warp", {"CHANNELS": c, "ITEMS": i}, 1, 64) for c in (1, 2, 4, 8, 32) for i in (1, 2, 3)],
    *[("channels_last", {"VECTOR": v, "WARPS": 5, "ITEMS": i}, 1, 160) for v in (1, 2, 4, 8) for i in (1, 4)],
    ("channels_last", {"VECTOR": 8, "WARPS": 16, "ITEMS": 2}, 1, 32),
]


def stored(x, variant):
    """x (images, channels, pixels) as the rung wants it in memory."""
    return np.ascontiguousarray(x.transpose(0, 2, 1)) if IN_LAYOUT[variant] == "NHWC" else x


def enough_blocks(variant, tile, images, channels):
    """A block a channel, which all rungs for NCHW can do with; for NHWC a block for 32 vectors of an image."""
    return images * (-(-channels // (32 * tile["VECTOR"])) if IN_LAYOUT[variant] == "NHWC" else channels)


@pytest.mark.parametrize(("variant", "tile", "images", "threads"), KERNEL_CASES, ids=str)
def test_any_block_and_tile(rng, variant, tile, images, threads):
    """Blocks of any number of threads, powers of two or not; tiles larger than what there is to do."""
    channels, pixels = 40, 49
    x = draw(rng, images, channels, pixels)
    out = poisoned((images, channels), np.float32)
    kernel = ladder.kernel(variant, np.float32, **tile)
    blocks = enough_blocks(variant, tile, images, channels)
    with cuda.guarded():
        kernel((blocks,), (threads,), (on_device(stored(x, variant)), out, images, channels, pixels))
    agrees(out, f64(x).mean(2), k=pixels)


simulator_only = pytest.mark.skipif(cuda.backend() == "gpu", reason="a trace is the simulator's")


@simulator_only
@every_rung("global_avg_pool")
@pytest.mark.parametrize(("channels", "pixels", "threads"), [(5, 49, 64), (6, 70, 96), (4, 300, 256), (40, 8, 32)])
def test_no_races_and_no_read_of_what_nobody_wrote(rng, variant, channels, pixels, threads):
    x, out = draw(rng, 1, channels, pixels), np.full((1, channels), np.nan, np.float32)
    tile = ladder.tile(variant) | ({"VECTOR": 1} if "VECTOR" in ladder.tile(variant) else {})
    kernel, blocks = ladder.kernel(variant, np.float32, **tile), enough_blocks(variant, tile, 1, channels)
    report = cuda.trace(kernel, (blocks,), (threads,), (stored(x, variant), out, 1, channels, pixels))
    assert report.findings == ()
    agrees(out, f64(x).mean(2), k=pixels, floor=0.1)


@simulator_only
def test_what_each_rung_saves_in_shared_memory(rng):
    """What the headers of rungs 2 to 7 promise, of 8 channels in blocks of 256 threads."""
    x = draw(rng, 1, 8, 256)
    counts = {}
    for variant in [*BLOCKS, "warp_per_channel", "channels_per_warp"]:
        out = np.full((1, 8), np.nan, np.float32)
        blocks = 8 if variant in BLOCKS else 1
        report = cuda.trace(ladder.kernel(variant, np.float32), (blocks,), (256,), (x, out, 1, 8, 256))
        assert report.global_loads.sectors == x.nbytes // 32
        counts[variant] = report.shared_loads
    assert counts["interleaved"].conflicts == 0 and counts["strided_index"].conflicts > 0
    assert counts["strided_index"].requests < counts["interleaved"].requests / 3
    assert counts["strided_index"].wavefronts >= counts["interleaved"].wavefronts
    assert counts["sequential"].conflicts == 0
    assert counts["sequential"].requests == counts["strided_index"].requests
    assert counts["warp_shuffle"].requests < counts["sequential"].requests
    assert counts["warp_per_channel"].requests == counts["channels_per_warp"].requests == 0


@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize(("side", "positive", "bound"), [(1024, True, 2e-6), (512, False, 5e-6)])
def test_the_mean_of_a_large_window_keeps_its_digits(rng, layout, side, positive, bound):
    """The rung that the launcher chooses; a chain of 1024² additions would be 3e-5 off."""
    x = rng.standard_normal((1, 4, side, side), dtype=np.float32)
    x = np.maximum(x, 0) if positive else x
    out = cuda.asnumpy(
        kernels.global_avg_pool(cuda.to_layout(on_device(x), layout), out=poisoned((1, 4, 1, 1), x.dtype))
    )
    wanted = x.astype(np.float64).mean((2, 3), keepdims=True)
    assert np.linalg.norm(out - wanted) <= bound * np.linalg.norm(wanted)
