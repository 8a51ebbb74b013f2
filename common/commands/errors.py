"""Errors of commands: one line on standard error for errors that a user can fix (a compiler's has more), a traceback
for bugs.

Exit status: 0 success, 1 the command's check failed, 2 the command could not run, 130 Ctrl+C, 143 SIGTERM.
"""

import contextlib
import errno
import io
import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from ..text import PACKAGE_NAME, printable

MAX_MESSAGE = 500  # characters
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # in an error without a file name: of standard output

# Optional dependencies, not installed by `pip install .`: {module: (distribution, extra)}
EXTRAS = {
    "torch": ("torch", "reference"),
    "onnxruntime": ("onnxruntime", "reference"),
    "onnxscript": ("onnxscript", "reference"),
    "sklearn": ("scikit-learn", "reference"),
    "matplotlib": ("matplotlib", "reference"),
    "jupyterlab": ("jupyterlab", "notebooks"),
    "nbformat": ("jupyterlab", "notebooks"),
    "nbconvert": ("jupyterlab", "notebooks"),
    "IPython": ("ipykernel", "notebooks"),
    "ray": ("ray[data,serve]", "many"),
    "pyarrow": ("pyarrow", "many"),
    "cupy": ("cupy-cuda12x", "gpu"),
    "cudnn": ("nvidia-cudnn-frontend", "gpu"),
    "pynvml": ("nvidia-ml-py", "gpu"),
}


def fail(message: object, lines: bool = False) -> typer.Exit:
    """Print one line on standard error; return the exception to raise for exit status 2.

    lines: print the message's lines as they are, as for a compiler's, which shows source code.
    """
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            for line in str(message).splitlines() if lines else [" ".join(str(message).split())]:
                print(printable(line, MAX_MESSAGE), file=sys.stderr)
    return typer.Exit(2)


def explanation(error: Exception, command: str = "this command") -> str | None:
    """The message for an error that a user can fix; None for a bug, and for a closed pipe on standard output."""
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            return None
        distribution, extra = EXTRAS[module]
        return (
            f"{command} needs {distribution}, which is not installed: pip install {distribution},"
            f' or pip install ".[{extra}]" in the course\'s folder'
        )
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".removesuffix(": ")
    if isinstance(error, BrokenPipeError | RecursionError | NotImplementedError):
        return None
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in FULL:
        return f"the output cannot be written: {error.strerror}"
    if type(error).__module__.startswith("onnxruntime."):
        return f"ONNX Runtime does not run this network: {error}"
    if isinstance(error, OSError | ValueError | RuntimeError) or type(error).__module__.startswith(f"{PACKAGE_NAME}."):
        return str(error) or type(error).__name__
    return None


class Commands(TyperGroup):
    """The group of all commands: it prints characters that a terminal cannot show as "?", and explains errors.

    COURSE_TRACEBACK=1 shows the traceback of every error.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run a command (click's hook). Exit status 2 with one line for an error that a user can fix."""
        for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors=errors)
        try:
            try:
                return super().invoke(ctx)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            message = explanation(error, ctx.invoked_subcommand)
            if message is None or os.environ.get("COURSE_TRACEBACK"):
                raise
            _drop_lost_output()
            raise fail(message) from None


def _drop_lost_output() -> None:
    """Discard output that cannot be written, as on a full disk; Python would try again at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
