"""cuDNN on this machine: what is missing, its versions, a handle for each thread."""

import ctypes
import functools
import importlib
import threading
from typing import Any

from .. import cuda

INSTALL = "pip install 'mobilenetv2-engine-course[gpu]'"


@functools.cache
def _frontend() -> Any:
    """NVIDIA's package `cudnn`, with the library behind it loaded. ImportError or RuntimeError with the reason."""
    frontend = importlib.import_module("cudnn")
    try:
        frontend.backend_version()
    except (AttributeError, OSError, RuntimeError, AssertionError):
        importlib.import_module("torch")  # its CUDA builds bring cuDNN along, and load it
        frontend.backend_version()
    return frontend


def missing() -> str | None:
    """None where cuDNN can run, else the reason why it cannot, and what would mend it, in one sentence."""
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
    """The package `cudnn`, ready for use. RuntimeError, with what is missing, where it is not."""
    reason = missing()
    if reason is not None:
        raise RuntimeError(
            f"{reason}. What it measured on an H200 is in 06_optimize/results; `python -m common doctor` says more."
        )
    return _frontend()


def versions() -> dict[str, str]:
    """The versions of cuDNN, of its front end and of cuBLAS. RuntimeError where they cannot run."""
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
    """A thread's own handles, as a handle is no good to two threads at a time, and the stream that each has now."""

    def __init__(self) -> None:
        self.graphs: Any = None
        self.graphs_stream: int | None = None
        self.functions: ctypes.c_void_p | None = None


_handles = _Handles()


def handle() -> Any:
    """This thread's handle for graphs; what it launches goes on CuPy's current stream."""
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
    require()  # the front end has loaded it, so it is found by its name
    return ctypes.CDLL("libcudnn.so.9")


def call(name: str, *arguments: Any) -> None:
    """Calls a function of the library itself, for what graphs cannot do. RuntimeError if it fails."""
    library = _functions()
    status = getattr(library, name)(*arguments)
    if status != 0:
        library.cudnnGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"{name}: {library.cudnnGetErrorString(status).decode()}")


def function_handle() -> ctypes.c_void_p:
    """This thread's handle for `call`, on CuPy's current stream."""
    import cupy

    if _handles.functions is None:
        made = ctypes.c_void_p()
        call("cudnnCreate", ctypes.byref(made))
        _handles.functions = made
    call("cudnnSetStream", _handles.functions, ctypes.c_void_p(cupy.cuda.get_current_stream().ptr))
    return _handles.functions
