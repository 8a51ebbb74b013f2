"""What a sparse kernel executes, counted on the simulator, and the cycles for which that keeps each unit busy.

    instructions(shape, "ballot", tile, x)     {"fma": …, "shuffle": …, "vote": …, "mma": …} of all warps
    busy(shape, "ballot", tile, x, peaks)      {"FMA": …, "load/store": …, "tensor": …}: cycles of one multiprocessor

The kernel's text is the production kernel's, with macros in front that count fmaf, shuffles, votes and mma.
"""

from typing import Any, NamedTuple

import numpy as np

from .. import cuda
from ..cuda.simulator.module import SimulatedModule
from ..measure.roofline import Peaks
from . import generate, sparse
from .sparse import Shape, Tile

UNITS = ("fma", "shuffle", "vote", "mma")
COUNTERS = """#include "ptx.h"
static unsigned* counters;
#define fmaf(...) (atomicAdd(counters, 1u), fmaf(__VA_ARGS__))
#define __shfl_sync(...) (atomicAdd(counters + 1, 1u), __shfl_sync(__VA_ARGS__))
#define __ballot_sync(...) (atomicAdd(counters + 2, 1u), __ballot_sync(__VA_ARGS__))
#define mma_tf32(...) (atomicAdd(counters + 3, 1u), mma_tf32(__VA_ARGS__))
#define mma_f16(...) (atomicAdd(counters + 3, 1u), mma_f16(__VA_ARGS__))
"""

# of one multiprocessor, per cycle: CUDA C++ Programming Guide, throughput of arithmetic instructions
FMA_WARPS = 4  # 128 lanes
SECTORS = 4  # 128 bytes from L1
FMA_FLOPS = 2 * 32 * FMA_WARPS


class _Launch(NamedTuple):
    kernel: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Any, ...]
    shared: int


def _launch(shape: Shape, scheme: str, tile: Tile, x: Any, count: np.ndarray | None) -> _Launch:
    """A launch of the kernel on the simulator, with random weights; with `count`, which its last argument counts in."""
    dtype = np.dtype(x.dtype)
    text = sparse.source(shape, scheme, tile, dtype.name)
    if count is not None:
        text = text.replace('#include "sparse.h"', COUNTERS + '#include "sparse.h"')
        text = text.replace("restrict__ y) {", "restrict__ y, unsigned* count) {\n    counters = count;")
    kernel = SimulatedModule(text, generate.options()).get_function(sparse.KERNEL)
    shared = sparse.shared_of(shape, scheme, tile, dtype.itemsize)
    kernel.max_dynamic_shared_size_bytes = max(shared, kernel.max_dynamic_shared_size_bytes)
    stored = np.ascontiguousarray(cuda.asnumpy(x).transpose(0, 2, 3, 1))
    weight = np.random.default_rng(7).standard_normal((shape.outputs, shape.channels)).astype(dtype)
    if sparse.kind_of(shape, scheme) != "tiles":  # packed: a row per input channel
        weight = np.ascontiguousarray(weight.T)
    out = np.full((*shape.out_size, shape.outputs), np.nan, dtype)
    arguments: tuple[Any, ...] = (stored, weight, None, None, out)
    if count is not None:
        arguments += (count,)
    return _Launch(kernel, (sparse.blocks_of(shape, tile),), (32 * tile.warps,), arguments, shared)


def _pointwise(shape: Shape) -> None:
    if shape.kernel != (1, 1) or shape.batch != 1:
        raise ValueError(f"shape must be a 1×1 convolution of one picture, got {shape}")


def instructions(shape: Shape, scheme: str, tile: Tile, x: Any) -> dict[str, int]:
    """Instructions of all warps of a launch, by UNITS.

    shape: a 1×1 convolution of one picture. x: (1, C, H, W), float32 or float16. ValueError for another shape.
    """
    _pointwise(shape)
    count = np.zeros(len(UNITS), np.uint32)
    made = _launch(shape, scheme, tile, x, count)
    made.kernel(made.grid, made.block, made.arguments, shared_mem=made.shared)
    return dict(zip(UNITS, (int(lanes) // 32 for lanes in count), strict=True))


def busy(shape: Shape, scheme: str, tile: Tile, x: Any, peaks: Peaks) -> dict[str, float]:
    """Cycles for which one multiprocessor keeps each unit busy: the largest is a lower bound of the launch's cycles.

    Not counted: waiting, barriers, integer instructions, memory behind L1. The rate of tensor cores relative to FMA is
    that of the recorded peaks. Arguments and errors as for `instructions`.
    """
    made = instructions(shape, scheme, tile, x)
    launch = _launch(shape, scheme, tile, x, None)
    report = cuda.trace(launch.kernel, launch.grid, launch.block, launch.arguments, launch.shared)
    passes = float(made["shuffle"])
    for line in report.lines:
        counts = line.counts
        passes += max(counts.requests, counts.units / SECTORS) if counts.space == "global" else counts.units
    half = np.dtype(x.dtype).itemsize == 2
    flops = made["mma"] * 2 * 16 * 8 * (16 if half else 8)
    peak = peaks.tensor_fp16 if half else peaks.tensor_tf32
    if peak is None:
        raise ValueError("peaks must be those of a card with tensor cores")
    rate = peak / peaks.fma_fp32 * FMA_FLOPS
    return {"FMA": made["fma"] / FMA_WARPS, "load/store": passes, "tensor": flops / rate}
