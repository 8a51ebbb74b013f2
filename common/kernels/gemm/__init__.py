"""gemm: matrix product with fused bias and activation; linear: a fully connected layer."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks
from .. import vectors
from ..halves import Halves, checked
from ..ladder import Ladder, Rung

# A block computes BM×BN elements of C, BK products of each at a time; a thread TM×TN of them, a warp WM×WN.
ladder = Ladder(
    __file__,
    {
        "naive": Rung({"BM": 32, "BN": 32}),
        "coalesced": Rung({"BM": 32, "BN": 32}),
        "shared_tiles": Rung({"BM": 32, "BN": 32, "BK": 32}),
        "register_column": Rung({"BM": 64, "BN": 64, "BK": 8, "TM": 8}),
        "register_block": Rung({"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}),
        "vectorised": Rung({"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8, "VECTOR": 4}),
        "warp_tiles": Rung({"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8, "WM": 64, "WN": 32, "VECTOR": 4}),
        "double_buffered": Rung(
            {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 16, "WM": 64, "WN": 64, "STAGES": 2, "VECTOR": 4},
            dtypes=("float32",),
        ),
        "tensor_cores": Rung(
            {"BM": 128, "BN": 128, "BK": 64, "WM": 64, "WN": 64, "STAGES": 3, "GROUP": 8, "VECTOR": 8},
            dtypes=("float16",),
        ),
        "three_tf32": Rung(
            {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 32, "STAGES": 3, "GROUP": 8, "VECTOR": 4},
            dtypes=("float32",),
        ),
        "split_k": Rung({"BM": 16, "BN": 8, "WARPS": 16, "DEPTH": 5}),  # VECTOR: 16 bytes' worth
        "warpgroups": Rung(
            {"BM": 256, "BN": 128, "BK": 64, "WM": 16, "WN": 128, "STAGES": 4, "GROUP": 8, "VECTOR": 8},
            dtypes=("float16",),
            target="sm_90a",
        ),
        "bulk_copies": Rung(
            {"BM": 256, "BN": 128, "BK": 64, "WM": 16, "WN": 128, "STAGES": 4, "GROUP": 8},
            dtypes=("float16",),
            target="sm_90a",
        ),
        "producer": Rung(
            {"BM": 128, "BN": 256, "BK": 64, "WM": 16, "WN": 256, "STAGES": 4, "GROUP": 8, "PRODUCER": 1},
            dtypes=("float16",),
            target="sm_90a",
        ),
        "persistent": Rung(
            {
                "BM": 128,
                "BN": 256,
                "BK": 64,
                "WM": 16,
                "WN": 256,
                "STAGES": 4,
                "GROUP": 8,
                "PRODUCER": 1,
                "PERSISTENT": 1,
            },
            dtypes=("float16",),
            target="sm_90a",
        ),
        "three_halves": Rung(
            {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 32, "STAGES": 3, "GROUP": 8, "VECTOR": 4},
            dtypes=("float32",),
        ),
    },
)

# Smaller tiles for small results: (throughput relative to the largest tile on a full GPU, -D options), measured on an
# H200. split_k uses the largest tile that still occupies every multiprocessor.
SMALLER: Mapping[str, tuple[tuple[float, dict[str, int]], ...]] = {
    "tensor_cores": ((0.6, {"BM": 64, "BN": 64, "WM": 32, "WN": 32, "STAGES": 4}),),
    "three_tf32": ((0.84, {"BM": 64, "BN": 64, "WM": 32, "STAGES": 4}),),
    "three_halves": ((0.84, {"BM": 64, "BN": 64, "WM": 32, "STAGES": 4}),),  # as if it were three_tf32: not measured
    "warpgroups": ((0.85, {"BM": 128, "STAGES": 5}), (0.56, {"BM": 64, "STAGES": 6})),
    "persistent": (
        (0.96, {"BN": 192, "WN": 192, "STAGES": 5}),
        (0.79, {"BM": 64, "BN": 128, "WN": 128, "STAGES": 8}),
    ),
}
# Rungs whose A and B are tensor maps: rows that are no multiples of 16 bytes are computed by "warpgroups" instead.
BY_TENSOR_MAP = ("bulk_copies", "producer", "persistent")
SPLIT = ({"BM": 32, "BN": 32, "WARPS": 8, "DEPTH": 1}, {"BM": 16, "BN": 16, "WARPS": 8, "DEPTH": 2})


def tile_of(variant: str, dtype: Any, m: int, n: int) -> dict[str, Any]:
    """The -D options of a rung, with the tile estimated fastest for an (m, n) result."""
    largest, processors = ladder.tile(variant), cuda.multiprocessors()
    if variant == "split_k":
        enough = [tile for tile in SPLIT if _blocks(tile, m, n) > 0.9 * processors]
        return {**largest, **(enough[0] if enough else {}), "VECTOR": vectors.WIDEST // np.dtype(dtype).itemsize}

    def time(choice: tuple[float, dict[str, Any]]) -> float:
        speed, tile = choice
        return checks.blocks(_blocks(tile, m, n), processors) * tile["BM"] * tile["BN"] / speed

    choices = [(1.0, largest), *((speed, largest | tile) for speed, tile in SMALLER.get(variant, ()))]
    return min(choices, key=time)[1]


def _blocks(tile: Mapping[str, int], m: int, n: int) -> int:
    return checks.blocks(m, tile["BM"]) * checks.blocks(n, tile["BN"])


def geometry(tile: Mapping[str, int], m: int, n: int) -> tuple[tuple[int], tuple[int]]:
    """(grid, block) for an (m, n) result: a block per tile, or persistent ones, one per multiprocessor."""
    if "WARPS" in tile:
        threads = 32 * tile["WARPS"]
    elif "WM" in tile and "TM" not in tile:
        threads = 32 * (tile["BM"] // tile["WM"]) * (tile["BN"] // tile["WN"])
        if tile.get("PRODUCER"):
            threads += 128  # the warpgroup that fetches
    else:
        threads = tile["BM"] * tile["BN"] // (tile.get("TM", 1) * tile.get("TN", 1))
    blocks = _blocks(tile, m, n)
    if tile.get("PERSISTENT"):
        blocks = min(blocks, cuda.multiprocessors())
    return (blocks,), (threads,)


def shared_bytes(tile: Mapping[str, int], itemsize: int) -> int:
    """Bytes of dynamic shared memory per block: STAGES slices of A and B, later reused for the tile of C."""
    if "GROUP" not in tile:
        return 0
    padding = 8 if itemsize == 4 else 0  # three_tf32's and three_halves' rows of B, if it is not transposed
    slices = tile["STAGES"] * tile["BK"] * (tile["BM"] + tile["BN"] + padding)
    if tile.get("PRODUCER"):
        slices += tile["BM"] * 64  # on the way out: 16 rows of 64 columns per warp
    barriers = 0 if "VECTOR" in tile else 1024  # mbarriers, and room for tiles to begin at multiples of 1,024
    return itemsize * max(slices, tile["BM"] * tile["BN"]) + barriers


def tensor_maps(tile: Mapping[str, int], a: Any, b: Any, transpose_b: bool) -> tuple[cuda.TensorMap, cuda.TensorMap]:
    """A and B for the rungs of BY_TENSOR_MAP: a copy brings BM rows of A; of B BN rows if it is transposed, else BK."""
    box_b = (tile["BN"], tile["BK"]) if transpose_b else (tile["BK"], 64)
    return cuda.TensorMap(a, (tile["BM"], tile["BK"])), cuda.TensorMap(b, box_b)


def _best(dtype: np.dtype, m: int, n: int, arithmetic: str | None = None) -> list[str]:
    """Rungs that suit a product of this size, the best first."""
    if cuda.backend() == "simulator" and arithmetic in (None, "fma"):  # barriers and tiles are slow on a CPU
        return ["coalesced"]
    halves, capability = dtype == np.float16, cuda.compute_capability()
    # data-centre cards, sm_80, sm_90 and sm_100, multiply TF32 fast enough to do it three times
    tiles = ["tensor_cores", "warp_tiles"] if halves else ["double_buffered", "warp_tiles"]
    if halves and capability == 90:
        tiles = ["persistent", "warpgroups", *tiles]
    if not halves and capability % 10 == 0:
        tiles = ["three_tf32", *tiles]
    few = _blocks({"BM": 64, "BN": 128 if halves else 64}, m, n) < 0.75 * cuda.multiprocessors()
    return ["split_k", *tiles] if few else tiles


@cuda.operator
def gemm(
    a: Any,
    b: Any,
    bias: Any = None,
    *,
    transpose_b: bool = False,
    activation: Any = None,
    out: Any = None,
    variant: str | None = None,
    arithmetic: str | Halves | None = None,
) -> Any:
    """out = activation(a @ b + bias), or a @ b.T with transpose_b.

    a: (M, K); b: (K, N), or (N, K) with transpose_b; bias: (N,) or None, added to every row; out: (M, N). Row-major,
    float32 or float16, accumulated in float32. activation: None, "relu", "relu6" or bounds (low, high).
    arithmetic: of float32 products, see halves.py: "fma", "tf32x3" or Halves of b; None: what is fastest.
    The rung "three_halves" without Halves is for elements of magnitudes below 65,520, with scales of 1.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    m, k = checks.array("a", a, (None, None)).shape
    n = checks.array("b", b, (None, k) if transpose_b else (k, None), like=a).shape[0 if transpose_b else 1]
    if bias is not None:
        checks.array("bias", bias, (n,), like=a)
    low, high = checks.bounds(activation)
    out = checks.output(out, (m, n), like=a)
    checks.apart(out, a=a, b=b, bias=bias)

    products = checked(arithmetic, a, b)
    variant = ladder.choose(variant, a.dtype, best=_best(a.dtype, m, n, products), arithmetic=products)
    row = k if variant == "split_k" else math.gcd(k, n)  # split_k reads along rows and stores C element by element
    width = vectors.vector_width(a, b, out, *([] if bias is None else [bias]), row=row)
    if variant in BY_TENSOR_MAP and width < 8:
        variant = "warpgroups"
    tile = tile_of(variant, a.dtype, m, n)
    shared = shared_bytes(tile, a.dtype.itemsize)
    if width < tile.get("VECTOR", 0):
        tile["VECTOR"] = 2 if variant in ("tensor_cores", "warpgroups") and width > 1 else 1
    if isinstance(arithmetic, Halves):
        tile |= {"A_SCALE": f"{arithmetic.x_scale.hex()}f", "B_SCALE": f"{arithmetic.w_scale.hex()}f"}
    grid, block = geometry(tile, m, n)
    kernel = ladder.kernel(variant, a.dtype, TRANSPOSE_B=int(transpose_b), **tile)
    cuda.allow_shared(kernel, shared)
    first, second = tensor_maps(tile, a, b, transpose_b) if variant in BY_TENSOR_MAP else (a, b)
    kernel(grid, block, (first, second, bias, out, m, n, k, low, high), shared_mem=shared)
    return out


def linear(
    x: Any, weight: Any, bias: Any = None, *, out: Any = None, variant: str | None = None,
    arithmetic: str | Halves | None = None,
) -> Any:  # fmt: skip
    """out = x @ weight.T + bias: torch.nn.functional.linear.

    x: (N, in_features), weight: (out_features, in_features), bias: (out_features,) or None, out: (N, out_features);
    dtypes, variant, arithmetic and errors as in gemm.
    """
    return gemm(x, weight, bias, transpose_b=True, out=out, variant=variant, arithmetic=arithmetic)
