"""Cells that show records are found, whatever way the records take, and executed anew; others keep what they show."""

import json
import re

import pytest

from common.report import cells, generated, plots, results


def notebook(*sources, tags=()):
    made = [
        {"cell_type": "code", "execution_count": i, "metadata": {"tags": list(tags)} if i == len(sources) else {},
         "outputs": [], "source": source.splitlines(keepends=True), "id": f"cell-{i}"}
        for i, source in enumerate(sources, 1)
    ]  # fmt: skip
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


IMPORT = "from common.report import ladders, plots, results, tables"


@pytest.mark.parametrize(
    ("sources", "reading"),
    [
        ([IMPORT], []),
        ([IMPORT, "x = 1"], []),
        ([IMPORT, "found = results.load('NVIDIA H200')", "print(found)", "print(x)"], [1, 2]),
        ([IMPORT, "for r in results.load('x'):\n    us = r['us']", "print(us)"], [1, 2]),
        ([IMPORT, "def best():\n    return ladders.us('case', 'rung', 1)", "print(best())"], [1, 2]),
        ([IMPORT, "a = results.load('x')", "b = [len(a) for _ in range(2)]", "print(b)", "print(_)"], [1, 2, 3]),
        # names that are something else by then, inside and outside
        ([IMPORT, "r = results.load('x')", "r = 3", "print(r)"], [1]),
        ([IMPORT, "r = results.load('x')", "print([r for r in range(3)])", "for r in 'ab':\n    print(r)"], [1]),
        ([IMPORT, "r = results.load('x')", "def f(r):\n    return r", "if f:\n    r = 1\n    print(r)"], [1]),
        # formats and names are no records
        ([IMPORT, "print(tables.us(3.0), tables.CARD)", "ladders.excerpt('a', 'b', 'c')"], []),
        (["from common.report.race import draw", "draw(1)"], [1]),
        (["from common.optimize import tiles", "print(tiles.SHIPPED)"], [1]),
        (["from common.draw import card", "card.MEMORY_LATENCY_NS", "h200 = card.measured()", "print(h200)"], [2, 3]),
        (["%%rung add\nnot python", "!ls", "(", IMPORT, "ladders.table('x')"], [4]),
    ],
)
def test_cells_that_read_records(sources, reading):
    assert list(cells.of_records(notebook(*sources))) == reading


def test_what_loads_records_outside_of_the_reports_is_known():
    """Whoever adds a module that loads records, and that notebooks may use, names it in cells.py."""
    root = results.course() / "common"
    found = {
        path.relative_to(root).as_posix() for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in ("report", "bench", "commands")
        and re.search(r"results\.load\(|Peaks\.recorded\(", path.read_text(encoding="utf-8"))
    }  # fmt: skip
    known = {"draw/card.py", "draw/multiprocessor.py", "lab/oracle.py", "lab/layouts.py"}
    no_cell = {"lab/kernel_judging.py", "measure/roofline.py"}  # prints of a milestone on a GPU; a docstring
    assert found == known | no_cell


def test_what_nothing_compares_is_found():
    given = [IMPORT, "print(results.load('x'))"]
    assert cells.uncompared(notebook(*given)) == {}
    assert cells.uncompared(notebook(*given, tags=["nbval-ignore-output"])) == {1: {"results"}}
    assert cells.uncompared(notebook(IMPORT, "print(1)", tags=["nbval-ignore-output"])) == {}


@pytest.mark.parametrize(
    ("call", "fixed"),
    [
        ("plots.show(figure, 'a line')", [1]),
        ("plots.show(figure, f'a line up to {found}')", []),
        ("plots.show(figure, 'a line', found)", []),
        ("plots.show(figure, 'a line', records=found)", []),
    ],
)
def test_a_fixed_text_beside_a_picture_of_records_is_found(call, fixed):
    assert cells.constant_alts(notebook(IMPORT, f"found = results.load('x')\n{call}")) == fixed


def test_a_picture_names_its_records(monkeypatch):
    import IPython.display
    from matplotlib.figure import Figure

    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: shown.append(data["text/html"]))
    for records in ((), [{"us": 1.0}], [{"us": 1.0}], [{"us": 2.0}]):
        plots.show(Figure(), "nothing", records)
    assert "data-records" not in shown[0]
    (one, again, other) = (html.partition("data-records=")[2][:20] for html in shown[1:])
    assert one == again != other


def test_outputs_are_refreshed_where_records_changed_and_only_there(tmp_path):
    path = tmp_path / "1_a.ipynb"
    made = notebook(
        "from pathlib import Path\nfrom common.report import results",
        "shown = Path('record').read_text(), results.SUITES is None\nprint(shown[0])",
        "import random\nprint(random.random())",
        "print(shown[0] * 2)",
    )
    made["cells"][2]["metadata"]["tags"] = ["nbval-ignore-output"]
    made["cells"][2]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": ["0.25\n"]}]
    path.write_text(generated.dumped(made))
    (tmp_path / "record").write_text("12 µs")
    assert cells.refresh(path, check=True).changed == [1, 3] and path.read_text() == generated.dumped(made)
    assert str(cells.refresh(path)) == "1_a.ipynb: cells 1, 3 show something else now"
    (now,) = [json.loads(path.read_text())]
    texts = ["".join(output["text"]) for cell in now["cells"] for output in cell["outputs"]]
    assert texts == ["12 µs\n", "0.25\n", "12 µs12 µs\n"]
    assert [cell["execution_count"] for cell in now["cells"]] == [1, 2, 3, 4]
    before = path.read_text()
    assert str(cells.refresh(path)) == "1_a.ipynb: fresh" and path.read_text() == before
    (tmp_path / "record").write_text("9 µs")
    assert not cells.run(tmp_path, check=True, only=[path]) and path.read_text() == before
    (tmp_path / "record").unlink()
    done = cells.refresh(path)
    assert "No such file" in done.error and path.read_text() == before
    assert not cells.run(tmp_path, only=[path])


def test_every_notebook_with_records_is_refreshed_by_the_command():
    names = {path.name for path in cells.notebooks(results.course())}
    assert {"9_the_race.ipynb", "5_gemm.ipynb", "4_precision.ipynb", "2_time_it_fairly.ipynb"} <= names
    assert "2_read_an_onnx_graph.ipynb" not in names


@pytest.mark.parametrize("path", cells.notebooks(results.course()), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_notebook_shows_the_records_that_are_there(path):
    """Not all notebooks are executed in each run of the tests: this one sees new records at once."""
    assert json.loads(path.read_text())["metadata"].get(cells.DIGEST) == cells.digest(results.course()), (
        "made of other records: python -m common generate --all"
    )


def test_other_records_have_another_digest(tmp_path):
    (tmp_path / "06_optimize/results/a").mkdir(parents=True)
    files = [tmp_path / "06_optimize/results/a/b.csv", tmp_path / "06_optimize/results/a/c.csv"]
    found = {cells.digest(tmp_path)}
    for path, text in zip([*files, files[0]], ("1", "1", "2"), strict=True):
        path.write_text(text)
        found.add(cells.digest(tmp_path))
    files[0].write_text("1")
    files[1].rename(files[1].with_name("d.csv"))
    found.add(cells.digest(tmp_path))
    assert len(found) == 5
