"""Errors of kernels: the source does not compile, the cache is not usable, or a launch is stopped."""

import types
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


class _ShortTraceback(Exception):
    """An error that IPython and Jupyter show with the caller's own lines, not with those of this package."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: the traceback without the frames of this package and of IPython, then the message."""
        from IPython import get_ipython  # the caller

        render = get_ipython().InteractiveTB.structured_traceback
        return render(type(self), self, _outside_frames(self.__traceback__), tb_offset=0)


def _outside_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames of this package and of IPython; unchanged if it has no others."""
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    outside: types.TracebackType | None = None
    for entry in reversed(entries):
        file = entry.tb_frame.f_code.co_filename
        if not (file.startswith(f"{PACKAGE}/") or "/IPython/" in file):
            outside = types.TracebackType(outside, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return outside or (entries[0] if entries else None)


class CacheError(_ShortTraceback, RuntimeError):
    """The folder of compiled kernels cannot be used. The message names the folder and the reason, in one line."""


class CompileError(_ShortTraceback):
    """A kernel's source is not valid CUDA C++. The message quotes the lines of the source."""


class KernelError(_ShortTraceback, RuntimeError):
    """A launch was stopped: by a bad address, a deadlock, a trap, …. The message names thread, block and array."""
