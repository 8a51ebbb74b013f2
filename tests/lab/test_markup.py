"""Marked regions: cut out for a learner, put back, and refused where the marks are out of order."""

import pytest

from common.check.exercises import find_all
from common.lab import markup

PYTHON = """def f(x):
    y = 0
    # BEGIN SOLUTION
    # write: the sum of "x"
    for z in x:
        y += z
    # END SOLUTION
    return y
"""
CUDA = """__global__ void f(float* x) {
    // BEGIN SOLUTION
    // write: the guard
    // write: and the store
    if (threadIdx.x < 3) x[0] = 1;  # not a mark: BEGIN SOLUTION
    // END SOLUTION
}
"""


def test_python():
    stub = 'def f(x):\n    y = 0\n    raise NotImplementedError("write: the sum of \\"x\\"")\n    return y\n'
    assert markup.strip(PYTHON) == stub
    assert markup.plain(PYTHON) == "def f(x):\n    y = 0\n    for z in x:\n        y += z\n    return y\n"
    assert markup.fill(stub, PYTHON) == PYTHON
    (region,) = markup.regions(PYTHON)
    assert (region.line, region.indent, region.write) == (3, "    ", ('the sum of "x"',))
    assert markup.is_stub(stub) and not markup.is_stub(PYTHON) and not markup.is_stub(markup.plain(PYTHON))


def test_cuda():
    stub = "__global__ void f(float* x) {\n    // write: the guard\n    // write: and the store\n}\n"
    assert markup.strip(CUDA, cuda=True) == stub
    assert "BEGIN" in markup.plain(CUDA, cuda=True) and "// END" not in markup.plain(CUDA, cuda=True)
    assert markup.is_cuda(CUDA) and not markup.is_cuda(PYTHON) and markup.is_stub(stub)


def test_marks_of_the_other_language_are_text():
    assert markup.strip(CUDA) == CUDA and markup.strip(PYTHON, cuda=True) == PYTHON


def test_a_text_that_was_changed_is_not_filled():
    with pytest.raises(ValueError, match="not the stub form"):
        markup.fill("def f(x): return sum(x)\n", PYTHON)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# BEGIN SOLUTION\n# write: a\n", "line 1: BEGIN SOLUTION without END"),
        ("x\n# END SOLUTION\n", "line 2: END SOLUTION without BEGIN"),
        ("# BEGIN SOLUTION\n# write: a\n# BEGIN SOLUTION\n", "line 3: BEGIN SOLUTION within the region"),
        ("# BEGIN SOLUTION\nx = 1\n# END SOLUTION\n", "line 1: the region has no line 'write: …'"),
        ("# BEGIN SOLUTION\n# write: a\n# write: b\n# END SOLUTION\n", "line 1: the region has 2 lines"),
    ],
)
def test_marks_out_of_order(text, said):
    with pytest.raises(ValueError, match=said):
        markup.strip(text)


@pytest.mark.parametrize("exercise", find_all(), ids=lambda exercise: exercise.name)
def test_no_mark_is_left_in_what_a_learner_starts_from(exercise):
    skeleton = exercise.skeleton
    assert "BEGIN SOLUTION" not in skeleton and "END SOLUTION" not in skeleton
    assert max(len(line) for line in [*skeleton.splitlines(), *exercise.source.splitlines()]) <= 95
