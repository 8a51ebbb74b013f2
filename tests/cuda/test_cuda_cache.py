"""The cache of compiled kernels: damaged files, full disks, folders that cannot be used, what killed processes left."""

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import platformdirs
import pytest
from tiers import ALL, seldom

from common import cuda
from common.cuda import cache
from common.cuda.simulator import compiler, find_compiler

pytestmark = pytest.mark.skipif(cuda.backend() == "gpu", reason="on a GPU CuPy keeps compiled kernels")

SOURCE = 'extern "C" __global__ void k(int* y) { y[threadIdx.x] = threadIdx.x; }'
LAUNCH = f"""
import numpy as np
from common import cuda
y = np.full(32, -1, np.int32)
cuda.RawKernel({SOURCE!r}, "k")((1,), (32,), (y,))
assert (y == np.arange(32)).all()
"""


def launch(folder: Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", LAUNCH], capture_output=True, text=True, timeout=120, encoding="utf-8",
        env={**os.environ, "COURSE_CACHE": str(folder), "COURSE_DEVICE": "simulator", **environment},
    )  # fmt: skip


def test_headers_count_and_the_folders_where_they_lie_do_not(tmp_path):
    """A copy of the repository compiles nothing that the repository has compiled."""

    def library(*folders: str) -> Path:
        options = [f"-I{tmp_path / folder}" for folder in folders]
        source = '#include "n.h"\nextern "C" __global__ void k(int* y) { y[0] = N; }'
        return compiler.build_kernels(source, ["k"], options)

    for folder, number in (("a", 1), ("copy", 1), ("other", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "n.h").write_text(f"#define N {number}  // {tmp_path}\n")
    assert library("a") == library("copy") != library("other")
    assert library("a", "other") != library("other", "a")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    assert launch(folder).returncode == 0
    return folder


def change(path: Path, to: bytes) -> None:
    path.write_bytes(to)


DAMAGES = {
    "truncated": lambda path: change(path, path.read_bytes()[:8000]),
    "empty": lambda path: change(path, b""),
    "text": lambda path: change(path, b"no library\n" * 2000),
    "one-byte": lambda path: change(path, path.read_bytes()[:-100] + b"?" + path.read_bytes()[-99:]),
    "record": lambda path: change(path.with_suffix(".json"), b'{"bytes": '),
    "record-of-another-kind": lambda path: change(path.with_suffix(".json"), b"[1, 2]"),
}


@seldom(6)
@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        ("truncated", "kernel"),
        ("truncated", "runtime"),
        *((one, "*" if ALL else "kernel") for one in DAMAGES if one != "truncated"),
    ],
)
def test_a_damaged_library_is_built_anew(compiled, tmp_path, damage, kind):
    """Python would end with SIGBUS where a library is shorter than its own tables say."""
    folder = tmp_path / "cache"
    shutil.copytree(compiled, folder)
    libraries = sorted(folder.glob(f"{kind}-*.so"))
    assert len(libraries) == (2 if kind == "*" else 1)
    for library in libraries:
        DAMAGES[damage](library)
        assert cache.load_record(library) is None
    done = launch(folder)
    assert done.returncode == 0, done.stderr
    assert all(cache.load_record(library) is not None for library in libraries)
    assert {path.name for path in folder.iterdir()} == {path.name for path in compiled.iterdir()}


@seldom(6)
def test_a_whole_library_is_not_built_again(compiled):
    before = {path: path.stat().st_mtime_ns for path in compiled.iterdir()}
    assert launch(compiled, CXX=" ".join(find_compiler().command)).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in compiled.iterdir()} == before


@seldom(6)
def test_what_killed_processes_left_is_removed_when_it_is_old(tmp_path):
    old, young, mine = tmp_path / "building-old", tmp_path / "building-young", tmp_path / "tiles-x.json"
    unfinished = tmp_path / f".{'0' * 16}.tmp"
    for folder in (old, young):
        folder.mkdir()
        (folder / "kernel.cpp").write_text("")
    for file in (mine, unfinished):
        file.write_text("{}")
    for path in (old, mine, unfinished):
        os.utime(path, (time.time() - 7200,) * 2)
    assert launch(tmp_path).returncode == 0
    left = {path.name for path in tmp_path.iterdir()}
    assert {"building-young", "tiles-x.json"} <= left and not {"building-old", unfinished.name} & left


# ---- Folders that cannot be used


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_takes_nothing(tmp_path, monkeypatch, number):
    """Not the kernel is to blame."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))

    def refused(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cache, "replacing", refused)
    said = "no space left for" if number == errno.ENOSPC else "cannot keep"
    with pytest.raises(cuda.CacheError, match=rf"^{said} compiled kernels in {tmp_path}.*COURSE_CACHE.*$"):
        cuda.RawKernel(SOURCE, "k")
    assert not list(tmp_path.iterdir())


def test_a_compiler_without_space(tmp_path, monkeypatch):
    full = tmp_path / "full"
    full.write_text("#!/bin/sh\necho 'as: BFD: error: cannot write: No space left on device' >&2\nexit 1\n")
    full.chmod(0o755)
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    monkeypatch.setattr(compiler, "find_compiler", lambda: compiler.Compiler((str(full),), "gcc 12.1.0", "gcc"))
    with pytest.raises(cuda.CacheError, match=r"^no space left for what the compiler writes.*COURSE_CACHE"):
        cuda.RawKernel(SOURCE, "k")


def test_a_kernel_that_speaks_of_space_is_a_kernel_that_does_not_compile():
    with pytest.raises(cuda.CompileError, match="line 1: #error No space left on device"):
        cuda.RawKernel("#error No space left on device\n" + SOURCE, "k")


def test_a_file_in_place_of_the_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for folder in ("file", "file/below"):
        monkeypatch.setenv("COURSE_CACHE", str(tmp_path / folder))
        with pytest.raises(cuda.CacheError, match=rf"^cannot keep compiled kernels in {tmp_path}/{folder}: .*\.$"):
            cuda.RawKernel(SOURCE, "k")


def test_no_home_folder(monkeypatch):
    def unknown(*_):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("COURSE_CACHE", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", unknown)
    with pytest.raises(cuda.CacheError, match=r"^no folder for compiled kernels: could not determine.*COURSE_CACHE"):
        cuda.RawKernel(SOURCE, "k")


def test_a_library_that_the_system_does_not_load(tmp_path):
    """As from a disk that is mounted without the right to execute."""
    (tmp_path / "kernel.so").write_text("")
    with pytest.raises(cuda.CacheError, match=r"^cannot load a compiled kernel: .*kernel\.so.*COURSE_CACHE"):
        compiler.load(tmp_path / "kernel.so")


@seldom(6)
def test_everything_is_read_as_utf_8(tmp_path):
    """In the C locale, too, where Python would read files as ASCII."""
    done = launch(tmp_path, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0, done.stderr
