"""Copies, executed: as made nothing fails but what is not started yet; filled, they give their sources' outputs."""

import os
import re
import shutil

import nbformat
import pytest
from nbclient import NotebookClient
from tiers import long

from common.check import copies
from common.check.exercises import REPOSITORY
from common.lab import engine, markup, online
from common.lab.engine_files import FILES

SOURCES = [path for path in copies.sources() if path.suffix == ".ipynb"]
SAID = ("not started yet", "do that first", "use_reference(")
# What may differ: the bytes of pictures, how many cases a check drew, and what is said of an engine that does not begin
# as the reference, as a source's does
VARIES = re.compile(
    r"data:image/png;base64,[A-Za-z0-9+/=]+| \(\d+ checks?\)|"
    rf" \((?:still to come|still the reference's): [^)]*\)|With the reference's .*\n|{engine.UNCHECKED}\n"
)


def tags(cell):
    return cell.metadata.get("tags", [])


def own_stubs(path):
    """Whether cells of a notebook that are no exercises are the learner's to write."""
    return any(
        cell.cell_type == "code"
        and not any(tag.startswith("exercise-") for tag in tags(cell))
        and ("check.predict(" in cell.source or markup.regions(cell.source, markup.is_cuda(cell.source)))
        for cell in nbformat.read(REPOSITORY / path, as_version=4).cells
    )


def some(chosen):
    """All notebooks; those that are not chosen are left to `make test-all`."""
    ids = [f"{path.parent.name}/{path.stem}" for path in SOURCES]
    marks = [() if chosen(path) else long for path in SOURCES]
    return [pytest.param(path, id=name, marks=mark) for path, name, mark in zip(SOURCES, ids, marks, strict=True)]


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """All copies, as they are made."""
    folder = tmp_path_factory.mktemp("copied") / "work"
    copies.update(folder)
    return folder


@pytest.fixture
def work(copied, tmp_path):
    return shutil.copytree(copied, tmp_path / "work")


def written_before(source):
    """The files of the engine that earlier notebooks have begun, among those that have a reference yet."""
    before = [name for name, file in FILES.items() if copies.natural(file.notebook) < copies.natural(source.as_posix())]
    return [name for name in before if engine.reference_parts(name)]


def run(notebook, folder):
    """Executes a notebook in a learner's folder, to its end, whatever its cells raise."""
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", allow_errors=True, resources=resources)
    return client.execute(env={**os.environ, "PYTHONPATH": str(REPOSITORY)})


def errors(cell):
    """The texts of the errors that a cell shows, without their colours."""
    texts = ["\n".join(output.traceback) for output in cell.get("outputs", []) if output.output_type == "error"]
    return [re.sub(r"\x1b\[[0-9;]*m", "", text) for text in texts]


def shown(cell):
    """What a cell shows as text, one string: streams that were written in pieces are one."""
    parts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        parts.append(output.get("text") or data.get("text/html") or data.get("text/plain") or output.get("evalue", ""))
    return VARIES.sub("", "".join(parts))


def originals(source):
    """The cells of a source that a copy has, too: all but Colab's set-up."""
    cells = nbformat.read(REPOSITORY / source, as_version=4).cells
    return [cell for cell in cells if online.TAG not in tags(cell)]


# the others' stubs are exercises, whose stubs are tested as such, but for two that are left to `make test-all`
@pytest.mark.parametrize("source", some(lambda path: own_stubs(path) and path.name[:2] in ("0_", "2_")))
def test_as_made_nothing_fails_but_what_is_not_started(source, work):
    made = nbformat.read(work / source, as_version=4)
    failed = []
    for cell, original in zip(run(made, (work / source).parent).cells, originals(source), strict=True):
        if "raises-exception" not in tags(original):
            failed += [text for text in errors(cell) if not any(said in text for said in SAID)]
    assert failed == []


# the others' cells are those of their sources, which nbval runs; this one uses a file of the engine and begins another
@pytest.mark.parametrize("source", some(lambda path: path.as_posix() == FILES["weights.py"].notebook))
def test_filled_they_give_their_sources_outputs(source, work):
    filled = nbformat.read(work / source, as_version=4)
    wanted = originals(source)
    for cell, original in zip(filled.cells, wanted, strict=True):
        if original.cell_type == "code":
            cell.source = original.source
    (work / engine.PACKAGE).mkdir(exist_ok=True)
    for file in written_before(source):  # a learner who comes here has written them
        path = work / engine.PACKAGE / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(engine.reference_text(file), encoding="utf-8")
    different = []
    for cell, original in zip(run(filled, (work / source).parent).cells, wanted, strict=True):
        compared = original.cell_type == "code" and "nbval-ignore-output" not in tags(original)
        if compared and shown(cell) != shown(original):
            different.append((original.source, shown(cell), shown(original)))
    assert different == []
