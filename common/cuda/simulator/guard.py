"""Guarded launches: every address is checked before the access, at the cost of speed."""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

_guarded: ContextVar[bool | None] = ContextVar("guarded", default=None)


def is_on() -> bool:
    """Whether launches are guarded: inside `with cuda.guarded():`, or by the variable COURSE_GUARDED=1."""
    inside = _guarded.get()
    return os.environ.get("COURSE_GUARDED", "0") not in ("", "0") if inside is None else inside


@contextlib.contextmanager
def guarded(on: bool = True) -> Iterator[None]:
    """Context manager: launches on the simulator stop at the first bad address, with a KernelError.

    The error names line, thread, array and index. Launches take three to ten times as long, and the first one compiles
    a checked build of the kernel. A plain launch detects only accesses far outside an array and writes close behind its
    end, and cannot name the line. guarded(False) turns COURSE_GUARDED=1 off. No effect on a GPU.
    """
    token = _guarded.set(on)
    try:
        yield
    finally:
        _guarded.reset(token)
