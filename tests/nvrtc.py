"""NVIDIA's own compiler on a machine without a card: NVRTC, called through ctypes as its documentation describes it."""

import ctypes
import functools
import importlib.util
import sys
from pathlib import Path

import pytest

WHEELS = "nvidia-cuda-nvrtc-cu12, nvidia-cuda-runtime-cu12, nvidia-cuda-cccl-cu12"


@functools.cache
def nvrtc():
    """(the library, the folders of CUDA's headers); skips where the wheels are not installed."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in spec.submodule_search_locations] if spec else []
    libraries = [path for root in roots for path in root.glob("cuda_nvrtc/lib/libnvrtc.so.12")]
    includes = [
        path
        for root in roots
        for path in root.glob("*/include")
        if (path / "cuda_fp16.h").is_file() or (path / "nv").is_dir()
    ]
    if not libraries or not any((path / "cuda_fp16.h").is_file() for path in includes):
        pytest.skip(f"NVRTC is not installed ({sys.platform}; on Linux: pip install {WHEELS})")
    if not any((path / "nv" / "target").is_file() for path in includes):
        pytest.skip("the headers behind cooperative_groups.h are not installed: pip install nvidia-cuda-cccl-cu12")
    return ctypes.CDLL(str(libraries[0])), includes


def compile_with_nvrtc(source, card, options=(), names=()):
    """None if NVRTC takes the source, else its log. Templates in `names` are instantiated."""
    library, includes = nvrtc()
    program = ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
    try:
        for name in names:
            assert library.nvrtcAddNameExpression(program, name.encode()) == 0
        given = [
            f"--gpu-architecture={card}",
            "-std=c++17",
            *(f"--include-path={path}" for path in includes),
            *options,
        ]
        failed = library.nvrtcCompileProgram(
            program, len(given), (ctypes.c_char_p * len(given))(*(o.encode() for o in given))
        )
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        return log.value.decode(errors="replace") if failed else None
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
