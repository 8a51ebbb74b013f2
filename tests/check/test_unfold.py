"""Hints and solutions: folded so that they come one by one, and the notebooks' cells are those of the files."""

import functools
import json
import re

import pytest

from common.check import exercises, unfold
from common.check.exercises import REPOSITORY, find_all
from common.lab import markup

HINTS = """## Hint
Look at i.

## Hint

Compare *it*:

    i < n

## Solution
The last block has threads to spare.
"""

FOLDED = """<details>
<summary>Hint 1</summary>

Look at i.

<details>
<summary>Hint 2</summary>

Compare *it*:

    i < n

</details>

</details>

<details>
<summary>Solution</summary>

```c++
if (i < n)
    out[i] = 0;
```

The last block has threads to spare.

</details>"""


def cell(kind, source, *tags):
    made = {"cell_type": kind, "metadata": {"tags": list(tags)}, "source": source}
    return made | ({"execution_count": 1, "outputs": []} if kind == "code" else {})


@pytest.fixture
def chapter(tmp_path):
    """A repository with an exercise and a notebook, whose hints have not been filled in yet."""
    folder = tmp_path / "04_toys" / "exercises" / "clear"
    folder.mkdir(parents=True)
    (folder / "check.py").write_text("def check(source): ...\n")
    solutions = tmp_path / "04_toys" / "solutions"
    solutions.mkdir()
    (solutions / "clear.cu").write_text("if (i < n)\n    out[i] = 0;\n")
    (folder.parent / "hints.md").write_text("# other\n## Hint\nNo.\n" + "# clear\n" + HINTS)
    cells = [
        cell("code", ["%%exercise clear\n", "// write: it"], "exercise-clear"),
        cell("markdown", ["…"], "hints-clear"),
        cell("markdown", "hints-clear in the text, as one string"),
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path = folder.parents[1] / "1_toys.ipynb"
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return path


def exercise_of(chapter):
    return exercises.find("clear", chapter.parent)


def test_each_hint_is_within_the_one_before(chapter):
    assert unfold.render(exercise_of(chapter)) == FOLDED


def test_a_link_of_the_hints_leads_from_the_notebook(chapter):
    hints = chapter.parent / "exercises" / "hints.md"
    hints.write_text(hints.read_text().replace("spare.", "spare: [a](../../common/a.h), [b](../2_b.ipynb)."))
    assert "spare: [a](../common/a.h), [b](2_b.ipynb)." in unfold.render(exercise_of(chapter))


def test_the_solution_in_python(chapter):
    solution = exercise_of(chapter).solution
    solution.unlink()
    solution.with_suffix(".py").write_text("def f(): ...\n")
    assert "```python\ndef f(): ...\n```\n" in unfold.render(exercise_of(chapter))


def test_stale_then_written_then_not(chapter, capsys):
    root, before = chapter.parents[1], chapter.read_text()
    assert not unfold.run(check=True, root=root)
    assert capsys.readouterr().out == "04_toys/1_toys.ipynb: hints of clear are stale: python -m common generate\n"
    assert chapter.read_text() == before

    assert unfold.run(check=False, root=root)
    assert capsys.readouterr().out == "04_toys/1_toys.ipynb: hints of clear written\n"
    code, hints, text = json.loads(chapter.read_text())["cells"]
    assert hints["source"] == FOLDED.splitlines(keepends=True)
    assert [code, text] == [json.loads(before)["cells"][i] for i in (0, 2)]
    assert unfold.run(check=True, root=root) and unfold.run(check=False, root=root)
    assert capsys.readouterr().out == ""

    solution = exercise_of(chapter).solution
    solution.write_text("if (i < n) out[i] = 0;\n")  # another solution, other cells
    assert not unfold.run(check=True, root=root)


@pytest.mark.parametrize(
    "text",
    ["", "## Hint\nA.\n", "## Solution\nA.\n## Hint\nB.\n", "## Hint\n\n## Solution\nA.\n", "A.\n" + HINTS,
     HINTS + "## Solution\nTwice.\n", HINTS.replace("## Hint", "## Tip")],
)  # fmt: skip
def test_hints_out_of_order(chapter, capsys, text):
    (chapter.parent / "exercises" / "hints.md").write_text("# clear\n" + text)
    assert not unfold.run(check=False, root=chapter.parents[1])
    assert "04_toys/1_toys.ipynb: clear: hints.md must have sections '## Hint'" in capsys.readouterr().out


def test_hints_of_nothing(chapter, capsys):
    (chapter.parent / "exercises" / "hints.md").unlink()
    assert not unfold.run(check=True, root=chapter.parents[1])
    assert "clear has no hints in hints.md" in capsys.readouterr().out
    chapter.write_text(chapter.read_text().replace("hints-clear", "hints-other"))
    assert not unfold.run(check=True, root=chapter.parents[1])
    assert "a cell is tagged hints-other, and no exercise is called so" in capsys.readouterr().out


# ---- The course's


EXERCISES = find_all()


@functools.cache
def tags_below() -> dict[str, list[str]]:
    """For each cell of an exercise, by name, the tags of the next cell of text."""
    found = {}
    for path in unfold.notebooks():
        name = None
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            tags = cell["metadata"].get("tags", [])
            if name is not None and cell["cell_type"] == "markdown":
                found[name] = tags
                name = None
            for tag in tags:
                if tag.startswith("exercise-"):
                    name = tag.removeprefix("exercise-")
    return found


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_every_exercise_has_hints_below_its_cell(exercise):
    hints, solution = unfold.sections(exercise)
    assert 2 <= len(hints) <= 3
    assert len({*hints, solution}) == len(hints) + 1
    assert tags_below()[exercise.name] == [f"hints-{exercise.name}"]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_hints_do_not_give_the_solution_away(exercise):
    """No line of code that the solution adds stands in a hint."""
    skeleton = exercise.skeleton.splitlines()
    solution = markup.plain(exercise.source, exercise.is_cuda).splitlines()
    comment = r"\s*//.*" if exercise.is_cuda else r"\s*#.*"
    added = {re.sub(comment, "", line).strip() for line in solution if line not in skeleton}
    hints, _ = unfold.sections(exercise)
    given = [line for line in added for hint in hints if len(line) > 20 and line in hint]
    assert given == []


def test_no_hints_are_stale():
    assert unfold.run(check=True, root=REPOSITORY), "python -m common generate writes them anew"


# ---- Cells to write that are no exercises

WRITE = """%%engine graph.py double
x = 2


def twice(n):
    # BEGIN SOLUTION
    # write: it
    return 2 * n
    # END SOLUTION
"""


def test_the_names_of_a_cell_to_write():
    assert unfold.names(WRITE) == ["double", "twice"]
    assert unfold.names(WRITE.replace("%%engine graph.py double\n", "class A:\n    x = 1\n\n\n")) == ["twice"]
    assert unfold.names("def f(): ...") == []
    kernel = "__global__ void k(int* x) {\n// BEGIN SOLUTION\n// write: it\nx[0] = 1;\n// END SOLUTION\n}"
    assert unfold.names(f"%%engine kernels/add.cu\n{kernel}") == ["k"]


def test_a_cell_to_write_gets_a_cell_with_its_hints(chapter, capsys):
    root = chapter.parents[1]
    hints = chapter.parent / "exercises" / "hints.md"
    hints.write_text(hints.read_text() + "\n# twice\n## Hint\nTimes?\n## Hint\nTwo.\n## Solution\nEven.\n")
    notebook = json.loads(chapter.read_text())
    notebook["cells"][2:2] = [cell("code", WRITE.splitlines(keepends=True))]
    chapter.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    assert not unfold.run(check=True, root=root)
    assert unfold.run(check=False, root=root)
    assert "hints of twice written" in capsys.readouterr().out
    below = json.loads(chapter.read_text())["cells"][3]
    assert below["metadata"]["tags"] == ["hints-twice"] and below["id"] == "hints-twice"
    text = "".join(below["source"])
    assert "<summary>Hint 2</summary>\n\nTwo." in text and "    return 2 * n\n```\n\nEven." in text
    assert "BEGIN" not in text
    assert unfold.run(check=True, root=root)
    assert unfold.find_written("twice", [root]).source == WRITE
    assert unfold.find_written("thrice", [root]) is None
