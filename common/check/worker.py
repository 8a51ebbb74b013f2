"""A long-lived process that judges kernels on a GPU, one after another.

CUDA does not work in a fork of the notebook's process. An answer in CUDA C++ is text, so a fresh process can judge it:
it starts with the first answer, lives as long as the notebook, and is restarted after an answer that ended it.

Requests arrive on standard input, each a pickled (folder of the exercise, objects, current folder). Results leave
through one descriptor (child.Line), the stack at a crash through another.
"""

import atexit
import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..text import PACKAGE_NAME
from . import child
from .exercises import REPOSITORY

_lock = threading.Lock()
_running: tuple[subprocess.Popen, child.Child] | None = None


def judged(folder: Path, objects: Sequence[Any], seconds: float) -> Any:
    """The Verdict on a picklable answer, or a child.Ended. Threads take turns.

    folder    of the exercise
    objects   as in runner.run
    seconds   time limit, compilers not counted
    """
    with _lock:
        request = pickle.dumps((folder, list(objects), Path.cwd()))
        try:
            end = _ask(request)
        except OSError:  # it has died since its last answer
            _forget()
            end = _ask(request)
        try:
            value = child.watch(end, seconds, child.memory_limit())
        except BaseException:
            _forget()
            raise
        if isinstance(value, child.Ended):
            _forget()
        return value


def _ask(request: bytes) -> child.Child:
    """Send a request to the worker, starting it if necessary."""
    process, end = _worker()
    assert process.stdin is not None
    process.stdin.write(request)
    process.stdin.flush()
    return end


def _worker() -> tuple[subprocess.Popen, child.Child]:
    """The worker, started if necessary."""
    global _running
    if _running is not None and _running[0].poll() is not None:
        _forget()
    if _running is None:
        pipes = [os.pipe() for _ in range(3)]
        (result, output, crash), (result_in, output_in, crash_in) = zip(*pipes, strict=True)
        folders = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            [sys.executable, "-c", f"from {PACKAGE_NAME}.check.worker import main; main({result_in}, {crash_in})"],
            stdin=subprocess.PIPE,
            stdout=output_in,
            stderr=output_in,
            pass_fds=(result_in, crash_in),
            start_new_session=True,  # not reached by the terminal's Ctrl+C
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        )
        for descriptor in (result_in, output_in, crash_in):
            os.close(descriptor)
        _running = process, child.Child(process.pid, result, output, crash)
        child.watch(_running[1], 60.0, child.memory_limit())  # wait for "ready": its imports do not count
    return _running


@atexit.register
def _forget() -> None:
    """End the worker, if it runs."""
    global _running
    if _running is None:
        return
    process, end = _running
    _running = None
    end.kill()
    end.close()
    with contextlib.suppress(OSError):
        if process.stdin:
            process.stdin.close()
    process.wait()


# ---- In the process


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main(result: int, crash: int) -> None:
    """Judge requests until standard input is closed. result, crash: descriptors for results and for crash stacks."""
    from .judge import judge_for_parent

    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    requests = os.fdopen(os.dup(0), "rb")
    child.settle(os.dup(1), crash)
    line = child.Line(result)
    line.result("ready")
    while True:
        try:
            folder, objects, here = pickle.load(requests)
        except EOFError:
            return
        os.chdir(here)
        verdict = judge_for_parent(folder, objects, line)
        sys.stdout.flush()
        line.result(verdict)
