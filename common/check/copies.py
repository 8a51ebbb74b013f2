"""The learner's copies of the notebooks, in work/.

nbconvert makes a copy of a source notebook: marked regions become one line that says what to write, guesses become
`...`, folded hints become a cell that shows one hint per run, the code of cells that reveal an answer is folded,
outputs are cleared, and relative links are adjusted.
A copy that the learner has edited is never overwritten: if its source has changed, the newer copy is put next to it.

work/.copies.json holds a digest of each copy's cells as generated. A file with another digest was edited.
"""

import ast
import difflib
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbconvert.preprocessors import ClearOutputPreprocessor, Preprocessor
from nbformat import NotebookNode

from ..lab import markup, online, progress, rungs
from .exercises import REPOSITORY, Exercise, find_all

STATE = ".copies.json"
KERNEL = {"display_name": "MobileNetV2 course", "language": "python", "name": "python3"}
LANGUAGE = {  # as the kernel reports it: without it, opening a copy would modify the file
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": platform.python_version(),
}
CHAPTERS = "[0-9][0-9]_*"
EXTRAS = ("student_project",)  # folders of a chapter that its learner edits


def natural(path: Path) -> list[Any]:
    """A key that sorts 2_add before 10_winograd."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(path))]


def sources(root: Path = REPOSITORY) -> list[Path]:
    """The files to copy, relative to the repository: notebooks, READMEs, the glossary, folders that learners edit."""
    found = [*root.glob(f"{CHAPTERS}/*.ipynb"), *root.glob(f"{CHAPTERS}/README.md"), *root.glob("GLOSSARY.md")]
    for extra in EXTRAS:
        found += [path for path in root.glob(f"{CHAPTERS}/{extra}/**/*") if path.is_file()]
    paths = [path.relative_to(root) for path in found]
    return sorted((path for path in paths if "__pycache__" not in path.parts), key=natural)


# ---- From a source to a copy

_REVEAL = re.compile(r"^\s*check\.reveal\(", re.MULTILINE)


class LearnersForm(Preprocessor):
    """nbconvert preprocessor: solutions become stubs, guesses `...`, folded hints a cell that shows the next one.

    A cell that reveals a predicted number has its formula and the likely slips in its code, just below the question:
    JupyterLab opens the copy with this code folded. A cell in which the learner also writes stays open.
    """

    def __init__(self, exercises: dict[str, Exercise], **options: Any):
        super().__init__(enabled=True, **options)
        self.exercises = exercises

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """The learner's form of a cell (nbconvert's hook); a changed code cell lists the names that it defines."""
        tags = cell.metadata.get("tags", [])
        for tag in tags:
            if tag.startswith("hints-"):
                return _hint_cell(cell, tag.removeprefix("hints-")), resources
        if cell.cell_type == "code":
            exercise = next((self.exercises.get(tag[9:]) for tag in tags if tag.startswith("exercise-")), None)
            source = cell.source
            cell.source = stub(source, exercise)
            if cell.source == source and _REVEAL.search(source):
                cell.metadata["jupyter"] = {"source_hidden": True}
            if cell.source != source:
                names = defined(source)
                if names:
                    cell.metadata["course"] = {"defines": names}
        return cell, resources


def stub(source: str, exercise: Exercise | None = None) -> str:
    """The learner's form of a code cell."""
    if exercise is not None and exercise.is_cuda:
        return f"{exercise.magic}\n{exercise.skeleton.rstrip()}"
    if exercise is not None:
        magic = re.match(r"%%exercise .*\n", source)
        return (magic[0] if magic else "") + exercise.skeleton.rstrip()
    if slot := re.match(r"%%rung (\w+)\n", source):
        return f"{slot[0]}{rungs.slot(slot[1]).naive.rstrip()}"
    cuda = markup.is_cuda(source)
    stripped = markup.strip(source, cuda)
    return stripped if cuda or "predict(" not in stripped else without_guesses(stripped)


def without_guesses(source: str) -> str:
    """Python source with the guess of every check.predict call replaced by `...`."""
    lines = source.encode().splitlines(keepends=True)
    places = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "predict"):
            continue
        guess = node.args[1] if len(node.args) > 1 else None
        guess = next((keyword.value for keyword in node.keywords if keyword.arg == "guess"), guess)
        if guess is not None:
            places.append((guess.lineno, guess.col_offset, guess.end_lineno or 0, guess.end_col_offset or 0))
    for first, start, last, end in sorted(places, reverse=True):
        lines[first - 1 : last] = [lines[first - 1][:start] + b"..." + lines[last - 1][end:]]
    return b"".join(lines).decode()


def defined(source: str) -> list[str]:
    """The names that a code cell defines or imports at top level, in order; none for a cell that is not Python."""
    try:
        tree = ast.parse(re.sub(r"^%%exercise .*\n", "", source))
    except SyntaxError:
        return []
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names += [alias.asname or alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.With):
            stored = (
                part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            )
            names += stored
    return list(dict.fromkeys(names))


def _hint_cell(cell: NotebookNode, name: str) -> NotebookNode:
    new = nbformat.v4.new_code_cell(
        f'# check.hint("{name}")\n'
        '# For a hint: delete "# " in the line above and run this cell. Run it again for the next hint.'
    )
    new.metadata["tags"] = [f"hint-{name}"]
    new["id"] = cell.get("id", new["id"])
    return new


class WithoutSetUp(Preprocessor):
    """nbconvert preprocessor that leaves out the cell that sets up Google Colab."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """A notebook without that cell (nbconvert's hook)."""
        nb.cells = [cell for cell in nb.cells if not online.is_set_up(cell)]
        return nb, resources


class Links(Preprocessor):
    """nbconvert preprocessor that adjusts relative links to the copy's folder."""

    def __init__(self, source: Path, target: Path, root: Path, **options: Any):
        super().__init__(enabled=True, **options)
        self.where = source, target, root

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """A cell with its links rewritten (nbconvert's hook)."""
        if cell.cell_type == "markdown":
            cell.source = relink(cell.source, *self.where)
        return cell, resources


_LINK = re.compile(r'(?P<before>\]\(|(?:href|src)=")(?P<target>[^)\s"]+)')


def relink(markdown: str, source: Path, target: Path, root: Path = REPOSITORY, work: Path | None = None) -> str:
    """Rewrite the relative links in the Markdown of the file `source` for its copy `target`.

    Links to files that are copied lead to the copies; others lead to the repository's files. work: the learner's
    folder; by default, the target's place in it is the source's in the repository.
    """
    copied = set(sources(root))
    work = work or target.parents[len(source.parts) - 1]

    def moved(link: re.Match[str]) -> str:
        path, hash_, anchor = link["target"].partition("#")
        if not path or re.match(r"[a-z]+:|/", path):
            return link[0]
        linked = Path(os.path.normpath(root / source.parent / path))
        if not linked.exists():
            return link[0]  # code that looks like a link
        inside = linked.relative_to(root) if linked.is_relative_to(root) else None
        there = work / inside if inside in copied else linked
        return link["before"] + Path(os.path.relpath(there, target.parent)).as_posix() + hash_ + anchor

    return _LINK.sub(moved, markdown)


def make(source: Path, target: Path, root: Path = REPOSITORY) -> str:
    """The text of the copy `target` of the file `source`, a path relative to the repository."""
    path = root / source
    if source.suffix == ".md":
        return relink(path.read_text(encoding="utf-8"), source, target, root)
    if source.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("records", None)  # see common/report/cells.py
    notebook.metadata |= {"kernelspec": dict(KERNEL), "language_info": dict(LANGUAGE)}
    exporter = NotebookExporter()
    exercises = {exercise.name: exercise for exercise in find_all(root)}
    for preprocessor in (
        WithoutSetUp(enabled=True),
        LearnersForm(exercises),
        Links(source, target, root),
        ClearOutputPreprocessor(enabled=True),
    ):
        exporter.register_preprocessor(preprocessor, enabled=True)
    text, _ = exporter.from_notebook_node(notebook)
    return text.rstrip("\n") + "\n"


# ---- The folder


@dataclass(frozen=True)
class Change:
    """What was done with one file: "made", "updated", or "offered": a newer copy put next to an edited one."""

    path: Path  # relative to the learner's folder
    what: str
    detail: str = ""


def digest(text: str, suffix: str) -> str:
    """A digest of what a learner can change: a notebook's cells and whether they have outputs, not its metadata."""
    if suffix == ".ipynb":
        try:
            cells = [
                [cell["cell_type"], "".join(cell["source"]).rstrip(), bool(cell.get("outputs"))]
                for cell in json.loads(text)["cells"]
            ]
        except (ValueError, KeyError, TypeError, RecursionError):
            return "unreadable"
        text = json.dumps(cells)
    return hashlib.sha256(text.encode()).hexdigest()


def _state(work: Path) -> dict[str, dict[str, str]]:
    try:
        state = json.loads((work / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    entries = state.items() if isinstance(state, dict) else ()
    return {name: entry for name, entry in entries if isinstance(entry, dict)}


def update(work: Path, root: Path = REPOSITORY) -> list[Change]:
    """Make missing copies, update unedited ones, and put newer copies next to edited ones.

    Raises ValueError if `work` is neither empty nor a learner's folder, OSError if it cannot be written.
    """
    if work.exists() and not (work / progress.MARKER).exists() and any(work.iterdir()):
        raise ValueError(f"{work}: holds files and is not a learner's folder (it has no {progress.MARKER})")
    work.mkdir(parents=True, exist_ok=True)
    (work / progress.MARKER).touch()
    state, changes = _state(work), []
    for source in sources(root):
        text = make(source, work / source, root)
        change = _renew(work, source, text, state.setdefault(source.as_posix(), {}))
        if change is not None:
            changes.append(change)
        progress.write_text(work / STATE, json.dumps(state, indent=1) + "\n")
    return changes


def _renew(work: Path, source: Path, text: str, entry: dict[str, str]) -> Change | None:
    """Update one copy and its `entry` of the state. None if nothing changed."""
    path, newest = work / source, digest(text, source.suffix)
    if not path.exists():
        progress.write_text(path, text)
        entry["made"] = newest
        entry.pop("offered", None)
        return Change(source, "made")
    now = path.read_text(encoding="utf-8", errors="replace")  # what is no text, somebody has touched
    found = digest(now, source.suffix)
    if found == newest:
        if now != text and entry.get("made") == found:  # only metadata or links differ
            progress.write_text(path, text)
        entry["made"] = newest
        return None
    if found == entry.get("made"):
        progress.write_text(path, text)
        entry["made"] = newest
        return Change(source, "updated", differences(now, text, source.suffix))
    if newest in (entry.get("made"), entry.get("offered")):
        return None
    aside = _free(path, "new")
    progress.write_text(aside, text)
    entry["offered"] = newest
    before = "a newer source; yours is untouched"
    return Change(source, "offered", f"{aside.name}: {before}. {differences(now, text, source.suffix)}".strip())


def _free(path: Path, word: str) -> Path:
    """A free name next to a file: 1_add.new.ipynb, 1_add.new-2.ipynb, …"""
    candidates: Iterator[str] = (f"{path.stem}.{word}{f'-{n}' if n > 1 else ''}{path.suffix}" for n in range(1, 10_000))
    return next(free for name in candidates if not (free := path.with_name(name)).exists())


def differences(old: str, new: str, suffix: str) -> str:
    """Which cells of a newer copy are not in the older one, listed by the headings above them."""
    if suffix != ".ipynb":
        return ""
    try:
        before = ["".join(cell["source"]).rstrip() for cell in json.loads(old)["cells"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "the older file is not a notebook"
    heading, places = "the beginning", []
    for cell in json.loads(new)["cells"]:
        text = "".join(cell["source"]).rstrip()
        found = re.findall(r"^#+ (.*)$", text, re.MULTILINE) if cell["cell_type"] == "markdown" else []
        heading = found[-1] if found else heading
        if text not in before and heading not in places:
            places.append(heading)
    if not places:
        return "cells were removed or moved"
    return "cells changed under: " + ", ".join(f"“{place}”" for place in places)


def find_notebook(name: str, work: Path, root: Path = REPOSITORY) -> Path:
    """Find a notebook by "01_topology/1_rebuild_from_the_table.ipynb", "1_rebuild_from_the_table" or a copy's path.

    Returns its path relative to the repository. Raises LookupError, with similar names, if none or several match.
    """
    known = [path for path in sources(root) if path.suffix == ".ipynb"]
    wanted = Path(name)
    for base in (work, root):
        full = wanted if wanted.is_absolute() else Path.cwd() / wanted
        if full.is_relative_to(base.resolve()) and full.relative_to(base.resolve()) in known:
            return full.relative_to(base.resolve())
    stem = wanted.as_posix().removesuffix(".ipynb")
    found = [path for path in known if stem in (path.stem, path.with_suffix("").as_posix())]
    if len(found) == 1:
        return found[0]
    names = [path.with_suffix("").as_posix() for path in (found or known)]
    near = names if found else difflib.get_close_matches(stem, names + [path.stem for path in known], cutoff=0.4)
    said = "several notebooks are called" if found else "no notebook is called"
    raise LookupError(f"{said} {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))


def reset(notebook: Path, work: Path, root: Path = REPOSITORY) -> Path | None:
    """Make one copy again. The learner's is renamed; returns its new path, or None if there was none."""
    path, aside = work / notebook, None
    if path.exists():
        aside = _free(path, "mine")
        shutil.move(path, aside)
    text = make(notebook, path, root)
    progress.write_text(path, text)
    state = _state(work)
    state[notebook.as_posix()] = {"made": digest(text, ".ipynb")}
    progress.write_text(work / STATE, json.dumps(state, indent=1) + "\n")
    return aside


# ---- The cell that defines a name


def who_defines(name: str, folder: Path | None = None, ran: Collection[str] = ()) -> str | None:
    """The cell that defines `name`, as "the cell `def f(x):` under “Widths” in 1_rebuild"; None if there is none.

    The cell is quoted by the line that defines the name, else by its first definition, else by its first line.
    ran: the cells that this session has run. The notebook that holds most of them is the one in which the name is
    missing: it is asked first, for all its cells. In other notebooks only the cells in which a learner writes count.
    """
    found = {}
    for path in sorted((folder or Path.cwd()).glob("*.ipynb"), key=natural):
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            found[path] = sum("".join(cell["source"]).strip() in ran for cell in cells), cells
        except (OSError, ValueError, KeyError, TypeError):
            continue
    own = max(found, key=lambda path: found[path][0], default=None)
    if own and not found[own][0]:
        own = None
    for path in sorted(found, key=lambda path: path != own):
        heading, (_, cells) = path.stem, found[path]
        for cell in cells:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                heading = (re.findall(r"^#+ (.*)$", text, re.MULTILINE) or [heading])[-1]
            elif name in cell["metadata"].get("course", {}).get("defines", defined(text) if path == own else []):
                return f"the cell `{_defining_line(text, name)}` under “{heading}” in {path.stem}"
    return None


def _defining_line(text: str, name: str) -> str:
    """The line by which to quote a cell that defines `name`."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and line[0] not in "%#"]
    own = [line for line in lines if re.match(rf"(def|class) {re.escape(name)}\b", line)]
    definitions = [line for line in text.splitlines() if line.startswith(("def ", "class "))]
    return next(iter([*own, *definitions, *lines]), "")
