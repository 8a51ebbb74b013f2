"""What goes wrong with a kernel, and what the learner is told. After every fault the next launch works."""

import gc
import os
import platform
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from tiers import seldom

from common import cuda
from common.cuda.simulator import memory

simulator_only = pytest.mark.skipif(cuda.backend() == "gpu", reason="on a GPU a fault ends the process's CUDA context")
x86_only = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 raises a signal here")

COPY = r"""
extern "C" __global__ void copy(int n, float scale, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scale * x[i];
}"""


def run(source, name, grid, block, *args, shared_mem=0, **options):
    cuda.RawKernel(source, name, **options)(grid, block, args, shared_mem=shared_mem)


def check_that_launches_work():
    x, y = cuda.full(100, 3), cuda.zeros(100)
    run(COPY, "copy", (2,), (64,), 100, np.float32(2), x, y)
    assert (cuda.asnumpy(y) == 6).all()
    tile = r"""extern "C" __global__ void tile(float* y) {
        __shared__ float s[64]; s[threadIdx.x] = threadIdx.x; __syncthreads(); y[threadIdx.x] = s[63 - threadIdx.x]; }"""
    run(tile, "tile", (1,), (64,), y)
    np.testing.assert_array_equal(cuda.asnumpy(y)[:64], np.arange(64)[::-1])


def python(code, *, timeout=60, **environment):
    """Runs Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout,
        env={**os.environ, **environment},
    )  # fmt: skip


# ---- Arguments


def arguments(**changed):
    return list(({"n": 4, "scale": np.float32(1), "x": cuda.zeros(4), "y": cuda.zeros(4)} | changed).values())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n": 1.5}, r"copy\(\): argument 'n' must be an int32, got float 1.5"),
        (
            {"n": 2**31},
            r"'n' must be an int32, got 2147483648, which does not fit \(-2147483648 to 2147483647\)",
        ),
        ({"n": True}, r"'n' must be an int32, got bool True|got int True"),
        ({"n": np.float32(4)}, r"'n' must be an int32, got float32"),
        ({"n": None}, r"'n' must be an int32, got NoneType"),
        ({"scale": 1.0}, r"'scale' must be a float32, got float 1.0: write numpy.float32\(1.0\)"),
        ({"scale": 1}, r"'scale' must be a float32, got int 1: write numpy.float32\(1\)"),
        ({"scale": np.float64(1)}, r"'scale' must be a float32, got float(64)? .*write numpy.float32"),
        ({"x": [1.0, 2.0]}, r"'x' must be a float32 array, got builtins.list"),
        ({"x": 3}, r"'x' must be a float32 array, got builtins.int"),
        ({"x": "text"}, r"'x' must be a float32 array, got builtins.str"),
    ],
)
def test_a_wrong_argument_is_named(changed, message):
    kernel = cuda.RawKernel(COPY, "copy")
    with pytest.raises(TypeError, match=message):
        kernel((1,), (4,), arguments(**changed))


@pytest.mark.parametrize("args", [None, 5, np.zeros(4, np.float32), "ab"], ids=["None", "int", "array", "str"])
def test_arguments_that_are_no_tuple(args):
    with pytest.raises(TypeError, match=rf"^copy\(\): args must be a tuple or list .*, got {type(args).__name__}$"):
        cuda.RawKernel(COPY, "copy")((1,), (1,), args)


@pytest.mark.parametrize("size", [4.5, None, "4", True])
def test_sizes_of_shared_memory_that_are_no_integers(size):
    kernel = cuda.RawKernel(COPY, "copy")
    with pytest.raises(TypeError, match=rf"^shared_mem must be an integer, a number of bytes, got {size!r}$"):
        kernel((1,), (4,), arguments(), shared_mem=size)
    if cuda.backend() != "gpu":  # there it is CuPy's
        with pytest.raises(TypeError, match=rf"^max_dynamic_shared_size_bytes must be an integer.*, got {size!r}$"):
            kernel.max_dynamic_shared_size_bytes = size


@pytest.mark.parametrize(("dtype", "name"), [("f8", "float64"), ("f2", "float16"), ("i4", "int32"), ("u1", "uint8")])
def test_an_array_of_a_wrong_dtype_is_named(dtype, name):
    kernel = cuda.RawKernel(COPY, "copy")
    with pytest.raises(TypeError, match=rf"copy\(\): argument 'y' must be a float32 array, got an? {name} array"):
        kernel((1,), (4,), arguments(y=cuda.zeros(4, dtype)))


def test_a_wrong_number_of_arguments():
    kernel = cuda.RawKernel(COPY, "copy")
    for args in (arguments()[:-1], [*arguments(), 5], []):
        with pytest.raises(TypeError, match=rf"copy\(\) takes 4 arguments \(n, scale, x, y\), got {len(args)}"):
            kernel((1,), (4,), args)


def test_an_array_with_gaps_is_refused():
    kernel = cuda.RawKernel(COPY, "copy")
    for array in (
        cuda.zeros(8)[::2],
        cuda.zeros(8)[::-1],
        cuda.zeros((4, 4))[:, 1],
        cuda.zeros((4, 4))[:2, :2],
    ):
        with pytest.raises(TypeError, match=r"'x' must be a float32 array, got one with gaps \(shape .*, strides .*\)"):
            kernel((1,), (4,), arguments(x=array))
    kernel((1,), (4,), arguments(x=cuda.zeros((4, 4))[2]))  # a row has none


@simulator_only
def test_a_read_only_array_is_refused_where_the_kernel_may_write():
    array = cuda.zeros(4)
    array.flags.writeable = False
    kernel = cuda.RawKernel(COPY, "copy")
    kernel((1,), (4,), arguments(x=array))
    with pytest.raises(TypeError, match="'y' must be a float32 array, got a read-only one"):
        kernel((1,), (4,), arguments(y=array))


def test_an_array_of_another_library_is_refused():
    torch = pytest.importorskip("torch")
    kernel = cuda.RawKernel(COPY, "copy")
    library = "cupy" if cuda.backend() == "gpu" else "numpy"
    with pytest.raises(
        TypeError, match=rf"'x' must be a float32 array, got torch.Tensor \(make it a {library} array with"
    ):
        kernel((1,), (4,), arguments(x=torch.zeros(4)))


def test_elements_of_vector_parameters_are_checked():
    kernel = cuda.RawKernel('extern "C" __global__ void k(const float4* x, uchar2* y) {}', "k")
    kernel((1,), (1,), (cuda.zeros(8), cuda.zeros(2, np.uint8)))
    with pytest.raises(TypeError, match="'x' must be a .*array, got a float64 array"):
        kernel((1,), (1,), (cuda.zeros(8, np.float64), cuda.zeros(2, np.uint8)))


@pytest.mark.parametrize(
    ("grid", "block", "error", "message"),
    [
        ((1,), (1025,), ValueError, r"block.x must be from 1 to 1024, got 1025"),
        ((1,), (32, 33), ValueError, "at most 1024 threads, got 1056"),
        ((1,), (1, 1, 65), ValueError, r"block.z must be from 1 to 64"),
        ((0,), (1,), ValueError, r"grid.x must be from 1 to 2147483647, got 0"),
        ((1, 65536), (1,), ValueError, r"grid.y must be from 1 to 65535"),
        ((1,), (-1,), ValueError, r"block.x must be from 1"),
        (1, (1,), TypeError, "grid must be a tuple of one to three integers, got 1"),
        ((1, 1, 1, 1), (1,), TypeError, "grid must be a tuple"),
        ((1.0,), (1,), TypeError, "grid must be a tuple"),
        ((), (1,), TypeError, "grid must be a tuple"),
    ],
)
def test_sizes_that_cuda_does_not_allow(grid, block, error, message):
    kernel = cuda.RawKernel(COPY, "copy")
    with pytest.raises(error, match=message):
        kernel(grid, block, arguments())


def test_more_shared_memory_than_allowed():
    kernel = cuda.RawKernel(COPY, "copy")
    for size in (-1, 49153):
        with pytest.raises(
            ValueError,
            match=rf"shared_mem must be from 0 to 49152 bytes, got {size}.*max_dynamic_shared_size_bytes",
        ):
            kernel((1,), (4,), arguments(), shared_mem=size)
    kernel.max_dynamic_shared_size_bytes = 64 * 1024
    kernel((1,), (4,), arguments(), shared_mem=64 * 1024)


def test_a_kernel_is_allowed_more_shared_memory_and_never_less():
    kernel = cuda.RawKernel('extern "C" __global__ void k(float* y) { extern __shared__ float s[]; y[0] = s[0]; }', "k")
    allowed = kernel.max_dynamic_shared_size_bytes
    assert allowed == cuda.SHARED_DEFAULT
    cuda.allow_shared(kernel, 1000)
    assert kernel.max_dynamic_shared_size_bytes == allowed
    cuda.allow_shared(kernel, cuda.SHARED_DEFAULT + 1024)
    assert kernel.max_dynamic_shared_size_bytes == cuda.SHARED_DEFAULT + 1024
    kernel((1,), (1,), (cuda.zeros(1),), shared_mem=cuda.SHARED_DEFAULT + 1024)


@simulator_only
def test_no_card_has_more_shared_memory_than_227_kib():
    kernel = cuda.RawKernel(COPY, "copy")
    with pytest.raises(ValueError, match="from 0 to 232448, got 232449"):
        kernel.max_dynamic_shared_size_bytes = 232449


# ---- Names and options


def test_kernels_that_cannot_be_found():
    source = r"""
    template <typename T> __global__ void generic(T* y) {}
    __global__ void mangled(float* y) {}
    extern "C" __global__ void good(float* y) {}
    // extern "C" __global__ void commented(float* y) {}
    """
    module = cuda.RawModule(code=source)
    module.get_function("good")
    with pytest.raises(ValueError, match="no kernel 'commented' in this source; it defines generic, mangled, good"):
        module.get_function("commented")
    with pytest.raises(ValueError, match=r"kernel 'mangled' must be declared extern \"C\""):
        module.get_function("mangled")
    for name in ("generic", "generic<float>"):
        with pytest.raises(ValueError, match=r"is a template: RawModule\(code=..., name_expressions=\['generic"):
            module.get_function(name)
    with pytest.raises(ValueError, match="no kernel 'k' in this source; it defines none"):
        cuda.RawKernel("__device__ int f() { return 1; }", "k")


def test_source_and_options_must_be_text():
    with pytest.raises(TypeError, match="code must be the source as a str, got bytes"):
        cuda.RawModule(code=b"")
    with pytest.raises(TypeError, match="options must be a tuple of str"):
        cuda.RawModule(code=COPY, options="-DX")


@simulator_only
def test_an_unknown_option_is_refused():
    with pytest.raises(ValueError, match="does not know '--frobnicate'"):
        cuda.RawModule(code=COPY, options=("--frobnicate",))


# ---- Compile errors


def compile_error(source, **options):
    with pytest.raises(cuda.CompileError) as caught:
        cuda.RawModule(code=source, **options)
    return str(caught.value)


def test_a_compile_error_names_the_line_and_quotes_it():
    text = compile_error(COPY.replace("scale * x[i]", "skale * x[i]"))
    assert "the kernel does not compile" in text
    assert "line 4:" in text
    assert "skale" in text.split("\n")[1]
    assert "   4 |     if (i < n) y[i] = skale * x[i];" in text
    assert "simulator.h" not in text
    assert os.sep + "tmp" not in text


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_the_line_is_right_after_everything_that_could_shift_it(newline):
    source = newline.join([
        "/* a comment", "   of two lines */", "#define TWICE(x) \\", "    ((x) * 2)", "extern __shared__ float outside[];",
        'extern "C" __global__ void k(float* y) {', "    extern __shared__", "        float s[];",
        "    // extern __shared__ int no[];", "    s[threadIdx.x] = TWICE(3);", "    y[0] = wrong_name;", "}", "",
    ])  # fmt: skip
    text = compile_error(source)
    assert "line 11:" in text
    assert "  11 |     y[0] = wrong_name;" in text
    assert text.count("line ") == 1


def test_several_errors_are_all_named():
    text = compile_error('extern "C" __global__ void k(float* y) {\n    y[0] = a1;\n    y[1] = 1;\n    y[2] = b2;\n}\n')
    assert "line 2:" in text
    assert "line 4:" in text
    assert "line 3:" not in text


@pytest.mark.parametrize(
    ("source", "line", "what"),
    [
        ('extern "C" __global__ void k(float* y) {\n    y[0] = 1;\n', 1, "never closed"),
        ('extern "C" __global__ void k(float* y) {\n    for (;;) {\n    y[0] = 1;\n}\n', 1, "never closed"),
        ('extern "C" __global__ void k(float* y) { }\nstruct S { int a; }', 2, r";"),
        ('#include "nowhere.h"\nextern "C" __global__ void k(float* y) { }\n', 1, r"nowhere\.h"),
        ('extern "C" __global__ void k(float* y) {\n    y[0] = 1\n}\n', None, r";"),
        ('extern "C" __global__ void k(float* y) {\n    __ldg(3);\n}\n', 2, "__ldg"),
        ('template <class T> __device__ T f(T x) { return x.no; }\nextern "C" __global__ void k(float* y) { y[0] = f(1.0f); }\n', 1, "no"),
        ('extern "C" __global__ void k(float* y) {\n    threadIdx.x = 3;\n}\n', 2, "x"),
        ("#error give up\n", 1, "give up"),
    ],
)  # fmt: skip
def test_compile_errors_of_many_kinds(source, line, what):
    text = compile_error(source)
    if line:
        assert f"line {line}:" in text, text
    assert what in text or __import__("re").search(what, text), text


@simulator_only
def test_an_error_inside_a_header_names_the_line_that_led_there():
    text = compile_error(
        'extern "C" __global__ void k(float* y) {\n\n    struct S { float v; } s;\n    __match_any_sync(~0u, s);\n}\n'
    )
    assert "line 4:" in text
    assert "__match_any_sync(~0u, s);" in text


def test_a_wrong_name_expression_is_a_compile_error():
    text = compile_error("template <typename T> __global__ void k(T* y) {}", name_expressions=["k<flot>"])
    assert "flot" in text


@simulator_only
def test_inline_ptx_is_explained():
    text = compile_error('extern "C" __global__ void k(int* y) {\n    asm("mov.u32 %0, %%laneid;" : "=r"(y[0]));\n}\n')
    assert "Inline PTX runs on a GPU alone" in text


@simulator_only
def test_messages_do_not_depend_on_the_language_of_the_machine(monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    assert "line 1:" in compile_error("int a = wrong_name_2;")


def test_text_beyond_ascii_compiles():
    y = cuda.zeros(1)
    run('// größer ≤ 3 → 漢字\nextern "C" __global__ void k(float* y) { y[0] = 1; /* é */ }', "k", (1,), (1,), y)
    assert cuda.asnumpy(y) == [1]


# ---- Faults

BARRIER = " __syncthreads();"


@simulator_only
@pytest.mark.parametrize("meet", ["", BARRIER], ids=["loop", "fibers"])
@pytest.mark.parametrize("fence", [True, False], ids=["fenced", "numpy"])
@pytest.mark.parametrize(
    ("index", "write"), [(100, True), (100, False), (127, True), (128, False), (5000, True), (5000, False), (-1, True), (-5000, False),
                         (10**6, True), (-(10**6), True)]
)  # fmt: skip
def test_out_of_bounds(meet, fence, index, write):
    source = f"""
    extern "C" __global__ void beyond(int at, const float* x, float* y) {{
        {meet}
        if (blockIdx.x == 1 && threadIdx.x == 5) {"y[at] = 1" if write else "y[0] = x[at]"};
        else if (threadIdx.x < 25) y[threadIdx.x] = 2;
    }}"""
    make = cuda.zeros if fence else (lambda n: np.zeros(n, np.float32))
    x, y = make(100), make(100)
    if not write and 0 <= index < 128 - 28:
        pytest.skip("nothing to see")
    kernel = cuda.RawKernel(source, "beyond")
    if not write and index == 100:  # a read this near is of NaN, and is not stopped
        kernel((2,), (32,), (index, x, y))
        assert np.isnan(y[0]) or y[0] == 2
        return
    with pytest.raises(cuda.KernelError) as caught:
        kernel((2,), (32,), (index, x, y))
    text = str(caught.value)
    assert "beyond: " in text
    if abs(index) < 10**6:
        assert f"index {index} of '{'y' if write else 'x'}', which has 100 elements (float32, shape (100,))" in text
        assert "out of bounds" in text
    if abs(index) >= 5000:
        assert "thread (5, 0, 0) of block (1, 0, 0)" in text
    if not fence:
        assert not y.any(), "a launch that failed must leave a plain array as it was"
    check_that_launches_work()


@simulator_only
def test_an_overrun_is_reported_once_and_then_forgotten():
    source = 'extern "C" __global__ void k(int at, float* y) { y[at] = 1; }'
    kernel, y = cuda.RawKernel(source, "k"), cuda.zeros(10)
    for _ in range(3):
        with pytest.raises(cuda.KernelError, match="index 10 of 'y'"):
            kernel((1,), (1,), (10, y))
        kernel((1,), (1,), (9, y))


@simulator_only
def test_dynamic_shared_memory_ends_where_it_was_asked_to():
    source = r"""
    extern "C" __global__ void k(int at, float* y) {
        extern __shared__ float s[];
        s[threadIdx.x] = 0;
        __syncthreads();
        if (threadIdx.x == 3) s[at] = 1;
        __syncthreads();
        y[threadIdx.x] = s[threadIdx.x];
    }"""
    kernel, y = cuda.RawKernel(source, "k"), cuda.zeros(8)
    for at in (8, 31, 32, 500):
        with pytest.raises(
            cuda.KernelError,
            match=rf"k: .*block \(0, 0, 0\) went out of bounds: byte {4 * at} of dynamic shared",
        ):
            kernel((1,), (8,), (at, y), shared_mem=32)
        kernel((1,), (8,), (7, y), shared_mem=32)
    with pytest.raises(cuda.KernelError, match="of which the launch asked for 0"):
        kernel((1,), (8,), (7, y))
    check_that_launches_work()


@simulator_only
def test_a_null_pointer_is_named():
    source = 'extern "C" __global__ void k(const float* bias, float* y) { y[threadIdx.x] = bias[threadIdx.x * 1000]; }'
    with pytest.raises(
        cuda.KernelError,
        match=r"thread \(0, 0, 0\) of block \(0, 0, 0\) used a null pointer \('bias' is None\)",
    ):
        run(source, "k", (1,), (64,), None, cuda.zeros(64))
    check_that_launches_work()


@simulator_only
@x86_only
@pytest.mark.parametrize("meet", ["", BARRIER], ids=["loop", "fibers"])
def test_a_misaligned_vector_access(meet):
    source = f"""
    extern "C" __global__ void k(const float* x, float* y) {{
        {meet}
        if (threadIdx.x == 2) {{ float4 v = *(const float4*)(x + 1); *(float4*)(y + threadIdx.x * 4) = v; }}
    }}"""
    where = r"index \d+ of '[xy]', an address that is not a multiple of its size"
    with pytest.raises(cuda.KernelError, match=rf"thread \(2, 0, 0\).* used a vector \(float4, ...\) at {where}"):
        run(source, "k", (1,), (4,), cuda.zeros(64), cuda.zeros(64))
    check_that_launches_work()


@simulator_only
@x86_only
def test_an_integer_division_by_zero():
    source = 'extern "C" __global__ void k(int n, int* y) { y[threadIdx.x] = 7 / (int)(threadIdx.x - n); }'
    with pytest.raises(cuda.KernelError, match=r"thread \(3, 0, 0\) .*divided an integer by zero \(a GPU goes on"):
        run(source, "k", (1,), (8,), 3, cuda.zeros(8, np.int32))
    check_that_launches_work()


@simulator_only
@x86_only
@pytest.mark.parametrize(("kind", "least"), [("int", -(2**31)), ("long long", -(2**63))])
@pytest.mark.parametrize("operator", "/%")
def test_the_least_integer_by_minus_one(kind, least, operator):
    """Whether the divisor stands in a register or in memory."""
    dtype = {"int": np.int32, "long long": np.int64}[kind]
    source = f"""
    extern "C" __global__ void k({kind} n, const {kind}* by, {kind}* y) {{ y[threadIdx.x] = n {operator} by[threadIdx.x]; }}"""
    by = cuda.asarray(np.array([1, -2, -1, 0], dtype))
    with pytest.raises(cuda.KernelError, match=r"thread \(2, 0, 0\) .*the least integer by -1.*a GPU goes on with"):
        run(source, "k", (1,), (4,), least, by, cuda.zeros(4, dtype))
    check_that_launches_work()


# ---- Addresses far from everything

FAR = {
    "1 << 30": (r"index 1073741824 of 'y'", r"y\[1073741824\], but y has 64 elements"),
    "1LL << 36": (r"index 68719476736 of 'y'", r"y\[68719476736\], but y has 64 elements"),
    "1LL << 44": (r"address 0x\w+ is far from every array", r"address 0x\w+, which is far from every array"),
    "1LL << 60": (r"address 0x\w+ is far from every array", r"address 0x\w+, which is far from every array"),
    "-(1LL << 44)": (r"address 0x\w+ is far from every array", r"address 0x\w+, which is far from every array"),
}


@simulator_only
@x86_only
@pytest.mark.parametrize("guarded", [False, True], ids=["plain", "guarded"])
@pytest.mark.parametrize("index", FAR)
def test_a_far_address_is_out_of_bounds(index, guarded):
    """Also one that no memory can have ("not canonical"), for which the processor tells no address."""
    source = f'extern "C" __global__ void k(float* y) {{ y[{index}] = 1; }}'
    message = FAR[index][guarded]
    with pytest.raises(cuda.KernelError, match=message) as caught, cuda.guarded(guarded):
        run(source, "k", (1,), (1,), cuda.zeros(64))
    assert "null pointer" not in str(caught.value) and "out of bounds" in str(caught.value).replace("-", " ")
    check_that_launches_work()


@simulator_only
@x86_only
@pytest.mark.parametrize("target", ["0", "0xdeadbeefcafe0000ull"], ids=["null", "not canonical"])
def test_a_jump_to_nowhere(target):
    """There is no instruction that could be looked at."""
    source = f"""
    extern "C" __global__ void k(int n) {{ typedef void (*Function)(); Function f = (Function)({target} * n); f(); }}"""
    with pytest.raises(cuda.KernelError, match="null pointer" if target == "0" else "out of bounds"):
        run(source, "k", (1,), (1,), 1)
    check_that_launches_work()


OVERRUN = """
extern "C" __global__ void k(float* y, int n) {
    __shared__ float row[32]; row[threadIdx.x + n] = 1; __syncthreads(); y[threadIdx.x] = row[31 - threadIdx.x]; }"""


@simulator_only
def test_a_shared_array_overrun_by_far_and_guarded():
    with pytest.raises(cuda.KernelError, match="index 40000000 of row"), cuda.guarded():
        run(OVERRUN, "k", (1,), (32,), cuda.zeros(32), 40_000_000)
    check_that_launches_work()


@simulator_only
def test_a_shared_array_overrun_by_far():
    """In a plain launch nobody knows the index, but which array it is. In a process of its own: of what lies 160 MB on,
    a process that has run for long may have something there."""
    program = f"""
from common import cuda
try:
    cuda.RawKernel({OVERRUN!r}, "k")((1,), (32,), (cuda.zeros(32), 40_000_000))
except cuda.KernelError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "byte 160000000 of shared array 'row', which has 128" in done.stdout, done.stdout + done.stderr


@simulator_only
@pytest.mark.parametrize("build", ["plain", "guarded", "traced"])
@pytest.mark.parametrize(
    ("arrays", "total"), [({"a": 12289}, 49156), ({"a": 8000, "b": 5000}, 52000), ({"a": 10**7}, 4 * 10**7)]
)
def test_static_shared_memory_beyond_48_kib(arrays, total, build):
    """As ptxas refuses it; 48 KiB to the byte are allowed."""

    def source(sizes):
        declared = " ".join(f"__shared__ float {name}[{size}];" for name, size in sizes.items())
        filled = " ".join(f"{name}[threadIdx.x] = threadIdx.x;" for name in sizes)
        total = " + ".join(f"{name}[31 - threadIdx.x]" for name in sizes)
        return f'extern "C" __global__ void k(float* y) {{ {declared} {filled} __syncthreads(); y[threadIdx.x] = {total}; }}'

    def launch(text):
        kernel, y = cuda.RawKernel(text, "k"), cuda.zeros(32)
        if build == "traced":
            cuda.trace(kernel, (1,), (32,), (y,))
        else:
            with cuda.guarded(build == "guarded"):
                kernel((1,), (32,), (y,))
        return y

    with pytest.raises(
        cuda.CompileError, match=rf"uses {total} bytes of static shared memory .*at most 49152 \(48 KiB\)"
    ):
        launch(source(arrays))
    assert (launch(source({"a": 12288})) == np.arange(32)[::-1]).all()


# ---- What would end a process

ENDS = {
    "abort": ("void abort();", "abort()", r"called abort\(\)"),
    "builtin": ("", "__builtin_abort()", r"called abort\(\)"),
    **{
        name: (f"void {name}(int);", f"{name}(3)", r"called exit\(\), which no GPU has")
        for name in ("exit", "_exit", "_Exit", "quick_exit")
    },
    "assert": ("", "assert(n == 2)", r"assertion failed: n == 2, thread \(0, 0, 0\)"),
    "trap": ("", "__trap()", r"executed __trap\(\)"),
}


@simulator_only
@pytest.mark.parametrize("build", ["plain", "guarded", "traced"])
@pytest.mark.parametrize("how", ENDS)
def test_what_would_end_the_process_ends_the_launch(how, build):
    declared, call, message = ENDS[how]
    extern = f'extern "C" {declared}' if declared else ""
    source = f'{extern}\nextern "C" __global__ void k(int n, int* y) {{ if (n == 1) {call}; y[0] = n; }}'
    kernel, y = cuda.RawKernel(source, "k"), cuda.zeros(1, np.int32)
    if build == "traced":
        (finding,) = cuda.trace(kernel, (1,), (1,), (1, y)).findings
        assert finding.kind == "stopped" and finding.line == 2 and re.search(message, finding.message)
    else:
        with pytest.raises(cuda.KernelError, match=message), cuda.guarded(build == "guarded"):
            kernel((1,), (1,), (1, y))
    kernel((1,), (1,), (7, y))
    assert y[0] == 7


@simulator_only
@pytest.mark.parametrize("meet", ["", BARRIER], ids=["loop", "fibers"])
def test_a_trap(meet):
    source = f'extern "C" __global__ void k() {{ {meet} if (blockIdx.y == 2 && threadIdx.x == 40) __trap(); }}'
    with pytest.raises(cuda.KernelError, match=r"thread \(40, 0, 0\) of block \(0, 2, 0\) executed __trap"):
        run(source, "k", (1, 3), (64,))
    check_that_launches_work()


@simulator_only
@pytest.mark.parametrize("meet", ["", BARRIER], ids=["loop", "fibers"])
@pytest.mark.parametrize("how", ["recursion", "array"])
def test_a_stack_overflow(meet, how):
    source = f"""
    __device__ __noinline__ int deep(int n, volatile int* y) {{
        volatile int here[64];
        here[n % 64] = n;
        return n == 0 ? 0 : deep(n - 1, y) + here[n % 64] + y[0];
    }}
    __device__ __noinline__ int large(int n, volatile int* y) {{ volatile int big[1000000]; big[n] = n; return big[n + 1] + big[n]; }}
    extern "C" __global__ void k(int n, int* y) {{
        {meet}
        if (threadIdx.x == 7) y[1] = {"deep(n, y)" if how == "recursion" else "large(n, y)"};
        {meet}
    }}"""
    with pytest.raises(
        cuda.KernelError,
        match=r"k: stack overflow: thread \(7, 0, 0\) of block .* needs more than [0-9,]+ bytes for local variables",
    ):
        run(source, "k", (2,), (64,), 999_000, cuda.zeros(4, np.int32))
    check_that_launches_work()


@simulator_only
def test_deep_recursion_that_fits():
    source = r"""
    __device__ __noinline__ int sum(int n) { return n == 0 ? 0 : n + sum(n - 1); }
    extern "C" __global__ void k(int* y) { float local[2048]; for (int i = 0; i < 2048; ++i) local[i] = i;
        __syncthreads(); y[threadIdx.x] = sum(300) + (int)local[threadIdx.x]; }"""
    y = cuda.zeros(1024, np.int32)
    run(source, "k", (1,), (1024,), y)
    np.testing.assert_array_equal(cuda.asnumpy(y), 45150 + np.arange(1024))


@simulator_only
def test_a_deadlock_says_where_the_threads_stand():
    source = r"""
    extern "C" __global__ void k(int* y) {
        if (threadIdx.x < 8) { y[threadIdx.x] = __shfl_sync(0xffffu, threadIdx.x, 0); }
        else __syncthreads();
    }"""
    with pytest.raises(
        cuda.KernelError,
        match=r"deadlock in block \(0, 0, 0\): 24 threads wait at __syncthreads, 8 at a warp operation",
    ):
        run(source, "k", (1,), (32,), cuda.zeros(32, np.int32))
    check_that_launches_work()


@simulator_only
def test_lanes_with_different_masks_never_meet():
    source = 'extern "C" __global__ void k() { __syncwarp(threadIdx.x % 2 ? 0xffffffffu : 0x55555555u | 2u); }'
    with pytest.raises(cuda.KernelError, match="deadlock"):
        run(source, "k", (1,), (32,))
    check_that_launches_work()


@simulator_only
def test_a_mask_must_name_the_caller():
    source = 'extern "C" __global__ void k(int* y) { y[threadIdx.x] = __shfl_sync(0xffff, 1, 0); }'
    with pytest.raises(cuda.KernelError, match=r"thread \(16, 0, 0\) .*mask leaves it out"):
        run(source, "k", (1,), (32,), cuda.zeros(32, np.int32))
    check_that_launches_work()


@simulator_only
def test_a_barrier_in_one_branch_is_released_when_the_others_return():
    """As on a GPU: threads that have returned are not waited for. (cuda.trace is to report the divergence.)"""
    source = r"""extern "C" __global__ void k(float* y) { if (threadIdx.x % 2) __syncthreads(); y[threadIdx.x] = 1; }"""
    y = cuda.zeros(64)
    run(source, "k", (1,), (64,), y)
    assert (y == 1).all()


@simulator_only
def test_grid_sync_needs_a_cooperative_launch():
    source = (
        '#include <cooperative_groups.h>\nextern "C" __global__ void k() { cooperative_groups::this_grid().sync(); }'
    )
    with pytest.raises(cuda.KernelError, match=r"not cooperative: RawKernel\(..., enable_cooperative_groups=True\)"):
        run(source, "k", (4,), (32,))
    run(source, "k", (4,), (32,), enable_cooperative_groups=True)
    with pytest.raises(cuda.KernelError, match="at once, at most 2048; the grid is .4096"):
        run(source, "k", (4096,), (1,), enable_cooperative_groups=True)
    check_that_launches_work()


@simulator_only
@pytest.mark.parametrize("condition", ["blockIdx.x != 3", "blockIdx.x == 0"])
def test_a_block_that_skips_grid_sync_is_a_deadlock(condition):
    source = f"""#include <cooperative_groups.h>
    extern "C" __global__ void k() {{ if ({condition}) cooperative_groups::this_grid().sync(); }}"""
    for _ in range(5):
        with pytest.raises(cuda.KernelError, match=r"left other blocks waiting at grid.sync|deadlock|waiting"):
            run(source, "k", (6,), (8,), enable_cooperative_groups=True)
    check_that_launches_work()


@simulator_only
def test_a_fault_ends_blocks_that_wait_for_the_faulty_one():
    source = r"""
    extern "C" __global__ void k(volatile int* flag, int* y) {
        if (blockIdx.x == 0) { y[1 << 20] = 1; *flag = 1; }
        else while (*flag == 0) {}
    }"""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    with pytest.raises(cuda.KernelError, match="out of bounds"):
        run(source, "k", (2,), (1,), cuda.zeros(1, np.int32), cuda.zeros(1, np.int32))
    check_that_launches_work()


@simulator_only
def test_faults_in_turn_leak_no_threads():
    kernels = [
        cuda.RawKernel('extern "C" __global__ void k(float* y) { y[threadIdx.x << 20] = 1; }', "k"),
        cuda.RawKernel('extern "C" __global__ void k(float* y) { __syncthreads(); y[threadIdx.x << 20] = 1; }', "k"),
        cuda.RawKernel('extern "C" __global__ void k(float* y) { __trap(); }', "k"),
    ]
    y = cuda.zeros(4)
    before = None
    for round_ in range(100):
        with pytest.raises(cuda.KernelError):
            kernels[round_ % 3]((3,), (40,), (y,))
        if round_ == 5:
            before = threads_of_the_process()
    assert threads_of_the_process() <= before
    check_that_launches_work()


def threads_of_the_process():
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else threading.active_count()


# ---- The process around a kernel


ENDLESS = """
    import signal, sys, numpy as np
    from common import cuda
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background inherits none
    endless = cuda.RawKernel('''extern "C" __global__ void endless(volatile int* y) { KIND }''', "endless")
    fine = cuda.RawKernel('''extern "C" __global__ void fine(int* y) { y[threadIdx.x] = threadIdx.x; }''', "fine")
    y = cuda.zeros(64, np.int32)
    for _ in range(2):
        print("started", flush=True)
        try:
            endless((8,), (64,), (y,))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        fine((1,), (64,), (y,))
        assert (y == np.arange(64)).all()
    print("done", flush=True)
"""


@seldom(6)
@simulator_only
@pytest.mark.parametrize(
    "loop",
    ["while (y[0] < 100000000) {}", "while (y[0] < 100000000) __syncthreads();", "for (;;) __nanosleep(100);",
     "if (threadIdx.x == 0) while (true) {} __syncthreads();", "for (;;) printf(\"x\");"],
    ids=["loop", "barriers", "nanosleep", "one thread", "printf"],
)  # fmt: skip
def test_ctrl_c_ends_an_endless_kernel(loop):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENDLESS).replace("KIND", loop)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(60, process.kill)  # reading ends with the process
    watchdog.start()
    try:
        for _ in range(2):
            assert process.stdout.readline().strip() == "started", process.stderr.read()
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            line = process.stdout.readline()
            assert line.strip().endswith("interrupted"), line + process.stderr.read()
        rest = process.stdout.read()  # not communicate(): what readline() has read ahead would be lost to it
        assert rest.strip().endswith("done"), (process.wait(30), rest, process.stderr.read())
    finally:
        watchdog.cancel()
        process.kill()


@simulator_only
def test_overrunning_plain_arrays_does_not_harm_the_interpreter():
    done = python(
        """
        import gc, numpy as np
        from common import cuda
        kernel = cuda.RawKernel('extern "C" __global__ void k(int n, float* y) { y[(int)threadIdx.x - n / 2] = 1e30f; }', "k")
        for n in list(range(1, 300)) * 3:
            neighbours = [np.zeros(n, np.float32) for _ in range(5)]
            try:
                kernel((1,), (1024,), (n, neighbours[2]))
            except cuda.KernelError as error:
                assert "out of bounds" in str(error)
            else:
                raise SystemExit("not noticed")
            assert not any(a.any() for a in neighbours)
            gc.collect(0)
        print([dict(a=i) for i in range(1000)][-1], "alive")
        """
    )
    assert done.returncode == 0, done.stderr
    assert "alive" in done.stdout


@simulator_only
@pytest.mark.parametrize("before", ["", "launch()", "fail()"], ids=["at first", "after a launch", "after a fault"])
def test_a_crash_of_the_interpreter_itself_is_a_crash(before):
    done = python(
        f"""
        import ctypes, faulthandler, numpy as np
        faulthandler.enable()
        from common import cuda
        kernel = cuda.RawKernel('extern "C" __global__ void k(int i, int* y) {{ y[i] = 1; }}', "k")
        y = cuda.zeros(4, np.int32)
        def launch():
            kernel((4,), (4,), (1, y))
        def fail():
            try:
                kernel((4,), (4,), (1 << 20, y))
            except cuda.KernelError:
                pass
        {before}
        ctypes.string_at(0)
        """
    )
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert "string_at" in done.stderr


@simulator_only
def test_a_crash_of_another_thread_during_a_launch_is_a_crash():
    done = python(
        """
        import ctypes, faulthandler, threading, time, numpy as np
        faulthandler.enable()
        from common import cuda
        kernel = cuda.RawKernel('extern "C" __global__ void k(volatile int* y) { while (y[0] == 0) {} }', "k")
        y = cuda.zeros(4, np.int32)
        threading.Thread(target=lambda: kernel((4,), (4,), (y,)), daemon=True).start()
        time.sleep(0.5)
        ctypes.string_at(0)
        """
    )
    assert done.returncode == -signal.SIGSEGV, done.stderr
    assert "Fatal Python error: Segmentation fault" in done.stderr


# ---- Which backend


def test_a_gpu_that_is_not_there_is_an_error():
    if cuda.backend() == "gpu":
        pytest.skip("there is a GPU")
    done = python("from common import cuda; cuda.backend()", COURSE_DEVICE="gpu")
    assert done.returncode == 1
    assert "RuntimeError: COURSE_DEVICE=gpu, but CuPy" in done.stderr


def test_an_unknown_device_is_an_error(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "tpu")
    with pytest.raises(RuntimeError, match="COURSE_DEVICE must be 'gpu' or 'simulator', got 'tpu'"):
        cuda.backend()


def test_the_simulator_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    assert cuda.backend() == "simulator"
    assert isinstance(cuda.zeros(3), np.ndarray)
    check_that_launches_work()


SHOWN = """
from common import cuda

source = '''extern "C" __global__ void k(float* y, int n) {
    y[0] = %s;
    if (threadIdx.x == 3) __trap();
}'''


def launch():
    cuda.RawKernel(source, "k")((1,), (32,), (cuda.zeros(3), 4))


launch()
"""


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("colums", "CompileError: the kernel does not compile\nline 2: "),
        ("1", "KernelError: k: line 3: thread (3, 0, 0) of block (0, 0, 0) executed __trap()"),
    ],
)
def test_a_notebook_shows_the_callers_lines_and_the_message(value: str, says: str) -> None:
    pytest.importorskip("IPython")
    program = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='NoColor')\n"
        f"shell.run_cell({SHOWN % value!r})"
    )
    environment = {**os.environ, "COURSE_DEVICE": "simulator"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert "simulator/" not in shown and "cuda/kernels.py" not in shown
    assert re.search(r"-> \d+ launch\(\)", shown) and "cuda.RawKernel(source" in shown
    assert says in shown
    if value == "colums":
        assert "       2 |     y[0] = colums;\n         |            ^" in shown


@simulator_only
@x86_only
@pytest.mark.parametrize("index", [2**31 - 1, -(2**31)])
def test_every_32_bit_index_of_a_float_falls_into_a_guard(index):
    """Among many arrays, of which a smaller guard would end in another."""
    many = [cuda.zeros(64) for _ in range(64)]
    source = 'extern "C" __global__ void k(float* y, int i) { y[i] = 1; }'
    for y in many[::16]:
        with pytest.raises(cuda.KernelError, match=r"index -?214748364[78] of 'y'"):
            run(source, "k", (1,), (1,), y, index)
    assert not any(cuda.asnumpy(y).any() for y in many)
    check_that_launches_work()


@simulator_only
def test_guards_leave_addresses_for_others():
    """Beyond a quarter of the addresses guards are a gigabyte each; given back, they are counted no more."""
    gc.collect()
    before = memory._reserved
    many = [cuda.zeros(1) for _ in range((memory.ADDRESSES - before) // memory.GUARD // 2 + 100)]
    assert memory.ADDRESSES - 2 * memory.GUARD < memory._reserved < memory.ADDRESSES + 300 * (1 << 30)
    del many
    assert memory._reserved <= before
