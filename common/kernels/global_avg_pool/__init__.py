"""global_avg_pool: the mean of each channel over height and width."""

from typing import Any

from ... import cuda
from ...cuda import checks, layout
from .. import vectors
from ..ladder import Ladder, Rung

THREADS = 1024  # per block, at most, where one block reduces one channel
LARGE = 4096  # pixels from which a channel is too large for one thread or one warp

ladder = Ladder(
    __file__,
    {
        "naive": Rung(),
        "interleaved": Rung({"THREADS": THREADS}),
        "strided_index": Rung({"THREADS": THREADS}),
        "sequential": Rung({"THREADS": THREADS}),
        "warp_shuffle": Rung({"THREADS": THREADS}),
        "warp_per_channel": Rung({"VECTOR": 1}),
        "channels_per_warp": Rung({"VECTOR": 1, "CHANNELS": 4, "ITEMS": 2}),
        "channels_last": Rung({"VECTOR": 4, "WARPS": 8, "ITEMS": 7}, layouts=("NHWC",)),
    },
)


@cuda.operator
def global_avg_pool(x: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out[n, c, 0, 0] = mean of x[n, c]: torch.nn.functional.adaptive_avg_pool2d(x, 1).

    x: (N, C, H, W) NCHW or NHWC, any size; out: (N, C, 1, 1); float32 or float16.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=layout.LAYOUTS).shape
    out = checks.output(out, (n, c, 1, 1), like=x)
    checks.apart(out, x=x)
    where = layout.shared_layout(x=x)
    if variant == "channels_last" and layout.has(x, "NHWC"):  # one channel or one pixel fits either layout
        where = "NHWC"
    chosen = ladder.choose(variant, x.dtype, where, [_fastest(n * c, h * w)])
    vector = vectors.vector_width(x, row=c if where == "NHWC" else h * w)
    blocks, threads, switches = _launch(chosen, n, c, h * w, vector)
    ladder.kernel(chosen, x.dtype, **switches)((blocks,), (threads,), (layout.as_stored(x), out, n, c, h * w))
    return out


def _fastest(channels: int, pixels: int) -> str:
    """The fastest rung for NCHW. channels: N · C; pixels: H · W."""
    if cuda.backend() == "simulator":
        # sequential summation loses digits: for 1024² positive numbers the relative error would be 3e-5
        return "naive" if pixels < LARGE else "channels_per_warp"
    # large windows and fewer channels than multiprocessors: one block per channel
    return "warp_shuffle" if channels < cuda.multiprocessors() and pixels >= LARGE else "channels_per_warp"


def _launch(variant: str, n: int, c: int, pixels: int, vector: int) -> tuple[int, int, dict[str, Any]]:
    """(blocks, threads per block, -D options that differ from the rung's). vector: widest access in elements."""
    if variant == "naive":
        return checks.blocks(n * c, 64), 64, {}
    if variant == "warp_per_channel":
        return checks.blocks(n * c, 8), 8 * 32, {"VECTOR": vector}
    if variant == "channels_per_warp":
        # eight accesses in flight per lane: two of each of four channels or, for longer rows, eight of one
        channels, items = (4, 2) if pixels <= 2 * 32 * vector else (1, 8)
        switches: dict[str, Any] = {"VECTOR": vector, "CHANNELS": channels, "ITEMS": items}
        return checks.blocks(n * c, 4 * channels), 4 * 32, switches
    if variant == "channels_last":
        return _launch_nhwc(n, c, pixels, vector)
    return n * c, min(THREADS, 32 * checks.blocks(pixels, 32)), {}


def _launch_nhwc(n: int, c: int, pixels: int, vector: int) -> tuple[int, int, dict[str, Any]]:
    """As `_launch` for NHWC: narrower accesses if blocks would not fill the GPU, fewer warps if there are many."""
    while vector > 1 and n * checks.blocks(c, 32 * vector) < cuda.multiprocessors():
        vector //= 2
    blocks = n * checks.blocks(c, 32 * vector)
    warps = 4 if blocks >= 8 * cuda.multiprocessors() else 8 if pixels <= 128 else 32
    warps = min(warps, pixels)
    rounds = checks.blocks(pixels, 16 * warps)  # at most 16 pixels in flight per lane, equally many per round
    items = checks.blocks(pixels, warps * rounds)
    return blocks, 32 * warps, {"VECTOR": vector, "WARPS": warps, "ITEMS": items}
