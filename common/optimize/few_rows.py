"""The launch of few_rows.cu, the linear layer of few images on tensor cores: of int8 numbers, or of halves.

head.few_rows and head_int8.few_rows_int8 check their arguments and call `launch`.
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from ..kernels import vectors
from ..kernels.ladder import header_options, prepared
from .generate import architecture, ceil_div

KERNEL = "few_rows"
SOURCE = Path(__file__).with_name(f"{KERNEL}.cu")
MOST_ROWS = {1: 256, 2: 64}  # images, by bytes of a number; for more, a tiled matrix product is faster
MOST_WARPS = 10  # of a thread block, which share the products of a sum
PIECE = 64  # bytes of a row that a warp takes at a time
HALVES = ("-Dnumber_t=__half", "-Dbias_t=__half", "-Dresult_t=__half")


def problem(n: int, columns: int, outputs: int, itemsize: int) -> str | None:
    """Why the kernel cannot take x (n, columns) and weight (outputs, columns), in words; None if it can."""
    row = columns * itemsize
    if n > (most := MOST_ROWS[itemsize]):
        return f"x must have at most {most} rows, got {n}"
    if row % vectors.WIDEST:
        return f"rows of x and weight must be multiples of {vectors.WIDEST} bytes, got {columns} columns"
    if shared(n, row, outputs) > cuda.shared_memory():
        return f"x must have fewer columns, got {columns}"
    return None


def tile(n: int, row: int, outputs: int) -> tuple[int, int]:
    """(warps, tiles of 8 images) of a thread block, for n rows of so many bytes: few tiles while all blocks fit."""
    pieces = ceil_div(row, PIECE)
    processors = cuda.multiprocessors() if cuda.backend() == "gpu" else 16
    most = min(4, ceil_div(n, 8))
    tiles = next((t for t in range(1, most) if ceil_div(outputs, 16) * ceil_div(n, 8 * t) <= processors), most)
    return ceil_div(pieces, ceil_div(pieces, MOST_WARPS)), tiles


def shared(n: int, row: int, outputs: int) -> int:
    """Bytes of shared memory of a thread block."""
    warps, tiles = tile(n, row, outputs)
    return 32 * vectors.WIDEST * warps * ceil_div(ceil_div(row, PIECE), warps) * (2 + tiles)


def options(n: int, columns: int, outputs: int, dtype: Any) -> tuple[str, ...]:
    """The compiler's options for n rows of so many columns; dtype: int8 or float16."""
    warps, tiles = tile(n, columns * np.dtype(dtype).itemsize, outputs)
    sizes = f"-DINPUTS={columns}", f"-DWARPS={warps}", f"-DTILES={tiles}"
    return *header_options(), *sizes, *(HALVES if np.dtype(dtype) == np.float16 else ())


def launch(x: Any, weight: Any, bias: Any, multiplier: Any, y: Any, programmatic: bool) -> None:
    """Launch the kernel on arrays of checked shapes and dtypes. multiplier: of int8 alone.

    ValueError for a `problem`, and for arrays that do not begin at multiples of 16 bytes.
    """
    (n, columns), outputs = x.shape, int(weight.shape[0])
    if why := problem(n, columns, outputs, x.dtype.itemsize):
        raise ValueError(why)
    if any(vectors.address(array) % vectors.WIDEST for array in (x, weight)):
        raise ValueError(f"x and weight must begin at multiples of {vectors.WIDEST} bytes")
    row = columns * x.dtype.itemsize
    warps, tiles = tile(n, row, outputs)
    given = options(n, columns, outputs, x.dtype)
    kernel = prepared(f"{KERNEL}/{tiles}_tiles", functools.partial(_compiled, given, cuda.backend()), programmatic)
    size = shared(n, row, outputs)
    cuda.allow_shared(kernel, size)
    grid = ceil_div(outputs, 16), ceil_div(n, 8 * tiles)
    kernel(grid, (32 * warps,), (x, weight, bias, multiplier, y, n, outputs), shared_mem=size)


@functools.lru_cache(maxsize=64)
def _compiled(given: tuple[str, ...], backend: str) -> Any:
    return cuda.RawKernel(SOURCE.read_text(encoding="utf-8"), KERNEL, options=(*given, *architecture()))
