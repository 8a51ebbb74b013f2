"""Exercises: checks of a learner's answers, with hints.

In a notebook, `%%exercise receptive_field` as the first line of the exercise's cell, or one line in a cell below it,

    check.run("receptive_field", receptive_field)

shows `✓ receptive_field: passed (6 checks)`, or what is wrong and a hint. Each call of `check.hint("receptive_field")`
shows the next hint, and after the last one the solution. An exercise is a folder `<chapter>/exercises/<name>/` that a
learner may read, and a solution next to it:

    exercises/<name>/check.py     def check(receptive_field): … tests the answer with expect(), require() and
                                  expect_error(); its parameters have the names that the learner defines. A function
                                  that modifies an argument or returns a view of one is rejected, unless
                                  INOUT = {"fill": ["out"]} lists the parameters that it may modify, and
                                  VIEWS_ALLOWED = ["transposed"] the functions whose results may be views
    exercises/<name>/skeleton.py  only where any line may change, as in the hunt for a bug: what the learner starts from
    exercises/hints.md            two or three hints and the explanation of the solution of each exercise, which unfold
                                  below its cell (unfold.py)
    solutions/<name>.py           the answer as the source notebook's cell holds it, word for word; what a learner is to
                                  write stands in marked regions (markup.py), which become one line in the learner's
                                  copy

Wrong answers, which prove the check, and further right ones are in tests/answers/<chapter>/<name>.toml. In a notebook
of the chapter, a code cell tagged exercise-<name> holds the solution, and a Markdown cell tagged hints-<name> follows.

An exercise in CUDA C++ has solutions/<name>.cu, with marks that begin with `//`. Its cell begins with the magic
`%%exercise <name>`, which `%load_ext common.check` provides; the rest is the kernel, and running the cell checks it.
Cells below it use the kernel that passed: check.kernel("<name>").
check.py has def check(source): … and runs the kernel with launch(): traced on the simulator, and on a machine with a
GPU there as well.

An answer is judged in a separate process (child.py; for kernels on a GPU worker.py): it may loop forever, crash, or
exhaust the memory without ending the notebook, and its side effects do not reach the notebook. Where forking is not
safe, as on a Mac, Python is judged in the notebook's process, with a timer.

`%load_ext common.check` registers the magic, the name `check`, and errors that say which cell to do first (magic.py).
Answers and hints are recorded in the learner's progress.
"""

from ..lab.engine import keep, use_own, use_reference
from ..lab.milestones import run as milestone
from ..lab.predict import predict, reveal
from .answers import ToDo, Wrong, expect, expect_error, require
from .exercises import Exercise, find, find_all
from .hints import hint
from .kernels import launch
from .magic import load_ipython_extension, own_rung
from .runner import Result, kernel, run

__all__ = [
    "Exercise",
    "Result",
    "ToDo",
    "Wrong",
    "expect",
    "expect_error",
    "find",
    "find_all",
    "hint",
    "keep",
    "kernel",
    "launch",
    "load_ipython_extension",
    "milestone",
    "own_rung",
    "predict",
    "require",
    "reveal",
    "run",
    "use_own",
    "use_reference",
]
