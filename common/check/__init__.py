"""Exercises: a learner's answer, tried out where it was written.

In a notebook, one line under the exercise's cell:

    check.run("receptive_field", receptive_field)

prints `✓ receptive_field: passed (6 checks)`, or what is wrong with a hint. An exercise is a folder
`<chapter>/exercises/<name>/`:

    skeleton.py   what the notebook's cell holds, word for word, with lines `...  # your code` to fill in
    solution.py   the skeleton with lines added
    check.py      def check(receptive_field): … tries the answer with expect(), require() and expect_error();
                  its parameters have the names that the learner defines
    wrong/*.py    answers to be refused; the first line, `# expect: …`, quotes the message deserved
    hints.md      two or three hints and the explanation of the solution, which unfold below the cell (unfold.py)

An exercise in CUDA C++ has skeleton.cu, solution.cu and wrong/*.cu, with lines `// your code` and `// expect: …`. Its
cell begins with the magic `%%exercise <name>`, which `%load_ext common.check` provides; the rest is the kernel, and
running the cell checks it. check.py has def check(source): … and tries it with launch(): on the simulator, where
every access is seen, and on a machine with a GPU there as well.
"""

from .answers import ToDo, Wrong, expect, expect_error, require
from .exercises import Exercise, find, find_all
from .kernels import launch
from .magic import load_ipython_extension
from .runner import Result, run

__all__ = [
    "Exercise",
    "Result",
    "ToDo",
    "Wrong",
    "expect",
    "expect_error",
    "find",
    "find_all",
    "launch",
    "load_ipython_extension",
    "require",
    "run",
]
