"""The suite "multiprocessor": what limits one multiprocessor: latencies, issue slots, loads in flight, blocks.

Experiments, each with cases of its own (kernels of multiprocessor.cu):

    latency     a chain of dependent loads from shared memory, L1, L2 and global memory: cycles and ns per load
    fma         chains of dependent multiply-adds, by warps per scheduler, chains per thread, and registers that a
                multiply-add reads: instructions per scheduler and cycle ("issue", at most 1), of one block
    divergence  the same work in 1 to 8 arms of an if, chosen by lane or by warp: cycles of one block
    strides     cycles per request that L1 answers, by the distance between the words of neighbouring lanes
    loads       bytes per second from global memory, by threads per multiprocessor, loads per thread and their width
    waves       µs by the number of blocks, where a multiprocessor holds 1 block, and where it holds 2
    bounds      gemm/register_block with __launch_bounds__ for 1 to 4 blocks per multiprocessor: µs, registers
    mixes       cycles of a warp scheduler for a mix of instructions of one kind or several, as of int8 blocks
    transposes  µs of a large transpose: naive, through a tile with rows of 32 floats, and of 33 (trace_kernels.cu)

Cycles are read in the kernel and do not depend on the clock's frequency. A wrong result is an error.
"""

import functools
import itertools
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from .. import cuda, kernels
from ..cuda.graphs import NoGpu
from ..kernels.gemm import ladder as gemm
from ..kernels.ladder import header_options
from ..measure import timing
from ..report.results import rounded_us
from . import driver, trace
from .driver import Measured

SOURCE = Path(__file__).with_name("multiprocessor.cu")
FACTOR = -1e-4  # of multiprocessor.cu
A, B = -0.9999, 1.5  # with these, x = A·x + B neither converges soon nor overflows
SCHEDULERS = 4  # of a multiprocessor
RUNS = 5  # of a kernel that reads the clock itself: the median is recorded
SAMPLES = 6

WARPS = (1, 2, 3, 4, 5, 6, 7, 8)  # per scheduler
CHAINS = (1, 2, 3, 4, 8)
REGISTERS = (1, 3)  # that a multiply-add reads
FMA_STEPS = 4096

ARMS = (1, 2, 4, 8)
ARM_STEPS, ARM_THREADS = 4096, 256

LOAD_BYTES = 2**28  # five times an H200's L2
THREADS = (64, 128, 256, 512, 1024, 2048)  # per multiprocessor
LOADS = (1, 2, 4, 8)
VECTORS = {4: "unsigned", 16: "uint4"}  # bytes: type

BLOCKS = tuple(sorted({*range(6, 421, 6), *(n + d for n in (132, 264, 396) for d in (-1, 0, 1)), 1}))
WAVE_STEPS, WAVE_THREADS = 8192, 256
WAVE_SHARED = {1: 160 * 1024, 2: 96 * 1024}  # bytes of shared memory per block: that many blocks fit (228 KiB)

CHASE_STEPS = 2**20
CHASES = {"L1": 2**14, "L2": 2**22, "global memory": 2**28}  # bytes that the chain goes through

# bytes between the words of neighbouring lanes; all of a warp's words fit into L1
STRIDES = (4, 8, 16, 32, 36, 60, 64, 68, 96, 100, 108, 124, 128, 132, 160, 192, 196, 256, 260, 384, 512, 1024, 1028,
           1920, 2048, 2304, 3840, 5120)  # fmt: skip
STRIDE_STEPS, STRIDE_WARPS = 4096, 32

BOUNDS = (1, 2, 3, 4)  # blocks per multiprocessor, as __launch_bounds__ asks for
GEMM_SIZE = 4096

# instructions by PTX's names: of multiprocessor.cu the macro, and how many it has of them
OPERATIONS = {"fma": ("FMA", 1), "cvt.pack": ("PACK", 2), "prmt": ("PERMUTE", 1),
              "shfl": ("SHUFFLE", 1), "mma k32": ("MMA", 1), "mma k16": ("MMA_HALF", 1)}  # fmt: skip
MIXES: tuple[dict[str, int], ...] = (
    *({name: count} for name, (_, count) in OPERATIONS.items()),
    {"fma": 3, "mma k32": 1}, {"fma": 6, "mma k32": 1}, {"cvt.pack": 2, "mma k32": 1}, {"fma": 4, "cvt.pack": 2},
    {"fma": 4, "cvt.pack": 2, "mma k32": 1},
)  # fmt: skip
MIX_WARPS, MIX_ROUNDS, COPIES = (1, 2, 4), 256, 8  # COPIES: of multiprocessor.cu
MIX_WORDS = 0x7F, 0x00FF00FF, 0x12, 0x5410, 0x01010101  # p, q, r, s, one of multiprocessor.cu

TRANSPOSES = {"naive": "transpose_naive", "rows of 32": "transpose_32", "rows of 33": "transpose_33"}
TRANSPOSE_SIZE = 8192  # a matrix is more than four times an H200's L2


@functools.cache
def _kernel(name: str, backend: str, *defines: str) -> Any:
    return cuda.RawKernel(SOURCE.read_text(), name, options=(*header_options(), *defines))


def _reference(threads: int, steps: int, chains: int, add: Any = 0.0, registers: int = 3) -> np.ndarray:
    """The result of multiply_add and of arms in float64: after n steps x is aⁿ·x₀ + b·(1 − aⁿ)/(1 − a).

    registers: 1 for x·FACTOR + x, in the place of a·x + b.
    """
    if registers == 1:
        a, b = 1 + float(np.float32(FACTOR)), np.zeros((1, 1))
    else:
        a, b = float(np.float32(A)), float(np.float32(B)) + np.asarray(add, np.float64).reshape(-1, 1)
    start = (np.arange(threads) % 32)[:, None] + np.arange(chains)
    return (a**steps * start + b * (1 - a**steps) / (1 - a)).sum(1)


def _check(name: str, out: Any, reference: np.ndarray) -> None:
    error = np.linalg.norm(cuda.asnumpy(out) - reference) / np.linalg.norm(reference)
    if not error <= 1e-4:
        raise RuntimeError(f"multiprocessor.cu: {name} is wrong by {error:.1e}")


def _cycles(launch: Callable[[Any], None], warps: int) -> float:
    """The median over RUNS of the cycles from the first warp's start to the last warp's end. All in one block."""
    found = []
    for _ in range(RUNS + 1):
        clocks = cuda.zeros(2 * warps, np.int64)
        launch(clocks)
        times = cuda.asnumpy(clocks).reshape(-1, 2)
        found.append(int(times[:, 1].max() - times[:, 0].min()))
    return statistics.median(found[1:])  # the first run loads the kernel


def run_fma(warps: int, chains: int, registers: int = 1, steps: int = FMA_STEPS) -> float:
    """Cycles of one block with that many warps per scheduler and chains per thread; its result is checked.

    registers: that a multiply-add reads, 1 or 3.
    """
    threads = 32 * SCHEDULERS * warps
    out = cuda.full(threads, np.nan)
    kernel = _kernel("multiply_add", cuda.backend(), f"-DCHAINS={chains}", f"-DREGISTERS={registers}")
    cycles = _cycles(lambda c: kernel((1,), (threads,), (out, c, np.float32(A), np.float32(B), steps)), threads // 32)
    reference = _reference(threads, steps, chains, registers=registers)
    _check(f"fma with {warps} warps per scheduler and {chains} chains", out, reference)
    return cycles


def run_arms(arms: int, by_warp: bool, steps: int = ARM_STEPS) -> float:
    """Cycles of one block of ARM_THREADS threads in that many arms, chosen by lane or by warp; checked as run_fma."""
    out = cuda.full(ARM_THREADS, np.nan)
    kernel = _kernel("arms", cuda.backend(), f"-DARMS={arms}")
    arguments = np.float32(A), np.float32(B), steps, int(by_warp)
    cycles = _cycles(lambda c: kernel((1,), (ARM_THREADS,), (out, c, *arguments)), ARM_THREADS // 32)
    number = np.arange(ARM_THREADS) // (32 if by_warp else 1)
    _check(f"{arms} arms", out, _reference(ARM_THREADS, steps, 4, number % arms))
    return cycles


def named(mix: Mapping[str, int]) -> str:
    """A mix in words: "3 fma + mma k32"."""
    return " + ".join(name if count == 1 else f"{count} {name}" for name, count in mix.items())


def _mixed(mix: Mapping[str, int], threads: int, rounds: int) -> np.ndarray:
    """What kernel mixes gives, (threads, COPIES, 3) uint32: each number under the operations that change it."""
    p, q, r, *_ = MIX_WORDS  # of which a byte is 255 at most
    lane, copy = np.arange(threads)[:, None] % 32, np.arange(COPIES)
    f = (lane + copy).astype(np.float32)
    v: Any = (0x01020304 * (lane + 1) + copy).astype(np.uint32)
    d: Any = np.broadcast_to(4 * copy + 6, v.shape).astype(np.uint32)
    for _ in range(rounds):
        for name, count in mix.items():
            for _ in range(count // OPERATIONS[name][1]):
                match name:
                    case "fma":
                        f = (np.float64(np.float32(A)) * f + np.float64(np.float32(B))).astype(np.float32)
                    case "cvt.pack":  # clamped to 0 … 255, a the lowest byte
                        top = np.clip(v.view(np.int32), 0, 255).astype(np.uint32)
                        v = top << 24 | np.uint32(min(r, 255) << 16 | min(q, 255) << 8 | min(p, 255))
                    case "prmt":  # selector 0x5410: v's two lower bytes, then p's
                        v = v & 0xFFFF | np.uint32((p & 0xFFFF) << 16)
                    case "shfl":
                        v = np.roll(v.reshape(-1, 32, COPIES), -4, axis=1).reshape(v.shape)
                    case "mma k32" | "mma k16":
                        d = d + np.uint32(4 * int(name[-2:]))
    return np.stack([f.view(np.uint32), v, d], axis=-1)


def run_mix(mix: Mapping[str, int], warps: int, rounds: int = MIX_ROUNDS) -> float:
    """Cycles of a scheduler per mix, with so many warps on each; results are checked. Needs sm_80."""
    threads = 32 * SCHEDULERS * warps
    out = cuda.zeros(threads * COPIES * 3, np.uint32)
    macros = ((*OPERATIONS[name], count) for name, count in mix.items())
    text = " ".join(f"{macro}(i)" for macro, of_macro, count in macros for _ in range(count // of_macro))
    kernel = _kernel("mixes", cuda.backend(), f"-DMIX(i)={text}")
    arguments = np.float32(A), np.float32(B), *map(np.uint32, MIX_WORDS), rounds
    cycles = _cycles(lambda clocks: kernel((1,), (threads,), (out, clocks, *arguments)), threads // 32)
    found, want = cuda.asnumpy(out).reshape(-1, COPIES, 3), _mixed(mix, threads, rounds)
    exact = (found[..., 1:] == want[..., 1:]).all()
    if not exact or not np.allclose(found[..., 0].view(np.float32), want[..., 0].view(np.float32), rtol=1e-4):
        raise RuntimeError(f"multiprocessor.cu: the mix {named(mix)} is wrong")
    return cycles / (rounds * COPIES * warps)


def run_loads(source: Any, blocks: int, threads: int, loads: int, width: int) -> Callable[[], None]:
    """A launch of `loads` over source, uint32. Its result is checked once, now."""
    kernel = _kernel("loads", cuda.backend(), f"-DLOADS={loads}", f"-Dvector_t={VECTORS[width]}")
    out = cuda.zeros(blocks * threads, np.uint32)

    def launch() -> None:
        kernel((blocks,), (threads,), (source, out, source.size * 4 // width))

    launch()
    total = int(cuda.asnumpy(out).sum(dtype=np.uint64)) % 2**32
    if total != int(cuda.asnumpy(source[: 2**16]).sum(dtype=np.uint64)) * (source.size // 2**16) % 2**32:
        raise RuntimeError(f"multiprocessor.cu: loads did not read all, with {loads} loads of {width} bytes")
    return launch


def chain(places: int, stride: int) -> np.ndarray:
    """Links of a chain through `places` places in random order, `stride` elements apart; it ends where it began."""
    random = np.random.default_rng(2)
    order = np.concatenate([[0], 1 + random.permutation(places - 1)])
    links = np.zeros((places, stride), np.uint32)
    links[order, 0] = stride * np.roll(order, -1)
    return links.ravel()


def run_chase(kernel: str, links: np.ndarray, steps: int) -> tuple[float, float]:
    """(cycles, ns) per load of a chain, by one thread that has gone through it once before."""
    there, end = cuda.asarray(links), cuda.full(1, 1, np.uint32)
    program, clocks = _kernel(kernel, cuda.backend()), cuda.zeros(2, np.int64)
    for _ in range(2):
        start = time.perf_counter()
        program((1,), (1,), (there, end, clocks, steps))
        cuda.synchronize()
        seconds = time.perf_counter() - start
    begun, ended = cuda.asnumpy(clocks)
    if cuda.asnumpy(end)[0] != 0:
        raise RuntimeError(f"multiprocessor.cu: {kernel} did not come back to its start")
    return (ended - begun) / steps, seconds * 1e9 / steps


def run_strided(stride: int, steps: int = STRIDE_STEPS) -> float:
    """Cycles per request of one block of STRIDE_WARPS warps, whose lanes load words `stride` bytes apart, from L1."""
    words, threads = stride // 4, 32 * STRIDE_WARPS
    places = np.zeros(31 * words + 1, np.uint32)
    places[::words] = np.arange(32) * words
    there, end = cuda.asarray(places), cuda.full(threads, 1, np.uint32)
    program = _kernel("strided", cuda.backend())
    cycles = _cycles(lambda clocks: program((1,), (threads,), (there, end, clocks, words, steps)), STRIDE_WARPS)
    if (cuda.asnumpy(end) != np.arange(threads) % 32 * words).any():
        raise RuntimeError(f"multiprocessor.cu: strided went elsewhere, with {stride} bytes")
    return cycles / (steps * STRIDE_WARPS)


def bounded(blocks: int) -> Any:
    """gemm/register_block with __launch_bounds__(THREADS, blocks); the ladder's file says only THREADS."""
    text = kernels.source("gemm", "register_block")
    changed = re.sub(r"__launch_bounds__\(THREADS\)", f"__launch_bounds__(THREADS, {blocks})", text)
    if changed == text:
        raise RuntimeError("gemm/register_block has no __launch_bounds__(THREADS)")
    return cuda.RawKernel(changed, "gemm", options=gemm.options("register_block", np.float32, {}))


def run_bounded(kernel: Any, a: Any, b: Any, out: Any) -> None:
    """out = a @ b by a kernel of `bounded`, as gemm/register_block is launched; square matrices."""
    n, tile = out.shape[0], gemm.tile("register_block")
    grid = (-(-n // tile["BM"])) * (-(-n // tile["BN"]))
    threads = tile["BM"] * tile["BN"] // (tile["TM"] * tile["TN"])
    bounds = np.float32(-np.inf), np.float32(np.inf)
    kernel((grid,), (threads,), (a, b, None, out, n, n, n, *bounds))


def run_transposed(name: str, given: Any, out: Any) -> Callable[[], None]:
    """A launch of a transpose of TRANSPOSES, from one square matrix to another. Its result is checked once, now."""
    n = given.shape[0]
    tiles = -(-n // 32)
    kernel = trace.module().get_function(TRANSPOSES[name])

    def launch() -> None:
        kernel((tiles, tiles), (32, 32), (given, out, n))

    out.fill(np.nan)
    launch()
    if not bool((out == given.T).all()):
        raise RuntimeError(f"trace_kernels.cu: {TRANSPOSES[name]} is wrong")
    return launch


# ---- The records


def _record(experiment: str, case: str, **values: Any) -> dict[str, Any]:
    return {"suite": "multiprocessor", "case": f"{experiment}: {case}", "implementation": "ours",
            "experiment": experiment, **values}  # fmt: skip


def _timed(launch: Callable[[], None], samples: int) -> float:
    return rounded_us(timing.time(launch, samples=samples).median_us)


def measure_latency(samples: int) -> Iterator[dict[str, Any]]:
    """Cycles and ns of a load from each level."""
    cases: dict[str, tuple[str, np.ndarray]] = {"shared memory": ("chase_shared", chain(1024, 1))}
    cases |= {level: ("chase", chain(size // 256, 64)) for level, size in CHASES.items()}
    for level, (kernel, links) in cases.items():
        cycles, ns = run_chase(kernel, links, CHASE_STEPS)
        yield _record("latency", level, bytes=links.nbytes, cycles=round(cycles, 1), ns=round(ns, 1))


def measure_fma(samples: int) -> Iterator[dict[str, Any]]:
    """Instructions per scheduler and cycle."""
    for registers, warps, chains in itertools.product(REGISTERS, WARPS, CHAINS):
        cycles = run_fma(warps, chains, registers)
        issue = round(FMA_STEPS * chains * warps / cycles, 3)
        case = f"{warps} warps per scheduler, {chains} chains, {registers} registers"
        yield _record("fma", case, warps=warps, chains=chains, registers=registers, cycles=cycles, issue=issue)


def measure_mixes(samples: int) -> Iterator[dict[str, Any]]:
    """Cycles of a scheduler for each mix, by the warps that it has."""
    for mix, warps in itertools.product(MIXES, MIX_WARPS):
        cycles = round(run_mix(mix, warps), 2)
        case = f"{named(mix)}, {warps} warp{'s' * (warps > 1)} per scheduler"
        yield _record("mixes", case, mix=named(mix), warps=warps, cycles=cycles)


def measure_divergence(samples: int) -> Iterator[dict[str, Any]]:
    """Cycles by the number of arms."""
    for by_warp in (False, True):
        for arms in ARMS:
            how = "warp" if by_warp else "lane"
            yield _record("divergence", f"{arms} arms by {how}", arms=arms, by=how, cycles=run_arms(arms, by_warp))


def measure_strides(samples: int) -> Iterator[dict[str, Any]]:
    """Cycles per request by the distance between lanes' words."""
    for stride in STRIDES:
        cycles = round(run_strided(stride), 2)
        yield _record("strides", f"{stride} bytes between lanes", stride=stride, cycles=cycles)


def measure_loads(samples: int) -> Iterator[dict[str, Any]]:
    """Bytes per second by bytes in flight per multiprocessor."""
    import cupy

    part = np.random.default_rng().integers(2**32, size=2**16, dtype=np.uint32)
    source = cupy.tile(cupy.asarray(part), LOAD_BYTES // part.nbytes)
    for threads in THREADS:
        for width in VECTORS:
            for loads in LOADS:
                block = min(threads, 256)
                blocks = cuda.multiprocessors() * (threads // block)
                us = _timed(run_loads(source, blocks, block, loads, width), samples)
                case = f"{threads} threads, {loads} loads of {width} bytes"
                flight = threads * loads * width
                yield _record("loads", case, threads=threads, loads=loads, width=width, in_flight=flight,
                              bytes=source.nbytes, median_us=us)  # fmt: skip


def measure_waves(samples: int) -> Iterator[dict[str, Any]]:
    """µs by the number of blocks."""
    kernel = _kernel("multiply_add", cuda.backend(), "-DCHAINS=1")
    for per_sm, shared in WAVE_SHARED.items():
        kernel.max_dynamic_shared_size_bytes = shared
        for blocks in BLOCKS:
            out = cuda.full(blocks * WAVE_THREADS, np.nan)
            clocks = cuda.zeros(2 * out.size // 32, np.int64)
            arguments = out, clocks, np.float32(A), np.float32(B), WAVE_STEPS
            launch = kernel.bound((blocks,), (WAVE_THREADS,), arguments, shared_mem=shared)
            us = _timed(launch, samples)
            _check(f"fma with {blocks} blocks", out, _reference(out.size, WAVE_STEPS, 1, registers=1))
            yield _record("waves", f"{blocks} blocks, {per_sm} per multiprocessor", blocks=blocks, per_sm=per_sm,
                          median_us=us)  # fmt: skip


def measure_bounds(samples: int) -> Iterator[dict[str, Any]]:
    """µs of a product by the least number of blocks per multiprocessor."""
    import cupy

    a, b = (cupy.random.standard_normal((GEMM_SIZE, GEMM_SIZE), cupy.float32) for _ in range(2))
    want = a @ b
    for blocks in BOUNDS:
        kernel, out = bounded(blocks), cupy.full_like(want, np.nan)
        us = _timed(functools.partial(run_bounded, kernel, a, b, out), samples)
        error = float(cupy.linalg.norm(out - want) / cupy.linalg.norm(want))
        if not error < 1e-5:
            raise RuntimeError(f"gemm/register_block with bounds for {blocks} blocks is wrong by {error:.1e}")
        yield _record("bounds", f"{blocks} blocks", blocks=blocks, registers=int(kernel.num_regs),
                      local_bytes=int(kernel.local_size_bytes), median_us=us)  # fmt: skip


def measure_transposes(samples: int) -> Iterator[dict[str, Any]]:
    """µs of each transpose; a matrix is read once and written once."""
    import cupy

    given = cupy.random.standard_normal((TRANSPOSE_SIZE, TRANSPOSE_SIZE), cupy.float32)
    out = cupy.empty_like(given)
    for name in TRANSPOSES:
        us = _timed(run_transposed(name, given, out), samples)
        yield _record("transposes", name, bytes=2 * given.nbytes, median_us=us)


EXPERIMENTS: Mapping[str, Callable[[int], Iterator[dict[str, Any]]]] = {
    "latency": measure_latency, "fma": measure_fma, "divergence": measure_divergence, "strides": measure_strides,
    "loads": measure_loads, "waves": measure_waves, "bounds": measure_bounds, "mixes": measure_mixes,
    "transposes": measure_transposes,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """Options of the suite; cases: experiments, all by default."""

    CHOICES: ClassVar[Mapping[str, tuple[tuple[Any, ...] | None, tuple[Any, ...]]]] = {
        "cases": (tuple(EXPERIMENTS), tuple(EXPERIMENTS))
    }

    cases: tuple[str, ...] = ()


def superseded(rows: list[dict[str, Any]]) -> driver.Superseded:
    """A predicate for older records of the same experiment, whose cases may have changed."""
    return driver.same(rows, "suite", "experiment")


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield the records per experiment. RuntimeError for a wrong result, NoGpu on the simulator."""
    if cuda.backend() != "gpu":
        raise NoGpu("cycles are counted on a GPU only; what was recorded is in 06_optimize/results")
    for experiment in options.cases:
        rows = list(EXPERIMENTS[experiment](options.samples or SAMPLES))
        hidden = ("suite", "implementation", "experiment")
        console.print(driver.table([{k: str(v) for k, v in r.items() if k not in hidden} for r in rows]))
        yield rows, True


bench = driver.suite("multiprocessor", run, superseded)
