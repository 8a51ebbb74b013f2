"""NVIDIA's own compiler on a machine without a card, for tests: common/cuda/nvrtc.py, skipping where it is missing."""

import pytest

from common.cuda import nvrtc


def compile_with_nvrtc(source, card, options=(), names=()):
    """None if NVRTC takes the source, else its log. Templates in `names` are instantiated. Skips without NVRTC."""
    try:
        built = nvrtc.compile_cuda(source, card, ("-std=c++17", *(o for o in options if o != "-std=c++17")), names)
    except nvrtc.NoCompiler as error:
        pytest.skip(str(error))
    return built.log if built.cubin is None else None
