"""Plans for a class: which notebooks belong to which week, and after which week a milestone can be passed.

The hours are the minutes that the notebooks state, so the tables in docs/teaching.md follow the notebooks.
"""

import functools
from collections.abc import Callable
from pathlib import Path

from ..report import results, tables
from .engine_files import FILES
from .links import notebooks
from .milestones import CHAPTERS

Week = dict[str, tuple[int | str, ...]]  # a chapter's number and the numbers of its notebooks

# by length in weeks; "appendix" is chapter 03's, "5b" follows notebook 5
PLANS: dict[int, tuple[Week, ...]] = {
    4: ({"03": (0,), "04": (1,)}, {"04": (2, 3)}, {"04": (4, 5)}, {"04": (6, 11)}),
    8: (
        {"01": (1, 2, 3)},
        {"01": (4, 5), "02": (1,)},
        {"02": (2,), "03": (0, 1)},
        {"03": (2,), "04": (1, 2)},
        {"04": (3, 4, 5)},
        {"04": (6, 7, 9)},
        {"04": (10, 11), "05": (1,)},
        {"05": (2, 3), "06": (1,)},
    ),
    15: (
        {"01": (1, 2, 3)},
        {"01": (4, 5), "02": (1,)},
        {"02": (2, 3), "03": (0,)},
        {"03": (1, 2, 3)},
        {"04": (1, 2, 3)},
        {"04": (4, 5, 6)},
        {"04": (7, 8, 9)},
        {"04": (10, 11, 12)},
        {"03": ("appendix",), "04": (13,), "05": (1,)},
        {"05": (2, 3, 4)},
        {"05": (5, 6), "06": (1, 2)},
        {"06": (3, 4, 5, "5b")},
        {"06": (6, 7, 8, 9)},
        {"06": (10, 11, 12, 13)},
        {"06": (14, 15, 16, 17)},
    ),
}


def texts(root: Path | None = None) -> dict[str, Callable[[], str]]:
    """The functions that generate the tables, and which chapters have a milestone, by the name in their markers."""
    tables_of = {f"syllabus-{weeks}": functools.partial(table, weeks, root) for weeks in PLANS}
    return tables_of | {"milestone-chapters": _with_milestone}


def _with_milestone() -> str:
    *most, last = (f"{chapter:02}" for chapter in CHAPTERS)
    return f"{', '.join(most)} and {last}"


def plan(weeks: int, root: Path | None = None) -> list[list[Path]]:
    """The notebooks of each week, in the order in which they are read; paths below `root`, by default the course's.

    Raises ValueError for a length without a plan, LookupError for a notebook that is not there.
    """
    if weeks not in PLANS:
        raise ValueError(f"weeks must be one of {', '.join(map(str, PLANS))}, got {weeks!r}")
    by_number = {(path.parent.name[:2], path.name.split("_")[0]): path for path in notebooks(root or results.course())}
    found = []
    for week in PLANS[weeks]:
        names = [(chapter, str(number)) for chapter, numbers in week.items() for number in numbers]
        if absent := [f"{chapter}/{number}" for chapter, number in names if (chapter, number) not in by_number]:
            raise LookupError(f"the plan for {weeks} weeks names {absent[0]}, which is not there")
        found.append([path for name, path in by_number.items() if name in names])
    return found


def milestones(weeks: int, root: Path | None = None) -> dict[int, int]:
    """{chapter: week, from 1} of the milestones whose files the notebooks up to that week write."""
    done: dict[int, int] = {}
    read: set[str] = set()
    for number, week in enumerate(plan(weeks, root), 1):
        read |= {path.relative_to(root or results.course()).as_posix() for path in week}
        for chapter in CHAPTERS:
            files = [file for file in FILES.values() if file.chapter == chapter]
            parts = {part for file in files for part in (file.notebook, *file.elsewhere.values())}
            needed = {path for path in parts if int(path[:2]) <= chapter}  # the others are parts of later chapters
            if chapter not in done and needed <= read:
                done[chapter] = number
    return done


def table(weeks: int, root: Path | None = None) -> str:
    """A table of the weeks in Markdown: notebooks, hours, and the milestone that can be passed then, if any."""
    due = {week: chapter for chapter, week in milestones(weeks, root).items()}
    rows, total = [], 0
    for number, (week, chapters) in enumerate(zip(plan(weeks, root), PLANS[weeks], strict=True), 1):
        minutes = sum(tables.minutes(path) for path in week)
        total += minutes
        names = " · ".join(
            f"chapter {chapter}: {', '.join(link for one, link in _links(week, root) if one == chapter)}"
            for chapter in chapters
        )
        rows.append([str(number), names, f"{minutes / 60:.1f}", str(due.get(number, "–"))])
    rows.append(["all", f"{sum(map(len, plan(weeks, root)))} notebooks", f"{total / 60:.0f}", "–"])
    columns = ["week", "notebooks", "hours", "milestone"][: None if due else -1]  # no empty column
    return tables.markdown(columns, [row[: len(columns)] for row in rows], 2)


def _links(week: list[Path], root: Path | None) -> list[tuple[str, str]]:
    """(the chapter's number, a link from a page in docs/) of each notebook."""
    there = root or results.course()
    return [
        (path.parent.name[:2], f"[{path.name.split('_')[0]}](../{path.relative_to(there).as_posix()})") for path in week
    ]
