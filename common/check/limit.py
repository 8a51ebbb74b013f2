"""A time limit on an answer, so that an endless loop ends with a message."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TimeLimitError(BaseException):
    """The time limit is exceeded. A BaseException, so that an `except Exception:` in the loop does not catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimitError in the body after `seconds`.

    An interval timer interrupts the main thread, where a notebook runs its cells. In another thread, or on a system
    without setitimer, no limit applies.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(*_: object) -> None:
        raise TimeLimitError

    before = signal.signal(signal.SIGALRM, interrupt)
    # again each second: a bare `except:` in the loop may swallow the first
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
