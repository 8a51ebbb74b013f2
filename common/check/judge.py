"""Run a check on an answer and return a Verdict, plain data that can be sent between processes."""

import contextlib
import inspect
import linecache
import pickle
import re
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..cuda.simulator import compiler
from ..lab import markup
from . import answers, gpu, inputs
from .answers import Short, ToDo, Wrong
from .child import Ended, Line, NoInputError
from .exercises import load
from .limit import TimeLimitError, time_limit

LONGEST = 2_000  # characters of a message


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check.

    passed    whether the answer is right
    what      what is wrong, one or several lines
    hint      the likely cause
    started   False if there was nothing to judge yet
    picture   the picture of a Wrong, or None
    checks    number of assertions evaluated
    short     True if the results are right and only the required technique is missing
    """

    passed: bool
    what: str = ""
    hint: str = ""
    started: bool = True
    picture: Any = None
    checks: int = 0
    short: bool = False


def judge(folder: Path, objects: Sequence[Any], *, raises: tuple[type[BaseException], ...] = ()) -> Verdict:
    """Run the check.py of a folder on an answer.

    Any exception becomes a Verdict, except those of the types `raises`, which propagate to the caller.
    """
    names = load(folder / "check.py")
    check = names["check"]
    answers.counter = 0
    try:
        with gpu.after_checks(), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, about huge numbers among the inputs
            check(*_guarded(check, objects, names.get("INOUT", {}), names.get("VIEWS_ALLOWED", ())))
        verdict = Verdict(True)
    except raises:
        raise
    except BaseException as error:
        verdict = _verdict(error, objects)
    return replace(verdict, checks=answers.counter, what=_printable(verdict.what), hint=_printable(verdict.hint))


def _guarded(check: Callable, objects: Sequence[Any], inout: dict[str, Any], views: Sequence[str]) -> list[Any]:
    """The answer with its functions guarded against modifying their arguments; classes and values as they are."""
    return [
        inputs.guarded(answer, inout.get(name, ()), name in views, name) if inspect.isfunction(answer) else answer
        for name, answer in zip(inspect.signature(check).parameters, objects, strict=True)
    ]


def _verdict(error: BaseException, objects: Sequence[Any]) -> Verdict:
    """The verdict for an exception that a check raised."""
    if isinstance(error, Wrong):
        short = isinstance(error, Short)
        return Verdict(False, error.what, error.hint, picture=error.picture, short=short)
    if isinstance(error, ToDo):
        return Verdict(False, _text_of(error) or "not started yet", "is there a line `return ...` at its end?")
    if todo := unfinished(error):
        return Verdict(False, f"not started yet: {todo}", started=False)
    if isinstance(error, NoInputError):
        return Verdict(False, _text_of(error) + _place(error, objects))
    text = type(error).__name__ + (f": {said}" if (said := _text_of(error)) else "")
    if place := _place(error, objects):
        return Verdict(False, text + place)
    hint = "the arguments or what is returned are not of the kind that the exercise asks for"
    return Verdict(False, text, hint)


def unfinished(error: BaseException) -> str:
    """The task of the stub that raised this error: "write the output's size"; "" for any other error."""
    said = _text_of(error) if isinstance(error, NotImplementedError) else ""
    return f"write {said.removeprefix(markup.WRITE).strip()}" if said.startswith(markup.WRITE) else ""


def _text_of(error: BaseException) -> str:
    """An exception's message, on one line."""
    try:
        return " ".join(str(error).split())
    except BaseException as another:
        return f"its __str__ raises {type(another).__name__}"


def _printable(text: str) -> str:
    """A message fit for printing: at most LONGEST characters, no lone surrogates, no addresses."""
    text = text.encode("utf-8", "backslashreplace").decode()
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


# ---- Where in the answer


def files_of(objects: Sequence[Any]) -> set[str]:
    """The file names (of a notebook cell, its pseudo-file) in which an answer's functions and classes are defined."""
    codes = []
    for answer in objects:
        for one in [answer, *(vars(answer).values() if inspect.isclass(answer) else ())]:
            codes.append(getattr(inspect.unwrap(one) if callable(one) else one, "__code__", None))
    return {code.co_filename for code in codes if code is not None}


def _is_cell(file: str) -> bool:
    """Whether a file name is that of a cell of a running notebook."""
    return bool(re.search(r"<ipython-input-|[/\\]ipykernel_\d+[/\\]", file))


def quoted(frames: Sequence[tuple[str, int]], objects: Sequence[Any]) -> str:
    """The innermost frame that belongs to the answer, as the rest of a sentence (", in line 3: `…`"), or "".

    frames: (file, line), innermost first.
    """
    files = files_of(objects)
    for file, number in frames:
        if file in files or _is_cell(file):
            line = linecache.getline(file, number).strip()
            return f", in line {number}: `{line}`" if line else f", in line {number}"
    return ""


def _place(error: BaseException, objects: Sequence[Any]) -> str:
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    return quoted(frames[::-1], objects)


# ---- Answers that terminate their process


def ended(end: Ended, objects: Sequence[Any], seconds: float, memory: int) -> Verdict:
    """The verdict on an answer whose process was stopped or died.

    seconds, memory (bytes): the limits that it had.
    """
    place = quoted(end.frames, objects)
    if end.why == "time":
        return late(seconds, place)
    if end.why == "memory":
        what = f"it needs more than {memory / 2**30:.0f} GiB of memory{place}"
        return Verdict(False, what, "does every loop come to its end, and every list stop growing?")
    if end.why == "exit":
        what = f"it has ended its process, with the exit status {end.code}{place}"
        return Verdict(False, what, "give back a value, or raise an error: exit() and abort() end all that runs")
    names = {
        signal.SIGSEGV: ("used memory that is not its own, or ran out of stack", "an address or a recursion is wrong"),
        signal.SIGBUS: ("used memory that is not its own", "an address is wrong"),
        signal.SIGABRT: ("was aborted: abort(), an assert() that does not hold, or damaged memory", ""),
        signal.SIGFPE: ("divided by zero", "which divisor can be 0?"),
        signal.SIGKILL: ("was killed, most likely for the memory that it took", ""),
        signal.SIGXCPU: ("has used up its processor time", "does every loop come to its end?"),
    }
    what, hint = names.get(signal.Signals(end.code), (f"was ended by {signal.Signals(end.code).name}", ""))
    return Verdict(False, f"its process {what}{place}", hint)


def late(seconds: float, place: str = "") -> Verdict:
    """The verdict on an answer that exceeded its time limit."""
    return Verdict(False, f"not finished after {seconds:g} s{place}", "does every loop come to its end?")


def judge_here(folder: Path, objects: Sequence[Any], seconds: float) -> Verdict:
    """As `judge`, in this process, with a timer: for systems where forking is not safe."""
    try:
        with time_limit(seconds):
            return judge(folder, objects, raises=(TimeLimitError, KeyboardInterrupt))
    except TimeLimitError:
        return late(seconds)


# ---- In a separate process


class Shown:
    """A picture reduced to its text and HTML, for an object that cannot be pickled."""

    def __init__(self, picture: Any) -> None:
        html = getattr(picture, "_repr_html_", lambda: None)()
        self._data = {"text/plain": str(picture)} | ({"text/html": html} if html else {})

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self._data

    def __str__(self) -> str:
        return self._data["text/plain"]


def judge_for_parent(folder: Path, objects: Sequence[Any], line: Line) -> Verdict:
    """As `judge`, with a picklable Verdict, reporting compilations to the parent process through `line`."""
    with _compilations(line):
        verdict = judge(folder, objects)
    try:
        pickle.loads(pickle.dumps(verdict))
    except Exception:
        verdict = replace(verdict, picture=Shown(verdict.picture))
    return verdict


@contextlib.contextmanager
def _compilations(line: Line) -> Iterator[None]:
    """Inside, every compiler run is reported through `line`."""
    compiler.listeners.append(line.compiling)
    try:
        yield
    finally:
        compiler.listeners.remove(line.compiling)
