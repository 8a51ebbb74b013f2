"""check.hint(): the hints of an exercise one by one, then the solution."""

import textwrap
from pathlib import Path

from ..lab import markup, progress
from . import feedback
from .exercises import REPOSITORY, Exercise, find
from .unfold import HELD_BACK, Written, find_written, held_back, sections

_given: dict[str, int] = {}  # number of hints shown in this session, by exercise


def hint(name: str, *, restart: bool = False) -> None:
    """Show the next hint for an exercise or a cell to write; after the last one the solution and its explanation.

    An exercise that the teacher holds back (handout.py) has neither, and says so.

    restart: begin with the first hint again.

    Raises LookupError for an unknown name.
    """
    exercise = _find(name)
    if held_back(exercise):
        _show(f"**{exercise.name}**: {HELD_BACK}")
        return
    steps = _steps(exercise)
    number = min(1 if restart else _given.get(exercise.name, 0) + 1, len(steps))
    _given[exercise.name] = number
    title, text = steps[number - 1]
    _show(f"**{exercise.name}, {title}**\n\n{text}")
    progress.record_hint(exercise.name, number)


def _find(name: str) -> Exercise | Written:
    """The exercise of this name, or the cell to write."""
    try:
        return find(name)
    except LookupError:
        written = find_written(name, list(dict.fromkeys([*Path.cwd().resolve().parents, REPOSITORY])))
        if written is None:
            raise
        return written


def _steps(exercise: Exercise | Written) -> list[tuple[str, str]]:
    """(title, Markdown) of each hint and of the solution."""
    try:
        hints, explanation = sections(exercise)
    except ValueError:  # not written
        hints, explanation = [], ""
    many = len(hints)
    steps = [(f"hint {number} of {many}", text) for number, text in enumerate(hints, 1)]
    return [*steps, ("solution", f"{_code(exercise)}\n\n{explanation}".strip())]


def _code(exercise: Exercise | Written) -> str:
    language = "c++" if exercise.is_cuda else "python"
    return f"```{language}\n{markup.plain(exercise.source, exercise.is_cuda).strip()}\n```"


def _show(markdown: str) -> None:
    if feedback.in_notebook():
        from IPython.display import Markdown, display

        display(Markdown(markdown))
        return
    for number, part in enumerate(markdown.split("```")):
        if number % 2:
            print(f"```{part}```\n")
            continue
        # bold in prose only: in code ** is a power
        part = "`".join(text if i % 2 else text.replace("**", "") for i, text in enumerate(part.split("`")))
        for paragraph in filter(str.strip, part.split("\n\n")):
            prose = not paragraph.startswith(("    ", "-", "|"))
            print(textwrap.fill(paragraph.strip(), feedback.WIDTH) if prose else paragraph, end="\n\n")
