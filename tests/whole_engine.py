"""An engine of the learner's own in a folder, and the command that judges it: for the tests of milestones 5 and 6."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from rich.console import Console

from common.lab import engine, progress


def own(file: str) -> str:
    """The reference's text of a file, as a learner's own."""
    return engine.reference_text(file).replace(" (reference)", "")


def write(place: Path, files: Iterable[str], changed: Mapping[str, str]) -> Path:
    """The reference's files as a learner's own; changed: {file: text} in their place."""
    for file, text in {"__init__.py": "", **{file: own(file) for file in files}, **changed}.items():
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(text, encoding="utf-8")
    return place


@contextlib.contextmanager
def at_work(folder: Path, chapter: str, files: Iterable[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a learner with such an engine, whose chapter is the current directory."""
    (folder / progress.MARKER).touch()
    write(folder / "engine", files, {})
    (folder / chapter).mkdir()
    monkeypatch.chdir(folder / chapter)
    engine.open_engine()
    yield folder
    engine.open_engine()


def console() -> Console:
    """One that records what a milestone prints."""
    return Console(width=95, highlight=False, force_terminal=False, record=True)
