"""The suite "peaks": the card's peak rates: DRAM and L2 bandwidth, fp32 multiply-adds, tensor cores.

    records = measure_peaks()                       all records, for results.save
    records = measure_peaks(["l2-copy", "l2-read"])  those of the L2 cache: one per size, "l2-copy-8MB", …

Copies, reads and multiply-adds are kernels of peaks.cu, the tensor cores are measured with cuBLAS: in tf32, fp16 and
int8, and in fp8 with cuBLASLt, through PyTorch. They have the rate of the fastest of several sizes; all sizes are in
the record, with clock and power. All run on random numbers: on zeros a card draws less power and its
clocks are higher. A wrong result is an error.
"""

import functools
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.console import Console
from rich.markup import escape

from .. import cuda
from ..cuda import graphs
from ..measure import timing
from ..measure.environment import Watch
from ..measure.roofline import ARITHMETIC, L2, Work, rate
from ..measure.timing import Timing
from ..report.results import record
from . import driver
from .driver import Measured

SOURCE = Path(__file__).with_name("peaks.cu")
THREADS = 256  # per block

COPY_FLOATS = 2**30  # 4 GiB, read and written, or a quarter of the card's memory
FMA_STEPS = 16_384
FMA_A, FMA_B = -0.9999, 1.5  # with these, x = A·x + B neither converges soon nor overflows
GEMM_SIZES = (2048, 4096, 6144, 8192)  # of square products: large ones draw more power, and a power cap lowers clocks
SUSTAINED = 8  # as many samples as otherwise, for the rate that lasts
L2_MEGABYTES = (4, 8, 16, 24, 32)  # all that one pass touches: a copy's source and destination together
L2_BYTES = 2**34  # moved by one launch, in as many passes as that takes: about 3 ms

TENSOR = ("tf32", "fp16", "int8", "fp8")
NEEDS = {"tensor-tf32": 80, "tensor-int8": 75, "tensor-fp8": 89}  # the first compute capability that has it
SAMPLES = 50
R_32I, COMPUTE_32I = 10, 72  # cudaDataType and cublasComputeType of int32, which CuPy does not name
FP8_ERROR = 1e-2  # tensor cores sum products of fp8 with fewer bits than float32 has


@functools.cache
def _kernel(name: str, backend: str, *defines: str) -> Any:
    return cuda.RawKernel(SOURCE.read_text(), name, options=("-std=c++17", *defines))


def copy(source: Any, out: Any, blocks: int, loads: int = 4) -> None:
    """out = source for float32 arrays of equal size, by peaks.cu; each thread has `loads` 16-byte loads in flight."""
    kernel = _kernel("copy", cuda.backend(), f"-DLOADS={loads}")
    kernel((blocks,), (THREADS,), (source, out, source.size))


def fma_chains(out: Any, steps: int, chains: int = 8, unroll: int = 32) -> int:
    """Run `chains` dependent chains of multiply-adds in each of out.size threads; out (threads,) float32.

    The number of threads is a multiple of 256, steps a multiple of `unroll`. Returns the number of multiply-adds:
    threads · steps · chains.
    """
    if out.size % THREADS or steps % unroll:
        raise ValueError(
            f"out must have a multiple of {THREADS} elements and steps be a multiple of {unroll},"
            f" got {out.size} and {steps}"
        )
    kernel = _kernel("fma_chains", cuda.backend(), f"-DCHAINS={chains}", f"-DUNROLL={unroll}")
    kernel((out.size // THREADS,), (THREADS,), (out, np.float32(FMA_A), np.float32(FMA_B), steps))
    return out.size * steps * chains


def fma_reference(threads: int, steps: int, chains: int = 8) -> np.ndarray:
    """The result of fma_chains in float64, (threads,): after n steps x is aⁿ·x₀ + b·(1 − aⁿ)/(1 − a)."""
    a, b = float(np.float32(FMA_A)), float(np.float32(FMA_B))
    start = (np.arange(threads) % 32)[:, None] + np.arange(chains)
    return (a**steps * start + b * (1 - a**steps) / (1 - a)).sum(1)


def copy_again(source: Any, out: Any, passes: int, blocks: int, loads: int = 4) -> None:
    """out = source, `passes` times in one launch, past the L1 caches; float32 arrays of equal size, a multiple of 4."""
    _launch_again("copy_again", source, out, passes, blocks, loads)


def read_again(source: Any, out: Any, passes: int, blocks: int, loads: int = 4) -> None:
    """Read source, uint32, `passes` times in one launch, past the L1 caches; its size is a multiple of 4.

    out (blocks · 256,) uint32: one sum of words per thread. All sums together are passes · the sum of source's words,
    modulo 2³².
    """
    if out.size != blocks * THREADS:
        raise ValueError(f"out must have {blocks * THREADS} elements, one per thread, got {out.size}")
    _launch_again("read_again", source, out, passes, blocks, loads)


def _launch_again(name: str, source: Any, out: Any, passes: int, blocks: int, loads: int) -> None:
    if source.size % 4 or not 4 <= source.size < 2**32:
        raise ValueError(f"source must have a multiple of 4 elements, at least 4 and below 2³², got {source.size}")
    kernel = _kernel(name, cuda.backend(), f"-DLOADS={loads}")
    kernel((blocks,), (THREADS,), (source, out, np.int32(source.size // 4), np.int32(passes)))


CASES = ("copy", "read", *L2, "fma-fp32", *(f"tensor-{precision}" for precision in TENSOR))


def measure_peaks(cases: Sequence[str] = CASES, samples: int = SAMPLES) -> list[dict[str, Any]]:
    """Measure the records of the suite "peaks", or those of some of CASES. It takes some seconds.

    "l2-copy" and "l2-read" are several records each, by the size of what they touch: "l2-copy-8MB".
    What the card lacks (`lacking`) has no record. NoGpu on the simulator, RuntimeError for a wrong result.
    """
    if wrong := [case for case in cases if case not in CASES]:
        raise ValueError(f"cases must be of {', '.join(CASES)}, got {wrong[0]!r}")
    with graphs.on_stream():
        measured: list[dict[str, Any]] = []
        for case in cases:
            if case in L2:
                megabytes = [mb for mb in L2_MEGABYTES if mb * 1e6 <= 0.75 * _properties()["l2CacheSize"]]
                measured += [measure_l2(case, mb, samples) for mb in megabytes]
            elif case == "copy":
                measured.append(measure_copy(samples))
            elif case == "read":
                measured.append(measure_read(samples))
            elif case == "fma-fp32":
                measured.append(measure_fma(samples))
            elif lacking(case) is None:
                kind = case.removeprefix("tensor-")
                how = {"int8": measure_int8, "fp8": measure_fp8}.get(kind, functools.partial(measure_tensor, kind))
                measured.append(over_sizes(how, samples))
        return measured


def lacking(case: str) -> str | None:
    """Why this card has no record of one of CASES, in words; None if it has one."""
    properties = _properties()
    here = 10 * properties["major"] + properties["minor"]
    if here < NEEDS.get(case, 0):
        return f"needs a card of sm_{NEEDS[case]}, this one is sm_{here}"
    return _no_torch() if case == "tensor-fp8" else None


def _no_torch() -> str | None:
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed: pip install torch"
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} sees no GPU"
    return None if hasattr(torch, "_scaled_mm") else f"PyTorch {torch.__version__} has no product in fp8"


def _best(candidates: Iterable[dict[str, int]], time: Callable[..., Timing]) -> tuple[Timing, dict[str, int]]:
    """(timing, candidate) of the candidate with the lowest median, timed again with all samples."""
    best = min(candidates, key=lambda candidate: time(5, **candidate).median_us)
    return time(None, **best), best


def measure_copy(samples: int = SAMPLES) -> dict[str, Any]:
    """Measure a copy of 4 GiB, far more than any cache; the best of several numbers of blocks and loads.

    0 blocks and 0 loads stand for cudaMemcpyAsync.
    """
    import cupy

    sms = _properties()["multiProcessorCount"]
    # repeated: NumPy takes long to draw 4 GiB of random numbers
    floats = min(COPY_FLOATS, _properties()["totalGlobalMem"] // 4 // 4)
    source = cupy.tile(cupy.asarray(_normal(floats // 64)), 64)
    out = cupy.empty_like(source)

    def time(few: int | None, blocks: int, loads: int) -> Timing:
        def call() -> None:
            if blocks:
                copy(source, out, blocks, loads)
            else:
                cupy.copyto(out, source)

        out.fill(np.nan)
        measured = timing.time(call, launch="eager", samples=few or samples)
        if not bool((out == source).all()):
            raise RuntimeError(f"peaks.cu: the copy is not equal to its source with {blocks} blocks, {loads} loads")
        return measured

    candidates = [{"blocks": 0, "loads": 0}]
    for loads in (1, 2, 4):
        whole = -(-source.size // (4 * loads * THREADS))  # each thread copies `loads` vectors, no loop
        candidates += [{"blocks": blocks, "loads": loads} for blocks in (8 * sms, 32 * sms, whole)]
    best, how = _best(candidates, time)
    work = Work(2 * source.nbytes, 0)
    return record("peaks", "copy", "ours", precision="fp32", arithmetic="none", batch=1, timing=best, work=work, **how)


def measure_read(samples: int = SAMPLES) -> dict[str, Any]:
    """Measure reading 4 GiB once, far more than any cache; the best of several numbers of blocks and loads."""
    words = min(COPY_FLOATS, _properties()["totalGlobalMem"] // 4 // 4)
    return _read("read", words, 1, samples)


def measure_l2(case: str, megabytes: int, samples: int = SAMPLES) -> dict[str, Any]:
    """Measure many passes over arrays that fit in L2: case "l2-copy" or "l2-read", of L2.

    megabytes (10⁶ bytes): all that one pass touches, so a copy's source has half. The first pass fetches it from DRAM;
    the other passes find it in L2, because L1 is bypassed.
    """
    import cupy

    if case not in L2:
        raise ValueError(f"case must be one of {', '.join(L2)}, got {case!r}")
    name, passes = f"{case}-{megabytes}MB", L2_BYTES // (megabytes * 10**6)
    if case == "l2-read":
        return _read(name, megabytes * 10**6 // 4, passes, samples)
    source = cupy.asarray(_normal(megabytes * 10**6 // 8))
    out = cupy.empty_like(source)

    def time(few: int | None, blocks: int, loads: int) -> Timing:
        out.fill(np.nan)
        measured = timing.time(
            lambda: copy_again(source, out, passes, blocks, loads), launch="eager", samples=few or samples
        )
        if not bool((out == source).all()):
            raise RuntimeError(f"peaks.cu: {name} is not equal to its source with {blocks} blocks, {loads} loads")
        return measured

    best, how = _best(_again_candidates(), time)
    work = Work(2 * source.nbytes * passes, 0)
    return record(
        "peaks", name, "ours", precision="fp32", arithmetic="none", batch=1, timing=best, work=work,
        size=megabytes * 10**6, passes=passes, **how,
    )  # fmt: skip


def _read(name: str, words: int, passes: int, samples: int) -> dict[str, Any]:
    import cupy

    repeats = 64 if words % 64 == 0 else 1
    part = _normal(words // repeats).view(np.uint32)
    source = cupy.tile(cupy.asarray(part), repeats)
    expected = passes * repeats * int(part.sum(dtype=np.uint64)) % 2**32

    def time(few: int | None, blocks: int, loads: int) -> Timing:
        out = cupy.full(blocks * THREADS, 0, np.uint32)
        measured = timing.time(
            lambda: read_again(source, out, passes, blocks, loads), launch="eager", samples=few or samples
        )
        if int(cupy.asnumpy(out).sum(dtype=np.uint64)) % 2**32 != expected:
            raise RuntimeError(f"peaks.cu: {name} did not read all, with {blocks} blocks and {loads} loads")
        return measured

    best, how = _best(_again_candidates(), time)
    work = Work(source.nbytes * passes, 0)
    return record(
        "peaks", name, "ours", precision="fp32", arithmetic="none", batch=1, timing=best, work=work,
        size=source.nbytes, passes=passes, **how,
    )  # fmt: skip


def _again_candidates() -> list[dict[str, int]]:
    properties = _properties()
    most = properties["maxThreadsPerMultiProcessor"] // THREADS
    per_sm = sorted({max(1, most // 2), most, 4 * most})
    return [
        {"blocks": blocks * properties["multiProcessorCount"], "loads": loads}
        for loads in (2, 4, 8)
        for blocks in per_sm
    ]


def measure_fma(samples: int = SAMPLES) -> dict[str, Any]:
    """Measure fp32 multiply-adds in registers, on as many threads as the card holds; the best of several unrollings."""
    import cupy

    properties = _properties()
    threads = properties["multiProcessorCount"] * (properties["maxThreadsPerMultiProcessor"] // THREADS) * THREADS
    out = cupy.empty(threads, np.float32)

    def time(few: int | None, chains: int, unroll: int) -> Timing:
        out.fill(np.nan)
        measured = timing.time(
            lambda: fma_chains(out, FMA_STEPS, chains, unroll), launch="eager", samples=few or samples
        )
        reference = fma_reference(threads, FMA_STEPS, chains)
        error = np.linalg.norm(cupy.asnumpy(out) - reference) / np.linalg.norm(reference)
        if not error <= 1e-4:
            raise RuntimeError(f"peaks.cu: {chains} chains, unrolled {unroll} times, are wrong by {error:.1e}")
        return measured

    candidates = ({"chains": chains, "unroll": unroll} for chains in (4, 8, 16) for unroll in (8, 16, 32, 64))
    best, how = _best(candidates, time)
    work = Work(4 * threads, 2 * threads * FMA_STEPS * how["chains"])
    return record(
        "peaks", "fma-fp32", "ours", precision="fp32", arithmetic="fp32 FMA", batch=1, timing=best, work=work, **how
    )


def over_sizes(measure: Callable[..., dict[str, Any]], samples: int = SAMPLES) -> dict[str, Any]:
    """The record of the fastest of GEMM_SIZES, with all of them as "by_size": 10¹² operations per second, clock, power.

    measure(samples, n): one of the functions below. "sustained": the same of the fastest size for a longer time.
    """
    found = {n: measure(samples, n) for n in GEMM_SIZES}
    best = max(found, key=lambda n: rate(found[n]))
    lasting = measure(SUSTAINED * samples, best)
    return found[best] | {"by_size": {str(n): _short(r) for n, r in found.items()}, "sustained": _short(lasting)}


def _short(r: Mapping[str, Any]) -> dict[str, float]:
    """10¹² operations per second of a record, and clock and power while it was timed, where NVML tells them."""
    short = {"tera": float(f"{rate(r) / 1e12:.4g}")}
    if "sm_mhz" in r:
        short["sm_mhz"] = r["sm_mhz"][1]
    if "watts" in r:
        short["watts"] = r["watts"]
    return short


def _watched(call: Callable[[], Any], samples: int) -> tuple[Timing, dict[str, Any]]:
    """The time of a call, and the lowest, median and highest clock and the largest power meanwhile."""
    with Watch() as watch:
        measured = timing.time(call, launch="eager", samples=samples)
    seen = watch.summary()
    found = {"sm_mhz": seen["sm_mhz"]} if "sm_mhz" in seen else {}
    return measured, found | ({"watts": seen["power_w"][2]} if "power_w" in seen else {})


def measure_tensor(precision: str, samples: int = SAMPLES, n: int = GEMM_SIZES[-1]) -> dict[str, Any]:
    """Measure cuBLAS's product of two random n×n matrices; precision: "tf32" or "fp16", summed in float32."""
    import cupy
    from cupy.cuda import device
    from cupy_backends.cuda.api import runtime
    from cupy_backends.cuda.libs import cublas

    dtype, element, compute = {
        "tf32": (np.float32, runtime.CUDA_R_32F, cublas.CUBLAS_COMPUTE_32F_FAST_TF32),
        "fp16": (np.float16, runtime.CUDA_R_16F, cublas.CUBLAS_COMPUTE_32F),
    }[precision]
    a, b = (cupy.asarray(_normal(n * n).reshape(n, n).astype(dtype)) for _ in range(2))
    out = cupy.full((n, n), np.nan, dtype)
    one, zero = np.array(1, np.float32), np.array(0, np.float32)
    handle = device.get_cublas_handle()

    def call() -> None:
        # cuBLAS's matrices are column-major, so it reads row-major b, a and out as their transposes: outᵀ = bᵀ·aᵀ
        cublas.gemmEx(
            handle, cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N, n, n, n, one.ctypes.data, b.data.ptr, element, n,
            a.data.ptr, element, n, zero.ctypes.data, out.data.ptr, element, n, compute,
            cublas.CUBLAS_GEMM_DEFAULT_TENSOR_OP,
        )  # fmt: skip

    measured, at = _watched(call, samples)
    rows, columns = cupy.asarray(np.random.default_rng().integers(n, size=(2, 16)))
    reference = cupy.asnumpy(a[rows]).astype(np.float64) @ cupy.asnumpy(b[:, columns]).astype(np.float64)
    result = cupy.asnumpy(out[rows][:, columns]).astype(np.float64)
    error = float(np.linalg.norm(result - reference) / np.linalg.norm(reference))
    if not error <= 2e-3:
        raise RuntimeError(f"cuBLAS: the product in {precision} is wrong by {error:.1e}")
    if error < 1e-5:
        raise RuntimeError(
            f"cuBLAS: the product in {precision} is right to {error:.1e}, so it was computed in fp32"
            " (is NVIDIA_TF32_OVERRIDE=0 set?)"
        )
    work = Work(3 * a.nbytes, 2 * n**3)
    return record(
        "peaks", f"tensor-{precision}", "cublas", precision=precision, arithmetic=ARITHMETIC[precision], batch=1,
        timing=measured, work=work, error=error, size=n, **at,
    )  # fmt: skip


def measure_int8(samples: int = SAMPLES, n: int = GEMM_SIZES[-1]) -> dict[str, Any]:
    """Measure cuBLAS's product of two random n×n matrices of int8, summed in int32, of which every bit counts."""
    import cupy
    from cupy.cuda import device
    from cupy_backends.cuda.api import runtime
    from cupy_backends.cuda.libs import cublas

    random = np.random.default_rng()
    a, b = (cupy.asarray(random.integers(-128, 128, (n, n)).astype(np.int8)) for _ in range(2))
    out = cupy.full((n, n), 0, np.int32)
    one, zero = np.array(1, np.int32), np.array(0, np.int32)
    handle = device.get_cublas_handle()

    def call() -> None:
        # column-major for cuBLAS: outᵀ = b·aᵀ with both factors' rows along the sum, as its int8 kernels want them
        cublas.gemmEx(
            handle, cublas.CUBLAS_OP_T, cublas.CUBLAS_OP_N, n, n, n, one.ctypes.data, b.data.ptr, runtime.CUDA_R_8I, n,
            a.data.ptr, runtime.CUDA_R_8I, n, zero.ctypes.data, out.data.ptr, R_32I, n,
            COMPUTE_32I, cublas.CUBLAS_GEMM_DEFAULT_TENSOR_OP,
        )  # fmt: skip

    measured, at = _watched(call, samples)
    rows, columns = random.integers(n, size=(2, 16))
    # out = a · bᵀ: b's rows are the columns of the product
    reference = cupy.asnumpy(a[rows]).astype(np.int64) @ cupy.asnumpy(b[columns]).astype(np.int64).T
    if not np.array_equal(cupy.asnumpy(out[rows][:, columns]), reference):
        raise RuntimeError("cuBLAS: the product in int8 is wrong")
    work = Work(a.nbytes + b.nbytes + out.nbytes, 2 * n**3)
    return record(
        "peaks", "tensor-int8", "cublas", precision="int8", arithmetic=ARITHMETIC["int8"], batch=1, timing=measured,
        work=work, error=0.0, size=n, **at,
    )  # fmt: skip


def measure_fp8(samples: int = SAMPLES, n: int = GEMM_SIZES[-1]) -> dict[str, Any]:
    """Measure cuBLASLt's product of two random n×n matrices of fp8 (e4m3), to fp16, through PyTorch."""
    import torch

    a, b = (torch.from_numpy(_normal(n * n).reshape(n, n)).cuda().to(torch.float8_e4m3fn) for _ in range(2))
    scale = torch.ones((), device="cuda")
    results: list[Any] = [None]

    def call() -> None:
        results[0] = torch._scaled_mm(a, b.t(), scale_a=scale, scale_b=scale, out_dtype=torch.float16)

    measured, at = _watched(call, samples)
    rows, columns = torch.from_numpy(np.random.default_rng().integers(n, size=(2, 16))).cuda()
    # cuBLASLt's fp8 kernels want both factors' rows along the sum: out = a · bᵀ
    reference = a.float()[rows].double() @ b.float()[columns].double().T
    result = results[0][rows][:, columns].double()
    error = float((result - reference).norm() / reference.norm())
    if not error <= FP8_ERROR:
        raise RuntimeError(f"cuBLASLt: the product in fp8 is wrong by {error:.1e}")
    return record(
        "peaks", "tensor-fp8", "cublas", precision="fp8", arithmetic=ARITHMETIC["fp8"], batch=1, timing=measured,
        work=Work(4 * n * n, 2 * n**3), error=error, size=n, **at,
    )  # fmt: skip


def _normal(size: int) -> np.ndarray:
    return np.random.default_rng().standard_normal(size, np.float32)


def _properties() -> dict[str, Any]:
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)


def _unit(r: Mapping[str, Any]) -> str:
    return "TB/s" if not r["flops"] else "TOP/s" if r["precision"] == "int8" else "TFLOP/s"


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """Options of the suite; cases: of CASES, all by default."""

    CHOICES: ClassVar[Mapping[str, tuple[tuple[Any, ...] | None, tuple[Any, ...]]]] = {"cases": (CASES, CASES)}

    cases: tuple[str, ...] = ()


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield all records at once; a case that fails is told, and the others are measured. NoGpu on the simulator."""
    records, right = [], True
    for case in options.cases:
        try:
            records += measure_peaks([case], options.samples or SAMPLES)
            why = None if case in L2 else lacking(case)
        except graphs.NoGpu:
            raise
        except Exception as error:  # the libraries' errors have no common base class
            where = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"
            right = False
        if why:
            console.print(f"{case}: not measured: {escape(why)}", soft_wrap=True)
    shown = [
        {
            "": r["case"],
            "median µs": f"{r['median_us']:,.1f}",
            "per second": f"{rate(r) / 1e12:,.2f} {_unit(r)}",
        }
        for r in records
    ]
    console.print(driver.table(shown))
    yield records, right


bench = driver.suite("peaks", run)
