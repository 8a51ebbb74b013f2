"""Compilers and the cache of compiled kernels (the simulator's: on a GPU both are CuPy's business)."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tiers import ALL, long, seldom

from common import cuda
from common.cuda.simulator import compiler, find_compiler

pytestmark = pytest.mark.skipif(cuda.backend() == "gpu", reason="on a GPU NVRTC compiles, and CuPy keeps the results")

PROGRAM = r"""
import sys, warnings
import numpy as np
from common import cuda

SOURCE = r'''
#include <cuda_fp16.h>
#ifndef OFFSET
#define OFFSET 0
#endif
__constant__ float table[3] = {1, 2, 3};
template <typename T> __global__ void half_scale(int n, const T* x, T* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * T(2.0f);
}
extern "C" __global__ void sum(int n, const float* x, float* y) {
    __shared__ float s[32];
    extern __shared__ float4 dynamic[];
    float v = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[i];
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    dynamic[threadIdx.x] = make_float4(v, 0, 0, 0);
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = OFFSET;
        for (int w = 0; w < blockDim.x / 32; ++w) total += s[w];
        atomicAdd(y, total + dynamic[1].y + table[2] - 3);
        printf("total %.1f\n", total);
    }
}
extern "C" __global__ void wild(float* y) { y[threadIdx.x << 18] = 1; }
'''

def main():
    module = cuda.RawModule(code=SOURCE, name_expressions=["half_scale<__half>", "half_scale<double>"])
    x = np.arange(100, dtype=np.float16)
    y = cuda.zeros(100, np.float16)
    module.get_function("half_scale<__half>")((4,), (32,), (100, cuda.asarray(x), y))
    assert (y == 2 * x).all()
    y = cuda.zeros(1)
    module.get_function("sum")((1,), (128,), (1000, cuda.full(1000, 1), y), shared_mem=2048)
    assert y[0] == 1000
    try:
        module.get_function("wild")((2,), (32,), (y,))
    except cuda.KernelError as error:
        assert "out of bounds" in str(error), error
    else:
        raise AssertionError("not noticed")
    try:
        cuda.RawModule(code="\n\nint a = wrong;")
    except cuda.CompileError as error:
        assert "line 3:" in str(error) and "wrong" in str(error), error
    print("done")
"""


def start(code, cache, **environment):
    environment = {**os.environ, "COURSE_CACHE": str(cache), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + textwrap.dedent(code)], env={k: v for k, v in environment.items() if v is not None},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process, timeout=240):
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out, err


@seldom(6)
def test_processes_that_compile_the_same_at_once_leave_one_file(tmp_path):
    for process in [start("main()", tmp_path) for _ in range(5 if ALL else 2)]:
        out, _ = finish(process)
        assert out == "total 1000.0\ndone\n"
    names = sorted((path.name.split("-")[0], path.suffix) for path in tmp_path.iterdir())
    libraries = [(name, suffix) for name in ("kernel", "runtime") for suffix in (".json", ".so")]
    assert [name for name in names if name != ("headers", "")] == libraries  # g++ precompiles headers there


@pytest.mark.parametrize(("traced", "halves"), [(False, False), (True, False), (False, True), (True, True)])
def test_precompiled_headers_are_used_and_made_anew_if_damaged(tmp_path, monkeypatch, traced, halves):
    found = find_compiler()
    if found.family != "gcc":
        pytest.skip("only g++ precompiles the simulator's headers")
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    (option,) = compiler.precompiled(traced, halves)
    made = Path(option.removeprefix("-I"), "simulator.h.gch")
    flags = compiler.traced_flags(found) if traced else [*compiler._flags(found), "-w"]
    command = [*found.command, option, *flags, f"-I{compiler.INCLUDE}", "-H", "-fsyntax-only", "-x", "c++", "-"]
    told = compiler._run(command, '#include "simulator.h"\n#include <cuda_fp16.h>\n__half x;\n').stderr
    assert f"! {made}" in told and f" {compiler.INCLUDE / 'simulator.h'}\n" not in told
    assert "error" not in told
    made.write_bytes(made.read_bytes()[:1000])
    compiler._precompiled.cache_clear()
    assert compiler.precompiled(traced, halves) == [option] and made.stat().st_size > 1000


@pytest.mark.parametrize(("source", "begins"), [
    ("// half\n#include <cuda_fp16.h>\n__half x;", True),
    ('#include "empty.h"\n#include "halves.h"', True),
    ('#include "halves.h"\n__half x;', True),
    ('#include "code.h"\n#include "halves.h"', False),
    ("__half x;\n#include <cuda_fp16.h>", False),
    ("#if 0\n#include <cuda_fp16.h>\n#endif\n__half x;", False),
    ("/* #include <cuda_fp16.h> */ __half x;", False),
    ('#include "empty.h"\n#include "empty.h"', False),
    ("", False),
])  # fmt: skip
def test_halves_are_precompiled_if_nothing_comes_before_them(tmp_path, monkeypatch, source, begins):
    """As code before that header does not see it, a kernel's error would be missed."""
    (tmp_path / "empty.h").write_text("#pragma once  // nothing\n")
    (tmp_path / "halves.h").write_text('#pragma once\n#include "empty.h"\n#include <cuda_fp16.h>\n')
    (tmp_path / "code.h").write_text("#pragma once\nint three = 3;\n")
    assert compiler._begins_with_halves(source, [tmp_path]) is begins
    asked = []
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "precompiled", lambda *given: asked.append(given) or [])
    try:
        compiler.build_kernels(source, [], [f"-I{tmp_path}"])
        compiled = True
    except cuda.CompileError:
        compiled = False
    assert asked[0] == (False, begins) and compiled == (begins or "__half x" not in source)


@seldom(6)
def test_a_second_process_compiles_nothing(tmp_path):
    log = tmp_path / "calls"
    wrapper = tmp_path / "compiler"
    real = find_compiler().command
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\nexec {" ".join(real)} "$@"\n')
    wrapper.chmod(0o755)
    good = PROGRAM.index("    try:\n        cuda.RawModule")  # a compile error is kept nowhere

    def compilations():
        code = PROGRAM[:good] + "\nmain()\n"
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "COURSE_CACHE": str(tmp_path / "cache"), "CXX": str(wrapper)},
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return log.read_text().count("kernel.cpp")

    first = compilations()
    assert first == 2  # the runtime and the kernels
    assert compilations() == first


def kernel_files(folder):
    return {path.name for path in folder.iterdir() if path.name.startswith("kernel-") and path.suffix == ".so"}


def test_what_changes_the_kernel_changes_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    headers = tmp_path / "headers"
    headers.mkdir()
    (headers / "inner.h").write_text("#define VALUE 1\n")
    (headers / "outer.h").write_text('#include "inner.h"\n')
    source = '#include "outer.h"\nextern "C" __global__ void k(int* y) { y[0] = VALUE * SCALE; }'

    def value(scale):
        y = cuda.zeros(1, "i4")
        cuda.RawKernel(source, "k", options=(f"-I{headers}", f"-DSCALE={scale}"))((1,), (1,), (y,))
        return y[0]

    assert value(1) == 1
    assert len(kernel_files(tmp_path / "cache")) == 1
    assert value(1) == 1
    assert len(kernel_files(tmp_path / "cache")) == 1
    assert value(5) == 5
    assert len(kernel_files(tmp_path / "cache")) == 2
    (headers / "inner.h").write_text("#define VALUE 7\n")
    assert value(1) == 7
    assert len(kernel_files(tmp_path / "cache")) == 3


def test_more_options_for_the_compiler_are_the_last_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    source = """
    #ifdef __OPTIMIZE__
    extern "C" __global__ void k(int* y) { y[0] = 1; }
    #else
    extern "C" __global__ void k(int* y) { y[0] = 2; }
    #endif
    """
    for options, want in ((None, 1), ("-O1", 1), ("-O1 -O0", 2)):
        if options is not None:
            monkeypatch.setenv("COURSE_CXXFLAGS", options)
        y = cuda.zeros(1, "int32")
        cuda.RawKernel(source, "k")((1,), (1,), (y,))
        assert y[0] == want


def test_a_cache_that_cannot_be_written_is_a_clear_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(cuda.CacheError, match=r"cannot keep compiled kernels in .*cache: .*COURSE_CACHE"):
        cuda.RawModule(code='extern "C" __global__ void never_seen_before_1() {}')
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(compiler.tempfile, "TemporaryDirectory", refuse)
    with pytest.raises(
        cuda.CacheError, match=r"cannot keep compiled kernels in .*: Permission denied\. .*COURSE_CACHE"
    ):
        cuda.RawModule(code='extern "C" __global__ void never_seen_before_2() {}')


def test_a_failed_compilation_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    with pytest.raises(cuda.CompileError):
        cuda.RawModule(code="wrong;")
    assert not list(tmp_path.glob("kernel-*"))
    assert not list(tmp_path.glob("building-*"))


def test_the_compiler_is_named_by_cxx(tmp_path):
    command = " ".join(find_compiler().command)
    out, _ = finish(
        start(
            "from common.cuda.simulator import find_compiler; print(find_compiler().command)",
            tmp_path,
            CXX=command,
        )
    )
    assert out.strip() == repr(find_compiler().command)


@long
def test_without_a_compiler_the_ziglang_wheel_is_taken(tmp_path):
    """Also what a learner on a bare machine gets: everything works, and a warning says what was taken and why."""
    pytest.importorskip("ziglang")
    empty = tmp_path / "bin"
    empty.mkdir()
    _, err = finish(start("main()", tmp_path / "cache", CXX=None, PATH=str(empty)))
    assert (
        "UserWarning: No C++ compiler that the simulator can use (c++: not found; g++: not found; clang++: not found)"
        in err
    )
    assert "taking clang from the ziglang wheel. Its first compilation takes some ten seconds longer." in err


def test_no_compiler_at_all_says_what_to_install(tmp_path):
    code = """
        import importlib.util
        real = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "ziglang" else real(name, *rest)
        try:
            cuda.RawModule(code="")
        except RuntimeError as error:
            print(error)
    """
    out, _ = finish(start(code, tmp_path, CXX=None, PATH=str(tmp_path)))
    assert out.startswith("The simulator needs a C++ compiler, and none can be used (c++: not found; g++: not found;")
    assert out.endswith(
        "Install g++ 12 or later or clang 15 or later, or the wheel that carries one: pip install ziglang\n"
    )


def test_a_compiler_that_is_too_old_is_passed_over(tmp_path):
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho 'error: unrecognized option -std=c++17' >&2\nexit 1\n")
    old.chmod(0o755)
    code = "from common.cuda.simulator import find_compiler; print(find_compiler().command)"
    out, err = finish(start(code, tmp_path, CXX=str(old)))
    assert "error: unrecognized option -std=c++17" in err
    assert "too old (no C++17 or no " in err
    assert "ziglang" in out
