"""A process that judges one kernel after another.

Where kernels run on a GPU a copy of the notebook's process will not do: CUDA does not work in it. An answer in CUDA
C++ is a text, so that another process can judge it, which starts at the first one, lives as long as the notebook, and
is started anew after an answer that ended it.

Requests come in at the standard input, (folder of the exercise, objects, current folder) each, pickled. Results go
out through one descriptor (child.Line), and the frames of a crash through another.
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

from . import child
from .exercises import REPOSITORY

_lock = threading.Lock()
_running: tuple[subprocess.Popen, child.Child] | None = None


def judged(folder: Path, objects: Sequence[Any], seconds: float) -> Any:
    """The Verdict on an answer that can be pickled, or a child.Ended; one answer at a time."""
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
    """Sends a request to the process, which is started if there is none that runs."""
    process, end = _worker()
    assert process.stdin is not None
    process.stdin.write(request)
    process.stdin.flush()
    return end


def _worker() -> tuple[subprocess.Popen, child.Child]:
    """The process, started if there is none that runs."""
    global _running
    if _running is not None and _running[0].poll() is not None:
        _forget()
    if _running is None:
        pipes = [os.pipe() for _ in range(3)]
        (result, output, crash), (result_in, output_in, crash_in) = zip(*pipes, strict=True)
        folders = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            [sys.executable, "-c", f"from common.check.worker import main; main({result_in}, {crash_in})"],
            stdin=subprocess.PIPE,
            stdout=output_in,
            stderr=output_in,
            pass_fds=(result_in, crash_in),
            start_new_session=True,  # no Ctrl+C of the terminal
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        )
        for descriptor in (result_in, output_in, crash_in):
            os.close(descriptor)
        _running = process, child.Child(process.pid, result, output, crash)
        child.watch(_running[1], 60.0, child.memory_limit())  # that it is there: its imports are not the answer's time
    return _running


@atexit.register
def _forget() -> None:
    """Ends the process, if there is one."""
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
    """Judges what comes in until there is nothing more to come; the two descriptors are for what goes out."""
    from .judge import judge_told

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
        verdict = judge_told(folder, objects, line)
        sys.stdout.flush()
        line.result(verdict)
