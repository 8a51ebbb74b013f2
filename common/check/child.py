"""A call in a process of its own, which can be stopped whatever it does.

`forked` runs a call in a copy of this process: it sees every object that the notebook has, and what it changes there
is gone with it. `Line` is the other end of the pipe, for a process that lives longer (worker.py). `watch` reads what
either of them says: prints go on to sys.stdout, the result is given back, and a process that takes too long, needs too
much memory or dies becomes an `Ended` that says so.
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

COMPILATION_SECONDS = 300.0  # what a compiler may take, whose time is not the answer's
MEMORY = 8 << 30  # bytes that an answer may take, where the machine has as many
PRINTED = 10_000  # letters of an answer's prints that are shown
STACK = 64 << 20  # bytes of stack, where the machine allows more or has no limit: recursion in C ends there
_LOOK = 0.05  # seconds between two looks at the memory
_HEAD = struct.Struct("<cQ")  # of a message: its kind and its bytes
_RESULT, _COMPILING, _COMPILED = b"r", b"c", b"d"


@dataclasses.dataclass(frozen=True)
class Ended:
    """A process that was stopped, or that ended itself, without a result.

    why: "time", "memory", "signal" or "exit". code: the signal's number or the exit status.
    frames: (file, line) of the Python code that it was in, the innermost first; empty if that is not known.
    """

    why: str
    code: int = 0
    frames: tuple[tuple[str, int], ...] = ()


def can_fork() -> bool:
    """Whether a copy of this process is safe to run on: not on a Mac, whose system libraries forbid it."""
    return sys.platform == "linux"


def memory_limit() -> int:
    """Bytes that an answer may take: 8 GiB, or three quarters of what the machine has free."""
    return min(MEMORY, max(1 << 30, psutil.virtual_memory().available * 3 // 4))


class Line:
    """The end of a pipe through which a process tells its parent about compilations and its result."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def _send(self, kind: bytes, content: bytes = b"") -> None:
        data = memoryview(_HEAD.pack(kind, len(content)) + content)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def result(self, value: Any) -> None:
        """Sends a value that can be pickled."""
        self._send(_RESULT, pickle.dumps(value))

    def compiling(self, begins: bool) -> None:
        """Says that a compiler begins, or has ended: until then the parent's clock stands still."""
        self._send(_COMPILING if begins else _COMPILED)


# ---- In the child


class NobodyToAsk(Exception):
    """What input() raises in an answer."""


def _no_input(prompt: object = "") -> NoReturn:
    raise NobodyToAsk("input() asks nobody here: what the function needs comes with its arguments")


def settle(output: int, crash: int) -> None:
    """Makes this process an answer's: its standard streams, its signals, and what it says when it dies.

    output      the descriptor that prints go to
    crash       the descriptor to which the Python frames go at a crash, and at SIGUSR1
    """
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nowhere, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stderr = io.TextIOWrapper(
        io.FileIO(1, "w", closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True
    )
    builtins.input = _no_input
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears of it, and decides
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    faulthandler.enable(file=crash, all_threads=False)
    faulthandler.register(signal.SIGUSR1, file=crash, all_threads=False)


def _limit(seconds: float, memory: int | None) -> None:
    """The operating system's limits: for MemoryError where memory is asked for, and for a child that is left alone."""
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
        os.setpgid(0, 0)  # a group of its own, which ends together, and which no Ctrl+C of the terminal reaches
        gc.freeze()  # so that no collection copies the pages that it shares with its parent
        settle(output, crash)
        _limit(seconds, memory)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(1)  # the threads of its pool have not come along
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
    """A process that runs, and the three pipes that come from it, to be read without waiting."""

    pid: int
    result: int
    output: int
    crash: int

    def __post_init__(self) -> None:
        for descriptor in (self.result, self.output, self.crash):
            os.set_blocking(descriptor, False)

    def kill(self) -> int:
        """Ends the process and all that it started, and gives back its status, as os.waitpid does."""
        for end in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(self.pid, signal.SIGKILL)
        try:
            return os.waitpid(self.pid, 0)[1]
        except ChildProcessError:  # somebody else waited for it
            return 0

    def close(self) -> None:
        for descriptor in (self.result, self.output, self.crash):
            os.close(descriptor)

    def ask_for_frames(self) -> tuple[tuple[str, int], ...]:
        """The Python frames that it is in."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        text = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.crash, selectors.EVENT_READ)
            # it writes line by line; and the system may just be busy with its memory
            while selector.select(0.05 if b"File" in text else 1.0):
                if not (more := _read(self.crash)):
                    break
                text += more
        return _frames(text)

    def frames(self) -> tuple[tuple[str, int], ...]:
        """The Python frames that it told of when it crashed."""
        return _frames(_read(self.crash))


def _frames(text: bytes) -> tuple[tuple[str, int], ...]:
    """(file, line) of each frame in what faulthandler wrote."""
    found = re.findall(r'File "(.*?)", line (\d+) in', text.decode("utf-8", "replace"))
    return tuple((file, int(line)) for file, line in found)


def _read(descriptor: int) -> bytes:
    """All that waits in a pipe."""
    pieces = []
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(descriptor, 1 << 20):
            pieces.append(piece)
    return b"".join(pieces)


class _Printer:
    """Hands on what a process prints, up to a number of letters."""

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
    """What a process sends as its result, or an Ended. It lives on if it sent one; else it is over when this returns.

    seconds: how long it may take, compilers not counted. memory: bytes that it may take more than now.
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
    received, left, kept, compilers, looked = b"", seconds, seconds, 0, 0.0
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
                        kept, left = left, COMPILATION_SECONDS
                    compilers += 1 if kind == _COMPILING else -1
                    if compilers == 0:
                        left = kept
            if left <= 0:
                frames = child.ask_for_frames()
                child.kill()
                return Ended("time", frames=frames)
            if now - looked > _LOOK:
                looked = now
                with contextlib.suppress(psutil.Error):
                    if process.memory_info().rss > most:
                        frames = child.ask_for_frames()
                        child.kill()
                        return Ended("memory", frames=frames)


def _take(received: bytes) -> tuple[bytes, bytes] | None:
    """(kind, content) of the first message, if all of it is there."""
    if len(received) < _HEAD.size:
        return None
    kind, length = _HEAD.unpack_from(received)
    content = received[_HEAD.size : _HEAD.size + length]
    return (kind, content) if len(content) == length else None


def _death(child: Child) -> Ended:
    """How a process that closed its pipe has ended."""
    deadline = time.monotonic() + 1.0
    status = None
    while status is None and time.monotonic() < deadline:  # its pipes close a moment before it can be waited for
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
    """What `call(line)` gives back in a copy of this process, pickled, or an Ended.

    limit_addresses: whether an allocation beyond the memory allowed is to raise MemoryError; it is watched anyway.
    """
    memory = memory_limit()
    pipes = [os.pipe() for _ in range(3)]
    reading, (result, output, crash) = zip(*pipes, strict=True)
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: of this process, none is used in the child
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
