"""Try an answer and say what came of it."""

import functools
import inspect
import os
from dataclasses import dataclass
from typing import Any

from .. import cuda
from ..cuda.simulator import compiler
from ..lab import progress
from . import child, feedback, worker
from .child import Ended
from .exercises import Exercise, find
from .judge import Verdict, ended, judge_here, judge_told

SECONDS = 10.0

# Whether answers are judged in a process of their own, which can be stopped; False to debug one.
isolated = True


@dataclass(frozen=True)
class Result:
    """What came of a check: true if the answer passed. run() has shown the message and the picture below it."""

    passed: bool
    message: str
    picture: Any = None  # what a Wrong had to show, say a kernel's trace
    name: str = ""
    started: bool = True  # whether there was an answer to be judged

    def __bool__(self) -> bool:
        return self.passed

    def _ipython_display_(self) -> None:
        """Nothing: a cell that ends with check.run() has shown it already."""


def run(name: str, *objects: Any, seconds: float = SECONDS) -> Result:
    """Check the answer to an exercise and show the outcome: what is wrong, a hint, perhaps a picture.

    name      the exercise's: the folder <chapter>/exercises/<name>
    objects   what the learner has written: functions or values, in the order of check.py's parameters, or the
              text of a kernel
    seconds   how long all of it may take; a compiler's time is not counted

    Whatever the answer does is told, never raised, and leaves this process as it was: it is judged in another one.
    Raises LookupError if no exercise is called so and TypeError if it takes another number of objects.
    """
    exercise = find(name)
    wanted = list(inspect.signature(exercise.check()).parameters)
    if len(objects) != len(wanted):
        call = f"check.run({name!r}, {', '.join(wanted)})"
        raise TypeError(f"{len(objects)} answers given, {len(wanted)} expected: {call}")

    verdict = _judged(exercise, objects, seconds)
    missing = any(answer is None or answer is ... for answer in objects)
    if not verdict.passed and verdict.started and (missing or _untouched(exercise, objects)):
        what = f"not started yet. {_first_step(exercise)} and run the cell again."
        verdict = Verdict(False, what, started=False)
    return _shown(exercise, verdict)


def _first_step(exercise: Exercise) -> str:
    if exercise.skeleton_file.exists():
        return "Change the lines that are wrong"
    return "Put your code in the place of the lines with `write:`"


def _judged(exercise: Exercise, objects: tuple, seconds: float) -> Verdict:
    """The outcome of a check, in a process of its own if there can be one."""
    if not isolated:
        return judge_here(exercise.folder, objects, seconds)
    if exercise.is_cuda and (cuda.backend() == "gpu" or not child.can_fork()):
        outcome = worker.judged(exercise.folder, objects, seconds)
    elif child.can_fork():
        if exercise.is_cuda:
            from ..cuda.simulator import symbols  # noqa: F401  once, for all the processes that follow

            compiler.find_compiler()
            compiler.headers()
        call = functools.partial(_judge_in_child, exercise, objects)
        # the simulator reserves far more addresses than it uses
        simulated = exercise.is_cuda or "cuda" in exercise.check().__globals__
        outcome = child.forked(call, seconds, limit_addresses=not simulated)
    else:
        return judge_here(exercise.folder, objects, seconds)
    return ended(outcome, objects, seconds, child.memory_limit()) if isinstance(outcome, Ended) else outcome


def _judge_in_child(exercise: Exercise, objects: tuple, line: child.Line) -> Verdict:
    os.environ["COURSE_DEVICE"] = "simulator"  # CUDA does not work in a copy of a process
    return judge_told(exercise.folder, objects, line)


def _untouched(exercise: Exercise, objects: tuple) -> bool:
    """Whether all that was handed in stands in the skeleton just so."""
    skeleton = exercise.skeleton
    try:
        texts = objects if exercise.is_cuda else [inspect.getsource(answer) for answer in objects]
        return all(text.strip() in skeleton for text in texts)
    except (TypeError, OSError):  # a value, not a function; or its text is not to be had
        return False


def _shown(exercise: Exercise, verdict: Verdict) -> Result:
    """The result of a verdict, which is shown and recorded."""
    name = exercise.name
    mark = "✓" if verdict.passed else "✗"
    what = feedback.errors(verdict.what)
    if verdict.passed:
        what = f"passed ({verdict.checks} check{'s' * (verdict.checks != 1)})"
        text = plain = f"{mark} {name}: {what}"
    else:
        text = feedback.message(mark, name, what, verdict.hint)
        plain = feedback.plain(mark, name, what, verdict.hint)
    if verdict.started:
        progress.record_try(name, verdict.passed)
    result = Result(verdict.passed, text, verdict.picture, name, verdict.started)
    feedback.show(plain, feedback.formatted(mark, name, what, verdict.hint))
    if result.picture is not None:
        feedback.show_picture(result.picture)
    return result
