"""Every bold term is in GLOSSARY.md and links to its row; every row says which text introduces it."""

import json

import pytest

from common.check import copies
from common.lab import glossary
from common.report import generated, results

ROOT = results.course()


def test_every_bold_term_is_in_it_and_every_row_is_introduced():
    assert glossary.complaints(ROOT) == []


def test_no_link_is_stale():
    assert glossary.run(check=True), "python -m common generate writes it anew"


ABOVE = "# Glossary\n\nOne sentence per term.\n\n"
ROWS = "| term | meaning |\n|---|---|\n| warp | 32 threads. |\n| fuse, fusion | Join. |\n"


def cell(kind, text, *tags):
    made = {"cell_type": kind, "id": "a", "metadata": {"tags": list(tags)}, "source": text.splitlines(keepends=True)}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def notebook(path, *cells):
    path.parent.mkdir(exist_ok=True)
    cells = [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells)]
    made = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(generated.dumped(made), encoding="utf-8")
    return path


def sources(path):
    return [generated.source(cell) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


@pytest.fixture
def course(tmp_path):
    """Three notebooks in a wrong order of names, two READMEs, and a glossary whose rows have two columns."""
    (tmp_path / "GLOSSARY.md").write_text(ABOVE + ROWS, encoding="utf-8")
    notebook(tmp_path / "01_x/10_b.ipynb", cell("markdown", "A **warp** and another **warp**.\n**Predict.** 3"))
    notebook(
        tmp_path / "01_x/2_a.ipynb",
        cell("markdown", "Layers are **fused**.\n\n```python\na **b** c\n```\n"),
        cell("code", "x = 2 **warp** 3"),
        cell("markdown", "**warps** here", "hints-e"),
    )
    notebook(tmp_path / "02_y/1_c.ipynb", cell("markdown", "`2 **warp** 2`, **Warp**"))
    (tmp_path / "README.md").write_text("**warp**\n", encoding="utf-8")
    (tmp_path / "01_x/README.md").write_text("the **fusion**\n", encoding="utf-8")
    return tmp_path


def test_the_first_use_in_each_file_becomes_a_link(course):
    assert glossary.run(check=False, root=course)
    link = "[**{}**]({}GLOSSARY.md#{})".format
    assert sources(course / "01_x/10_b.ipynb") == [
        f"A {link('warp', '../', 'warp')} and another **warp**.\n**Predict.** 3"
    ]
    first, code, hints = sources(course / "01_x/2_a.ipynb")
    assert first == f"Layers are {link('fused', '../', 'fuse')}.\n\n```python\na **b** c\n```\n"
    assert (code, hints) == ("x = 2 **warp** 3", "**warps** here")
    assert sources(course / "02_y/1_c.ipynb") == [f"`2 **warp** 2`, {link('Warp', '../', 'warp')}"]
    assert (course / "README.md").read_text() == f"{link('warp', '', 'warp')}\n"
    assert (course / "01_x/README.md").read_text() == f"the {link('fusion', '../', 'fuse')}\n"


def test_the_table_is_sorted_with_anchors_and_the_place_of_each_term(course):
    glossary.run(check=False, root=course)
    assert (course / "GLOSSARY.md").read_text(encoding="utf-8") == (
        ABOVE + "| term | meaning | introduced in |\n|---|---|---|\n"
        '| <a id="fuse"></a>fuse, fusion | Join. | [01/2](01_x/2_a.ipynb) |\n'
        '| <a id="warp"></a>warp | 32 threads. | [01/10](01_x/10_b.ipynb) |\n'
    )
    assert glossary.complaints(course) == []


def test_written_once_it_is_not_stale(course, capsys):
    assert not glossary.run(check=True, root=course)
    assert "01_x/2_a.ipynb: links to the glossary are stale: python -m common generate" in capsys.readouterr().out
    glossary.run(check=False, root=course)
    before = {path: path.read_text() for path in course.rglob("*") if path.is_file()}
    assert glossary.run(check=True, root=course) and glossary.run(check=False, root=course)
    assert {path: path.read_text() for path in before} == before


def test_new_rows_of_two_columns_below_rows_of_three(course):
    glossary.run(check=False, root=course)
    path = course / "GLOSSARY.md"
    once = path.read_text(encoding="utf-8")
    path.write_text(once + "| block | A part. |\n| warp | 32 threads. |\n", encoding="utf-8")
    (course / "README.md").write_text("a **block**\n")
    glossary.run(check=False, root=course)
    assert [line.split(" | ")[0] for line in path.read_text(encoding="utf-8").splitlines()[6:]] == [
        '| <a id="block"></a>block',
        '| <a id="fuse"></a>fuse, fusion',
        '| <a id="warp"></a>warp',
    ]
    assert "| A part. | [README](README.md) |" in path.read_text(encoding="utf-8")


def test_links_to_rows_that_are_gone_are_taken_away(course):
    glossary.run(check=False, root=course)
    path = course / "GLOSSARY.md"
    path.write_text(ABOVE + ROWS.replace("| warp | 32 threads. |\n", ""), encoding="utf-8")
    assert "README.md: **warp** is not in GLOSSARY.md" in glossary.complaints(course)
    glossary.run(check=False, root=course)
    assert (course / "README.md").read_text() == "**warp**\n"


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("**Predict.** 3", True),
        ("then **check**: 3", False),
        ("a **4,394** b", True),
        ("**An array of another type.** NumPy's", True),
        ("- **Two layouts** in one call", False),
        ("- **A view with gaps** is copied", True),
        ("it is **a view with gaps** here", False),
        ("so **the result is wrong.** Then", True),
        ("**1. Lifetimes** from", True),
        ("Do **Exercise 2.** first", True),
        ("a **swizzle** is", False),
        ("**Swizzle** is", False),
        ("a **warp scheduler** is", False),
        ("two **warps** of **Warp** 1", True),
        ("to **fuse**, **fused**, **fusing**, **fusions**", True),
        ("**warp 2**", True),
    ],
)
def test_bold_text_is_a_term_or_one_of_the_allowed_kinds(course, text, fine):
    (course / "README.md").write_text(f"some text\n\n{text}\n")
    found = [line for line in glossary.complaints(course) if line.startswith("README.md")]
    assert (found == []) is fine, found


def test_a_new_row_of_a_term_that_has_one_is_left_out(course, capsys):
    glossary.run(check=False, root=course)
    path = course / "GLOSSARY.md"
    once = path.read_text(encoding="utf-8")
    path.write_text(once + ROWS + "| Warp | Other words. |\n", encoding="utf-8")
    capsys.readouterr()
    assert glossary.run(check=False, root=course)
    assert "GLOSSARY.md: Warp has a row already; left out: Other words." in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == once


def test_a_row_that_nothing_introduces_is_told(course):
    path = course / "GLOSSARY.md"
    path.write_text(path.read_text() + "| grid | All blocks. |\n")
    assert glossary.complaints(course) == ["GLOSSARY.md: no text introduces **grid**"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("| Warp | Something else. |", "Warp has two rows"),
        ("| join, fusion | More. |", "join has two rows"),
        ("| wa-rp | x |\n| wa rp | y |", "have the same anchor"),
        ("warp: 32 threads", "no row of a table: warp: 32 threads"),
    ],
)
def test_a_table_that_cannot_be_read(course, row, message, capsys):
    with pytest.raises(ValueError, match=message):
        glossary.parse(ABOVE + ROWS + row + "\n")
    (course / "GLOSSARY.md").write_text(ABOVE + ROWS + row + "\n")
    assert not glossary.run(check=False, root=course)
    assert message in capsys.readouterr().out


def test_in_a_learners_folder_links_lead_to_its_own_copies(course, tmp_path):
    glossary.run(check=False, root=course)
    work = tmp_path / "work"
    copies.update(work, course)
    assert "[01/2](01_x/2_a.ipynb)" in (work / "GLOSSARY.md").read_text(encoding="utf-8")
    assert "(../GLOSSARY.md#fuse)" in sources(work / "01_x/2_a.ipynb")[0]
