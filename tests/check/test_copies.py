"""Learners' copies: what becomes of a source, and that nothing a learner typed is ever lost."""

import io
import json
import os
import re
import shutil

import nbformat
import pytest
import typer
from tiers import seldom

from common.check import copies, start
from common.check.exercises import REPOSITORY, find_all
from common.commands import learning
from common.lab import markup, online, progress

SOURCES = [path for path in copies.sources() if path.suffix == ".ipynb"]
EXERCISES = {exercise.name: exercise for exercise in find_all()}


def exercise_of(cell):
    tags = cell.metadata.get("tags", [])
    return next((EXERCISES[tag[9:]] for tag in tags if tag.startswith("exercise-")), None)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_copy_filled_with_its_solutions_is_its_source(source, tmp_path):
    """Cell by cell the same text in the same order, so that it has the outputs that nbval finds in the source."""
    wanted = nbformat.read(REPOSITORY / source, as_version=4)
    wanted.cells = [cell for cell in wanted.cells if not online.is_set_up(cell)]
    copy = nbformat.reads(copies.make(source, tmp_path / source), as_version=4)
    nbformat.validate(copy)
    assert len(copy.cells) == len(wanted.cells)
    for cell, original in zip(copy.cells, wanted.cells, strict=True):
        assert not cell.get("outputs")
        if original.cell_type == "code":
            cuda, exercise = markup.is_cuda(original.source), exercise_of(original)
            stub = copies.stub(original.source, exercise)
            assert cell.source == stub
            if stub.startswith("%%rung "):  # the learner begins with the naive kernel, the source has a variation
                assert stub.splitlines()[0] == original.source.splitlines()[0] and stub != original.source
                continue
            if stub != original.source:
                assert exercise or markup.is_stub(stub) or "predict(" in stub
            if exercise is None and "predict(" not in stub:
                assert markup.fill(cell.source, original.source, cuda) == original.source
        assert "BEGIN SOLUTION" not in cell.source and "END SOLUTION" not in cell.source


CHAPTER = "01_toys"
NOTEBOOK = f"{CHAPTER}/1_toys.ipynb"


def notebook(*sources):
    cells = [
        nbformat.v4.new_markdown_cell(text[3:]) if text.startswith("md ") else nbformat.v4.new_code_cell(text)
        for text in sources
    ]
    for cell in cells:
        cell.pop("id", None)
    return nbformat.v4.new_notebook(cells=cells, nbformat_minor=4)


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "course"
    (root / CHAPTER / "exercises").mkdir(parents=True)
    (root / CHAPTER / "README.md").write_text("# 01 · Toys\n\n[one](1_toys.ipynb), [a file](../common/a.py)\n")
    for name in ("common/a.py", "01_toys/s.svg"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    (root / "docs").mkdir()
    (root / "docs" / "course.md").write_text("## All\n\n[chapter 01](../01_toys/README.md)\n\n![s](../01_toys/s.svg)\n")
    save(
        root,
        "md # Toys",
        "x = 1",
        "# BEGIN SOLUTION\n# write: y\ny = 2\n# END SOLUTION",
        'check.predict("y", 3, unit="s")',
    )
    return root


def save(root, *sources):
    nbformat.write(notebook(*sources), root / NOTEBOOK)


def cells(path):
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]]


def test_made_once(repository, tmp_path):
    work = tmp_path / "work"
    made = copies.update(work, repository)
    assert [(change.path.as_posix(), change.what) for change in made] == [
        (NOTEBOOK, "made"),
        ("01_toys/README.md", "made"),
    ]
    assert cells(work / NOTEBOOK)[1:] == [
        "x = 1",
        'raise NotImplementedError("write: y")',
        'check.predict("y", ..., unit="s")',
    ]
    assert json.loads((work / NOTEBOOK).read_text())["metadata"]["kernelspec"] == copies.KERNEL
    assert copies.update(work, repository) == []


def test_the_code_of_an_answer_is_folded(repository, tmp_path):
    save(
        repository,
        'check.predict("y", 3)',
        'check.reveal("y", 4, slips={3: "one less"})',
        '# BEGIN SOLUTION\n# write: y\ny = 4\n# END SOLUTION\ncheck.reveal("y", y)',
        "print('check.reveal(')",
    )
    copies.update(tmp_path / "work", repository)
    made = json.loads((tmp_path / "work" / NOTEBOOK).read_text())["cells"]
    folded = [cell["metadata"].get("jupyter", {}).get("source_hidden", False) for cell in made]
    assert folded == [False, True, False, False]


def test_a_copy_that_is_unfolded_is_not_edited(repository, tmp_path):
    work = tmp_path / "work"
    save(repository, 'check.reveal("y", 4)')
    copies.update(work, repository)
    data = json.loads((work / NOTEBOOK).read_text())
    data["cells"][0]["metadata"]["jupyter"]["source_hidden"] = False
    (work / NOTEBOOK).write_text(json.dumps(data))
    save(repository, 'check.reveal("y", 5)')
    assert [change.what for change in copies.update(work, repository)] == ["updated"]


def edit(work, text="my answer"):
    data = json.loads((work / NOTEBOOK).read_text())
    data["cells"][2]["source"] = [text]
    (work / NOTEBOOK).write_text(json.dumps(data))


def test_a_touched_copy_is_never_overwritten(repository, tmp_path):
    work = tmp_path / "work"
    copies.update(work, repository)
    edit(work)
    assert copies.update(work, repository) == []  # no newer source
    save(repository, "md # Toys", "x = 1", "md ## New part", "z = 3")
    (change,) = copies.update(work, repository)
    assert change.what == "offered" and "1_toys.new.ipynb" in change.detail and "“New part”" in change.detail
    assert cells(work / NOTEBOOK)[2] == "my answer"
    assert cells(work / "01_toys/1_toys.new.ipynb")[-1] == "z = 3"
    assert copies.update(work, repository) == []  # offered once
    (work / "01_toys/1_toys.new.ipynb").write_text("also mine")
    save(repository, "md # Toys", "z = 4")
    (change,) = copies.update(work, repository)
    assert (work / "01_toys/1_toys.new.ipynb").read_text() == "also mine"
    assert cells(work / "01_toys/1_toys.new-2.ipynb")[-1] == "z = 4"


def test_an_untouched_copy_follows_its_source(repository, tmp_path):
    work = tmp_path / "work"
    copies.update(work, repository)
    data = json.loads((work / NOTEBOOK).read_text())
    data["metadata"]["kernelspec"]["display_name"] = "as JupyterLab saves it"
    (work / NOTEBOOK).write_text(json.dumps(data))
    save(repository, "md # Toys", "x = 2")
    (change,) = copies.update(work, repository)
    assert (change.what, change.detail) == ("updated", "cells changed under: “Toys”")
    assert cells(work / NOTEBOOK) == ["# Toys", "x = 2"]


def test_outputs_count_as_touched(repository, tmp_path):
    work = tmp_path / "work"
    copies.update(work, repository)
    data = json.loads((work / NOTEBOOK).read_text())
    data["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "1"}]
    (work / NOTEBOOK).write_text(json.dumps(data))
    save(repository, "md # Toys", "x = 2")
    assert [change.what for change in copies.update(work, repository)] == ["offered"]


@pytest.mark.parametrize("state", ["damaged", 100_000 * "[", "[]", f'{{"{NOTEBOOK}": 1}}'], ids=range(4))
def test_a_lost_state_overwrites_nothing(repository, tmp_path, state):
    work = tmp_path / "work"
    copies.update(work, repository)
    edit(work)
    (work / copies.STATE).write_text(state)
    assert [change.what for change in copies.update(work, repository)] == ["offered"]
    assert cells(work / NOTEBOOK)[2] == "my answer"


@pytest.mark.parametrize("broken", [b"{", b"\xff{}", 100_000 * b"["], ids=range(3))
def test_a_removed_copy_is_made_anew_and_a_broken_one_kept(repository, tmp_path, broken):
    work = tmp_path / "work"
    copies.update(work, repository)
    (work / NOTEBOOK).unlink()
    assert [change.what for change in copies.update(work, repository)] == ["made"]
    (work / NOTEBOOK).write_bytes(broken)
    assert [change.what for change in copies.update(work, repository)] == []
    save(repository, "md # Toys", "x = 2")
    assert [change.what for change in copies.update(work, repository)] == ["offered"]
    assert (work / NOTEBOOK).read_bytes() == broken


def test_reset_sets_the_learners_aside(repository, tmp_path):
    work = tmp_path / "work"
    copies.update(work, repository)
    edit(work)
    path = copies.find_notebook("1_toys", work, repository)
    assert copies.reset(path, work, repository).name == "1_toys.mine.ipynb"
    assert cells(work / "01_toys/1_toys.mine.ipynb")[2] == "my answer"
    assert cells(work / NOTEBOOK)[2].startswith("raise NotImplementedError")
    assert copies.reset(path, work, repository).name == "1_toys.mine-2.ipynb"
    assert copies.update(work, repository) == []


@pytest.mark.parametrize("name", ["1_toys", "1_toys.ipynb", "01_toys/1_toys", "01_toys/1_toys.ipynb"])
def test_the_names_of_a_notebook(repository, tmp_path, name):
    assert copies.find_notebook(name, tmp_path / "work", repository).as_posix() == NOTEBOOK


def test_a_misspelt_notebook(repository, tmp_path):
    with pytest.raises(LookupError, match=r"no notebook is called '1_toy'; did you mean 1_toys"):
        copies.find_notebook("1_toy", tmp_path, repository)


def test_a_folder_that_is_not_a_learners(repository, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").touch()
    with pytest.raises(ValueError, match="is not a learner's folder"):
        copies.update(tmp_path / "photos", repository)
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["a.jpg"]


def test_links_lead_where_they_led(repository, tmp_path):
    work = repository / "work"
    copies.update(work, repository)
    text = (work / CHAPTER / "README.md").read_text()
    assert "[one](1_toys.ipynb)" in text and "[a file](../../common/a.py)" in text
    start.write(work, repository)
    page = (work / start.PAGE).read_text()
    assert "[chapter 01](01_toys/README.md)" in page and "![s](../01_toys/s.svg)" in page
    assert "Begin with **[Toys](01_toys/1_toys.ipynb)**" in page
    assert "## All" in page  # how the course works


@seldom(4)
def test_every_link_of_every_copy_leads_to_a_file(tmp_path):
    work = tmp_path / "work"
    copies.update(work)
    start.write(work)
    missing = []
    for path in [*work.glob("*/*.md"), *work.glob("*.md"), *work.glob("*/*.ipynb")]:
        texts = cells(path) if path.suffix == ".ipynb" else [path.read_text()]
        for link in (link for text in texts for link in copies._LINK.finditer(text)):
            target = link["target"].partition("#")[0]
            original = REPOSITORY / path.relative_to(work).parent / target
            if target and ":" not in target and not (path.parent / target).exists() and original.exists():
                missing.append(f"{path.relative_to(work)}: {target}")
    assert missing == []


def test_the_start_page_shows_each_picture_once(tmp_path):
    page = start.page(tmp_path / "work")
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", page)
    assert pictures and len(pictures) == len(set(pictures))


def test_a_wrong_answer_to_an_exercise_is_not_revealed_as_the_truth():
    notebook = nbformat.read(REPOSITORY / "01_topology/1_rebuild_from_the_table.ipynb", as_version=4)
    revealing = [cell.source for cell in notebook.cells if "check.reveal(" in cell.source]
    written = r"(?<![.\w])(make_divisible|conv_weights|InvertedResidual|MobileNetV2)\("
    assert revealing and [one for one in revealing if re.search(written, one)] == []


def test_guesses_anywhere_in_a_cell():
    text = 'µ = 1; check.predict("a", [1,\n  2], order=[1, 2])\n'
    text += 'check.predict("b", unit="x", guess=-3)\ncheck.predict("c")\n'
    assert copies.without_guesses(text) == (
        'µ = 1; check.predict("a", ..., order=[1, 2])\ncheck.predict("b", unit="x", guess=...)\ncheck.predict("c")\n'
    )


def test_who_defines_a_name(repository, tmp_path, monkeypatch):
    work = tmp_path / "work"
    copies.update(work, repository)
    assert copies.who_defines("y", work / CHAPTER).endswith("under “Toys” in 1_toys")
    assert copies.who_defines("x", work / CHAPTER) is None
    other = work / CHAPTER / "2_toys.ipynb"
    ours = json.loads((work / CHAPTER / "1_toys.ipynb").read_text())
    ours["cells"].insert(0, nbformat.v4.new_code_cell("only = 2"))
    other.write_text(json.dumps(ours))
    assert copies.who_defines("y", work / CHAPTER).endswith("in 1_toys")
    assert copies.who_defines("y", work / CHAPTER, {"only = 2"}).endswith("in 2_toys")  # the notebook that is run
    assert copies.who_defines("only", work / CHAPTER, {"only = 2"}) == "the cell `only = 2` under “2_toys” in 2_toys"
    assert copies.who_defines("only", work / CHAPTER) is None  # nobody writes there
    text = "import numpy as np\n\n\ndef one():\n    z = 1\n\n\ndef two():\n    pass\n\n\ny = 3\n"
    assert [copies._defining_line(text, name) for name in ("two", "y")] == ["def two():", "def one():"]
    assert copies._defining_line("# a comment\ny = 3\n", "y") == "y = 3"
    assert copies.defined("import os.path\nfrom engine import graph as own\nx = 1\n") == ["os", "own", "x"]


def test_an_appendix_stands_with_the_chapter_after_which_it_is_read():
    stems = {chapter.number: [one.path.stem for one in chapter.notebooks] for chapter in start.chapters()}
    assert stems["04"][-1] == "appendix_engines_and_plans" not in stems["03"]


@seldom(4)
def test_the_table_and_the_page_count_what_was_done(monkeypatch, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / progress.MARKER).touch()
    monkeypatch.chdir(work)
    first = start.chapters()[0].notebooks[0]
    for name in first.exercises:
        progress.record_try(name, True)
    assert start.done([first], progress.load()).passed == len(first.exercises) > 0
    assert f"{len(first.exercises)} of " in start.page(work)
    from rich.console import Console

    console = Console(width=100, record=True, file=io.StringIO())
    console.print(start.table(work=work))
    assert f"{len(first.exercises)} of " in console.export_text()


def test_names_of_predictions_are_unique():
    names = [name for chapter in start.chapters() for notebook in chapter.notebooks for name in notebook.predictions]
    assert len(names) == len(set(names))


@pytest.fixture(autouse=True)
def no_leftovers(tmp_path):
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)


# JupyterLab


def test_root_starts_it_in_a_container_or_is_told_what_to_type(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert learning.as_root(allowed=True) == []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(learning, "CONTAINERS", (tmp_path / ".dockerenv",))
    assert learning.as_root(allowed=True) == ["--allow-root"]
    with pytest.raises(typer.Exit):
        learning.as_root(allowed=False)
    assert capsys.readouterr().err.endswith("-m common lab --allow-root\n")
    (tmp_path / ".dockerenv").touch()
    assert learning.as_root(allowed=False) == ["--allow-root"]
