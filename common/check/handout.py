"""A copy of the course for a class, without the hints and the solutions of some exercises.

In the copy, an exercise that is held back has its skeleton in the place of its solution: in the file of solutions/ and
in the source notebook's cell. Its section in hints.md, and the cell below it, say that its teacher holds them back.
The learner's copies that `make lab` makes there are the same as those of the whole course, and every check works.

The exercises of the engine's kernels cannot be held back: milestones compare with the reference's file, and
`use_reference` offers it.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..report import generated
from . import copies, unfold
from .exercises import REPOSITORY, Exercise, find_all

LEFT_OUT = ("tests/", "conftest.py", ".ci/", ".github/")  # tests hold right answers
KEPT = ".csv"  # of the files in tests/: measurements that notebooks link to
TAG = "exercise-"


def chosen(names: Sequence[str], root: Path = REPOSITORY) -> tuple[list[Exercise], list[str]]:
    """The exercises of these names, and the names of those that cannot be held back.

    names   of exercises ("transpose"), chapters ("04_kernels", "04") or notebooks ("5_gemm")
    Raises LookupError for a name that is none of these, ValueError for an exercise of the engine's kernels.
    """
    known = {exercise.name: exercise for exercise in find_all(root)}
    taken: dict[str, Exercise] = {}
    left: list[str] = []
    for name in names:
        if name in known:
            if known[name].engine_file:
                raise ValueError(
                    f"{name} cannot be held back: milestones compare with the reference's {known[name].engine_file}"
                )
            taken[name] = known[name]
            continue
        chapter = [
            one for one in known.values() if name in (one.folder.parents[1].name, one.folder.parents[1].name[:2])
        ]
        for exercise in chapter or _of_notebook(name, known, root):
            if exercise.engine_file:
                left.append(exercise.name)
            else:
                taken[exercise.name] = exercise
    return list(taken.values()), list(dict.fromkeys(left))


def _of_notebook(name: str, known: dict[str, Exercise], root: Path) -> list[Exercise]:
    """The exercises of a notebook. LookupError for an unknown name."""
    try:
        notebook = copies.find_notebook(name, root / "work", root)
    except LookupError as error:
        raise LookupError(f"expected an exercise, a chapter or a notebook, got {name!r}: {error.args[0]}") from None
    cells = json.loads((root / notebook).read_text(encoding="utf-8"))["cells"]
    tags = [tag.removeprefix(TAG) for cell in cells for tag in cell["metadata"].get("tags", []) if tag.startswith(TAG)]
    return [known[tag] for tag in tags if tag in known]


def make(folder: Path, exercises: Sequence[Exercise], root: Path = REPOSITORY) -> int:
    """Write the course without the hints and solutions of these exercises into a new or empty folder.

    Copied are the files that git tracks, as they are now, without the tests' code. Returns how many.
    The folder is complete or not there. Raises ValueError if it is not empty or if git lists no files, OSError if it
    cannot be written.
    """
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(
            f"{folder}: expected a new or empty folder, got {'files in it' if folder.is_dir() else 'a file'}"
        )
    files = _tracked(root)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for file in files:
            (unfinished / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / file, unfinished / file, follow_symlinks=False)
        _hold_back(unfinished, [unfinished / exercise.folder.relative_to(root) for exercise in exercises])
        unfinished.chmod(0o755)
        os.replace(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return len(files)


def _tracked(root: Path) -> list[str]:
    """The files that git tracks and that are there, without those of LEFT_OUT, relative to the repository."""
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout.decode()
    except FileNotFoundError:
        raise ValueError("git is not installed: it lists the files to copy") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace")
        raise ValueError(f"{root}: expected a clone of the course, as git lists the files to copy: {said}") from None
    names = [name for name in listing.split("\0") if name and (name.endswith(KEPT) or not name.startswith(LEFT_OUT))]
    return [name for name in names if (root / name).is_file()]


def _hold_back(root: Path, folders: Sequence[Path]) -> None:
    """Take the hints and solutions of the exercises in these folders out of the course in `root`."""
    held = {folder.name: Exercise(folder) for folder in folders}
    for path in unfold.notebooks(root):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        found = [
            (cell, held[tag.removeprefix(TAG)])
            for cell in notebook["cells"] for tag in cell["metadata"].get("tags", [])
            if tag.startswith(TAG) and tag.removeprefix(TAG) in held
        ]  # fmt: skip
        for cell, exercise in found:
            if names := copies.defined(generated.source(cell)):  # as a learner's copy has it
                cell["metadata"]["course"] = {"defines": names}
            generated.set_source(cell, copies.stub(generated.source(cell), exercise))
            cell |= {"outputs": [], "execution_count": None}
        if found:
            path.write_text(generated.dumped(notebook), encoding="utf-8", newline="\n")
    for exercise in held.values():
        exercise.solution.write_text(exercise.skeleton, encoding="utf-8", newline="\n")
    for file in {exercise.hints_file for exercise in held.values()}:
        file.write_text(unfold.without_hints(file.read_text(encoding="utf-8"), held), encoding="utf-8", newline="\n")
    exercises = {exercise.name: exercise for exercise in find_all(root)}
    for path in unfold.notebooks(root):
        unfold.write(path, exercises)
