"""Grades: the milestones of one engine, or of a class of learners, as a CSV file with one row per engine and milestone.

`python -m common milestone --report FILE.csv --learners FOLDER` writes it. COLUMNS are followed by two columns per
score: the engine's and the reference's total over the cases that the engine passes. Of the scores that are no counts,
`error` is the largest of these cases and `roof` the smallest.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..files import replacing
from ..text import printable
from . import markup, milestones
from .engine import PACKAGE, reference_parts
from .engine_files import FILES

COLUMNS = ("learner", "milestone", "passed", "cases passed", "cases", "reference files", "flaw")
SCORES = tuple(dict.fromkeys(score for columns in milestones.COLUMNS.values() for score in columns))
# of the other scores the sum
_TOTALS: dict[str, Callable[[Iterable[float]], float]] = {"error": max, "own error": max, "roof": min}
_MAX_FLAW = 300  # characters
_LEAST_WORDS = 60  # of a solution: two learners may write a shorter one in the same way


def find_engine(folder: Path) -> Path | None:
    """The engine of one learner: the folder itself, engine/ or work/engine/ in it; None if there is none.

    An engine is a folder that holds at least one of the engine's files.
    """
    places = (folder, folder / PACKAGE, folder / "work" / PACKAGE)
    return next((place for place in places if any((place / file).is_file() for file in FILES)), None)


def find_learners(folders: Sequence[Path]) -> dict[str, Path | None]:
    """{name: engine's folder} of the learners in some folders, in order; None for a learner without an engine.

    A folder with an engine is one learner; else each folder in it is one, hidden ones excepted.
    Raises ValueError, naming the folder, if it is none, if no engine is found, or if two learners have one name.
    """
    found: dict[str, Path | None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder}: expected a folder, got {'a file' if folder.exists() else 'nothing there'}")
        own = find_engine(folder)
        inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        learners = {folder.resolve().name: own} if own else {path.name: find_engine(path) for path in inside}
        if not any(learners.values()):
            raise ValueError(
                f"{folder}: expected an engine, or folders of learners with one, in {PACKAGE}/ or work/{PACKAGE}/; "
                f"{len(inside)} folders were looked into"
            )
        for name, place in learners.items():
            if name in found:
                raise ValueError(f"{folder}: two learners are called {name!r}; give each folder a name of its own")
            found[name] = place
    return found


def write(
    path: Path,
    learners: Mapping[str, Path | None],
    chapters: Sequence[int] = milestones.CHAPTERS,
    say: Callable[[str], Any] = print,
) -> None:
    """Run the milestones of these chapters on every learner's engine and write the rows to a CSV file, in UTF-8.

    path       a new file, or one that is replaced; its name ends in .csv
    learners   as find_learners returns them
    say        called with one line per row

    The file is written when all engines have run, or not at all. An engine that cannot be read or run is a row that
    says so in `flaw`.
    Raises ValueError for another ending, OSError, before an engine is run, if the file cannot be written.
    """
    if path.suffix.lower() != ".csv":
        raise ValueError(f"{path}: expected a name that ends in .csv")
    with replacing(path) as file:
        text = io.StringIO(newline="")
        headings = [*COLUMNS, *(heading for score in SCORES for heading in (score, f"{score}, reference"))]
        table = csv.DictWriter(text, headings, lineterminator="\n")
        table.writeheader()
        for row in rows(learners, chapters):
            table.writerow(row)
            reference = f", with the reference's {row['reference files']}" if row["reference files"] else ""
            flaw = f": {row['flaw']}" if row["flaw"] else ""
            mark = "✓" if row["passed"] == "yes" else "✗"
            done = f"{row['cases passed']} of {row['cases']} cases"
            say(f"{mark} {row['learner']}, milestone {row['milestone']}: {done}{reference}{flaw}")
        file.write(text.getvalue().encode())


def rows(learners: Mapping[str, Path | None], chapters: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The rows of the report, by heading; empty cells are left out."""
    from . import judging

    references: dict[int, dict[str, dict[str, float]]] = {}
    for name, place in learners.items():
        for chapter in chapters:
            row: dict[str, Any] = {"learner": printable(name), "milestone": chapter, "passed": "no", "cases passed": 0}
            row |= {"cases": len(judging.CASES[chapter]), "reference files": "", "flaw": ""}
            if place is None:
                yield row | {"flaw": f"no engine in {PACKAGE}/ or work/{PACKAGE}/"}
                continue
            try:
                result, outcomes = milestones.examine(chapter, place)
            except (OSError, ValueError) as error:  # a file that is no text
                yield row | {"flaw": _line(error)}
                continue
            passed = [outcome.case for outcome in outcomes if outcome.passed]
            if passed and chapter not in references:
                references[chapter] = milestones.reference(chapter)
            scores = {score: _total(score, [result.scores[case] for case in passed]) for score in SCORES}
            scores |= {
                f"{score}, reference": _total(score, [references[chapter][case] for case in passed]) for score in SCORES
            }
            row |= {"passed": "yes" if result.passed else "no", "cases passed": len(passed), "flaw": _line(result.flaw)}
            taken = [file for file in judging.RUN[chapter] if file in result.reference_files or copied(place, file)]
            row["reference files"] = " ".join(taken)
            yield row | {key: total for key, total in scores.items() if total is not None}


def copied(place: Path, file: str) -> bool:
    """Whether a file of the engine in `place` holds the code of one of the reference's solutions word for word.

    Comments and white space do not count. False if there is no such file.
    """
    if not (place / file).is_file():
        return False
    cuda = file.endswith(".cu")
    own = _words((place / file).read_text(encoding="utf-8"), cuda)
    regions = [region for text in reference_parts(file).values() for region in markup.regions(text, cuda)]
    solutions = [_words("\n".join(region.solution), cuda) for region in regions]
    return any(f" {solution} " in f" {own} " for solution in solutions if len(solution.split()) >= _LEAST_WORDS)


def _words(code: str, cuda: bool) -> str:
    """The names, numbers and signs of a program, with one space between any two."""
    without = re.sub(r"//[^\n]*|/\*.*?\*/" if cuda else r"#[^\n]*", " ", code, flags=re.DOTALL)
    return " ".join(re.findall(r"\w+|[^\w\s]", without))


def _line(words: object) -> str:
    return printable(" ".join(str(words).split()), _MAX_FLAW)


def _total(score: str, cases: Sequence[Mapping[str, float]]) -> float | int | None:
    """The total of a score over cases; None if no case has it or if it is not finite."""
    values = [case[score] for case in cases if score in case]
    total = _TOTALS.get(score, sum)(values) if values else math.nan
    if not math.isfinite(total):
        return None
    return int(total) if float(total).is_integer() else float(f"{total:.6g}")
