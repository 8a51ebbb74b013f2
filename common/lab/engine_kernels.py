"""The kernels of the learner's engine, to be launched: `from engine import kernels`, then `kernels.add(a, b, out, n)`.

A file engine/kernels/add.cu defines the kernel `add`; how many blocks and threads it is launched with stands in its
first comment (launch_lines.py).
"""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import cuda
from ..kernels.ladder import header_options
from . import launch_lines
from .operators import OPERATORS


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel of the engine: its name, its arguments, and the trace's Report if it was traced."""

    name: str
    args: tuple[Any, ...]
    report: Any = None


_watching: ContextVar[tuple[list[Launch], bool] | None] = ContextVar("watching", default=None)


@contextlib.contextmanager
def watched(traced: bool = False) -> Iterator[list[Launch]]:
    """Context manager: inside, each launch of a kernel of the engine is added to the list, of this thread alone.

    traced: whether launches are traced (cuda.trace), which takes 10 to 100 times as long.
    """
    launches: list[Launch] = []
    token = _watching.set((launches, traced))
    try:
        yield launches
    finally:
        _watching.reset(token)


_replaced: ContextVar[Mapping[str, str]] = ContextVar("replaced", default={})  # noqa: B039 (never changed)


@contextlib.contextmanager
def replaced(sources: Mapping[str, str]) -> Iterator[None]:
    """Context manager: inside, kernels of the engine have these sources, {name: text}, in this thread alone."""
    token = _replaced.set(sources)
    try:
        yield
    finally:
        _replaced.reset(token)


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
        """The file's text, or what `replaced` puts in its place."""
        found = _replaced.get().get(self.name)
        return self.path.read_text(encoding="utf-8") if found is None else found

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
        watching = _watching.get()
        if watching is not None:
            launches, traced = watching
            report = self.trace(*args) if traced else None
            launches.append(Launch(self.name, args, report))
            if traced:
                return
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
