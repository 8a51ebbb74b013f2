"""Access to cuDNN: availability, versions, one handle per thread."""

import ctypes
import functools
import importlib
import threading
from typing import Any

from .. import cuda
from ..text import PACKAGE_NAME

INSTALL = "pip install 'mobilenetv2-engine-course[gpu]'"


@functools.cache
def _frontend() -> Any:
    """NVIDIA's Python package `cudnn` with the library loaded. Raises ImportError or RuntimeError if unavailable."""
    frontend = importlib.import_module("cudnn")
    try:
        frontend.backend_version()
    except (AttributeError, OSError, RuntimeError, AssertionError):
        importlib.import_module("torch")  # its CUDA builds include cuDNN and load it
        frontend.backend_version()
    return frontend


def missing() -> str | None:
    """None if cuDNN can run; else a sentence with the reason and the remedy."""
    if cuda.backend() != "gpu":
        return "cuDNN runs on an NVIDIA GPU only, and kernels run on the simulator here"
    try:
        _frontend()
    except ImportError as error:
        return f"the Python package {error.name or 'cudnn'} is missing: {INSTALL}"
    except (AttributeError, OSError, RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split())
        return f"nvidia-cudnn-frontend finds no cuDNN ({reason}): pip install nvidia-cudnn-cu12, or -cu13 with CUDA 13"
    return None


def require() -> Any:
    """The package `cudnn`, ready for use. Raises RuntimeError, with the reason, if cuDNN cannot run."""
    reason = missing()
    if reason is not None:
        raise RuntimeError(
            f"{reason}. What it measured on an H200 is in 06_optimize/results;"
            f" `python -m {PACKAGE_NAME} doctor` says more."
        )
    return _frontend()


def versions() -> dict[str, str]:
    """The versions of "cudnn", its "frontend" and "cublas". Raises RuntimeError if cuDNN cannot run."""
    frontend = require()
    import cupy

    number = frontend.backend_version()
    major, rest = divmod(number, 10_000)
    blas = cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle())
    return {
        "cudnn": f"{major}.{rest // 100}.{rest % 100}",
        "frontend": frontend.__version__,
        "cublas": f"{blas // 10_000}.{blas % 10_000 // 100}.{blas % 100}",
    }


class _Handles(threading.local):
    """A thread's handles (a handle must not be used by two threads at once) and the stream set on `graphs`."""

    def __init__(self) -> None:
        self.graphs: Any = None
        self.graphs_stream: int | None = None
        self.functions: ctypes.c_void_p | None = None


_handles = _Handles()


def handle() -> Any:
    """This thread's handle for graphs, set to CuPy's current stream. Raises RuntimeError if cuDNN cannot run."""
    import cupy

    frontend = require() if _handles.graphs is None else _frontend()
    if _handles.graphs is None:
        _handles.graphs = frontend.create_handle()
    stream = cupy.cuda.get_current_stream().ptr
    if stream != _handles.graphs_stream:
        frontend.set_stream(handle=_handles.graphs, stream=stream)
        _handles.graphs_stream = stream
    return _handles.graphs


@functools.cache
def _functions() -> ctypes.CDLL:
    require()  # the front end has loaded it, so that its name is enough
    return ctypes.CDLL("libcudnn.so.9")


def call(name: str, *arguments: Any) -> None:
    """Call a function of cuDNN's C API, for operations without a graph node. Raises RuntimeError if it fails."""
    library = _functions()
    status = getattr(library, name)(*arguments)
    if status != 0:
        library.cudnnGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"{name}: {library.cudnnGetErrorString(status).decode()}")


def function_handle() -> ctypes.c_void_p:
    """This thread's handle for the C API (`call`), set to CuPy's current stream."""
    import cupy

    if _handles.functions is None:
        created = ctypes.c_void_p()
        call("cudnnCreate", ctypes.byref(created))
        _handles.functions = created
    call("cudnnSetStream", _handles.functions, ctypes.c_void_p(cupy.cuda.get_current_stream().ptr))
    return _handles.functions
