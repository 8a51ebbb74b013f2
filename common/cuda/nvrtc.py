"""NVRTC, NVIDIA's compiler of CUDA C++, on a machine with or without a card: CuPy's, else that of NVIDIA's wheels.

The wheels' library is called through ctypes, as NVIDIA's documentation describes its functions.
"""

import ctypes
import functools
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WHEELS = "nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-cccl-cu12"
FILE = "kernel.cu"  # the name that NVRTC gives to the source


class NoCompiler(RuntimeError):
    """NVRTC or CUDA's headers are missing; the message says what to install."""


@dataclass(frozen=True)
class Built:
    """What a compilation gave. cubin: the machine code, None if the source is wrong. log: what the compiler wrote.

    names: the name in the machine code of each name expression. ptx: the text for the virtual machine.
    """

    cubin: bytes | None
    log: str
    names: dict[str, str]
    ptx: str = ""


def version() -> tuple[int, int]:
    """NVRTC's version, (12, 9). NoCompiler if there is none."""
    if (module := _cupy()) is not None:
        major, minor = module.getVersion()
        return int(major), int(minor)
    numbers = ctypes.c_int(), ctypes.c_int()
    _wheel()[0].nvrtcVersion(*(ctypes.byref(number) for number in numbers))
    return numbers[0].value, numbers[1].value


def compile_cuda(source: str, arch: str, options: Sequence[str] = (), names: Sequence[str] = ()) -> Built:
    """Compile a source for a card, "sm_90". options: NVRTC's; names: templates to instantiate, "scale<float>".

    A wrong source is no error: then `cubin` is None, and `log` says why. NoCompiler if NVRTC is missing.
    """
    given = [f"--gpu-architecture={arch}", *options]
    if names and not any(o.startswith(("-std", "--std")) for o in given):
        given.append("-std=c++17")
    module = _cupy()
    return _by_ctypes(source, given, names) if module is None else _by_cupy(module, source, given, names)


@functools.cache
def _cupy() -> Any:
    """CuPy's module of NVRTC; None without CuPy or where it finds no library."""
    if importlib.util.find_spec("cupy") is None:
        return None
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception:  # an installed CuPy may lack its libraries
        return None
    return nvrtc


def _by_cupy(nvrtc: Any, source: str, options: Sequence[str], names: Sequence[str]) -> Built:
    from cupy._core.core import assemble_cupy_compiler_options  # the folders of CUDA's headers

    program = nvrtc.createProgram(source, FILE, (), ())
    try:
        for name in names:
            nvrtc.addNameExpression(program, name)
        try:
            nvrtc.compileProgram(program, assemble_cupy_compiler_options(tuple(options)))
        except nvrtc.NVRTCError:
            return Built(None, nvrtc.getProgramLog(program).rstrip("\0"), {})
        log = nvrtc.getProgramLog(program).rstrip("\0")
        lowered = {name: nvrtc.getLoweredName(program, name) for name in names}
        cubin = nvrtc.getCUBIN(program) + b"\0"  # CuPy takes it for a text and drops the last byte, which is 0
        ptx = nvrtc.getPTX(program)  # a text or bytes, by CuPy's version
        return Built(cubin, log, lowered, ptx.decode(errors="replace") if isinstance(ptx, bytes) else ptx)
    finally:
        nvrtc.destroyProgram(program)


@functools.cache
def _wheel() -> tuple[ctypes.CDLL, tuple[Path, ...]]:
    """(the library, the folders of CUDA's headers) of NVIDIA's wheels. NoCompiler if one is missing."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in (spec.submodule_search_locations or ())] if spec else []
    libraries = [path for root in roots for path in root.glob("cuda_nvrtc/lib/libnvrtc.so.12")]
    includes = tuple(
        path
        for root in roots
        for path in root.glob("*/include")
        if (path / "cuda_fp16.h").is_file() or (path / "nv").is_dir()
    )
    if not libraries or not any((path / "cuda_fp16.h").is_file() for path in includes):
        raise NoCompiler(f"NVRTC is not installed ({sys.platform}; on Linux: pip install {WHEELS})")
    if not any((path / "nv" / "target").is_file() for path in includes):
        raise NoCompiler("the headers behind cooperative_groups.h are missing: pip install nvidia-cuda-cccl-cu12")
    return ctypes.CDLL(str(libraries[0])), includes


def _by_ctypes(source: str, options: Sequence[str], names: Sequence[str]) -> Built:
    library, includes = _wheel()
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), FILE.encode(), 0, None, None)
    try:
        for name in names:
            library.nvrtcAddNameExpression(program, name.encode())
        given = [o.encode() for o in (*options, *(f"--include-path={path}" for path in includes))]
        failed = library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
        log = _text(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if failed:
            return Built(None, log, {})
        lowered = {name: _lowered(library, program, name) for name in names}
        ptx = _text(library, program, "PTX").rstrip(b"\0").decode(errors="replace")
        return Built(_text(library, program, "CUBIN"), log, lowered, ptx)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    room = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, room)
    return room.raw


def _lowered(library: ctypes.CDLL, program: ctypes.c_void_p, name: str) -> str:
    lowered = ctypes.c_char_p()
    library.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(lowered))
    return (lowered.value or b"").decode()
