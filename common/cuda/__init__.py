"""CUDA C++ kernels on CuPy if there is a GPU, else on the simulator, with the same source and the same call.

    kernel = cuda.RawKernel(source, "saxpy")
    kernel(grid, block, (n, np.float32(2), x, y), shared_mem=0)

`backend()` returns "gpu" or "simulator"; the environment variable COURSE_DEVICE selects one. Arrays are CuPy's on a GPU
and NumPy's on the simulator: `asarray`, `empty`, `zeros` and `full` create them, `asnumpy` copies them to the host.
"""

from .arrays import (
    asarray,
    asnumpy,
    empty,
    full,
    give_as,
    operator,
    shapes_only,
    stream_of,
    synchronize,
    workspace,
    workspace_in,
    zeros,
)
from .cache import cache_dir
from .device import (
    SHARED_DEFAULT,
    SHARED_SM80,
    allow_shared,
    backend,
    compute_capability,
    multiprocessors,
    shared_memory,
)
from .errors import CacheError, CompileError, KernelError
from .kernels import RawKernel, RawModule
from .layout import LAYOUTS, to_layout
from .machine_code import inspect
from .simulator.guard import guarded
from .simulator.tracing import prepare_trace, trace
from .tensor_map import TensorMap

__all__ = [
    "LAYOUTS",
    "SHARED_DEFAULT",
    "SHARED_SM80",
    "CacheError",
    "CompileError",
    "KernelError",
    "RawKernel",
    "RawModule",
    "TensorMap",
    "allow_shared",
    "asarray",
    "asnumpy",
    "backend",
    "cache_dir",
    "compute_capability",
    "empty",
    "full",
    "give_as",
    "guarded",
    "inspect",
    "multiprocessors",
    "operator",
    "prepare_trace",
    "shapes_only",
    "shared_memory",
    "stream_of",
    "synchronize",
    "to_layout",
    "trace",
    "workspace",
    "workspace_in",
    "zeros",
]
