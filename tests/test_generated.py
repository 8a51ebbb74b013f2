"""Tables and sentences made from results files are those of the committed files; how they are made, tried out."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import seldom

from common.bench import trace
from common.lab import online, syllabus
from common.report import folded, generated, pictures, results, schema, stages, tables


@pytest.mark.parametrize(
    "path", generated.files(results.course()), ids=lambda path: str(path.relative_to(results.course()))
)
def test_nothing_is_stale(path):
    known = tables.texts() | folded.texts() | schema.texts() | pictures.texts() | stages.texts()
    known |= online.texts() | syllabus.texts()
    assert generated.stale(path, known) == [], "python -m common generate writes it anew"


def test_the_table_of_chapter_04_is_that_of_the_results_file():
    readme = results.course() / "04_kernels" / "README.md"
    assert readme in generated.files(results.course())
    assert generated.between(readme.read_text(encoding="utf-8"), "trace") == [tables.trace(results.load(tables.CARD))]


@pytest.fixture
def content():
    recorded = results.load(tables.CARD)
    return copy.deepcopy(results.Results(recorded.runs, recorded.suite("trace")))


def launches(content):
    return {record["case"]: record for record in content if "measured" in record}


def test_other_numbers_give_another_table(content):
    before = tables.trace(content)
    assert before == tables.trace(results.load(tables.CARD))
    other = copy.deepcopy(content)
    for side in ("predicted", "measured"):
        launches(other)["copy"][side]["global load sectors"] = 4321
    assert "| copy | 4,321 |" in tables.trace(other)


def test_a_difference_without_a_reason_is_refused(content):
    launches(content)["copy"]["measured"]["shared store conflicts"] += 1
    with pytest.raises(ValueError, match="copy: 0 shared store conflicts traced, 1 measured, and no reason is given"):
        tables.trace(content)


def test_card_date_and_profiler_are_those_of_the_run(content):
    (run,) = {record["run"] for record in content}
    content.runs[run].update(card="NVIDIA T4", date="2031-02-03", ncu="Version 2031.9.8.0 (build 1)")
    first = tables.trace(content).splitlines()[0]
    assert first.startswith("NVIDIA T4, 2031-02-03, Nsight Compute (`ncu`) 2031.9.8: in ")


def test_every_reason_is_needed(content):
    different = {(case, count) for case, record in launches(content).items() for count in tables.differences(record)}
    assert different == set(tables.REASONS)


def test_at_least_twelve_launches_and_both_wrong_kernels():
    measured, wrong = tables.traced(results.load(tables.CARD))
    assert len(measured) >= 12
    assert {record["case"] for record in wrong} == {f"wrong: {kind}" for kind in trace.WRONG}
    for record in wrong:
        assert record["trace"] != "nothing" and record["compute-sanitizer"] != "nothing"


@seldom(6)
def test_the_simulator_still_predicts_what_was_confirmed(content):
    assert trace.predict() == {case: record["predicted"] for case, record in launches(content).items()}


def test_no_records_no_table():
    with pytest.raises(ValueError, match="hold no records of the suite trace"):
        tables.traced(results.Results())
    assert tables.trace(results.Results()) == tables.NOT_YET


# ---- Markers, tried out

BLOCK = "a\n<!-- generated: x -->\nold\nlines\n<!-- /generated -->\nb\n"
INLINE = (
    "copies at <!-- generated: y -->4 TB/s<!-- /generated --> here, <!-- generated: y -->4<!-- /generated --> there\n"
)


def test_a_block_and_a_value():
    text = BLOCK + INLINE
    assert generated.between(text, "x") == ["old\nlines"]
    assert generated.between(text, "y") == ["4 TB/s", "4"]
    assert generated.between(text, "z") == []
    assert generated.filled(text, {"x": r"n\1ew"}) == text.replace("old\nlines", r"n\1ew")
    assert generated.filled(text, {"y": "9"}) == text.replace("4 TB/s", "9").replace(">4<", ">9<")
    assert generated.filled(text, {}) == text


@given(st.text(), st.text(alphabet=st.characters(exclude_characters="<\n"), min_size=1))
@seldom(6)
def test_what_is_filled_in_is_found_again(around, value):
    around = around.replace("<!--", "")
    for text in (around + BLOCK + around, around + INLINE + around):
        once = generated.filled(text, {"x": value, "y": value})
        assert set(generated.between(once, "x") + generated.between(once, "y")) == {value}
        assert generated.filled(once, {"x": value, "y": value}) == once
        assert once.startswith(around) and once.endswith(around)


def test_an_empty_value_can_be_filled_again():
    once = generated.filled(BLOCK, {"x": ""})
    assert generated.between(once, "x") == [""]
    assert generated.filled(once, {"x": "old\nlines"}) == BLOCK


def test_a_block_may_begin_empty():
    assert generated.between("<!-- generated: x -->\n<!-- /generated -->\n", "x") == [""]
    filled = generated.filled("<!-- generated: x -->\n<!-- /generated -->\n", {"x": "a\nb"})
    assert filled == "<!-- generated: x -->\na\nb\n<!-- /generated -->\n"
    assert (
        generated.filled("<!-- generated: y --><!-- /generated -->", {"y": "4"})
        == "<!-- generated: y -->4<!-- /generated -->"
    )


def test_a_table_does_not_fit_into_a_line():
    with pytest.raises(ValueError, match="y has several lines: its markers must stand on lines of their own"):
        generated.filled(INLINE, {"y": "a\nb"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- generated: x -->\nnever closed", "<!-- generated: x --> has no <!-- /generated --> behind it"),
        (
            "<!-- generated: x --><!-- generated: y -->4<!-- /generated -->",
            "x --> has no <!-- /generated --> behind it",
        ),
        (
            "<!-- /generated --> <!-- generated: y -->4<!-- /generated -->",
            "before <!-- generated: y --> closes nothing",
        ),
        (BLOCK + "<!-- /generated -->", "the last <!-- /generated --> closes nothing"),
    ],
)
def test_markers_without_their_counterpart(text, message):
    with pytest.raises(ValueError, match=message):
        list(generated.parts(text))


def notebook(*sources):
    cells = [{"cell_type": "markdown", "metadata": {}, "source": source} for source in sources]
    code = {"cell_type": "code", "execution_count": 1, "metadata": {"tags": ["é"]}, "outputs": [], "source": [INLINE]}
    made = {"cells": [*cells, code], "metadata": {"x": 1.5e-7}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


KNOWN = {"x": lambda: "| µ |\n|---|", "y": lambda: "4.3 TB/s"}


@pytest.fixture
def folder(tmp_path):
    """A repository: markers in a README, in a notebook, in files that are not looked at, and files without any."""
    for name, text in {
        "README.md": BLOCK + INLINE,
        "01_x/README.md": "nothing\n",
        "01_x/RESULTS.md": INLINE,
        "01_x/1.ipynb": notebook(BLOCK.splitlines(keepends=True), "one string " + INLINE),
        "01_x/notes.md": BLOCK,
        "docs/a.md": BLOCK,
        ".venv/README.md": BLOCK,
        "env/README.md": BLOCK,
        "env/pyvenv.cfg": "",
        "01_x/.ipynb_checkpoints/1.ipynb": notebook(BLOCK),
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_readmes_and_notebooks_with_markers_are_found(folder):
    assert [str(path.relative_to(folder)) for path in generated.files(folder)] == [
        "01_x/1.ipynb",
        "01_x/RESULTS.md",
        "README.md",
        "docs/a.md",
    ]


def test_stale_then_written_then_not(folder, capsys):
    files = generated.files(folder)
    assert [generated.stale(path, KNOWN) for path in files] == [["x", "y"], ["y"], ["x", "y"], ["x"]]
    before = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}
    assert not generated.run(check=True, root=folder, known=KNOWN)
    assert capsys.readouterr().out.splitlines()[0] == "01_x/1.ipynb: x is stale: python -m common generate"
    assert before == {path: path.read_text(encoding="utf-8") for path in before}

    assert generated.run(check=False, root=folder, known=KNOWN)
    written = "01_x/1.ipynb", "01_x/RESULTS.md", "README.md", "docs/a.md"
    assert capsys.readouterr().out.splitlines() == [f"{name}: written" for name in written]
    assert generated.run(check=True, root=folder, known=KNOWN) and generated.run(check=False, root=folder, known=KNOWN)
    assert capsys.readouterr().out == ""
    changed = [path for path in before if path.read_text(encoding="utf-8") != before[path]]
    assert sorted(changed) == files


def test_a_notebook_is_the_same_but_for_its_texts(folder):
    path = folder / "01_x" / "1.ipynb"
    before = path.read_text(encoding="utf-8")
    assert generated.write(path, KNOWN) and not generated.write(path, KNOWN)
    after = path.read_text(encoding="utf-8")
    cells = json.loads(after)["cells"]
    assert cells[0]["source"] == [
        "a\n",
        "<!-- generated: x -->\n",
        "| µ |\n",
        "|---|\n",
        "<!-- /generated -->\n",
        "b\n",
    ]
    assert cells[1]["source"] == "one string " + INLINE.replace("4 TB/s", "4.3 TB/s").replace(">4<", ">4.3 TB/s<")
    assert cells[2]["source"] == [INLINE]  # code is left alone
    old, new = before.splitlines(), after.splitlines()
    assert len(new) == len(old) and sum(a != b for a, b in zip(old, new, strict=True)) == 3


def test_the_notebooks_of_the_course_would_be_written_back_as_they_are():
    paths = sorted(results.course().glob("[0-9]*_*/*.ipynb"))
    assert {path.parent.name[:2] for path in paths} == {"01", "02", "03", "04", "05", "06"}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert generated.dumped(json.loads(text)) == text, path


def test_a_notebook_that_another_program_wrote_is_refused(folder, capsys):
    path = folder / "01_x" / "1.ipynb"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=2), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"1\.ipynb is not written as Jupyter writes notebooks: open and save it there"
    ):
        generated.write(path, KNOWN)
    assert not generated.run(check=False, root=folder, known=KNOWN)
    assert "01_x/1.ipynb: 1.ipynb is not written as Jupyter" in capsys.readouterr().out


def test_a_name_that_nobody_knows(folder, capsys):
    assert generated.stale(folder / "README.md", {"x": lambda: "old\nlines"}) == ["y"]
    assert not generated.run(check=False, root=folder, known={"x": KNOWN["x"]})
    assert "README.md: y is unknown" in capsys.readouterr().out.splitlines()


def test_every_occurrence_counts(folder):
    path = folder / "README.md"
    path.write_text(INLINE)
    assert generated.stale(path, {"y": lambda: "4 TB/s"}) == ["y"]  # the second is "4"
