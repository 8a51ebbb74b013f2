"""What is read from a kernel's text, and that reading takes time in proportion to it, whatever it is."""

import contextlib
import time

import pytest

from common.check.kernels import _without_value
from common.cuda import signature
from common.cuda.simulator import compiler, watch
from common.kernels.ladder import waiting

TEXTS = {
    "extern __shared__": "extern __shared__ " * 8000,
    "extern": "extern " * 16_000,
    "launch bounds": "__launch_bounds__(1) " * 16_000,
    "launch bounds of a kernel": "__global__ " + "__launch_bounds__(1) " * 16_000,
    "templates": "template <" * 16_000,
    "comments": "/*" * 16_000,
    "quotes": '"\\' * 16_000,
    "apostrophes": "'" * 16_000,
    "kernels cut short": "__global__ void k(" * 8000,
    "a long parameter": 'extern "C" __global__ void k(' + "a" * 16_000 + " !)",
    "brackets": 'extern "C" __global__ void k(' + "a[" * 16_000 + ")",
    "constants": "__constant__ " * 16_000,
    "empty lines": "\n" * 16_000,
    "alignments": "extern __shared__ " + "alignas(" * 16_000,
    "shared arrays": "extern __shared__ float s[]; " * 4000,
    "externs of C": 'extern "C" __global__ ' * 8000,
    "static shared": "static __shared__ " * 8000,
}
READERS = {
    "declarations": signature.declarations,
    "rewritten": compiler._rewrite_dynamic_shared,
    "shared name": compiler.dynamic_shared_name,
    "unclosed brace": compiler._unclosed_brace,
    "included": lambda text: compiler._included(text, []),
    "constants": watch._constants,
    "errors": lambda text: compiler.readable_errors("kernel.cu:1:2: error: x", text, r"kernel\.cu:(\d+):(\d+)"),
    "waiting": waiting,
    "without value": _without_value,
}


@pytest.mark.parametrize("text", TEXTS)
def test_reading_a_text_takes_time_in_proportion(text):
    """Seconds of this process: 10 to 30 of them, or minutes, where a pattern tries every start with every end."""
    for name, read in READERS.items():
        start = time.process_time()
        with contextlib.suppress(ValueError):
            read(TEXTS[text])
        spent = time.process_time() - start
        assert spent < 2, f"{name}: {spent:.1f} s"


# ---- What is read

KERNELS = {
    'extern "C" __global__ void k(int n) {}': ("k", False, True, ""),
    'extern "C" __global__ void __launch_bounds__(32 * (1 + 1), 2) k() {}': ("k", False, True, ""),
    'extern "C" __launch_bounds__(256) __cluster_dims__(N, 1, 1) static __global__ void k(float* x) {}': (
        "k",
        False,
        True,
        "N, 1, 1",
    ),
    'extern "C" __global__ void __cluster_dims__(max(2, N), 1, 1) k(float* x) {}': (
        "k",
        False,
        True,
        "max(2, N), 1, 1",
    ),
    "template <typename T, int N = (3 > 2)> __global__ void k(T x[N]) {}": ("k", True, False, ""),
    "template <class T> struct S {};\n__global__ void k(S<float> s) {}": ("k", False, False, ""),
    "#define T float\n#include <a.h>\n__global__ void k(T x) {}": ("k", False, False, ""),
    '/* extern "C" */ __global__ void k() {}': ("k", False, False, ""),
    '// template <class T>\nextern "C"\n__global__\nvoid\nk() {}': ("k", False, True, ""),
    'extern "C" { __global__ void k() {} }': ("k", False, True, ""),
}


@pytest.mark.parametrize("text", KERNELS)
def test_what_stands_before_a_kernel(text):
    (found,) = signature.declarations(text).values()
    assert (found.name, found.template, found.extern_c, found.cluster) == KERNELS[text]


def test_each_kernel_has_its_own_attributes():
    text = """
    template <class T> __global__ void a(T x) {}
    extern "C" __global__ void __cluster_dims__(2) b(int n);
    extern "C" __global__ void c(const float* __restrict__ x, float4 y[], int* const z[3], unsigned long long n = 4) {}
    """
    a, b, c = signature.declarations(text).values()
    assert (a.template, b.template, c.template) == (True, False, False) and (b.cluster, c.cluster) == ("2", "")
    assert [(p.name, p.type, p.pointer, p.constant) for p in c.parameters] == [
        ("x", "float32", True, True), ("y", "float32x4", True, False), ("z", "int32", True, True), ("n", "uint64", False, False),
    ]  # fmt: skip


SHARED = {
    "extern __shared__ float tile[];": ("float", "tile", ""),
    "extern  __shared__\tunsigned long  long s [ ] ;": ("unsigned long long", "s", ""),
    "extern __shared__ __align__(16) std::pair<int, float> s[][4][N];": ("std::pair<int, float>", "s", "[4][N]"),
    "extern __align__(16) __shared__ float s[];": ("float", "s", ""),
    "extern __shared__ alignas(sizeof(float4)) char s[];": ("char", "s", ""),
    'extern "C" __global__ void k() { extern float __shared__ s[]; }': ("float", "s", ""),
    "extern __shared__ float s[4];": None,
    "extern float s[];": None,
    "__shared__ float s[];": None,
    "extern __shared__ s[];": None,
}


@pytest.mark.parametrize("text", SHARED)
def test_dynamic_shared_memory(text):
    found = [(array.element, array.name, array.rest) for array in signature.dynamic_shared(text)]
    assert found == ([SHARED[text]] if SHARED[text] else [])


def test_comments_and_strings():
    text = "a \"/* b\" /* c \"d */ e // 'f\ng '/' /* h"
    blanked = signature.without_comments(text)
    assert blanked.split() == ["a", '"/*', 'b"', "e", "g", "'/'"]
    assert len(blanked) == len(text) and blanked.count("\n") == 1
    assert signature.without_strings("x \"{\" y '{' z") == "x  y  z"
