"""check.run(): judge an answer and show the outcome."""

import contextlib
import functools
import inspect
import os
from dataclasses import dataclass
from typing import Any

from .. import cuda
from ..cuda.signature import declarations
from ..cuda.simulator import compiler
from ..kernels.ladder import header_options
from ..lab import markup, progress
from ..lab.engine import NotWrittenError
from . import child, feedback, unfold, worker
from .child import Ended
from .exercises import Exercise, find
from .judge import Verdict, ended, judge_for_parent, judge_here

SECONDS = 10.0

# Whether answers are judged in a child process that can be stopped; set to False to debug one.
isolated = True


@dataclass(frozen=True)
class Result:
    """The outcome of a check, which run() has shown already. True in a condition if the answer passed."""

    passed: bool
    message: str
    picture: Any = None  # the picture of a Wrong, such as a kernel's trace
    name: str = ""
    started: bool = True  # False if there was no answer to judge yet
    right: bool = False  # whether the results are right, even if the required technique is missing

    def __bool__(self) -> bool:
        return self.passed

    def _ipython_display_(self) -> None:
        """Nothing: a cell that ends with check.run() has shown it already."""


def run(name: str, *objects: Any, seconds: float = SECONDS) -> Result:
    """Check the answer to an exercise and show the outcome: what is wrong, a hint, perhaps a picture.

    name      of the exercise: the folder <chapter>/exercises/<name>
    objects   the answer: functions or values in the order of check.py's parameters, or the source text of a kernel
    seconds   time limit; compilers are not counted

    The answer's exceptions and crashes are reported, never raised: it is judged in another process.
    Raises LookupError for an unknown exercise and TypeError for a wrong number of objects.
    """
    exercise = find(name)
    wanted = list(inspect.signature(exercise.check()).parameters)
    if len(objects) != len(wanted):
        call = f"check.run({name!r}, {', '.join(wanted)})"
        raise TypeError(f"{len(objects)} answers given, {len(wanted)} expected: {call}")

    verdict = judged(exercise, objects, seconds)
    missing = any(answer is None or answer is ... for answer in objects)
    if not verdict.passed and verdict.started and (missing or _untouched(exercise, objects)):
        what = f"not started yet. {_first_step(exercise)} and run the cell again."
        verdict = Verdict(False, what, started=False)
    return _shown(exercise, verdict, objects)


_right: dict[str, str] = {}  # by exercise: the kernel that was right last in this session


def kernel(name: str, solution: bool = False) -> Any:
    """The learner's kernel of an exercise, as of cuda.RawKernel, for the cells below it.

    solution   whether to take the course's solution instead

    Raises NotWrittenError, shown as "not started yet", if no answer in this session had right results.
    """
    exercise = find(name)
    text = markup.plain(exercise.source, cuda=True) if solution else _right.get(name)
    if solution and unfold.held_back(exercise):
        raise NotWrittenError(f"{name}: {unfold.HELD_BACK}")
    if text is None:
        raise NotWrittenError(
            f"no kernel of this session passes {name} yet. Do its cell first, or take the course's:"
            f" check.kernel({name!r}, solution=True)"
        )
    return cuda.RawKernel(text, next(iter(declarations(text))), options=header_options())


def _first_step(exercise: Exercise) -> str:
    if exercise.skeleton_file.exists():
        return "Change the lines that are wrong"
    return "Put your code in the place of the lines with `write:`"


def judged(exercise: Exercise, objects: tuple, seconds: float) -> Verdict:
    """Run the check, in a separate process where possible."""
    if not isolated:
        return judge_here(exercise.folder, objects, seconds)
    if exercise.is_cuda and (cuda.backend() == "gpu" or not child.can_fork()):
        outcome = worker.judged(exercise.folder, objects, seconds)
    elif child.can_fork():
        if exercise.is_cuda:
            _prepare()
        call = functools.partial(_judge_in_child, exercise, objects)
        # the simulator reserves far more address space than it uses
        simulated = exercise.is_cuda or "cuda" in exercise.check().__globals__
        outcome = child.forked(call, seconds, limit_addresses=not simulated)
    else:
        return judge_here(exercise.folder, objects, seconds)
    return ended(outcome, objects, seconds, child.memory_limit()) if isinstance(outcome, Ended) else outcome


@functools.cache
def _prepare() -> None:
    """Load once, in this process, what every judged kernel needs: each fork would spend a tenth of a second on it."""
    from ..cuda.simulator import binding, symbols

    symbols.prepare()
    compiler.find_compiler()
    with contextlib.suppress(cuda.CacheError):  # the fork meets it again and reports it
        compiler.precompiled(traced=True)
        binding.runtime()


def _judge_in_child(exercise: Exercise, objects: tuple, line: child.Line) -> Verdict:
    os.environ["COURSE_DEVICE"] = "simulator"  # CUDA does not work in a forked process
    return judge_for_parent(exercise.folder, objects, line)


def _untouched(exercise: Exercise, objects: tuple) -> bool:
    """Whether every part of the answer is still the skeleton's text."""
    skeleton = exercise.skeleton
    try:
        texts = objects if exercise.is_cuda else [inspect.getsource(answer) for answer in objects]
        return all(text.strip() in skeleton for text in texts)
    except (TypeError, OSError):  # a value, not a function; or its source is not available
        return False


def _shown(exercise: Exercise, verdict: Verdict, objects: tuple) -> Result:
    """Show and record a verdict."""
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
    right = verdict.passed or verdict.short
    if exercise.is_cuda and right:
        _right[name] = objects[0]
    result = Result(verdict.passed, text, verdict.picture, name, verdict.started, right)
    feedback.show(plain, feedback.formatted(mark, name, what, verdict.hint))
    if result.picture is not None:
        feedback.show_picture(result.picture)
    return result
