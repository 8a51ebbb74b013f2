"""Try an answer and say in one line what came of it."""

import inspect
import linecache
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import answers, gpu
from .answers import ToDo, Wrong
from .exercises import Exercise, find
from .limit import TimeUp, time_limit

SECONDS = 10.0


@dataclass(frozen=True)
class Result:
    """What came of a check: true if the answer passed. run() has printed the message; a notebook adds the picture."""

    passed: bool
    message: str
    picture: Any = None  # what a Wrong had to show, say a kernel's trace

    def __bool__(self) -> bool:
        return self.passed

    def _ipython_display_(self) -> None:
        if self.picture is not None:
            from IPython.display import display

            display(self.picture)


def run(name: str, *objects: Any, seconds: float = SECONDS) -> Result:
    """Check the answer to an exercise and print the outcome as one line.

    name      the exercise's: the folder <chapter>/exercises/<name>
    objects   what the learner has written: functions or values, in the order of check.py's parameters, or the
              text of a kernel
    seconds   how long all of it may take

    Whatever is wrong with the answer is printed, never raised. Raises LookupError if no exercise is called so
    and TypeError if it takes another number of objects.
    """
    exercise = find(name)
    check = exercise.check()
    wanted = list(inspect.signature(check).parameters)
    if len(objects) != len(wanted):
        call = f"check.run({name!r}, {', '.join(wanted)})"
        raise TypeError(f"{len(objects)} answers given, {len(wanted)} expected: {call}")

    result = _judge(exercise, check, objects, seconds)
    print(result.message)
    return result


def _judge(exercise: Exercise, check: Callable, objects: tuple, seconds: float) -> Result:
    """The outcome of a check. An untouched skeleton is not a wrong answer: it gets no hint."""
    answers.counter = 0
    complaint = _complaint(check, objects, seconds)
    if complaint is None:
        number = answers.counter
        return Result(True, f"✓ {exercise.name}: passed ({number} check{'s' * (number != 1)})")
    message, picture = complaint
    if any(answer is None or answer is ... for answer in objects) or _untouched(exercise, objects):
        message, picture = (
            f"not started yet. Put your code in the place of `{exercise.placeholder}` and run the cell again.",
            None,
        )
    return Result(False, f"✗ {exercise.name}: {_one_line(message)}", picture)


def _complaint(check: Callable, objects: tuple, seconds: float) -> tuple[str, Any] | None:
    """What is wrong with the answer, in words and in a picture or None; or None if nothing is."""
    try:
        with time_limit(seconds), gpu.told_last():
            check(*objects)
    except Wrong as wrong:
        return (f"{wrong.what}. Hint: {wrong.hint}" if wrong.hint else f"{wrong.what}."), wrong.picture
    except ToDo as todo:
        return f"{todo or 'not started yet'}. Hint: is there a line `return ...` at its end?", None
    except TimeUp:
        return f"not finished after {seconds:g} s. Hint: does every loop come to its end?", None
    except (Exception, SystemExit) as error:
        return _describe(error, objects), None
    return None


def _describe(error: BaseException, objects: tuple) -> str:
    """An error that came out of the learner's code, with the line it came from."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    files = {code.co_filename for answer in objects if (code := getattr(answer, "__code__", None))}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    if not frames:
        return f"{text}. Hint: the arguments or what is returned are not of the kind that the exercise asks for."
    where = frames[-1]
    line = linecache.getline(where.filename, where.lineno or 0).strip()
    return f"{text}, in line {where.lineno}: `{line}`"


def _untouched(exercise: Exercise, objects: tuple) -> bool:
    """Whether all that was handed in stands in the skeleton just so."""
    skeleton = exercise.skeleton.read_text(encoding="utf-8")
    try:
        texts = objects if exercise.is_cuda else [inspect.getsource(answer) for answer in objects]
        return all(text.strip() in skeleton for text in texts)
    except (TypeError, OSError):  # a value, not a function; or its text is not to be had
        return False


def _one_line(message: str) -> str:
    """The message without line ends, and without addresses, which differ in every run."""
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(message.split()))
