"""Milestones: at a chapter's end the learner's engine runs on held-out networks and is compared with the reference.

`run(1)`, or `python -m common milestone 1`, judges the engine on the chapter's cases in a child process and prints a
table with the engine's and the reference's scores per case, and the first flaw in words.
"""

import importlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..text import PACKAGE_NAME
from . import progress
from .engine import PACKAGE, folder, missing, parts, reference_text, whose
from .engine_files import FILES

SECONDS = 30.0  # time limit per case; the reference takes less than one
SECONDS_OF_DIGITS = 600.0  # of a case that reads all held-out digits; the reference takes ten
CHAPTERS = (1, 2, 4, 5, 6)  # those with a milestone
LAST = 6
WIDTH = 95


@dataclass(frozen=True)
class Column:
    """A column of scores: heading, format, factor applied before formatting.

    Scores below `least` are rounding errors that differ between machines and are shown as 0.
    alone: whether the engine's score is shown without the reference's.
    """

    heading: str
    form: str = "{:,.0f}"
    scale: float = 1.0
    least: float = 0.0
    alone: bool = False

    def text(self, score: float | None) -> str:
        """The score as text; "–" if it is None or not finite."""
        if score is not None and 0 <= score < self.least:
            return "0"
        return "–" if score is None or not math.isfinite(score) else self.form.format(score * self.scale)


COLUMNS: dict[int, dict[str, Column]] = {
    1: {
        "layers": Column("layers"),
        "shapes": Column("shapes"),
        "multiply-adds": Column("multiply-adds, M", "{:.2f}", 1e-6),
        "bytes": Column("MB", "{:.2f}", 1e-6),
    },
    2: {
        "arrays": Column("arrays"),
        "layers": Column("layers left"),
        "error": Column("error", "{:.0e}", least=1e-12),
        "bytes kept": Column("kB", "{:.0f}", 1e-3),
    },
    4: {
        "error": Column("error", "{:.0e}"),
        "sectors": Column("sectors"),
        "bank conflicts": Column("conflicts"),
        "findings": Column("findings"),
        "µs": Column("µs", "{:,.2f}"),
        "roof": Column("roof, %", "{:.0f}", 100),
    },
    5: {
        "launches": Column("launches"),
        "bytes moved": Column("kB moved", "{:,.0f}", 1e-3),
        "peak memory": Column("arena, kB", "{:,.0f}", 1e-3),
        "own error": Column("own", "{:.0e}", alone=True),
        "error": Column("so far", "{:.0e}", alone=True),
        "findings": Column("findings", alone=True),
        "digits": Column("digits"),
        "µs": Column("µs"),
    },
}
COLUMNS[6] = {**COLUMNS[5], "roof": COLUMNS[4]["roof"]}


@dataclass(frozen=True)
class Milestone:
    """The result of a milestone, which run() has printed already. True in a condition if every case passed.

    scores            the engine's, by case and column
    reference_files   files of the engine that are not the learner's own
    flaw              the first flaw in words, "" if all cases passed
    """

    chapter: int
    passed: bool
    scores: dict[str, dict[str, float]]
    reference_files: tuple[str, ...] = ()
    flaw: str = ""

    def __bool__(self) -> bool:
        return self.passed

    def _ipython_display_(self) -> None:
        """Nothing: the table is printed already."""


def run(chapter: int | None = None, console: Any = None, engine: Path | None = None) -> Milestone:
    """Run an engine on a chapter's held-out cases, print the scores and record them in the learner's progress.

    chapter   1 to 6; default: the first one not passed
    console   a rich.console.Console; default: plain text on standard output
    engine    the folder of the package `engine`; default: that of the session
    Raises ValueError for a chapter outside 1 to 6.
    """
    place = engine or folder()
    work = place.parent if (place.parent / progress.MARKER).exists() else None
    say = console or _console()
    if chapter is None:
        chapter = following(work)
        if chapter > LAST:
            say.print("✓ all milestones are passed. To run one again, name its chapter.")
            return Milestone(LAST, True, {})
    if chapter not in range(1, LAST + 1):
        raise ValueError(f"chapter: must be 1 to {LAST}, got {chapter!r}")
    if chapter not in CHAPTERS:
        say.print(none_yet(chapter))
        return Milestone(chapter, False, {})

    result, outcomes = examine(chapter, place)
    if not outcomes:
        say.print(f"✗ milestone {chapter}: {result.flaw}", markup=False)
        return result
    taken = [_taken(place, file, chapter) for file in result.reference_files]
    _show(result, outcomes, reference(chapter, place, outcomes), taken, say)
    if work is not None:
        scores = {
            case: {key: score if math.isfinite(score) else None for key, score in own.items()}
            for case, own in result.scores.items()
        }
        entry = {"passed": result.passed, "scores": scores, "reference_files": list(result.reference_files)}
        progress.update(lambda data: data["milestones"].update({str(chapter): entry}), work)
    return result


def examine(chapter: int, place: Path) -> tuple[Milestone, list[Any]]:
    """Run the engine in the folder `place` on a chapter's held-out cases; nothing is printed or recorded.

    Returns the result and the judging.Outcome of each case; no outcomes if a file that the milestone runs is missing.
    Raises OSError or ValueError for a file of the engine that cannot be read as text.
    """
    from . import judging

    files = judging.RUN[chapter]
    absent = [file for file in files if not whose(place / file)]
    if absent:
        return Milestone(chapter, False, {}, (), missing(absent[0])), []
    taken = tuple(file for file in files if whose(place / file) == "reference")
    outcomes = list(_judged(chapter, place))
    failed = [outcome for outcome in outcomes if not outcome.passed]
    flaw = f"{failed[0].case}: {failed[0].flaw}" if failed else ""
    return Milestone(chapter, not failed, {one.case: one.scores for one in outcomes}, taken, flaw), outcomes


def none_yet(chapter: int) -> str:
    """The message for a chapter without a milestone."""
    return f"Chapter {chapter:02} has no milestone: it measures libraries, and writes no file of the engine."


def following(work: Path | None) -> int:
    """The first chapter whose milestone is not passed; the one after the last if all are."""
    passed = progress.load(work)["milestones"] if work is not None else {}
    left = [chapter for chapter in CHAPTERS if not passed.get(str(chapter), {}).get("passed")]
    return left[0] if left else CHAPTERS[-1] + 1


def find_engine(start: Path | None = None) -> Path | None:
    """The folder of the learner's engine for a folder inside work/ or above it; None if there is no work/."""
    start = (start or Path.cwd()).resolve()
    work = progress.work_folder(start)
    if work is None:
        beside = (place / "work" for place in (start, *start.parents))
        work = next((place for place in beside if (place / progress.MARKER).exists()), None)
    return work / PACKAGE if work is not None else None


# ---- The child process


def _judged(chapter: int, place: Path) -> Iterator[Any]:
    """The outcome of each case, from a child process. A case that ends the child or exceeds SECONDS has failed."""
    from . import judging

    cases = judging.cases(chapter, place)
    done = 0
    while done < len(cases):
        failure = ""
        for outcome in _child(chapter, place, done):
            if isinstance(outcome, str):
                failure = outcome
            else:
                done += 1
                yield outcome
        if done < len(cases):
            yield judging.Outcome(cases[done].name, False, {}, failure)
            done += 1


def _child(chapter: int, place: Path, first: int) -> Iterator[Any]:
    """Outcomes of the cases from `first` on as they arrive; then a sentence on how the child ended."""
    from . import judging

    cases = judging.cases(chapter, place)
    with tempfile.TemporaryDirectory() as scratch:
        results, printed = Path(scratch) / "results", Path(scratch) / "printed"
        results.touch()
        repository = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([repository, *filter(None, [os.environ.get("PYTHONPATH")])])
        module = f"{PACKAGE_NAME}.lab.judging"
        with printed.open("w") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", module, str(place), str(chapter), str(first), str(results)],
                stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=place.parent, start_new_session=True,
                env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip
        try:
            seen, since = 0, time.monotonic()
            while True:
                ended = child.poll() is not None
                complete = results.read_text(encoding="utf-8").split("\n")[:-1]
                for line in complete[seen:]:
                    yield judging.Outcome(**json.loads(line))
                    seen, since = seen + 1, time.monotonic()
                now = cases[min(first + seen, len(cases) - 1)]  # the case that runs
                limit = SECONDS_OF_DIGITS if getattr(now, "digits", 0) else SECONDS
                if ended or time.monotonic() - since > limit:
                    break
                time.sleep(0.02)
        finally:
            _kill(child)
        if not ended:
            yield f"not finished after {limit:g} s: does every loop come to its end?"
        else:
            said = printed.read_text(encoding="utf-8", errors="replace").split("\n")
            last = next((line for line in reversed(said) if line.strip()), "")
            yield f"the engine ended the process (status {child.returncode})" + (f": {last}" if last else "")


def _kill(child: subprocess.Popen) -> None:
    """Kill the child and its process group."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (AttributeError, ProcessLookupError):
            child.kill()
        child.wait()


def reference(chapter: int, place: Path | None = None, outcomes: Sequence[Any] = ()) -> dict[str, dict[str, float]]:
    """The scores of the reference engine by case.

    place, outcomes: of an engine that was judged: if it is the reference, it is not judged again.
    """
    from . import judging

    if chapter in (5, 6):  # their files import each other as the package `engine`
        if place is not None and _is_reference(place, judging.RUN[chapter]):
            return {one.case: one.scores for one in outcomes}
        with tempfile.TemporaryDirectory() as temporary:
            more = judging.FUSION if chapter == 5 else ()
            _write_reference(Path(temporary) / PACKAGE, judging.RUN[chapter] + more)
            return {one.case: one.scores for one in _judged(chapter, Path(temporary) / PACKAGE)}
    modules: dict[str, Any]
    if chapter in judging.MODULES:
        names = judging.MODULES[chapter]
        modules = {name: importlib.import_module(f".reference.engine.{name}", __package__) for name in names}
    else:
        modules = {file: reference_text(file) for file in judging.RUN[chapter]}
    return {case.name: judging.judge(chapter, case, modules).scores for case in judging.CASES[chapter]}


def _is_reference(place: Path, files: Sequence[str]) -> bool:
    """Whether files of an engine have the reference's text, whoever saved it."""
    texts = [(parts((place / file).read_text(encoding="utf-8")), parts(reference_text(file))) for file in files]
    return all([one.text for one in own.values()] == [one.text for one in other.values()] for own, other in texts)


def _write_reference(place: Path, files: Sequence[str]) -> None:
    """Write files of the reference engine as a package."""
    for file in ("__init__.py", *files):
        path = place / file
        path.parent.mkdir(parents=True, exist_ok=True)
        text = reference_text(file).replace(" (reference)", "") if file in files else ""  # as a learner's own
        path.write_text(text, encoding="utf-8")


# ---- Output


def _console() -> Any:
    from rich.console import Console

    return Console(
        width=WIDTH, highlight=False, force_jupyter=False, force_terminal=None if sys.stdout.isatty() else False
    )


def _taken(place: Path, file: str, chapter: int) -> str:
    """A file of the engine with the parts that are the reference's, or its name alone if all are.

    Parts that a later chapter writes do not count.
    """
    every = parts((place / file).read_text(encoding="utf-8"))
    these = {name: part for name, part in every.items() if int(FILES[file].notebook_of(name)[:2]) <= chapter}
    names = [name for name, part in these.items() if part.reference]
    return Path(file).name if len(names) == len(these) else f"{Path(file).name} ({', '.join(names)})"


def launched(outcomes: Sequence[Any], reference_files: Sequence[str]) -> str:
    """The kernels that the last network of some outcomes launches, and whose they are, in words; "" for no launches."""
    kernels: dict[str, int] = next((one.kernels for one in reversed(outcomes) if one.kernels), {})
    if not kernels:
        return ""
    counts = ", ".join(f"{name} {times}" for name, times in sorted(kernels.items(), key=lambda one: -one[1]))
    theirs = [name for name in kernels if f"kernels/{name}.cu" in reference_files]
    others = "all of them" if not theirs else "the others"
    parts = [f"the course's: {', '.join(theirs)}"] * bool(theirs)
    parts += [f"{others} are yours"] * (len(theirs) < len(kernels))
    return f"One inference launches {counts}; {'; '.join(parts)}."


def _show(
    result: Milestone, outcomes: list[Any], reference: dict[str, dict[str, float]], taken: list[str], say: Any
) -> None:
    from rich.table import Table

    table = Table(
        title=f"milestone {result.chapter}: yours / reference", title_justify="left", box=None, pad_edge=False
    )
    table.add_column("")
    table.add_column("case", no_wrap=True)
    scored = {key for scores in (*reference.values(), *(one.scores for one in outcomes)) for key in scores}
    columns = {key: column for key, column in COLUMNS[result.chapter].items() if key in scored}  # µs on a GPU alone
    for column in columns.values():
        table.add_column(column.heading, justify="right", no_wrap=True)
    for one in outcomes:
        scores = [
            column.text(one.scores.get(key))
            + ("" if column.alone else f" / {column.text(reference[one.case].get(key))}")
            for key, column in columns.items()
        ]
        table.add_row("✓" if one.passed else "✗", one.case, *scores)
    say.print(table)
    if result.chapter == 6 and (words := launched(outcomes, result.reference_files)):
        say.print(words, markup=False)
    if taken:
        say.print(f"With the reference's {' and '.join(taken)}.")
    failed = [one for one in outcomes if not one.passed]
    if failed:
        others = f" ({len(failed) - 1} more fail)" if len(failed) > 1 else ""
        say.print(f"✗ milestone {result.chapter}: {result.flaw}{others}", markup=False)
    else:
        say.print(f"✓ milestone {result.chapter}: all {len(outcomes)} cases")
