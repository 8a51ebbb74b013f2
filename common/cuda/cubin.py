"""Machine code for architectures that CuPy does not select, such as sm_90a, compiled by NVRTC directly."""

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
    """The file to which `build` writes the machine code of a source; it may not exist yet."""
    from cupy._core.core import assemble_cupy_compiler_options
    from cupy.cuda import nvrtc

    given = assemble_cupy_compiler_options(tuple(options))  # with the folders of CUDA's headers
    return cache_dir() / f"{hashlib.sha256(repr((nvrtc.getVersion(), given, code)).encode()).hexdigest()[:32]}.cubin"


def build(code: str, options: Sequence[str]) -> Path:
    """Compile a CUDA C++ source unless it is cached; return the cubin file in cache_dir(), for RawModule(path=...).

    options: NVRTC's, including the architecture: -arch=sm_90a. CuPy's own compilation cannot be used for it, because
    CuPy adds the card's architecture, sm_90, which has no wgmma. CuPy's CompileException quotes NVRTC's log.
    """
    from cupy._core.core import assemble_cupy_compiler_options
    from cupy.cuda import compiler, nvrtc

    given = assemble_cupy_compiler_options(tuple(options))
    path = path_of(code, options)
    if cache.load_record(path) is not None:
        return path
    program = nvrtc.createProgram(code, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, given)
        machine_code = nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError:
        raise compiler.CompileException(nvrtc.getProgramLog(program), code, "kernel.cu", given, "nvrtc") from None
    finally:
        nvrtc.destroyProgram(program)
    cache.store(path, machine_code)
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
    """Compile each job (source, options) into the cache, in parallel with one process per CPU core.

    Returns for each job the error message, None if it succeeded.
    """
    missing = [job for job in dict.fromkeys(jobs) if cache.load_record(path_of(*job)) is None]
    problems = dict(zip(missing, _pool().map(_problem, missing, chunksize=1), strict=True)) if missing else {}
    return [problems.get(job) for job in jobs]
