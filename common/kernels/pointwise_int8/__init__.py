"""pointwise_int8: 1×1 convolution of int8 numbers with a requantizing epilogue; linear_int8: a matrix product.

The arithmetic is that of common.kernels.int8, bit for bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from .. import int8_arguments as arguments
from .. import vectors
from ..int8 import HIGH, LOW
from ..ladder import Ladder, Rung
from ..pointwise import persistent

# A block computes BM×BN of the output (pixels, O), a thread of dp4a TM×TN of it, a warp of tensor_cores WM×WN; in
# streaming a warp computes 16·TM pixels at a time. BK: channels per slice. persistent: see pointwise/persistent.py.
ladder = Ladder(
    __file__,
    {
        "naive": Rung({"THREADS": 256, "out_t": "signed char"}, arguments.DTYPE, ("NHWC",)),
        "dp4a": Rung(
            {"BM": 64, "BN": 64, "BK": 32, "TM": 4, "TN": 4, "VECTOR": 16, "PIECE": 16, "out_t": "signed char"},
            arguments.DTYPE,
            ("NHWC",),
        ),
        "tensor_cores": Rung(
            {"BM": 64, "BN": 64, "BK": 64, "WM": 32, "WN": 32, "STAGES": 3, "VECTOR": 16, "PIECE": 16,
             "out_t": "signed char"},
            arguments.DTYPE,
            ("NHWC",),
        ),
        "streaming": Rung(
            {"TM": 1, "BN": 96, "WARPS": 8, "STAGES": 3, "BLOCKS": 2, "VECTOR": 16, "PIECE": 16,
             "out_t": "signed char"},
            arguments.DTYPE,
            ("NHWC",),
        ),
        "persistent": Rung(
            {"BM": 64, "BN": 96, "TEAMS": 2, "STAGES": 8, "KEEP": 1, "DEPTH": 3, "SMALL_SUMS": 0}, arguments.DTYPE,
            ("NHWC",),
            target="sm_90a",
        ),
    },
)  # fmt: skip

GRID_ROWS = 65_535  # CUDA's limit on gridDim.y
TILES = (
    (192, 96, 48, 96), (128, 128, 32, 64), (128, 64, 64, 32), (96, 160, 48, 32), (64, 96, 32, 32), (64, 64, 32, 32),
    (64, 32, 16, 32),
)  # fmt: skip  # BM, BN, WM, WN
SLICES = (32, 64, 128)  # BK
PERSISTENT_CHANNELS = 64  # at least so many for "persistent": with fewer, other rungs are as fast on an H200

Tile = Mapping[str, Any]


@dataclass(frozen=True)
class Product:
    """The matrix product of a call: P pixels of all images, C input and O output channels."""

    P: int
    C: int
    O: int  # noqa: E741 (outputs, as in the kernels)


@dataclass(frozen=True)
class Launch:
    """Grid, threads per block, bytes of dynamic shared memory per block."""

    grid: tuple[int, ...]
    threads: int
    shared: int = 0


def _tiles(t: Tile, m: Product) -> tuple[int, int, int]:
    """A grid of tiles of BM×BN; those below each other are spread over y and z."""
    down = checks.blocks(m.P, t["BM"])
    y = min(down, GRID_ROWS)
    return checks.blocks(m.O, t["BN"]), y, checks.blocks(down, y)


def _naive(t: Tile, m: Product) -> Launch:
    return Launch((checks.blocks(m.P * m.O, t["THREADS"]),), t["THREADS"])


def _dp4a(t: Tile, m: Product) -> Launch:
    return Launch(_tiles(t, m), t["BM"] // t["TM"] * (t["BN"] // t["TN"]))


def _tensor_cores(t: Tile, m: Product) -> Launch:
    threads = t["BM"] // t["WM"] * (t["BN"] // t["WN"]) * 32
    return Launch(_tiles(t, m), threads, t["STAGES"] * (t["BM"] + t["BN"]) * t["BK"])


def _streaming(t: Tile, m: Product) -> Launch:
    blocks = min(checks.blocks(m.P, 16 * t["TM"] * t["WARPS"]), t["BLOCKS"] * cuda.multiprocessors())
    pieces = t["BN"] // 8 + t["WARPS"] * t["STAGES"] * 2 * t["TM"]
    return Launch((checks.blocks(m.O, t["BN"]), blocks), 32 * t["WARPS"], checks.blocks(m.C, 64) * pieces * 512)


def _persistent(t: Tile, m: Product) -> Launch:
    size = persistent.size(t, m.P, m.C, m.O, itemsize=1)
    return Launch((size.blocks,), size.threads, size.shared)


GEOMETRY = {
    "naive": _naive,
    "dp4a": _dp4a,
    "tensor_cores": _tensor_cores,
    "streaming": _streaming,
    "persistent": _persistent,
}


# ---- Choice of rung and tiles: the rules of pointwise in fp16 at the same bytes per row


def _best(m: Product) -> list[str]:
    """Preferred rungs, fastest first."""
    if cuda.backend() == "simulator":  # barriers and tiles are slow on a CPU
        return ["naive"]
    first = ["persistent"] if m.C >= PERSISTENT_CHANNELS and m.C % 16 == m.O % 16 == 0 else []
    if m.C <= 192 and (m.O <= 32 or m.O > m.C) and m.P >= 25_000:
        return [*first, "streaming", "tensor_cores", "dp4a"]
    return [*first, "tensor_cores", "dp4a"]


def _tensor_cores_tile(m: Product) -> dict[str, int]:
    """The largest tile without much padding that occupies most multiprocessors; slices of 128 bytes, or whole rows."""
    able = (
        shape for shape in TILES
        if checks.blocks(m.O, shape[1]) * shape[1] <= max(1.07 * m.O, 32)
        and 4 * checks.blocks(m.P, shape[0]) * checks.blocks(m.O, shape[1]) >= 3 * cuda.multiprocessors()
    )  # fmt: skip
    bm, bn, wm, wn = next(able, TILES[-1])
    bk = next((bk for bk in SLICES if bk >= m.C), SLICES[-1])
    most = min(4, cuda.shared_memory() // (2 * (bm + bn) * bk))  # of two blocks per multiprocessor
    return {"BM": bm, "BN": bn, "BK": bk, "WM": wm, "WN": wn, "STAGES": max(2, min(most, checks.blocks(m.C, bk)))}


def _streaming_tile(m: Product) -> dict[str, int] | None:
    """The widest slice of the weights and the most warps that fit in shared memory; None if nothing fits."""
    whole = checks.blocks(m.O, 32) * 32
    for bn in (min(whole, 192), min(whole, 96), 32):
        for tm, warps, blocks in ((1, 12, 2), (2, 8, 2), (1, 8, 2), (1, 16, 1), (1, 8, 1), (1, 4, 1), (1, 1, 1)):
            tile = {"TM": tm, "BN": bn, "WARPS": warps, "STAGES": 3, "BLOCKS": blocks}
            if (_streaming(tile, m).shared + 1024) * blocks <= cuda.shared_memory() + 1024:  # 1 KB of each is CUDA's
                return tile
    return None


@cuda.operator
def pointwise_int8(
    x: Any,
    weight: Any,
    bias: Any,
    multiplier: Any,
    *,
    zero_point: int = 0,
    bounds: tuple[int, int] = (LOW, HIGH),
    residual: Any = None,
    residual_scales: Any = None,
    residual_offset: int = 0,
    residual_first: bool = False,
    out: Any = None,
    variant: str | None = None,
    tile: Tile | None = None,
    small: bool = False,
    one_step: Any = None,
) -> Any:
    """out = clamp(round(acc · multiplier) + zero_point), acc = weight · x + bias: a 1×1 convolution in int8.

    x: (N, C, H, W), NHWC; weight: (O, C, 1, 1); out: (N, O, H, W), NHWC: int8. bias: (O,) int32, the zero point of x
    folded in (int8.fold_zero_point), or None. multiplier: (O,) float32, scale_x · scale_w / scale_out per channel.
    zero_point, bounds (low, high): of out; ReLU6 is int8.bounds("relu6", …). residual: as out, or None, with
    residual_scales (scale_a, scale_b, shift) and residual_offset, 0 or for a uint8 model 128: then out = int8.add of
    the product, requantized with zero_point and without bounds, and the residual, within bounds; residual_first: of the
    residual and the product, in this order, which the rounding of a float32 sum depends on. tile: for variant
    "persistent", one of pointwise.persistent.candidates with itemsize 1 instead of the first. small:
    whether int8.small_sums holds, with which variant "persistent" needs fewer instructions. one_step: the (3, O) int32
    of one_step.one_step for these arguments, if every channel is exact: variant "persistent" then needs fewer still.
    Source: int8.py.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout, option, variant
    or tile is invalid.
    """
    n, c, h, w = arguments.nhwc("x", x, (None,) * 4).shape
    o = checks.array("weight", weight, (None, c, 1, 1), dtypes=arguments.INT8).shape[0]
    shape = (n, o, h, w)
    checked = arguments.Epilogue(
        o, c, bias, multiplier, zero_point, bounds, shape, residual, residual_scales, residual_offset,
        residual_first, one_step,
    )  # fmt: skip
    out = arguments.output(out, shape, x)
    checks.apart(out, x=x, weight=weight, bias=bias, multiplier=multiplier, residual=residual)
    product = Product(n * h * w, c, o)
    if tile is not None:
        problem = persistent.problem(tile, product.P, c, o, itemsize=1)
        if variant != "persistent" or problem:
            raise ValueError(f"tile: {problem}" if problem else f'tile needs variant "persistent", got {variant!r}')
    _launch(x, weight, out, product, checked, variant, "signed char", (n, c, o, h * w), tile, small)
    return out


@cuda.operator
def linear_int8(
    x: Any,
    weight: Any,
    bias: Any,
    multiplier: Any,
    *,
    zero_point: int = 0,
    bounds: tuple[int, int] = (LOW, HIGH),
    to_float: bool = False,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = clamp(round(acc · multiplier) + zero_point), acc = x · weightᵀ + bias; to_float: out = acc · multiplier.

    x: (M, K) int8, weight: (N, K) int8, C-contiguous; bias: (N,) int32 or None, multiplier: (N,) float32, as of
    pointwise_int8; out: (M, N), int8, or with to_float float32: logits, for a multiplier of scale_x · scale_w.
    zero_point, bounds: of an int8 out. Runs as pointwise_int8, whose rungs `variant` names. Errors as there.
    """
    m, k = checks.array("x", x, (None, None), dtypes=arguments.INT8).shape
    n = checks.array("weight", weight, (None, k), dtypes=arguments.INT8).shape[0]
    checked = arguments.Epilogue(n, k, bias, multiplier, zero_point, bounds, (m, n), None, None)
    if out is None:
        out = cuda.empty((m, n), np.float32 if to_float else np.int8)
    checks.array("out", out, (m, n), dtypes=arguments.FLOAT32 if to_float else arguments.INT8)
    checks.apart(out, x=x, weight=weight, bias=bias, multiplier=multiplier)
    kind = "float" if to_float else "signed char"
    _launch(x, weight, out, Product(m, k, n), checked, variant, kind, (m, k, n, 1))
    return out


def _launch(
    x: Any, weight: Any, out: Any, product: Product, end: arguments.Epilogue, variant: str | None, out_t: str,
    sizes: tuple[int, ...], chosen_tile: Tile | None = None, small: bool = False,
) -> None:  # fmt: skip
    """Choose rung and tile, and launch. sizes: N, C, O, pixels per image. chosen_tile, small: of rung "persistent"."""
    variant = ladder.choose(variant, x.dtype, "NHWC", best=_best(product))
    tile = ladder.tile(variant) | {"out_t": out_t}
    if variant == "streaming":
        chosen = _streaming_tile(product)
        if chosen is None:  # rows of x and the weights together exceed shared memory
            variant, tile = "tensor_cores", ladder.tile("tensor_cores") | {"out_t": out_t}
        else:
            tile |= chosen
    if variant == "persistent" and not _suits_tensor_maps(x, weight, out, end.residual, product):
        variant, tile = "tensor_cores", ladder.tile("tensor_cores") | {"out_t": out_t}
    if variant == "tensor_cores":
        tile |= _tensor_cores_tile(product)
    if variant == "persistent":
        tile |= chosen_tile or persistent.candidates(product.P, product.C, product.O, 1, itemsize=1)[0]
        tile["DEPTH"] = checks.blocks(product.C, 32)
        tile["ONE_STEP"] = int(end.in_one_step)
        tile["SMALL_SUMS"] = arguments.small_switch(small, end.bounds, end.residual is not None)
    elif variant != "naive":
        tile["VECTOR"] = vectors.vector_width(x, weight, row=product.C)
        tile["VECTOR"] = tile["VECTOR"] if tile["VECTOR"] >= 4 else 1
        tile["PIECE"] = end.piece(out, product.O)
    launch = GEOMETRY[variant](tile, product)
    switches, numbers = end.ends_as(int(tile.get("SMALL_SUMS", 0)))
    kernel = ladder.kernel(variant, x.dtype, **tile, **switches)
    cuda.allow_shared(kernel, launch.shared)
    arrays = (x, weight, *end.constants(bool(tile.get("ONE_STEP"))), end.residual, out)
    stored = (array if array is None else layout.as_stored(array) for array in arrays)
    args = (*stored, *sizes, *numbers)
    if variant == "persistent":
        rows = (args[0].reshape(-1, product.C), args[1].reshape(product.O, -1))
        args = (*persistent.tensor_maps(tile, *rows), *args[2:])
    kernel(launch.grid, (launch.threads,), args, shared_mem=launch.shared)


def _suits_tensor_maps(x: Any, weight: Any, out: Any, residual: Any, m: Product) -> bool:
    """Whether rung "persistent" can compute it: int8 outputs, and rows that begin at multiples of 16 bytes."""
    given = [array for array in (x, weight, out, residual) if array is not None]
    return out.dtype == np.int8 and m.C % 16 == m.O % 16 == 0 and not any(vectors.address(a) % 16 for a in given)
