"""pointwise: 1×1 convolution with fused bias, residual and activation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ... import cuda
from ...cuda import checks, layout
from .. import vectors
from ..halves import Halves, checked
from ..ladder import Ladder, Rung
from . import persistent

# A block computes BM×BN of the output matrix, (O, pixels) in NCHW and (pixels, O) in NHWC; a thread TM×TN of it, a warp
# WM×WN. In split_k and streaming a warp computes 16·TM pixels at a time, in split_k 8·TN output channels.
ladder = Ladder(
    __file__,
    {
        "naive": Rung({"NHWC": 0, "THREADS": 256}, layouts=layout.LAYOUTS),
        "tiled": Rung({"BM": 64, "BN": 64, "BK": 16, "TM": 8, "TN": 4}),
        "channels_last": Rung({"BM": 64, "BN": 64, "BK": 16, "TM": 8, "TN": 4}, layouts=("NHWC",)),
        "tensor_cores": Rung({"BM": 64, "BN": 64, "WM": 32, "WN": 32, "STAGES": 3}, layouts=("NHWC",)),
        "split_k": Rung({"TM": 1, "TN": 2, "WARPS_M": 1, "WARPS_K": 8, "UNROLL": 4}, layouts=("NHWC",)),
        "streaming": Rung({"TM": 1, "BN": 96, "WARPS": 8, "STAGES": 3, "BLOCKS": 2}, layouts=("NHWC",)),
        "warpgroups": Rung(
            {"BM": 64, "BN": 64, "STAGES": 5, "WHOLE": 0}, dtypes=("float16",), layouts=("NHWC",), target="sm_90a"
        ),
        "persistent": Rung(
            {"BM": 64, "BN": 96, "TEAMS": 2, "STAGES": 8, "KEEP": 1, "DEPTH": 6},
            dtypes=("float16",),
            layouts=("NHWC",),
            target="sm_90a",
        ),
        "persistent_halves": Rung(
            {"BM": 128, "BN": 96, "TEAMS": 1, "STAGES": 5, "KEEP": 1},
            dtypes=("float32",),
            layouts=("NHWC",),
            target="sm_90a",
        ),
    },
)
# Rungs whose x and weight are tensor maps: rows that are no multiples of 16 bytes are computed by another one
BY_TENSOR_MAP = {"persistent": "warpgroups", "persistent_halves": "tensor_cores"}

GRID_ROWS = 65_535  # CUDA's limit on gridDim.y

Tile = Mapping[str, int]


@dataclass(frozen=True)
class Product:
    """The matrix product of a call: P pixels of all images, C input and O output channels, bytes per element."""

    P: int
    C: int
    O: int  # noqa: E741 (outputs, as in the kernels)
    itemsize: int

    @property
    def chunks(self) -> int:
        """Chunks of 64 bytes in a row of x; one mma consumes half a chunk."""
        return checks.blocks(self.C * self.itemsize, 64)


@dataclass(frozen=True)
class Launch:
    """Grid, threads per block, bytes of dynamic shared memory per block."""

    grid: tuple[int, ...]
    threads: int
    shared: int = 0


def _tiles(across: int, down: int) -> tuple[int, int, int]:
    """A grid of across × down tiles; the tiles below each other are spread over y and z."""
    y = min(down, GRID_ROWS)
    return across, y, checks.blocks(down, y)


def _naive(t: Tile, m: Product) -> Launch:
    return Launch((checks.blocks(m.P * m.O, t["THREADS"]),), t["THREADS"])


def _tiled(t: Tile, m: Product) -> Launch:
    grid = _tiles(checks.blocks(m.P, t["BN"]), checks.blocks(m.O, t["BM"]))
    return Launch(grid, t["BM"] // t["TM"] * (t["BN"] // t["TN"]))


def _channels_last(t: Tile, m: Product) -> Launch:
    grid = _tiles(checks.blocks(m.O, t["BN"]), checks.blocks(m.P, t["BM"]))
    return Launch(grid, t["BM"] // t["TM"] * (t["BN"] // t["TN"]))


def _tensor_cores(t: Tile, m: Product) -> Launch:
    grid = _tiles(checks.blocks(m.O, t["BN"]), checks.blocks(m.P, t["BM"]))
    return Launch(grid, t["BM"] // t["WM"] * (t["BN"] // t["WN"]) * 32, t["STAGES"] * (t["BM"] + t["BN"]) * 128)


def _split_k(t: Tile, m: Product) -> Launch:
    warps, bm, bn = t["WARPS_M"] * t["WARPS_K"], 16 * t["TM"] * t["WARPS_M"], 8 * t["TN"]
    pieces, sums = warps * t["UNROLL"] * (2 * t["TM"] + t["TN"]) * 512, t["WARPS_K"] * bm * (bn + 8) * 4
    return Launch(_tiles(checks.blocks(m.O, bn), checks.blocks(m.P, bm)), 32 * warps, pieces + sums)


def _streaming(t: Tile, m: Product) -> Launch:
    blocks = min(checks.blocks(m.P, 16 * t["TM"] * t["WARPS"]), t["BLOCKS"] * cuda.multiprocessors())
    pieces = t["BN"] // 8 + t["WARPS"] * t["STAGES"] * 2 * t["TM"]
    shared = checks.blocks(m.C * m.itemsize, 64) * pieces * 512
    return Launch((checks.blocks(m.O, t["BN"]), blocks), 32 * t["WARPS"], shared)


def _warpgroups(t: Tile, m: Product) -> Launch:
    grid = _tiles(checks.blocks(m.O, t["BN"]), checks.blocks(m.P, t["BM"]))
    return Launch(grid, 2 * t["BM"], t["STAGES"] * (t["BM"] + t["BN"]) * 128)


def _persistent(t: Tile, m: Product) -> Launch:
    size = persistent.size(t, m.P, m.C, m.O, itemsize=m.itemsize)
    return Launch((size.blocks,), size.threads, size.shared)


GEOMETRY = {
    "naive": _naive,
    "tiled": _tiled,
    "channels_last": _channels_last,
    "tensor_cores": _tensor_cores,
    "split_k": _split_k,
    "streaming": _streaming,
    "warpgroups": _warpgroups,
    "persistent": _persistent,
    "persistent_halves": _persistent,
}


# ---- Choice of rung and tiles: rules fitted to the fastest on an H200 for MobileNetV2's layers


def _best(m: Product, arithmetic: str | None = None) -> list[str]:
    """Preferred rungs for NHWC, fastest first."""
    if cuda.backend() == "simulator" and arithmetic in (None, "fma"):  # barriers and tiles are slow on a CPU
        return ["naive"]
    hopper, halves = cuda.backend() == "gpu" and cuda.compute_capability() == 90, arithmetic == "halves"
    few = m.P <= 1000 or (m.P <= 4000 and m.O <= 32 and m.chunks > 4)
    if few and not (hopper and halves and m.P > 300 and m.O > 300):
        return ["split_k", "channels_last"]
    if hopper and m.itemsize == 2 and min(m.C, m.O) >= 96:
        return ["persistent", "warpgroups"]
    short = m.chunks <= 6 and (m.O <= 32 or m.O > m.C) if m.itemsize == 2 else m.chunks <= 2
    many = 12_000 if m.O <= 32 else 25_000 if m.itemsize == 2 else 100_000
    if short and many <= m.P:
        return ["streaming", "tensor_cores", "channels_last"]
    if hopper and halves:
        return ["persistent_halves", "tensor_cores"]
    if hopper and m.itemsize == 2 and m.C >= 384:
        return ["warpgroups"]
    return ["tensor_cores", "channels_last"]


def _best_in_nchw(m: Product) -> list[str]:
    """Preferred rungs for NCHW: one thread per output is faster if tiles would occupy under half the GPU."""
    few = checks.blocks(m.P, 64) * checks.blocks(m.O, 64) < 64
    return ["naive"] if few or cuda.backend() == "simulator" else ["tiled"]


def _split_k_tile(m: Product) -> dict[str, int]:
    """At most 16 warps with all their loads in flight at once; about one block per multiprocessor."""
    unroll = min(4, checks.blocks(m.chunks, 16))
    tile = {"TM": 1, "TN": 2, "WARPS_M": 1, "WARPS_K": min(16, checks.blocks(m.chunks, unroll)), "UNROLL": unroll}
    if m.P > 1000:
        tile |= {"TM": 2, "TN": checks.blocks(min(m.O, 32), 8)}
    elif m.itemsize == 2 and m.O <= 64 and m.chunks <= 6:
        tile["TN"] = 1
    elif m.chunks > 2:
        rows = checks.blocks(m.P, 16)
        tile["TN"] = next((tn for tn in (2, 4) if rows * checks.blocks(m.O, 8 * tn) < 120), 6)
    while _split_k(tile, m).shared > cuda.shared_memory():  # of smaller cards
        tile["UNROLL" if tile["UNROLL"] > 1 else "WARPS_K"] -= 1
    return tile


def _streaming_tile(m: Product) -> dict[str, int] | None:
    """The widest slice of the weights and the most warps that fit in shared memory; None if nothing fits."""
    group = 64 // m.itemsize  # outputs that four lanes hold
    whole = checks.blocks(m.O, group) * group
    widest = min(whole, 192 if m.P >= 100_000 else 96)
    wanted = [(2, 8, 2), (1, 12, 2)]
    if m.itemsize == 2 and not 64 <= 2 * m.C <= 128:
        wanted.reverse()
    for bn in (widest, 96, group):
        for tm, warps, blocks in (*wanted, (1, 8, 2), (1, 16, 1), (1, 8, 1), (1, 4, 1), (1, 1, 1)):
            tile = {"TM": tm, "BN": bn, "WARPS": warps, "STAGES": 2, "BLOCKS": blocks}
            if (_streaming(tile, m).shared + 1024) * blocks <= cuda.shared_memory() + 1024:  # 1 KB of each is CUDA's
                return tile
    return None


# BM, BN, WM, WN, from the largest tile, with the least traffic, to the smallest, with the most blocks
MANY_PIXELS = ((192, 96, 48, 96), (128, 128, 32, 64), (128, 64, 64, 32), (96, 160, 48, 32), (64, 96, 32, 32))
FEW_PIXELS = ((64, 96, 32, 32), (64, 64, 32, 32))


def _tensor_cores_tile(m: Product) -> dict[str, int]:
    """fp16: the largest tile without much padding that occupies most multiprocessors. fp32 is compute-bound."""
    if m.itemsize == 2:
        able = (
            shape for shape in (MANY_PIXELS if m.P > 10_000 else FEW_PIXELS)
            if checks.blocks(m.O, shape[1]) * shape[1] <= 1.07 * m.O
            and 4 * checks.blocks(m.P, shape[0]) * checks.blocks(m.O, shape[1]) >= 3 * cuda.multiprocessors()
            and (m.chunks > 2 or m.P < 10_000)
        )  # fmt: skip
        bm, bn, wm, wn = next(able, (64, 32, 16, 32))
    else:
        bn = 64 if m.O % 64 == 0 else 32
        bm, wm, wn = (128 if m.P > 10_000 and m.chunks > 2 else 64), 32 if bn == 64 or m.chunks > 2 else 16, 32
    most = min(4 if bm * bn <= 2048 else 3, cuda.shared_memory() // ((bm + bn) * 128))
    stages = max(2, min(most, checks.blocks(m.C * m.itemsize, 128)))
    return {"BM": bm, "BN": bn, "WM": wm, "WN": wn, "STAGES": stages}


def _warpgroups_tile(m: Product) -> dict[str, int]:
    """The tile with the least traffic, of those without much padding that occupy most multiprocessors."""
    shapes = sorted(
        ((bm, bn) for bm in (64, 128) for bn in (32, 64, 96, 128, 160, 192)), key=lambda s: 1 / s[0] + 1 / s[1]
    )
    able = (
        (bm, bn) for bm, bn in shapes
        if checks.blocks(m.O, bn) * bn <= max(1.07 * m.O, 32)
        and 10 * checks.blocks(m.P, bm) * checks.blocks(m.O, bn) >= 7 * cuda.multiprocessors()
    )  # fmt: skip
    bm, bn = next(able, (64, 32))
    slices = checks.blocks(m.C, 64)
    whole = slices <= 3
    stages = slices if whole else min(6, max(4, 110 * 1024 // ((bm + bn) * 128)))
    return {"BM": bm, "BN": bn, "STAGES": stages, "WHOLE": int(whole)}


def _persistent_tile(m: Product) -> dict[str, int]:
    """The first candidate: by arithmetic alone."""
    return persistent.candidates(m.P, m.C, m.O, 1, itemsize=m.itemsize)[0]


TILES = {
    "split_k": _split_k_tile,
    "streaming": _streaming_tile,
    "tensor_cores": _tensor_cores_tile,
    "warpgroups": _warpgroups_tile,
    "persistent": _persistent_tile,
    "persistent_halves": _persistent_tile,
}


@cuda.operator
def pointwise(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    residual: Any = None,
    activation: Any = None,
    out: Any = None,
    variant: str | None = None,
    tile: Tile | None = None,
    arithmetic: str | Halves | None = None,
) -> Any:
    """out = activation(weight · x + bias + residual): a 1×1 convolution of stride 1 with a fused epilogue.

    x: (N, C, H, W), NCHW or NHWC; weight: (O, C, 1, 1); bias: (O,) or None; residual: as out or None; out: (N, O, H, W)
    in the layout of x. float32 or float16, accumulated in float32. activation: None, "relu", "relu6" or bounds
    (low, high). tile: for variants "persistent" and "persistent_halves", one of persistent.candidates instead of the
    first. arithmetic: of float32 products, see halves.py, "fma", "tf32x3" or Halves of this weight, the last two in
    NHWC; None: what is fastest. Without Halves "persistent_halves" splits the weights in each call, and is for x and
    weights of magnitudes below 65,520.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option, variant or tile is invalid.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=layout.LAYOUTS).shape
    o = checks.array("weight", weight, (None, c, 1, 1), like=x).shape[0]
    if bias is not None:
        checks.array("bias", bias, (o,), like=x)
    shape = (n, o, h, w)
    if residual is not None:
        checks.array("residual", residual, shape, like=x, allowed=layout.LAYOUTS)
    if out is not None:
        checks.array("out", out, shape, like=x, allowed=layout.LAYOUTS)
    low, high = checks.bounds(activation)
    products = checked(arithmetic, x, weight)
    where = _layout(variant, x, residual, out)
    out = checks.output(out, shape, like=x, layout=where)
    checks.apart(out, x=x, weight=weight, bias=bias, residual=residual)

    product = Product(n * h * w, c, o, x.dtype.itemsize)
    rows = [array for array in (x, weight, bias, residual, out) if array is not None]
    whole = vectors.vector_width(*rows, row=math.gcd(c, o)) * x.dtype.itemsize == vectors.WIDEST
    if tile is not None:
        _check_tile(tile, variant, product)
    best = _best(product, products) if where == "NHWC" else _best_in_nchw(product)
    variant = ladder.choose(variant, x.dtype, where, best, products)
    if not whole and variant in BY_TENSOR_MAP:
        variant, tile = BY_TENSOR_MAP[variant], None
    chosen = dict(tile or (TILES[variant](product) if variant in TILES else {}) or {})
    if variant in TILES and not chosen:  # rows of x and the weights together exceed shared memory
        variant, chosen = "tensor_cores", _tensor_cores_tile(product)
    options = ladder.tile(variant) | chosen
    launch = GEOMETRY[variant](options, product)
    if variant == "persistent_halves":
        weight, scales = _as_rows(arithmetic if isinstance(arithmetic, Halves) else Halves(weight, 1.0, 1.0))
        options |= scales
    elif isinstance(arithmetic, Halves):
        options["PAIRS"], weight = 1, arithmetic.words
    elif products == "fma" and variant == "split_k":
        options["FMA"] = 1
    if variant == "naive":
        options["NHWC"] = int(where == "NHWC")
    elif variant == "persistent":
        options["DEPTH"] = checks.blocks(c, 16)
    elif where == "NHWC" and variant not in BY_TENSOR_MAP:
        options["VECTOR"] = int(whole)
    kernel = ladder.kernel(variant, x.dtype, **options)
    cuda.allow_shared(kernel, launch.shared)
    first, second = layout.as_stored(x), layout.as_stored(weight)
    if variant in BY_TENSOR_MAP:
        first, second = persistent.tensor_maps(options, first.reshape(-1, c), second.reshape(o, -1))
    others = (array if array is None else layout.as_stored(array) for array in (bias, residual, out))
    args = (first, second, *others, n, c, o, h * w, low, high)
    kernel(launch.grid, (launch.threads,), args, shared_mem=launch.shared)
    return out


def _as_rows(halves: Halves) -> tuple[Any, dict[str, str]]:
    """(the weights, the -D options) of rung 9."""
    scales = {"X_SCALE": halves.x_scale, "UNSCALE": 1 / (halves.x_scale * halves.w_scale)}
    return halves.rows, {name: f"{scale.hex()}f" for name, scale in scales.items()}


def _check_tile(tile: Tile, variant: str | None, m: Product) -> None:
    if variant not in BY_TENSOR_MAP:
        raise ValueError(f"tile must be given with variant {' or '.join(map(repr, BY_TENSOR_MAP))}, got {variant!r}")
    if problem := persistent.problem(tile, m.P, m.C, m.O, itemsize=m.itemsize):
        raise ValueError(f"tile: {problem}")


def _layout(variant: str | None, x: Any, residual: Any, out: Any) -> str:
    """The layout of the arrays; if they fit both (one pixel or channel), the one that suits the variant."""
    where = layout.shared_layout(x=x, residual=residual, out=out)
    both = all(layout.has(array, "NHWC") for array in (x, residual, out) if array is not None)
    if variant not in ladder.rungs:
        return "NHWC" if both and x.shape[2] * x.shape[3] == 1 else where
    return "NHWC" if both and where not in ladder.rungs[variant].layouts else where
