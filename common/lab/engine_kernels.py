"""The kernels of the learner's engine, to be launched: `from engine import kernels`, then `kernels.add(a, b, out, n)`.

A file engine/kernels/add.cu defines the kernel `add`; how many blocks and threads it is launched with stands in its
first comment (launch_lines.py).
"""

import functools
from pathlib import Path
from typing import Any

from .. import cuda
from ..kernels.ladder import header_options
from . import launch_lines
from .operators import OPERATORS


class EngineKernel:
    """A kernel of the engine. The file is read anew at each call, so that a saved change counts at once.

    name     of the kernel and of its file
    path     of the file
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path

    @property
    def source(self) -> str:
        """The file's text."""
        return self.path.read_text(encoding="utf-8")

    @property
    def kernel(self) -> Any:
        """The compiled kernel, as of cuda.RawKernel: for cuda.trace and cuda.inspect."""
        return _compiled(self.source, self.name, cuda.backend())

    def size(self, *args: Any) -> launch_lines.Size:
        """The blocks, the threads per block and the shared memory of a launch with these arguments."""
        return launch_lines.size(self.source, OPERATORS[self.name].dims_of(args))

    def __call__(self, *args: Any) -> None:
        """Launch the kernel. args: arrays of cuda.asarray, None for a null pointer, and numbers, in the kernel's order.

        Raises TypeError and ValueError for arguments that do not fit, LaunchError for a file without launch lines.
        """
        size, kernel = self.size(*args), self.kernel
        cuda.allow_shared(kernel, size.shared)
        kernel(size.grid, size.block, args, shared_mem=size.shared)

    def trace(self, *args: Any) -> Any:
        """The Report of a launch on the simulator (cuda.trace)."""
        size, kernel = self.size(*args), self.kernel
        cuda.allow_shared(kernel, size.shared)
        return cuda.trace(kernel, size.grid, size.block, args, size.shared)

    def __repr__(self) -> str:
        return f"<the kernel {OPERATORS[self.name].signature} of your engine>"


@functools.lru_cache(maxsize=64)
def _compiled(source: str, name: str, backend: str) -> Any:
    return cuda.RawKernel(source, name, options=header_options())
