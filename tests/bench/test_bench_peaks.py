"""The kernels that measure roofs compute what they say; on any backend, at small sizes."""

import contextlib
import ctypes
import io
import sys
from time import perf_counter
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from report_records import H200, saved
from rich.console import Console

from common import cuda
from common.bench import peaks
from common.measure.roofline import CASES, Peaks, rate
from common.measure.timing import Timing
from common.report import results, tables


@pytest.mark.parametrize("n", [1, 3, 4, 7, 1021, 4096, 33_331])
@pytest.mark.parametrize(("blocks", "loads"), [(1, 1), (1, 4), (3, 4), (5, 2), (40, 4)])
def test_everything_is_copied_and_nothing_else(rng, n, blocks, loads):
    source = cuda.asarray(rng.standard_normal(n).astype(np.float32))
    room = cuda.full(n + 8, np.nan)
    out = room[:n]
    peaks.copy(source, out, blocks, loads)
    assert np.array_equal(cuda.asnumpy(out), cuda.asnumpy(source))
    assert np.isnan(cuda.asnumpy(room)[n:]).all()


@pytest.mark.parametrize("n", [4, 20, 1024, 4100])
@pytest.mark.parametrize(("passes", "blocks", "loads"), [(1, 1, 1), (1, 3, 4), (3, 1, 4), (7, 3, 2), (2, 9, 8)])
def test_each_pass_touches_everything_once(rng, n, passes, blocks, loads):
    source = cuda.asarray(rng.standard_normal(n).astype(np.float32))
    room = cuda.full(n + 8, np.nan)
    peaks.copy_again(source, room[:n], passes, blocks, loads)
    assert np.array_equal(cuda.asnumpy(room)[:n], cuda.asnumpy(source)) and np.isnan(cuda.asnumpy(room)[n:]).all()

    words = np.full(n, 2**20 + 1, np.uint32)  # a sum modulo 2³² that counts the words
    sums = cuda.asarray(np.zeros(blocks * 256, np.uint32))
    peaks.read_again(cuda.asarray(words), sums, passes, blocks, loads)
    assert int(cuda.asnumpy(sums).sum(dtype=np.uint64)) % 2**32 == passes * n * (2**20 + 1) % 2**32


@pytest.mark.skipif(cuda.backend() != "simulator", reason="the simulator's trace counts")
@pytest.mark.parametrize("passes", [1, 5])
def test_the_bytes_of_all_passes_are_moved(passes):
    """A copy reads and writes n floats per pass, in whole sectors of 32 bytes; a read writes one sum per thread."""
    n, threads = 2048, 512
    words, sums = cuda.asarray(np.arange(n, dtype=np.uint32)), cuda.asarray(np.zeros(threads, np.uint32))
    arrays = {"copy_again": (cuda.zeros(n), cuda.zeros(n)), "read_again": (words, sums)}
    copied, read = (
        cuda.trace(peaks._kernel(name, "simulator", "-DLOADS=4"), (2,), (256,), (*both, n // 4, passes))
        for name, both in arrays.items()
    )
    assert copied.global_loads.sectors == copied.global_stores.sectors == passes * n // 8
    assert (read.global_loads.sectors, read.global_stores.sectors) == (passes * n // 8, threads // 8)
    assert not copied.findings and not read.findings


def test_arrays_that_do_not_fit_many_passes_are_refused():
    with pytest.raises(ValueError, match="source must have a multiple of 4 elements"):
        peaks.copy_again(cuda.zeros(6), cuda.zeros(6), 2, 1)
    with pytest.raises(ValueError, match="out must have 512 elements, one per thread, got 256"):
        peaks.read_again(cuda.zeros(8), cuda.zeros(256), 2, 2)


@pytest.mark.parametrize(
    ("steps", "chains", "unroll"), [(32, 8, 32), (64, 8, 32), (24, 4, 8), (2048, 4, 8), (256, 16, 64)]
)
def test_the_chains_are_as_long_as_they_are_counted(steps, chains, unroll):
    out = cuda.full(512, np.nan)
    assert peaks.fma_chains(out, steps, chains, unroll) == 512 * steps * chains
    x = (np.arange(512) % 32)[:, None] + np.arange(chains, dtype=np.float64)
    for _ in range(steps):
        x = float(np.float32(peaks.FMA_A)) * x + float(np.float32(peaks.FMA_B))
    assert np.allclose(cuda.asnumpy(out), x.sum(1), rtol=1e-4)
    assert np.allclose(peaks.fma_reference(512, steps, chains), x.sum(1), rtol=1e-12)


def test_the_sums_of_a_measurement_stay_finite_and_apart():
    """Numbers that settle would draw less power than others: after all steps the chains still differ."""
    x = peaks.fma_reference(32, peaks.FMA_STEPS, 1)
    assert np.isfinite(x).all() and np.ptp(x) > 1


def test_steps_that_cannot_be_counted_are_refused():
    with pytest.raises(
        ValueError, match="out must have a multiple of 256 elements and steps be a multiple of 32, got 512 and 40"
    ):
        peaks.fma_chains(cuda.zeros(512), 40)
    with pytest.raises(ValueError, match="got 500 and 32"):
        peaks.fma_chains(cuda.zeros(500), 32)


def test_nothing_is_measured_on_the_simulator(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    with pytest.raises(RuntimeError, match="nothing is timed on the simulator"):
        peaks.measure_peaks()


def test_the_header_says_what_it_moves_gains_and_costs():
    lines = peaks.SOURCE.read_text().splitlines()
    words = [line.split()[1] for line in lines if line.startswith(("// Moves ", "// Gains ", "// Costs "))]
    assert words == ["Moves", "Gains", "Costs"]


# ---- What is launched and recorded on a GPU, with NumPy for CuPy and a cuBLAS of a few lines


class Array(np.ndarray):
    """A NumPy array that has its address where a CuPy array has it."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


def gemm(change):
    """cublasGemmEx on column-major matrices, the first one transposed for int8; `change` is done to the factors."""

    def matrix(address, element, rows, columns, leading):
        dtype = np.dtype({0: np.float32, 2: np.float16, 3: np.int8, 10: np.int32}[element])
        size = leading * columns
        memory = (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
        return np.frombuffer(memory, dtype).reshape(columns, leading).T[:rows]

    def call(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, compute, algo):
        number = ctypes.c_int32 if type_a == 3 else ctypes.c_float
        assert (handle, op_a, op_b) == ("handle", int(type_a == 3), 0)
        assert number.from_address(alpha).value == 1 and number.from_address(beta).value == 0
        assert compute == {0: "fast tf32", 2: "32f", 3: 72}[type_a] and type_c == (10 if type_a == 3 else type_a)
        first = matrix(a, type_a, k, m, lda).T if op_a else matrix(a, type_a, m, k, lda)
        product = change(first).astype(np.float64) @ change(matrix(b, type_b, k, n, ldb)).astype(np.float64)
        matrix(c, type_c, m, n, ldc)[...] = product

    return call


@pytest.fixture
def card(monkeypatch):
    """Two multiprocessors; everything at a size for a simulator. Returns the module that stands for cuBLAS."""
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    cupy = ModuleType("cupy")
    for name in ("tile", "empty", "empty_like", "copyto", "uint32", "zeros"):
        setattr(cupy, name, getattr(np, name))
    cupy.asarray = lambda a: np.asarray(a).view(Array)
    cupy.full = lambda *arguments: np.full(*arguments).view(Array)
    cupy.asnumpy = np.asarray
    cublas = SimpleNamespace(
        CUBLAS_OP_N=0, CUBLAS_OP_T=1, CUBLAS_COMPUTE_32F="32f",
        CUBLAS_COMPUTE_32F_FAST_TF32="fast tf32", CUBLAS_GEMM_DEFAULT_TENSOR_OP=99,
        gemmEx=gemm(lambda x: x if x.dtype == np.int8 else x.astype(np.float16)),
    )  # fmt: skip
    modules = {
        "cupy": cupy,
        "cupy.cuda": SimpleNamespace(device=SimpleNamespace(get_cublas_handle=lambda: "handle")),
        "cupy_backends.cuda.api": SimpleNamespace(runtime=SimpleNamespace(CUDA_R_32F=0, CUDA_R_16F=2, CUDA_R_8I=3)),
        "cupy_backends.cuda.libs": SimpleNamespace(cublas=cublas),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    properties = {"multiProcessorCount": 2, "maxThreadsPerMultiProcessor": 1536, "totalGlobalMem": 2**30}
    properties |= {"l2CacheSize": 3 * 10**6, "major": 9, "minor": 0}
    monkeypatch.setattr(peaks, "_properties", lambda: properties)
    monkeypatch.setattr(peaks, "COPY_FLOATS", 2**13)
    monkeypatch.setattr(peaks, "L2_MEGABYTES", (1, 2, 3))
    monkeypatch.setattr(peaks, "L2_BYTES", 2 * 10**6)
    monkeypatch.setattr(peaks, "_again_candidates", lambda: [{"blocks": 2, "loads": 4}])
    monkeypatch.setattr(peaks, "FMA_STEPS", 64)
    monkeypatch.setattr(peaks, "GEMM_SIZES", (32, 64))
    monkeypatch.setattr(peaks.graphs, "on_stream", contextlib.nullcontext)

    def time(call, launch, samples):
        began = perf_counter()
        call()
        return Timing.of([1e6 * (perf_counter() - began)] * samples, 1, launch)

    monkeypatch.setattr(peaks.timing, "time", time)
    return cublas


def test_records_that_can_be_saved(card, tmp_path):
    records = peaks.measure_peaks(samples=7)
    saved(tmp_path / "card", records)
    cases = ["l2-copy-1MB", "l2-copy-2MB", "l2-read-1MB", "l2-read-2MB"]  # 3 MB do not fit with the rest of the card
    assert [r["case"] for r in records] == [
        "copy",
        "read",
        *cases,
        "fma-fp32",
        "tensor-tf32",
        "tensor-fp16",
        "tensor-int8",
    ]
    assert set(CASES) <= {r["case"] for r in records}
    assert [r["implementation"] for r in records] == ["ours"] * 7 + ["cublas"] * 3
    assert all(r["samples"] == 7 and r["launch"] == "eager" for r in records)
    copy, read, *cached, fma, tf32, fp16, eight = records
    assert {r["precision"] for r in (copy, read, *cached, fma)} == {"fp32"}
    assert (tf32["precision"], fp16["precision"], eight["precision"]) == ("tf32", "fp16", "int8")
    n = eight["size"]
    assert (eight["flops"], eight["bytes"], eight["error"]) == (2 * n**3, 6 * n * n, 0)
    for r in (tf32, fp16, eight):  # the fastest of all sizes is the peak
        assert set(r["by_size"]) == {"32", "64"} and r["sustained"]["tera"] > 0
        assert max(one["tera"] for one in r["by_size"].values()) == pytest.approx(rate(r) / 1e12, rel=1e-3)
    assert (copy["bytes"], copy["flops"]) == (2 * 4 * 2**13, 0) and copy["blocks"] % 2 == 0
    assert (read["bytes"], read["flops"], read["passes"]) == (4 * 2**13, 0, 1)
    assert [(r["size"], r["passes"], r["bytes"]) for r in cached] == 2 * [
        (1_000_000, 2, 2_000_000), (2_000_000, 1, 2_000_000)
    ]  # fmt: skip
    # 2 multiprocessors of 1536 threads, an FMA is 2 FLOPs
    assert (fma["bytes"], fma["flops"]) == (4 * 3072, 2 * 3072 * 64 * fma["chains"])
    assert all(r["flops"] == 2 * r["size"] ** 3 for r in (tf32, fp16))
    assert tf32["bytes"] == 3 * 4 * tf32["size"] ** 2 and fp16["bytes"] == 3 * 2 * fp16["size"] ** 2
    found = Peaks.recorded(results.load(tmp_path / "card"))
    assert found.tensor_fp16 > 0 and found.tensor_int8 == rate(eight) and found.tensor_fp8 is None
    assert found.l2_copy_bytes_per_s == max(rate(r) for r in cached[:2])
    assert found.l2_read_bytes_per_s == max(rate(r) for r in cached[2:]) and found.read_bytes_per_s == rate(read)


def test_only_what_is_asked_for_is_measured(card):
    assert [r["case"] for r in peaks.measure_peaks(["l2-read", "read"], 7)] == ["l2-read-1MB", "l2-read-2MB", "read"]
    with pytest.raises(ValueError, match=r"cases must be of copy, read, l2-copy, .*, got 'l3'"):
        peaks.measure_peaks(["l3"])
    with pytest.raises(ValueError, match="case must be one of l2-copy, l2-read, got 'copy'"):
        peaks.measure_l2("copy", 1)


def test_cards_before_tf32_have_no_record_of_it(card, monkeypatch):
    old = peaks._properties() | {"major": 7}
    monkeypatch.setattr(peaks, "_properties", lambda: old)
    cases = ("copy", "tensor-tf32", "tensor-fp16", "tensor-int8", "tensor-fp8")
    assert [r["case"] for r in peaks.measure_peaks(cases, 5)] == ["copy", "tensor-fp16"]
    console = Console(file=io.StringIO(), width=200)
    list(peaks.run(peaks.Options(cases=cases, samples=6), console))
    words = console.file.getvalue()
    assert "tensor-tf32: not measured: needs a card of sm_80, this one is sm_70" in words
    assert "tensor-int8: not measured: needs a card of sm_75" in words
    assert "tensor-fp8: not measured: needs a card of sm_89" in words
    assert "tensor-fp16: not" not in words


def test_a_case_that_fails_is_told_and_the_others_are_measured(card, monkeypatch):
    def failing(*_):
        raise AttributeError("no [such] constant")

    monkeypatch.setattr(peaks, "measure_int8", failing)
    console = Console(file=io.StringIO(), width=200)
    ((records, right),) = peaks.run(peaks.Options(cases=("tensor-int8", "tensor-fp16"), samples=6), console)
    assert [r["case"] for r in records] == ["tensor-fp16"] and not right
    words = console.file.getvalue()
    assert "tensor-int8: not measured: AttributeError: no [such] constant (test_bench_peaks.py, line" in words


def test_fp8_is_measured_through_pytorch_or_missing_in_words(card):
    """There is no such product without a GPU."""
    if not torch.cuda.is_available():
        assert peaks.lacking("tensor-fp8") == f"PyTorch {torch.__version__} sees no GPU"
        assert peaks.measure_peaks(["tensor-fp8"], 5) == []


def test_clock_and_power_are_those_of_the_time_that_was_measured(card, monkeypatch):
    class Watch:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def summary(self):
            return {"sm_mhz": [345, 1755, 1980], "power_w": [80.0, 500.0, 698.5], "looks": 3}

    monkeypatch.setattr(peaks, "Watch", Watch)
    r = peaks.over_sizes(lambda samples, n: peaks.measure_tensor("fp16", samples, n), 7)
    assert (r["sm_mhz"], r["watts"]) == ([345, 1755, 1980], 698.5)
    assert (r["sustained"]["sm_mhz"], r["sustained"]["watts"]) == (1755, 698.5)
    text = tables.peaks(results.Results({"r1": H200}, [{"run": "r1", **r, **one} for one in (
        {"case": "copy"}, {"case": "fma-fp32"}, {"case": "tensor-tf32"}, {"case": "tensor-fp16"})]))  # fmt: skip
    assert "\n| fp16 | 32 | " in text and " | 1,755 | 698 |" in text


def test_an_int8_product_has_every_bit(card):
    card.gemmEx = gemm(lambda x: x + (np.arange(x.size).reshape(x.shape) == 0))  # one factor is one off
    with pytest.raises(RuntimeError, match="cuBLAS: the product in int8 is wrong"):
        for _ in range(100):  # sixteen rows of sixty-four are looked at
            peaks.measure_int8(5, 64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.T, "cuBLAS: the product in tf32 is wrong by 1"),
        (lambda x: x * np.float32(1.01), "cuBLAS: the product in tf32 is wrong by 2.0e-02"),
        (lambda x: x, "computed in fp32"),
    ],
)
def test_a_product_that_is_not_what_it_says_is_not_timed(card, change, message):
    card.gemmEx = gemm(change)
    with pytest.raises(RuntimeError, match=message):
        peaks.measure_tensor("tf32", 5, 64)


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("copy", peaks.measure_copy),
        ("fma_chains", peaks.measure_fma),
        ("read_again", peaks.measure_read),
        ("read_again", lambda samples: peaks.measure_l2("l2-read", 1, samples)),
        ("copy_again", lambda samples: peaks.measure_l2("l2-copy", 1, samples)),
    ],
)
def test_a_kernel_that_does_not_do_its_work_is_not_timed(card, monkeypatch, name, measure):
    monkeypatch.setattr(peaks, name, lambda *arguments: None)
    with pytest.raises(RuntimeError, match=r"peaks\.cu: "):
        measure(5)
