"""The cell magic of exercises in CUDA C++: its text is the kernel."""

from typing import Any

from .runner import Result, run


def exercise(line: str, cell: str) -> Result:
    """%%exercise NAME: check the kernel in the rest of the cell against the exercise NAME."""
    return run(line.strip(), cell)


def load_ipython_extension(ipython: Any) -> None:
    """Called by `%load_ext common.check`."""
    ipython.register_magic_function(exercise, "cell", "exercise")
