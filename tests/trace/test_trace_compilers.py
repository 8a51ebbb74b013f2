"""A compiler whose counts are not those of theory is refused for tracing, and only for that."""

# ruff: noqa: E501, RUF043 (texts of kernels and messages)

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiers import long

from common import cuda
from common.cuda.simulator import compiler, proof, tracing
from common.cuda.simulator.module import module_of

COPY = 'extern "C" __global__ void k(float* out) { out[threadIdx.x] = threadIdx.x; }'


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As on a machine where nothing was compiled or proven yet."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    proof._prove.cache_clear()
    module_of.cache_clear()
    yield tmp_path
    proof._prove.cache_clear()
    module_of.cache_clear()


def other_flags(monkeypatch: pytest.MonkeyPatch, change: dict[str, str]) -> None:
    flags = compiler.traced_flags
    monkeypatch.setattr(compiler, "traced_flags", lambda c: [change.get(f, f) for f in flags(c) if change.get(f, f)])


def test_what_was_proven_is_remembered(fresh: Path) -> None:
    kernel, out = cuda.RawKernel(COPY, "k"), np.zeros(32, np.float32)
    cuda.trace(kernel, (1,), (32,), [out])
    (remembered,) = fresh.glob("proven-*")
    written = remembered.stat().st_mtime_ns

    def seconds() -> float:
        proof._prove.cache_clear()
        start = time.perf_counter()
        cuda.trace(kernel, (1,), (32,), [out])
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 0.5
    assert remembered.stat().st_mtime_ns == written


@long
def test_the_proof_is_quick(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def used() -> float:
        return time.process_time() + sum(os.times()[2:4])  # seconds of this process and the compiler

    def seconds(folder: Path) -> float:
        monkeypatch.setenv("COURSE_CACHE", str(folder))
        proof._prove.cache_clear()
        module_of.cache_clear()
        start = used()
        proof.prove(tracing._trace_probe)
        assert list(folder.glob("proven-*")), "remembered from before"
        return used() - start

    assert min(seconds(fresh / str(i)) for i in range(3)) < 2.0


@pytest.mark.parametrize("change", [{"-O1": "-O3"}, {"-O1": "-O2", "-fno-reorder-blocks": "", "-fno-thread-jumps": ""}, {
    "-fsanitize-coverage=trace-pc": "", "-fsanitize-coverage=bb,no-prune,trace-pc": ""}], ids=["-O3", "-O2", "no blocks"])  # fmt: skip
def test_flags_that_give_other_counts_are_refused(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    other_flags(monkeypatch, change)
    kernel, out = cuda.RawKernel(COPY, "k"), np.zeros(32, np.float32)
    with pytest.raises(
        RuntimeError, match=r"cannot be trusted: .* Probe '\w+' must count \(.*got \(.*Plain launches work.*ziglang"
    ) as error:
        cuda.trace(kernel, (1,), (32,), [out])
    assert compiler.find_compiler().version in str(error.value)
    assert not list(fresh.glob("proven-*"))
    kernel((1,), (32,), [out])
    assert out[31] == 31


def test_a_compiler_that_cannot_build_the_probes_is_refused(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other_flags(monkeypatch, {"-O1": "-fno-such-option"})
    kernel = cuda.RawKernel(COPY, "k")
    with pytest.raises(RuntimeError, match="Probe 'copy' must count .* it fails: "):
        cuda.trace(kernel, (1,), (32,), [np.zeros(32, np.float32)])


@long
def test_clang_with_its_own_order_of_blocks_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    program = (
        "import numpy as np\nfrom common import cuda\nfrom common.cuda.simulator import compiler\n"
        "flags = compiler.traced_flags\n"
        "compiler.traced_flags = lambda c: [f.replace('-disable-lifetime-markers', '-disable-free') for f in flags(c)]\n"
        f"kernel = cuda.RawKernel({COPY!r}, 'k')\n"
        "try: cuda.trace(kernel, (1,), (32,), [np.zeros(32, np.float32)])\n"
        "except RuntimeError as error: print(error)\n"
    )
    environment = {**os.environ, "CXX": f"{sys.executable} -m ziglang cc", "COURSE_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert "cannot be trusted: clang" in done.stdout and "Probe 'loop_of_each_lane'" in done.stdout, (
        done.stdout + done.stderr
    )


@long
def test_a_trace_compiled_by_clang_says_what_it_is_worth() -> None:
    pytest.importorskip("ziglang")
    program = (
        "import numpy as np\nfrom common import cuda\n"
        f"kernel = cuda.RawKernel({COPY!r}, 'k')\n"
        "for _ in range(2): print(len(cuda.trace(kernel, (1,), (32,), [np.zeros(32, np.float32)]).lines))\n"
    )
    environment = {**os.environ, "CXX": f"{sys.executable} -m ziglang cc"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("compiled by clang. Where loops stand in loops") == 1  # once


def test_systems_without_elf_files_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, out = cuda.RawKernel(COPY, "k"), np.zeros(32, np.float32)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(RuntimeError, match="not available on Darwin"):
        cuda.trace(kernel, (1,), (32,), [out])
    with pytest.raises(RuntimeError, match="not available on Darwin"), cuda.guarded():
        kernel((1,), (32,), [out])
