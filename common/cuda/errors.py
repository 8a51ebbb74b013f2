"""What can go wrong with a kernel: it does not compile, or it does not run to its end."""

import types
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


class _ShortTraceback(Exception):
    """An error that IPython and Jupyter show with the caller's own lines, not with those of this package."""

    def _render_traceback_(self) -> list[str]:
        """The lines to show: the frames outside of this package and of IPython, then the message."""
        from IPython import get_ipython  # (it is what calls this)

        render = get_ipython().InteractiveTB.structured_traceback
        return render(type(self), self, _without_ours(self.__traceback__), tb_offset=0)


def _without_ours(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames of this package and of IPython; as it is if it has no others."""
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    kept: types.TracebackType | None = None
    for entry in reversed(entries):
        file = entry.tb_frame.f_code.co_filename
        if not (file.startswith(f"{PACKAGE}/") or "/IPython/" in file):
            kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept or (entries[0] if entries else None)


class CacheError(_ShortTraceback, RuntimeError):
    """The folder of compiled kernels cannot be used: the message names the folder and says why, in one line."""


class CompileError(_ShortTraceback):
    """A kernel's source is not valid CUDA C++. The message names the learner's own lines."""


class KernelError(_ShortTraceback, RuntimeError):
    """A launch was stopped: a bad address, a deadlock, a trap. The message names thread, block and array."""
