"""Run a call in a child process that can be stopped at any time.

`forked` runs a call in a fork of this process: every object of the notebook is available to it, and its side effects
end with it. `Line` is the child's end of the pipe; worker.py uses it for a process that lives longer. `watch` reads
what a child sends: it forwards prints to sys.stdout, returns the result, and returns an `Ended` for a process that
takes too long, needs too much memory or dies.
"""

import builtins
import codecs
import contextlib
import dataclasses
import faulthandler
import gc
import io
import os
import pickle
import re
import selectors
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import psutil

COMPILATION_SECONDS = 300.0  # time limit for compilers, which does not count against the answer
MEMORY = 8 << 30  # bytes that an answer may allocate, if the machine has that many
PRINTED = 10_000  # characters of an answer's output that are shown
STACK = 64 << 20  # bytes: upper bound on the stack, so that runaway recursion in C ends
_LOOK = 0.05  # seconds between two checks of the memory in use
_HEAD = struct.Struct("<cQ")  # header of a message: kind, length in bytes
_RESULT, _COMPILING, _COMPILED = b"r", b"c", b"d"


@dataclasses.dataclass(frozen=True)
class Ended:
    """A process that was stopped or ended without sending a result.

    why      "time", "memory", "signal" or "exit"
    code     the signal's number or the exit status
    frames   (file, line) of its Python stack, innermost first; empty if unknown
    """

    why: str
    code: int = 0
    frames: tuple[tuple[str, int], ...] = ()


def can_fork() -> bool:
    """Whether forking this process is safe: on Linux. macOS's system libraries do not support it."""
    return sys.platform == "linux"


def memory_limit() -> int:
    """Bytes that an answer may allocate: MEMORY or 3/4 of the available memory, whichever is less, at least 1 GiB."""
    return min(MEMORY, max(1 << 30, psutil.virtual_memory().available * 3 // 4))


class Line:
    """A child's end of the pipe to its parent, for notices of compilations and for the result."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def _send(self, kind: bytes, content: bytes = b"") -> None:
        data = memoryview(_HEAD.pack(kind, len(content)) + content)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def result(self, value: Any) -> None:
        """Send the result, which must be picklable."""
        self._send(_RESULT, pickle.dumps(value))

    def compiling(self, begins: bool) -> None:
        """Report that a compiler starts (True) or has finished (False); the parent's clock is paused in between."""
        self._send(_COMPILING if begins else _COMPILED)


# ---- In the child


class NoInputError(Exception):
    """What input() raises in an answer."""


def _no_input(prompt: object = "") -> NoReturn:
    raise NoInputError("input() asks nobody here: what the function needs comes with its arguments")


def settle(output: int, crash: int) -> None:
    """Set up this process to run an answer: redirect its standard streams, reset signals, report crashes.

    output   file descriptor for stdout and stderr
    crash    file descriptor to which the Python stack is written at a crash and at SIGUSR1
    """
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nowhere, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stderr = io.TextIOWrapper(
        io.FileIO(1, "w", closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True
    )
    builtins.input = _no_input
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    faulthandler.enable(file=crash, all_threads=False)
    faulthandler.register(signal.SIGUSR1, file=crash, all_threads=False)


def _limit(seconds: float, memory: int | None) -> None:
    """Set resource limits: address space (`memory` bytes beyond the present), stack, and CPU time for an orphan."""
    import resource

    if memory is not None:
        held = psutil.Process().memory_info().vms + memory
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (held if most < 0 else min(held, most), most))
    now, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (STACK if now < 0 else min(now, STACK), most))
    used = int(seconds * (os.cpu_count() or 1)) + 60
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (used if most < 0 else min(used, most), most))


def _run_in_child(
    call: Callable[[Line], Any], result: int, output: int, crash: int, seconds: float, memory: int | None
) -> NoReturn:
    status = 1
    try:
        os.setpgid(0, 0)  # a process group of its own: killed as one, and not reached by the terminal's Ctrl+C
        gc.freeze()  # so that collections do not copy pages shared with the parent
        settle(output, crash)
        _limit(seconds, memory)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(1)  # fork does not copy the threads of its pool
        line = Line(result)
        value = call(line)
        sys.stdout.flush()
        line.result(value)
        status = 0
    finally:
        os._exit(status)


# ---- In the parent


@dataclasses.dataclass
class Child:
    """A running child process and the read ends (non-blocking descriptors) of its three pipes."""

    pid: int
    result: int
    output: int
    crash: int

    def __post_init__(self) -> None:
        for descriptor in (self.result, self.output, self.crash):
            os.set_blocking(descriptor, False)

    def kill(self) -> int:
        """Kill the process and its process group; return its status as os.waitpid does."""
        for end in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(self.pid, signal.SIGKILL)
        try:
            return os.waitpid(self.pid, 0)[1]
        except ChildProcessError:  # somebody else waited for it
            return 0

    def close(self) -> None:
        """Close the three pipes."""
        for descriptor in (self.result, self.output, self.crash):
            os.close(descriptor)

    def request_frames(self) -> tuple[tuple[str, int], ...]:
        """Ask the process for its Python stack: (file, line), innermost first; empty if it does not answer."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        text = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.crash, selectors.EVENT_READ)
            # it writes line by line, and a system short of memory may be slow
            while selector.select(0.05 if b"File" in text else 1.0):
                if not (more := _read(self.crash)):
                    break
                text += more
        return _frames(text)

    def frames(self) -> tuple[tuple[str, int], ...]:
        """The Python stack that the process wrote when it crashed: (file, line), innermost first."""
        return _frames(_read(self.crash))


def _frames(text: bytes) -> tuple[tuple[str, int], ...]:
    """(file, line) of each frame in what faulthandler wrote."""
    found = re.findall(r'File "(.*?)", line (\d+) in', text.decode("utf-8", "replace"))
    return tuple((file, int(line)) for file, line in found)


def _read(descriptor: int) -> bytes:
    """Everything that can be read from a pipe without blocking."""
    pieces = []
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(descriptor, 1 << 20):
            pieces.append(piece)
    return b"".join(pieces)


class _Printer:
    """Forwards a process's output to sys.stdout, up to a number of characters."""

    def __init__(self, most: int) -> None:
        self._left, self._lost = most, 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def show(self, data: bytes) -> None:
        text = self._decode(data)
        shown, rest = text[: self._left], text[self._left :]
        if shown:
            sys.stdout.write(shown)
        self._left -= len(shown)
        self._lost += len(rest)

    def end(self) -> None:
        if self._lost:
            print(f"\n[{self._lost:,} letters more were printed, and are left out]")


def watch(child: Child, seconds: float, memory: int) -> Any:
    """Wait for a process's result, or for its end (an Ended). A process that sent a result is left running.

    seconds   time limit, compilers not counted
    memory    bytes that it may allocate beyond its present use
    """
    printer = _Printer(PRINTED)
    try:
        value = _watch(child, seconds, memory, printer)
    except BaseException:  # Ctrl+C
        child.kill()
        raise
    printer.show(_read(child.output))
    printer.end()
    return value


def _watch(child: Child, seconds: float, memory: int, printer: _Printer) -> Any:
    process = psutil.Process(child.pid)
    most = process.memory_info().rss + memory
    received, left, paused, compilers, looked = b"", seconds, seconds, 0, 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(child.result, selectors.EVENT_READ)
        selector.register(child.output, selectors.EVENT_READ)
        before = time.monotonic()
        while True:
            ready = {key.fd for key, _ in selector.select(max(0.0, min(_LOOK, left)))}
            now = time.monotonic()
            left -= now - before
            before = now
            if child.output in ready:
                data = os.read(child.output, 1 << 16)
                printer.show(data)
                if not data:
                    selector.unregister(child.output)
            if child.result in ready:
                data = os.read(child.result, 1 << 20)
                if not data:
                    return _death(child)
                received += data
                while message := _take(received):
                    kind, content = message
                    received = received[_HEAD.size + len(content) :]
                    if kind == _RESULT:
                        return pickle.loads(content)
                    if kind == _COMPILING and compilers == 0:
                        paused, left = left, COMPILATION_SECONDS
                    compilers += 1 if kind == _COMPILING else -1
                    if compilers == 0:
                        left = paused
            if left <= 0:
                frames = child.request_frames()
                child.kill()
                return Ended("time", frames=frames)
            if now - looked > _LOOK:
                looked = now
                with contextlib.suppress(psutil.Error):
                    if process.memory_info().rss > most:
                        frames = child.request_frames()
                        child.kill()
                        return Ended("memory", frames=frames)


def _take(received: bytes) -> tuple[bytes, bytes] | None:
    """(kind, content) of the first message in the buffer; None if it is incomplete."""
    if len(received) < _HEAD.size:
        return None
    kind, length = _HEAD.unpack_from(received)
    content = received[_HEAD.size : _HEAD.size + length]
    return (kind, content) if len(content) == length else None


def _death(child: Child) -> Ended:
    """The Ended of a process that closed its pipe."""
    deadline = time.monotonic() + 1.0
    status = None
    while status is None and time.monotonic() < deadline:  # its pipes close shortly before waitpid succeeds
        pid, status_ = os.waitpid(child.pid, os.WNOHANG)
        status = status_ if pid else None
        if status is None:
            time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    status = child.kill() if status is None else status
    frames = child.frames()
    if os.WIFSIGNALED(status):
        return Ended("signal", os.WTERMSIG(status), frames)
    return Ended("exit", os.WEXITSTATUS(status), frames)


def forked(call: Callable[[Line], Any], seconds: float, *, limit_addresses: bool = True) -> Any:
    """Run `call(line)` in a fork of this process and return its result, which must be picklable, or an Ended.

    seconds           time limit, compilers not counted
    limit_addresses   whether an allocation beyond memory_limit() raises MemoryError in the child; resident memory is
                      watched in either case
    """
    memory = memory_limit()
    pipes = [os.pipe() for _ in range(3)]
    reading, (result, output, crash) = zip(*pipes, strict=True)
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads of this process: the child uses none
        pid = os.fork()
    if pid == 0:
        _run_in_child(call, result, output, crash, seconds, memory if limit_addresses else None)
    for descriptor in (result, output, crash):
        os.close(descriptor)
    child = Child(pid, *reading)
    try:
        value = watch(child, seconds, memory)
        child.kill()
        return value
    finally:
        child.close()
