"""A checked build shows what luck hides: variables that nobody set, indices beyond an array, memory the source declares.

Kinds of mistakes, several of each, by every compiler that is there; and right kernels that look like them.
"""

# ruff: noqa: E501 (texts of kernels and messages)

import importlib.util
import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tiers import only_all

from common import cuda
from common.cuda.report import Report
from common.cuda.simulator import SimulatedModule, compiler, watch
from common.cuda.simulator.module import module_of

N = 64
INCLUDES = "#include <cuda_fp16.h>\n"


@pytest.fixture(scope="module", params=["g++", *only_all(["clang"])], autouse=True)
def family(request: pytest.FixtureRequest) -> Iterator[str]:
    """The compiler of the whole file: the machine's own, then the clang of the ziglang wheel."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "clang":
            if importlib.util.find_spec("ziglang") is None:
                pytest.skip("the wheel ziglang is not installed")
            patch.setenv("CXX", f"{sys.executable} -m ziglang cc")
        compiler.find_compiler.cache_clear()
        module_of.cache_clear()
        yield request.param
    compiler.find_compiler.cache_clear()
    module_of.cache_clear()


def source_of(body: str, before: str = "") -> str:
    return f'{INCLUDES}{before}extern "C" __global__ void k(const float* in, float* out, int n) {{\n    int t = threadIdx.x;\n{body}\n}}\n'


def traced(source: str, block: int = N, grid: int = 1, kernel: Any = None) -> tuple[Report, np.ndarray]:
    """The trace of k(in, out, n) with in = 1, 2, …, n and out NaN before, and what stands in out afterwards."""
    numbers, out = np.arange(1, N + 1, dtype=np.float32), np.full(N, np.nan, np.float32)
    kernel = kernel or SimulatedModule(source, traced=True).get_function("k")
    return cuda.trace(kernel, (grid,), (block,), (numbers, out, N)), out


def line_of(source: str) -> int:
    return next(i for i, line in enumerate(source.splitlines(), 1) if "HERE" in line)


# ---- What nobody set: what each ought to give, and the variable that the compiler can name

UNSET = {
    "a sum": ("float sum; for (int i = 0; i < n; ++i) sum += in[i];  // HERE\n out[t] = sum;", 2080, "sum"),
    "a sum of doubles": ("double sum; for (int i = 0; i < n; ++i) sum += in[i];  // HERE\n out[t] = sum;", 2080, "sum"),
    "a largest one, by fmaxf": ("float m; for (int i = 0; i < n; ++i) m = fmaxf(m, in[i]);  // HERE\n out[t] = m;", 64, "m"),
    "a largest one, by max": ("float m; for (int i = 0; i < n; ++i) m = max(in[i], m);  // HERE\n out[t] = m;", 64, "m"),
    "a largest one, by if": ("float m; for (int i = 0; i < n; ++i) if (in[i] > m) m = in[i];  // HERE\n out[t] = m;", 64, "m"),
    "a least one, by fminf": ("float m; for (int i = 0; i < n; ++i) m = fminf(in[i], m);  // HERE\n out[t] = m;", 1, "m"),
    "a least one, by ?:": ("float m; for (int i = 0; i < n; ++i) m = in[i] < m ? in[i] : m;\n out[t] = m;", 1, None),
    "a largest integer": ("int m; for (int i = 0; i < n; ++i) m = max(m, (int)in[i]);  // HERE\n out[t] = m;", 64, "m"),
    "a least integer": ("int m; for (int i = 0; i < n; ++i) m = min(m, (int)in[i]);  // HERE\n out[t] = m;", 1, "m"),
    "a count": ("int c; for (int i = 0; i < n; ++i) if (in[i] > 32) ++c;  // HERE\n out[t] = c;", 32, "c"),
    "a vector": ("float4 v; for (int i = 0; i < n; ++i) v.x += in[i];\n out[t] = v.x;", 2080, None),
    "an array": ("float a[4]; for (int i = 0; i < n; ++i) a[i % 4] += in[i];\n out[t] = a[0] + a[1] + a[2] + a[3];", 2080, None),
    "a large array": ("float a[700]; for (int i = 0; i < n; ++i) a[i * n % 700] += in[i];\n float s = 0; for (int i = 0; i < 700; ++i) s += a[i];\n out[t] = s;", 2080, None),
    "a tile": ("float a[4][4]; for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) a[i][j] += in[4 * i + j];\n out[t] = a[n / 32][3];", 12, None),
    "a part of an array": ("float a[4] ; a[0] = 0; a[1] = 0; for (int i = 0; i < n; ++i) a[i % 4] += in[i];\n out[t] = a[0] + a[1] + a[2] + a[3];", 2080, None),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSET)
def test_what_nobody_set_is_no_zero(name: str) -> None:
    body, right, variable = UNSET[name]
    source = source_of(body)
    report, out = traced(source)
    assert not np.any(out == right), out
    if variable:
        (told,) = report.uninitialised
        assert told.variable == variable
        assert told.line in (line_of(source), line_of(source) + 1)  # (g++ names the line that needs the result)
        assert str(told) == f"line {told.line}: {variable} has no value yet"


def test_a_half_that_nobody_set(family: str) -> None:
    _, out = traced(
        source_of(
            "    __half v; for (int i = 0; i < n; ++i) v = __hmax(v, __float2half(in[i]));\n out[t] = __half2float(v);"
        )
    )
    assert family == "clang" or not np.any(out == N)  # (clang's pattern is a small number there)


def test_an_index_that_nobody_set_is_out_of_bounds_and_named() -> None:
    source = source_of("    int i;\n    out[i] = in[t];  // HERE")
    report, _ = traced(source)
    assert [(f.kind, f.line) for f in report.findings] == [("out-of-bounds", line_of(source))]
    with (
        cuda.guarded(),
        pytest.raises(cuda.KernelError, match=r"out-of-bounds, line \d+: .*; line \d+: i has no value yet"),
    ):
        cuda.RawKernel(source, "k")((1,), (N,), (np.ones(N, np.float32), np.ones(N, np.float32), N))


SET = {
    "by both arms": "float v; if (t % 2) v = 1; else v = in[t];\n out[t] = v;",
    "in every case": "float v; switch (t % 3) { case 0: v = 1; break; case 1: v = in[t]; break; default: v = 2; }\n out[t] = v;",
    "by a function": "float s, c; sincosf(in[t], &s, &c);\n out[t] = s * s + c * c;",
    "element by element": "float a[4]; for (int i = 0; i < 4; ++i) a[i] = in[(t + i) % n];\n out[t] = a[0] + a[n % 4];",
    "by memset": "float a[4]; memset(a, 0, sizeof a); for (int i = 0; i < n; ++i) a[i % 4] += in[i];\n out[t] = a[1];",
    "by memcpy": "float v; unsigned bits = __float_as_uint(in[t]); memcpy(&v, &bits, sizeof v);\n out[t] = v;",
    "to a NaN": "float m = __int_as_float(0x7fffffff); for (int i = 0; i < n; ++i) m = fmaxf(m, in[i]);\n out[t] = m;",
    "as a vector": "float4 v = make_float4(in[t], 0, 0, 0); v.y = v.x;\n out[t] = v.x + v.y + v.z + v.w;",
}  # fmt: skip


@pytest.mark.parametrize("name", SET)
def test_what_is_set_is_not_named(name: str) -> None:
    report, out = traced(source_of(SET[name]))
    assert report.findings == () and report.uninitialised == ()
    assert not np.isnan(out).any()


# ---- Beyond an array: the array, the index

BEYOND = {
    "local, by an index": ("", "float a[8]; for (int i = 0; i < 8; ++i) a[i] = 0;\n for (int i = 0; i <= n / 8; ++i) a[i] += in[i];  // HERE\n out[t] = a[t % 8];", "a", 8),
    "local, below": ("", "float a[8]; for (int i = 0; i < 8; ++i) a[i] = in[i];\n out[t] = a[t - 1 < 8 ? t - 1 : 0];  // HERE", "a", -1),
    "local, a read": ("", "int a[3] = {1, 2, 3};\n out[t] = a[t % 4];  // HERE", "a", 3),
    "local, the inner index": ("", "float a[4][4]; for (int i = 0; i < 16; ++i) a[i / 4][i % 4] = 0;\n for (int j = 0; j <= n / 16; ++j) a[1][j] += in[j];  // HERE\n out[t] = a[t % 4][2];", "a", 4),
    "local, the outer index": ("", "float a[4][4]; for (int i = 0; i < 16; ++i) a[i / 4][i % 4] = 0;\n for (int j = 0; j <= n / 16; ++j) a[j][1] += in[j];  // HERE\n out[t] = a[t % 4][2];", "a", 4),
    "shared, the anchor of ours": ("", "__shared__ float s[N]; float* p = s;\n p[t + 1] = in[t];  // HERE\n __syncthreads(); out[t] = s[t] + p[t];", "s", 64),
    "shared, into the next": ("", "__shared__ float a[N], b[N]; a[t] = b[t] = in[t]; __syncthreads(); float *p = a, *q = b;\n out[t] = p[t + 1] + q[t + 1];  // HERE", None, 64),
    "shared, a long way into the next": ("", "__shared__ float a[N], b[4 * N]; a[t] = b[t] = in[t]; __syncthreads();\n out[t] = a[t + 8] + b[t];  // HERE", "a", 64),
    "shared, before the first": ("", "__shared__ float s[N]; s[t] = in[t]; __syncthreads(); float* p = s;\n out[t] = p[t - 1];  // HERE", "s", -1),
    "shared, a row": ("", "__shared__ float s[4][33]; s[t % 4][t % 33] = 0; __syncthreads();\n s[t % 4][n / 2 + t / 32] = in[t];  // HERE\n __syncthreads(); out[t] = s[t % 4][t / 4];", "s", 33),
    "device, by a pointer": ("__device__ float table[8];\n", "float* p = table;\n if (t < 9) p[t] = in[t];  // HERE\n out[t] = in[t];", "table", 8),
    "device, by an index": ("__device__ float table[8];\n", "if (t < 9) table[t] = in[t];  // HERE\n out[t] = in[t];", "table", 8),
    "device, into the next": ("__device__ float first[8] = {1}, second[8] = {1};\n", "if (t == 0) { float *p = first, *q = second;\n out[0] = p[n / 8] + q[n / 8];  // HERE\n }", None, 8),
    "constant": ("__constant__ float w[3] = {1, 2, 3};\n", "const float* p = w;\n out[t] = p[t % 4];  // HERE", "w", 3),
}  # fmt: skip


@pytest.mark.parametrize("name", BEYOND)
def test_beyond_an_array(name: str) -> None:
    before, body, array, index = BEYOND[name]
    source = source_of(body, f"#define N {N}\n{before}")
    report, _ = traced(source)
    beyond = [f for f in report.findings if f.kind == "out-of-bounds"]
    assert beyond and {f.line for f in beyond} == {line_of(source)}, report.findings
    assert all(f.index == index or f.index > index > 0 for f in beyond)  # (of several threads the first that ran)
    assert array is None or {f.array for f in beyond} == {array}


COPIES = {
    "to global memory": ("memcpy(out, in, n * 4 + 4);", "reads in[64]"),
    "from a pointer of global memory": ("if (t == 0) memcpy(out + 1, in, n * 4);", "writes out[64]"),
    "to a local array": ("float a[8]; memcpy(a, in, n);\n out[t] = a[t % 8];", "writes 64 bytes of a local array, which has 32"),
    "from a local array": ("float a[8]; for (int i = 0; i < 8; ++i) a[i] = t;\n if (t == 0) memcpy(out, a, n);", "reads 64 bytes of a local array, which has 32"),
    "set, local": ("float a[8]; memset(a, 0, n);\n out[t] = a[t % 8];", "writes 64 bytes of a local array, which has 32"),
    "set, shared": ("__shared__ float s[8]; if (t == 0) memset(s, 0, n);\n __syncthreads(); out[t] = s[t % 8];", "writes s["),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_that_is_too_long(name: str) -> None:
    body, says = COPIES[name]
    report, _ = traced(source_of(body))
    assert [f.kind for f in report.findings] == ["out-of-bounds"]
    assert says in report.findings[0].message


def test_a_copy_of_any_length_is_counted_and_races() -> None:
    report, out = traced(source_of("    memcpy(out + t, in + t, n / 16);"))
    assert report.findings == () and np.array_equal(out, np.arange(1, N + 1))
    assert (report.global_loads.requests, report.global_loads.sectors) == (2, 8)
    report, _ = traced(source_of("    memcpy(out, in, n);"))
    assert {f.kind for f in report.findings} == {"race"}


def test_a_pointer_far_beyond_the_local_variables() -> None:
    source = source_of(
        "    float v[2] = {0, 0}; float* p = v;\n    for (int i = 0; i < 100000; ++i) p[i] = in[i % n];  // HERE\n    out[t] = v[1];"
    )
    report, _ = traced(source)
    (finding,) = report.findings  # (clang does not show the accesses, but where they led to)
    assert finding.kind in ("out-of-bounds", "stopped") and finding.line in (0, line_of(source), line_of(source) + 1)


INSIDE = {
    "arrays that are used to their ends": ("", "__shared__ float a[N], b[N]; a[N - 1 - t] = b[t] = in[t]; __syncthreads(); float* p = a;\n float v[3] = {1, 2, 3}; out[t] = p[t] + b[N - 1 - t] + v[t % 3];"),
    "a pointer behind the end": ("", "float v[4]; for (float* p = v; p != v + 4; ++p) *p = in[p - v];\n float s = 0; for (float* p = &v[0]; p < &v[4]; ++p) s += *p;\n out[t] = s;"),
    "a tile by a flat pointer": ("", "__shared__ float tile[8][8]; float* flat = &tile[0][0]; flat[t] = in[t]; __syncthreads();\n out[t] = tile[t % 8][t / 8];"),
    "vectors in shared memory": ("", "__shared__ float4 v[N / 4]; if (t < N / 4) v[t] = make_float4(1, 2, 3, 4); __syncthreads();\n out[t] = ((float*)v)[t];"),
    "variables to their ends": ("__device__ float table[N]; __constant__ int w[2] = {1, 2}; static const float halves[2] = {0.5f, 1};\n", "float* p = table; p[t] = in[t] * w[t % 2] * halves[t % 2];\n out[t] = p[t];"),
    "one in a namespace": ("namespace mine { __device__ int sums[4]; }\n", "if (t < 4) mine::sums[t] = t;\n out[t] = 1;"),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_inside_an_array(name: str) -> None:
    before, body = INSIDE[name]
    report, out = traced(source_of(body, f"#define N {N}\n{before}"))
    assert report.findings == ()
    assert not np.isnan(out).any()


# ---- Variables of the source: races, counts, what they keep

RACES = {
    "threads": ("__device__ int total;\n", "total += (int)in[t];  // HERE\n out[t] = 1;", N, 1, "total"),
    "blocks": ("__device__ int total;\n", "if (t == 0) total = blockIdx.x;  // HERE", 32, 4, "total"),
    "a read": ("__device__ float last;\n", "if (t == 40) last = 1;  // HERE\n out[t] = last;", N, 1, "last"),
    "one in a function": ("", "static __device__ int turn;\n turn += t;  // HERE\n out[t] = 1;", N, 1, "turn"),
}  # fmt: skip


@pytest.mark.parametrize("name", RACES)
def test_races_of_device_variables(name: str) -> None:
    before, body, block, grid, array = RACES[name]
    source = source_of(body, before)
    report, _ = traced(source, block, grid)
    assert {(f.kind, f.array, f.line) for f in report.findings} == {("race", array, line_of(source))}
    if grid > 1:
        assert len(report.findings[0].blocks) == 2


# ---- Atomics and accesses that are none

SHARED = """
    __shared__ int c[4];
    __shared__ int flag;
    if (t < 4) c[t] = 0;
    if (t == 0) flag = 0;
    __syncthreads();
"""
MIXED: dict[str, tuple[str, str | None]] = {  # what follows, and the array that is raced for
    "a read after an atomic": ("atomicAdd(&c[t % 4], 1);\n    out[t] = c[0];", "c"),
    "a read before an atomic": ("out[t] = c[0];\n    atomicAdd(&c[t % 4], 1);", "c"),
    "a read by another lane of the warp": ("if (t < 32) { atomicAdd(&c[t % 4], 1); out[t] = c[t % 4]; }", "c"),
    "a write after an atomic": ("atomicAdd(&c[0], 1);\n    if (t == 9) c[0] = 5;", "c"),
    "a flag that is read plainly": ("if (t == 40) atomicExch(&flag, 1);\n    out[t] = flag;", "flag"),
    "a flag that is written plainly": ("if (t == 40) flag = 1;\n    out[t] = *(volatile int*)&flag;", "flag"),
    "a plain read among volatile ones": (
        "if (t == 5) out[t] = flag + 1;\n    if (t > 5) out[t] = *(volatile int*)&flag;\n    if (t == 50) atomicExch(&flag, 1);", "flag"),
    "global memory": ("atomicAdd(&total, 1);\n    if (t == 9) out[0] = total;", "total"),
    "a barrier between": ("atomicAdd(&c[t % 4], 1);\n    __syncthreads();\n    out[t] = c[0];", None),
    "a barrier of the warp between": ("if (t < 32) { atomicAdd(&c[t % 4], 1); __syncwarp(); out[t] = c[t % 4]; }", None),
    "atomics alone": ("atomicAdd(&c[t % 4], 1);\n    atomicMax(&c[1], t);\n    out[t] = atomicAdd(&c[0], 0);", None),
    "its own word": ("if (t < 4) { atomicAdd(&c[t], 1); out[t] = c[t]; }", None),
    "a flag polled as volatile": (
        "if (t == 40) atomicExch(&flag, 1);\n    while (*(volatile int*)&flag == 0) __nanosleep(10);\n    out[t] = t;", None),
    "a flag polled by atomics": (
        "if (t == 40) atomicExch(&flag, 1);\n    while (atomicAdd(&flag, 0) == 0) __nanosleep(10);\n    out[t] = t;", None),
    "global memory with a barrier": ("atomicAdd(&total, 1);\n    __syncthreads();\n    if (t == 9) out[0] = total;", None),
}  # fmt: skip


@pytest.mark.parametrize("case", MIXED)
def test_an_atomic_and_a_plain_access_conflict(case: str) -> None:
    """As two plain accesses do of which one writes; atomics among themselves do not, nor a volatile read with one."""
    body, array = MIXED[case]
    report, _ = traced(source_of(f"{SHARED}    {body}", "__device__ int total;\n"))
    assert {(f.kind, f.array) for f in report.findings} == ({("race", array)} if array else set())


def test_device_variables_are_counted_and_constants_are_not() -> None:
    before = "__device__ float table[64]; __constant__ float w[64] = {1};\n"
    report, _ = traced(source_of("    table[2 * t % 64] += w[t];", before), block=32)
    assert {(e.array, e.kind, e.counts.requests, e.counts.sectors) for e in report.lines} == {
        ("table", "load", 1, 8), ("table", "store", 1, 8)}  # fmt: skip
    report, _ = traced(source_of("    atomicAdd(&total, 1);\n    out[t] = 1;", "__device__ int total;\n"))
    assert report.findings == () and report.atomics["global"].requests == 2


COUNT = "__device__ int launches = 5;\n"
COUNTS = source_of("    if (t == 0) out[0] = launches++;", COUNT)


def counted(kernel: Any, plain: bool) -> float:
    out = np.zeros(N, np.float32)
    args = (np.ones(N, np.float32), out, N)
    if plain:
        kernel((1,), (32,), args)
    else:
        assert cuda.trace(kernel, (1,), (32,), args).findings == ()
    return float(out[0])


@pytest.mark.parametrize("plain", [True, False])
def test_variables_are_kept_from_launch_to_launch_and_are_each_modules_own(plain: bool) -> None:
    one, other = cuda.RawKernel(COUNTS, "k"), cuda.RawKernel(COUNTS, "k")
    assert [counted(one, plain) for _ in range(3)] == [5, 6, 7]
    assert counted(other, plain) == 5
    assert counted(one, plain) == 8
    one.reset()
    assert [counted(one, plain), counted(other, plain), counted(one, plain)] == [5, 6, 6]
    assert counted(one, not plain) == 5  # a trace has values of its own


# ---- A launch that is stopped: by what, in which line, whose thread

STOPPED = {
    "an assertion": ("    assert(t < 5 && n == 64);  // HERE", (5, 0, 0), r"assertion failed: t < 5 && n == 64, thread \(5, 0, 0\) of block \(0, 0, 0\)"),
    "one with a comma": ("    assert((t < 7, n > 64));  // HERE", (0, 0, 0), r"assertion failed: \(t < 7, n > 64\)"),
    "a trap": ("    if (t == 6) __trap();  // HERE", (6, 0, 0), "executed __trap"),
    "a trap of the compiler": ("    if (t == 6)\n        __builtin_trap();  // HERE", (6, 0, 0), "executed __trap"),
    "abort": ("    if (t == 6)\n        __builtin_abort();  // HERE", (6, 0, 0), r"called abort\(\)"),
    "exit": ("    if (t == 6)\n        exit(1);  // HERE", (6, 0, 0), r"called exit\(\)"),
    "_exit": ("    if (t == 6)\n        _exit(0);  // HERE", (6, 0, 0), r"called exit\(\)"),
    "a division": ("    volatile int zero = 0;\n    out[t] = n / zero;  // HERE", (0, 0, 0), "divided an integer by zero"),
    "the least by -1": ("    volatile int one = -1, least = -2147483647 - 1;\n    out[t] = least / one;  // HERE", (0, 0, 0), "divided the least integer by -1"),
    "a large array": ("    volatile float a[3000000];\n    for (int i = 0; i < 3000000; ++i) a[i] = t;\n    out[t] = a[n];", (0, 0, 0), "stack overflow: .* needs more than 65,536 bytes for local variables"),
    "recursion": ("    out[t] = deep(n);", (0, 0, 0), "stack overflow"),
}  # fmt: skip
BEFORE = """extern "C" void exit(int); extern "C" void _exit(int);
static __device__ __noinline__ float deep(int n) { volatile float a[8]; a[n % 8] = n; return n < 0 ? 0 : deep(n + 1) + a[1]; }
"""


@pytest.mark.parametrize("name", STOPPED)
def test_what_stops_a_launch_is_told_and_the_process_goes_on(name: str) -> None:
    body, thread, says = STOPPED[name]
    source = source_of(body, BEFORE)
    report, _ = traced(source)
    (finding,) = report.findings
    assert finding.kind == "stopped" and finding.threads == (thread,)
    assert "HERE" not in body or finding.line == line_of(source)
    assert re.search(says, finding.message), finding.message
    assert not finding.message.endswith(".") and "k:" not in finding.message


@pytest.mark.parametrize("name", ["an assertion", "a trap", "abort", "exit", "_exit"])
def test_a_plain_launch_is_stopped_just_so(name: str) -> None:
    body, _, says = STOPPED[name]
    source = source_of(body, BEFORE)
    line = f"line {line_of(source)}: " if name in ("an assertion", "a trap") else ""
    with pytest.raises(cuda.KernelError, match=f"^k: {line}.*{says}"):
        cuda.RawKernel(source, "k")((1,), (N,), (np.ones(N, np.float32), np.ones(N, np.float32), N))


ENDLESS = {
    "with accesses": "    int i = 0;\n    while (n > 0) out[t] = i++;  // HERE",
    "without": "    volatile int i = 0;\n    while (n > 0) ++i;  // HERE",
    "for want of a step": "    for (int i = t; i < n;)  // HERE\n        out[i] = in[i];  ",
    "behind a barrier": "    __shared__ float s[64]; s[t] = in[t]; __syncthreads();\n    for (unsigned i = n; i >= 0; --i) out[t] = s[i % 64];  // HERE",
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_loop_is_told(name: str) -> None:
    source = source_of(ENDLESS[name])
    report, _ = traced(source)
    (finding,) = [f for f in report.findings if f.kind == "stopped"]
    assert "8,388,608 steps (memory accesses and branches) between two barriers: does the loop end?" in finding.message
    assert finding.line in (line_of(source), line_of(source) + 1)


def test_all_that_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that do much each, but none too much."""
    source = source_of("    for (int i = 0; i < 1000; ++i) if (i % 2) out[t % 64] = i;")
    monkeypatch.setattr(watch, "BYTES_MAX", 8 << 20)
    report, _ = traced(source, block=1024)
    (finding,) = [f for f in report.findings if f.kind == "stopped"]
    assert "fill more than 8 MiB" in finding.message
    monkeypatch.undo()
    report, _ = traced(source, block=32)
    assert {f.kind for f in report.findings} == {"race"} or not report.findings


# ---- Words


def test_a_deadlock_is_told_once_with_its_line() -> None:
    source = source_of("    if (t >= 32) __shfl_sync(t == 33 ? 3u : ~0u, n, 0);\n    __syncthreads();  // HERE")
    report, _ = traced(source)
    (finding,) = report.findings
    assert finding.kind == "deadlock" and finding.line == line_of(source)
    assert str(finding).startswith(f"deadlock, line {finding.line}: in block (0, 0, 0): ")
    assert not finding.message.endswith(".")


RACING = {
    "a sum in a tree": "    __shared__ float s[64]; s[t] = in[t];\n    for (int step = 32; step > 0; step /= 2) if (t < step) s[t] += s[t + step];\n    out[t] = s[0];",
    "neighbours": "    __shared__ float s[64]; s[t] = in[t];\n    out[t] = s[(t + 1) % 64];",
    "a mirror": "    __shared__ float s[64]; s[t] = in[t];\n    out[t] = s[63 - t] + s[t ^ 1];",
}  # fmt: skip


@pytest.mark.parametrize("name", RACING)
def test_a_race_between_warps_is_told_by_two_of_them(name: str) -> None:
    report, _ = traced(source_of(RACING[name]))
    first = next(f for f in report.findings if f.kind == "race")
    assert "no __syncthreads lies between" in first.message
    assert len(first.threads) < 2 or first.threads[0][0] // 32 != first.threads[1][0] // 32


def test_a_race_in_a_warp_is_told_as_one() -> None:
    report, _ = traced(source_of(RACING["neighbours"].replace("% 64", "% 32")), block=32)
    assert "nor __syncwarp lies between" in report.findings[0].message


# ---- More static shared memory than there is


def test_static_shared_memory_has_a_limit() -> None:
    source = source_of(
        "    __shared__ float s[12289];  // HERE\n    s[t] = in[t]; __syncthreads(); out[t] = s[n - 1 - t];"
    )
    says = rf"line {line_of(source)}: kernel 'k' uses 49156 bytes of static shared memory \(s: 49156\), at most 49152"
    with pytest.raises(cuda.CompileError, match=says):
        cuda.RawKernel(source, "k")
    with cuda.guarded(), pytest.raises(cuda.CompileError, match=says):
        cuda.RawKernel(source, "k")
    both = source_of(
        "    __shared__ float a[6144], b[6145];\n    a[t] = b[t] = in[t]; __syncthreads(); out[t] = a[n - 1 - t] + b[n - 1 - t];"
    )
    with pytest.raises(cuda.CompileError, match="49156 bytes"):
        cuda.RawKernel(both, "k")


def test_static_shared_memory_up_to_the_limit() -> None:
    full = "    __shared__ float s[12288];\n    s[t] = in[t]; __syncthreads(); out[t] = s[n - 1 - t];"
    report, out = traced(source_of(full))
    assert report.findings == () and out[0] == N
    other = f'extern "C" __global__ void other(const float* in, float* out, int n) {{ int t = threadIdx.x; {full} }}\n'
    report, _ = traced(source_of(full, other))  # each kernel has as much
    assert report.findings == ()


# ---- Names of a learner's, and other spellings

NAMES = """#include <assert.h>
#include <cuda_runtime.h>
__device__ int shuffles, counts, lane, block, warp, mask, total, event, trace, guard, fault, record, combine, member, worker,
    busy, printed, stopping, lock, teams, paths, sites, request, finding, cell, touch, visit, replay, offset, address, kernel,
    here, thread, memory, region, barrier, cluster, grid, time, signal, index, y0, y1, unset;
struct Block { int x; }; struct Trace { int y; }; struct Fiber { int z; }; struct Event {}; struct Launch {}; struct Worker {};
struct Finding {}; struct Touch {}; struct Site {}; struct Place {}; struct Warp {}; struct Region {};
enum { LOAD, STORE, ATOMIC, RACE, TRAP, SEVERAL };
__device__ float load(const float* p) { return *p; }
__device__ void store(float* p, float v) { *p = v; }
__device__ float clamp(float x, float a, float b) { return x < a ? a : x > b ? b : x; }
__device__ void sync() { __syncthreads(); }
__device__ int distinct(int x) { return x; }
"""


def test_a_learners_names_are_the_learners() -> None:
    kernel = """extern "C" {
__global__ void __launch_bounds__(64) k(const float* in, float* out, int n) {
    static __shared__ float tile[64];
    int lane = threadIdx.x & 31, block = blockIdx.x, combine = 3, record = 1, width = 4, source = 1;
    tile[threadIdx.x] = clamp(load(in + threadIdx.x), 0.0f, 50.0f);
    assert(n == 64 && "n, is it?");
    sync();
    store(out + threadIdx.x, tile[63 - threadIdx.x] + lane * 0 + block * combine * record * width * source);
}
__global__ __launch_bounds__(64, 2) void other(float* out) { out[0] = 1; }
}
"""
    report, out = traced(NAMES + kernel)
    assert report.findings == () and out[63] == 1 and out[0] == 50


def test_waiting_twice_and_for_a_number_that_is_computed() -> None:
    from common.kernels.ladder import header_options

    source = """#include "ptx.h"
constexpr int left(int stages) { return stages - 1; }
extern "C" __global__ void __launch_bounds__(32 * 2) k(const float* in, float* out, int n) {
    __shared__ float s[64];
    constexpr int STAGES = 2;
    cp_async_4(&s[threadIdx.x], in + threadIdx.x);
    cp_async_commit();
    cp_async_wait<left(STAGES)>();
    cp_async_wait<STAGES - 2>();
    cp_async_wait<0>();
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x];
}
"""
    report, out = traced(source, kernel=cuda.RawKernel(source, "k", options=header_options()))
    assert report.findings == () and out[0] == N


def test_one_barrier_of_the_grid_is_one_however_it_is_compiled() -> None:
    from common.kernels.ladder import header_options

    source = """#include "grid.h"
__device__ unsigned counter;
extern "C" __global__ void k(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 5) out[i] = in[i];
    grid_barrier(&counter);
    if (i >= n - 5) return;
    out[i] += 1;
}
"""
    kernel = cuda.RawKernel(source, "k", options=header_options(), enable_cooperative_groups=True)
    report, _ = traced(source, block=32, grid=2, kernel=kernel)
    assert report.findings == ()


# ---- When compilers are at work


def test_listeners_hear_when_something_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bool] = []
    monkeypatch.setattr(compiler, "listeners", [heard.append])
    source = source_of(f"    out[t] = {np.random.default_rng().integers(2**31)};")  # not compiled before
    kernel = cuda.RawKernel(source, "k")
    assert heard == [True, False]
    cuda.prepare_trace(kernel)
    assert heard == [True, False] * 2
    traced(source, kernel=kernel)
    assert heard == [True, False] * 2
    with pytest.raises(cuda.CompileError):
        cuda.RawKernel(source.replace("out[t]", "nothing"), "k")
    assert heard == [True, False] * 3
