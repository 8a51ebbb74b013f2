"""The course's start page, work/START.md, and the table of a learner's progress."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import nbformat

from ..lab import calibration, links, predict, progress
from . import copies
from .exercises import REPOSITORY

PAGE = "START.md"
FIRST_STEPS = (
    " If you are here for CUDA alone, begin with [A GPU in an hour](03_cudnn_baseline/0_a_gpu_in_an_hour.ipynb): 80"
    " minutes with its puzzles."
)
OFF_BY = (
    "*Off by*: the larger of guess and right number, divided by the smaller; the median over your guesses. "
    "A *milestone* runs the engine that you have written on networks that it has never seen. A dash: there is "
    "nothing to count yet, or, under predictions, nothing to predict."
)
HOW = Path("docs/course.md")  # what the page ends with
_PREDICT = re.compile(r"^\s*check\.predict\(\s*\"([\w-]+)\"", re.MULTILINE)


@dataclass(frozen=True)
class Notebook:
    """A notebook and the names of its exercises and predictions."""

    path: Path  # relative to the repository
    title: str
    exercises: tuple[str, ...]
    predictions: tuple[str, ...]


@dataclass
class Chapter:
    """A chapter and its notebooks."""

    number: str  # "01"
    title: str
    notebooks: list[Notebook] = field(default_factory=list)


def chapters(root: Path = REPOSITORY) -> list[Chapter]:
    """The chapters with their notebooks, in the order in which they are read."""
    found: dict[str, Chapter] = {}
    for path in sorted((path for path in copies.sources(root) if path.suffix == ".ipynb"), key=links.place):
        folder = links.read_with(path)
        if folder not in found:
            readme = root / folder / "README.md"
            heading = readme.read_text(encoding="utf-8").split("\n", 1)[0] if readme.exists() else f"# {folder}"
            found[folder] = Chapter(folder[:2], heading.removeprefix("# ").partition(":")[0])
        found[folder].notebooks.append(_notebook(path, root))
    return list(found.values())


def _notebook(path: Path, root: Path) -> Notebook:
    cells = nbformat.read(root / path, as_version=4).cells
    title = next((cell.source.split("\n", 1)[0] for cell in cells if cell.cell_type == "markdown"), path.stem)
    tags = [tag for cell in cells for tag in cell.metadata.get("tags", [])]
    exercises = tuple(tag.removeprefix("exercise-") for tag in tags if tag.startswith("exercise-"))
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    return Notebook(path, title.lstrip("# ").partition(":")[0], exercises, tuple(_PREDICT.findall(code)))


@dataclass(frozen=True)
class Done:
    """Progress in one notebook or chapter, as counts."""

    passed: int
    exercises: int
    hints: int
    guessed: int
    predictions: int
    factor: float | None  # median factor by which guesses were too high or too low, ≥ 1.0

    @property
    def everything(self) -> bool:
        """Whether all exercises are passed and all predictions made."""
        return (self.passed, self.guessed) == (self.exercises, self.predictions)


def done(notebooks: list[Notebook], data: dict[str, Any]) -> Done:
    """The progress in some notebooks. data: as progress.load() returns it."""
    exercises = [name for notebook in notebooks for name in notebook.exercises]
    predictions = [name for notebook in notebooks for name in notebook.predictions]
    entries = [data["exercises"].get(name, {}) for name in exercises]
    guesses = [data["predictions"][name] for name in predictions if name in data["predictions"]]
    off = [times for guess in guesses if (times := predict.how_far_off(guess)) is not None]
    return Done(
        passed=sum(bool(entry.get("passed")) for entry in entries),
        exercises=len(exercises),
        hints=sum(entry.get("hints", 0) for entry in entries),
        guessed=len(guesses),
        predictions=len(predictions),
        factor=median(off) if off else None,
    )


def milestone(number: str, data: dict[str, Any]) -> str:
    """The state of a chapter's milestone: "passed", "passed, with the reference's graph.py", "not yet", "–"."""
    entry = data["milestones"].get(str(int(number)))
    if entry is None:
        return "–"
    if not entry.get("passed"):
        return "not yet"
    taken = entry.get("reference_files") or []
    return "passed" + (f", with the reference's {', '.join(taken)}" if taken else "")


# ---- The page


def page(work: Path, root: Path = REPOSITORY) -> str:
    """The start page as Markdown: the next notebook, the progress by chapter, then how the course works (HOW)."""
    data = progress.load(work)
    all_chapters = chapters(root)
    begun = any(data[section] for section in progress.SECTIONS)
    nextup = _next(all_chapters, data)
    lines = ["# Your course", ""]
    if nextup is None:
        lines += ["Every exercise and every prediction is done.", ""]
    else:
        verb = "Go on with" if begun else "Begin with"
        lines += [f"{verb} **[{nextup.title}]({nextup.path.as_posix()})**." + ("" if begun else FIRST_STEPS), ""]
    lines += [
        "You work in your own copies, in the folder `work/`. Replace each line that contains `write:` with your code, "
        "and run a cell with Shift-Enter. The cell that compares your guess with the right number is folded, as its "
        "code shows the formula: run it, then click on its three dots to read it. What you have written stays: when "
        "the course changes, `make lab` puts the newer notebook beside yours.",
        "",
        "| chapter | notebooks | exercises | hints | predictions | off by | milestone |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for chapter in all_chapters:
        folder = chapter.notebooks[0].path.parts[0]
        links = " · ".join(
            f"[{'✓ ' if begun and done([one], data).everything else ''}{one.title}]({one.path.as_posix()})"
            for one in chapter.notebooks
        )
        count = done(chapter.notebooks, data)
        off = "–" if count.factor is None else f"{count.factor:.2g}×"
        lines.append(
            f"| [{chapter.title}]({folder}/README.md) | {links} | {count.passed} of {count.exercises} | {count.hints} "
            f"| {predicted(count)} | {off} | {milestone(chapter.number, data)} |"
        )
    lines += ["", OFF_BY, ""]
    if (work / calibration.PICTURE).exists():
        lines += [f"![{calibration.alt(data['predictions'])}]({calibration.PICTURE})", ""]
    if (root / HOW).exists():
        how = (root / HOW).read_text(encoding="utf-8")
        lines += ["---", "", copies.relink(how, HOW, work / PAGE, root, work)]
    return "\n".join(lines).rstrip() + "\n"


def predicted(count: Done) -> str:
    """Predictions made, as "3 of 5"; "–" if there are none to make."""
    return f"{count.guessed} of {count.predictions}" if count.predictions else "–"


def _next(all_chapters: list[Chapter], data: dict[str, Any]) -> Notebook | None:
    notebooks = [notebook for chapter in all_chapters for notebook in chapter.notebooks]
    return next((notebook for notebook in notebooks if not done([notebook], data).everything), None)


def write(work: Path, root: Path = REPOSITORY) -> None:
    """Rewrite the start page and the calibration picture."""
    calibration.write(work, progress.load(work)["predictions"])
    progress.write_text(work / PAGE, page(work, root))


def table(root: Path = REPOSITORY, work: Path | None = None, each: bool = False) -> Any:
    """The learner's progress as a rich.table.Table, one row per chapter; with `each`, one per notebook as well."""
    from rich.table import Table

    data = progress.load(work)
    shown = Table(box=None)
    shown.add_column("notebook" if each else "chapter")
    for heading in ("exercises", "hints", "predictions", "off by"):
        shown.add_column(heading, justify="right")
    shown.add_column("milestone")
    for chapter in chapters(root):
        rows = [(one.title, [one]) for one in chapter.notebooks] if each else []
        for name, notebooks in [(chapter.title, chapter.notebooks), *rows]:
            count = done(notebooks, data)
            shown.add_row(
                name if notebooks is chapter.notebooks else f"  {name}",
                f"{count.passed} of {count.exercises}",
                str(count.hints),
                predicted(count),
                "–" if count.factor is None else f"{count.factor:.2g}×",
                milestone(chapter.number, data) if notebooks is chapter.notebooks else "",
            )
    return shown
