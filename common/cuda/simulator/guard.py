"""Guarded launches: every address is checked before it is used, at the cost of speed."""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

_guarded: ContextVar[bool | None] = ContextVar("guarded", default=None)


def is_on() -> bool:
    """Whether launches are guarded here: inside `with cuda.guarded():`, or with COURSE_GUARDED=1 in the environment."""
    inside = _guarded.get()
    return os.environ.get("COURSE_GUARDED", "0") not in ("", "0") if inside is None else inside


@contextlib.contextmanager
def guarded(on: bool = True) -> Iterator[None]:
    """Inside, launches on the simulator stop at the first bad address: KernelError names line, thread, array and index.

    They take three to ten times as long, and the first one compiles the kernel anew.
    A plain launch finds an access far outside an array, or a write close behind its end, and cannot name the line.
    guarded(False) switches off what COURSE_GUARDED=1 switched on. On a GPU it changes nothing.
    """
    token = _guarded.set(on)
    try:
        yield
    finally:
        _guarded.reset(token)
