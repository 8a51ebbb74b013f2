"""Every notebook is executed, honest about what is compared, and says at its top what it is for."""

import copy
import json
import re
from pathlib import Path

import pytest

from common.lab import online
from common.report import cells as shown
from common.report import tables

REPOSITORY = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted(REPOSITORY.glob("[0-9][0-9]_*/*.ipynb"))

FRONT_MATTER = ["You will be able to", "You need", "Time", "Hardware"]
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/])/(home|root|Users|tmp|work|opt|usr|var|private|mnt)/\w|\b[A-Z]:\\\w")


DATA = re.compile(r"data:image/\w+;base64,[A-Za-z0-9+/=]+")  # a picture within HTML


def text_of(source) -> str:
    return source if isinstance(source, str) else "".join(source)


def tags(cell) -> list[str]:
    return cell["metadata"].get("tags", [])


def output_texts(cell) -> list[str]:
    """All that a cell shows as text: printed lines, values, error messages. Pictures are not text."""
    texts = []
    for output in cell["outputs"]:
        texts.append(text_of(output.get("text", "")))
        texts += output.get("traceback", [])
        for kind, data in output.get("data", {}).items():
            if kind.startswith("text/"):
                texts.append(DATA.sub("", text_of(data)))
    return texts


PICTURE = re.compile(r"<img\b[^>]*>")
ALT = re.compile(r"""\balt=(?:"[^"]*\w[^"]*"|'[^']*\w[^']*')""")


def picture_complaints(cell) -> list[str]:
    """What is wrong with the pictures that a cell shows: JupyterLab gives image/png no text for who cannot see it."""
    data = [output.get("data", {}) for output in cell["outputs"]]
    found = ["shows a picture without a text: plots.show(figure, alt)"] * any(
        kind.startswith("image/") for one in data for kind in one
    )
    images = [image for one in data for image in PICTURE.findall(text_of(one.get("text/html", "")))]
    return found + ["shows an <img> without alt"] * any(not ALT.search(image) for image in images)


def complaints(notebook) -> list[str]:
    """What is wrong with a notebook, a line each."""
    cells = notebook["cells"]
    code = [
        cell
        for cell in cells
        if cell["cell_type"] == "code"
        and text_of(cell["source"]).strip()
        # the cell that sets up Colab is written into executed notebooks, and prints nothing elsewhere
        and not (online.is_set_up(cell) and cell["execution_count"] is None)
    ]
    ignored = [cell for cell in code if "nbval-ignore-output" in tags(cell)]
    found = []

    front = text_of(cells[0]["source"]) if cells and cells[0]["cell_type"] == "markdown" else ""
    found += [f"the first cell does not say {words!r}" for words in FRONT_MATTER if words not in front]
    if notebook["metadata"].get("kernelspec", {}).get("name") != "python3":
        found.append("its kernel is not python3")

    # 1, 2, 3, …: run in a fresh kernel from top to bottom, and not saved half-way
    if [cell["execution_count"] for cell in code] != list(range(1, len(code) + 1)):
        found.append("not executed from top to bottom in a fresh kernel")

    if 2 * len(ignored) > len(code):
        found.append(f"{len(ignored)} of {len(code)} cells are not compared")
    for cell in code:
        source = text_of(cell["source"])
        start = f"cell [{cell['execution_count']}]"
        judged = re.match(r"%%rung |check\.milestone\(", source)  # tests/check and tests/lab hold what they say
        if "nbval-ignore-output" in tags(cell) and not judged and not re.search(r"^\s*assert\b", source, re.M):
            found.append(f"{start} is not compared and asserts nothing")
        if "NBVAL" in source or {"nbval-skip"} & set(tags(cell)):
            found.append(f"{start} is skipped, or marked by a comment instead of a tag")
        errors = any(output["output_type"] == "error" for output in cell["outputs"])
        if errors != ("raises-exception" in tags(cell)):
            found.append(f"{start} raises and is not tagged raises-exception, or the reverse")
        if "print(" in source and re.search(r"^print\(", source, re.MULTILINE) and not cell["outputs"]:
            found.append(f"{start} prints but holds no output")
        found += [f"{start} {what}" for what in picture_complaints(cell)]
        if any(ABSOLUTE_PATH.search(text) for text in [source, *output_texts(cell)]):
            found.append(f"{start} shows an absolute path")
    for i, names in shown.uncompared(notebook).items():
        found.append(f"cell {i} shows records ({', '.join(sorted(names))}), and nothing compares what it shows")
    for i in shown.constant_alts(notebook):
        found.append(f"cell {i} shows a picture of records: plots.show(figure, alt, records), or say them in alt")
    if any("```cpp" in text_of(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"):
        found.append("```cpp is not coloured in JupyterLab, ```c++ is")
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_notebook(path):
    assert complaints(json.loads(path.read_text(encoding="utf-8"))) == []


def test_pages_state_the_minutes_of_their_notebooks():
    """In the last column of a row that begins with a link to one, where that is a number."""
    row = re.compile(r"^\| \[[^\]]*\]\(([^)/]+\.ipynb)\) .*\| (\d+)(?: min)? \|$", re.MULTILINE)
    pages = list(REPOSITORY.glob("[0-9][0-9]_*/README.md"))
    rows = [(page.parent / found[1], int(found[2])) for page in pages for found in row.finditer(page.read_text())]
    assert len(rows) > 20
    for notebook, stated in rows:
        assert stated == tables.minutes(notebook), notebook


def test_every_chapter_has_a_readme():
    chapters = {path.parent for path in NOTEBOOKS}
    assert [chapter.name for chapter in chapters if not (chapter / "README.md").exists()] == []


# The rules, tried out on a notebook that keeps them and on ones that break one each


def cell(source, output=None, count=1, tags=()):
    outputs = [] if output is None else [{"output_type": "stream", "name": "stdout", "text": [output]}]
    return {
        "cell_type": "code",
        "source": source,
        "outputs": outputs,
        "execution_count": count,
        "metadata": {"tags": list(tags)},
    }


GOOD = {
    "metadata": {"kernelspec": {"name": "python3"}},
    "cells": [
        {"cell_type": "markdown", "source": "# T\n" + "\n".join(FRONT_MATTER), "metadata": {}},
        cell("print(1)", "1\n", 1),
        cell("assert speed > 2\nprint(speed)", "3.17\n", 2, ["nbval-ignore-output"]),
    ],
}


def test_a_good_notebook():
    assert complaints(GOOD) == []


def no_front_matter(notebook):
    notebook["cells"].pop(0)


def other_kernel(notebook):
    notebook["metadata"]["kernelspec"]["name"] = "conda-env-mine"


def not_executed(notebook):
    notebook["cells"][2]["execution_count"] = None


def executed_twice(notebook):
    notebook["cells"][2]["execution_count"] = 7


def mostly_ignored(notebook):
    notebook["cells"].append(cell("assert True", None, 3, ["nbval-ignore-output"]))


def nothing_asserted(notebook):
    notebook["cells"][2]["source"] = "print(speed)  # asserted"


def skipped(notebook):
    notebook["cells"][1]["metadata"]["tags"] = ["nbval-skip"]


def marked_by_comment(notebook):
    notebook["cells"][1]["source"] = "# NBVAL_IGNORE_OUTPUT\nprint(1)"


def failed(notebook):
    error = {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}
    notebook["cells"][1]["outputs"].append(error)


def output_cleared(notebook):
    notebook["cells"][1]["outputs"] = []


def path_printed(notebook):
    notebook["cells"][1]["outputs"][0]["text"] = ["saved in /home/me/sheet.png\n"]


def picture_without_text(notebook):
    data = {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}
    notebook["cells"][1]["outputs"].append({"output_type": "display_data", "data": data})


def image_without_alt(notebook):
    data = {"text/html": "<img alt='' src='data:image/png;base64,iVBORw0KGgo='>"}
    notebook["cells"][1]["outputs"].append({"output_type": "display_data", "data": data})


RECORDS = "from common.report import results\nprint(results.load('NVIDIA H200').runs)"


def records_ignored(notebook):
    notebook["cells"][2]["source"] = f"{RECORDS}\nassert True"


def records_in_a_fixed_text(notebook):
    notebook["cells"][1]["source"] = "\n".join(
        [RECORDS.partition("\n")[0], "from common.report import plots", "recorded = results.load('NVIDIA H200')",
         "plots.show(plots.peers(recorded), 'ours is the lowest')"]
    )  # fmt: skip


def uncoloured_cpp(notebook):
    notebook["cells"][0]["source"] += "\n```cpp\nint x;\n```"


BREACHES = {
    no_front_matter: "does not say 'Hardware'",
    other_kernel: "kernel",
    not_executed: "not executed",
    executed_twice: "not executed",
    mostly_ignored: "2 of 3 cells are not compared",
    nothing_asserted: "asserts nothing",
    skipped: "skipped",
    marked_by_comment: "comment",
    failed: "raises",
    output_cleared: "no output",
    path_printed: "absolute path",
    picture_without_text: "shows a picture without a text",
    image_without_alt: "shows an <img> without alt",
    records_ignored: "cell 2 shows records (results), and nothing compares",
    records_in_a_fixed_text: "cell 1 shows a picture of records",
    uncoloured_cpp: "```cpp",
}


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.__name__)
def test_each_rule_sees_its_breach(breach):
    notebook = copy.deepcopy(GOOD)
    breach(notebook)
    assert any(BREACHES[breach] in complaint for complaint in complaints(notebook))


def test_a_picture_with_a_text_and_with_a_path_in_its_bytes():
    notebook = copy.deepcopy(GOOD)
    data = {"text/html": "<img alt=\"a 'line'\" src='data:image/png;base64,iVBO+/tmp/x='>"}
    notebook["cells"][1]["outputs"].append({"output_type": "display_data", "data": data})
    assert complaints(notebook) == []


def test_pictures_are_not_compared_byte_by_byte_and_their_texts_are(pytestconfig):
    plugin = pytest.importorskip("nbval.plugin", reason="nbval is not installed")
    path = pytestconfig.option.nbval_sanitize_with
    assert Path(path).is_absolute()
    (pattern, replacement), (count, without) = plugin.get_sanitize_patterns(Path(path).read_text(encoding="utf-8"))
    shown = "<img alt='{}' src='data:image/png;base64,{}'></div>"
    one, other = (re.sub(pattern, replacement, shown.format("a", data)) for data in ("iVBO+/x=", "iVBORw0KGgo="))
    assert one == other == shown.replace(";base64,{}", "").format("a")
    assert re.sub(pattern, replacement, shown.format("b", "iVBO")) != one
    assert re.sub(count, without, "✓ add: passed (89 checks)") == re.sub(count, without, "✓ add: passed (1 check)")
