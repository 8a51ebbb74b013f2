"""Machine code for an architecture that CuPy does not ask for, compiled by NVRTC directly."""

import functools
import hashlib
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from . import cache
from .cache import cache_dir


def path_of(code: str, options: Sequence[str]) -> Path:
    """Where `build` keeps the machine code of a text, there or not yet."""
    from cupy._core.core import assemble_cupy_compiler_options
    from cupy.cuda import nvrtc

    given = assemble_cupy_compiler_options(tuple(options))  # with the folders of CUDA's headers
    return cache_dir() / f"{hashlib.sha256(repr((nvrtc.getVersion(), given, code)).encode()).hexdigest()[:32]}.cubin"


def build(code: str, options: Sequence[str]) -> Path:
    """The file with the machine code of a CUDA C++ text, which RawModule(path=...) loads. Kept in cache_dir().

    options: NVRTC's, among them the architecture, -arch=sm_90a. To what RawModule compiles itself CuPy adds that of the
    card at hand, sm_90, which has no wgmma. CuPy's CompileException quotes NVRTC's log.
    """
    from cupy._core.core import assemble_cupy_compiler_options
    from cupy.cuda import compiler, nvrtc

    given = assemble_cupy_compiler_options(tuple(options))
    path = path_of(code, options)
    if cache.kept(path) is not None:
        return path
    program = nvrtc.createProgram(code, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, given)
        machine_code = nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError:
        raise compiler.CompileException(nvrtc.getProgramLog(program), code, "kernel.cu", given, "nvrtc") from None
    finally:
        nvrtc.destroyProgram(program)
    cache.keep(path, machine_code)
    return path


def _problem(job: tuple[str, tuple[str, ...]]) -> str | None:
    try:
        build(*job)
    except Exception as error:
        return str(error)
    return None


@functools.cache
def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(os.cpu_count() or 1, multiprocessing.get_context("spawn"))


def build_all(jobs: Sequence[tuple[str, tuple[str, ...]]]) -> list[str | None]:
    """Compiles (source, options) into the cache, side by side, one process per processor.

    Returns what went wrong with each, None if nothing did.
    """
    missing = [job for job in dict.fromkeys(jobs) if cache.kept(path_of(*job)) is None]
    problems = dict(zip(missing, _pool().map(_problem, missing, chunksize=1), strict=True)) if missing else {}
    return [problems.get(job) for job in jobs]
