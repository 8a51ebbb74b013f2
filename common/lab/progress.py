"""The learner's progress, stored in work/progress.json.

    exercises     {name: {"passed": bool, "tries": int, "hints": int}}
    predictions   {name: {"chapter": str, "guess": …, "unit": str, "truth": …}}
    engine        {file: "own" or "reference"}
    milestones    {chapter number: {"passed": bool, …}}

The folder work/ is the nearest folder, from the current one upwards, that contains the file `.course-work`. Outside
such a folder, as when a source notebook is executed, progress is kept in memory until the process ends.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..files import replacing

MARKER, FILE = ".course-work", "progress.json"
SECTIONS = ("exercises", "predictions", "engine", "milestones")

_in_memory: dict[str, Any] = {}


def work_folder(start: Path | None = None) -> Path | None:
    """The learner's folder that contains `start` (default: the current folder); None if there is none."""
    start = (start or Path.cwd()).resolve()
    return next((folder for folder in (start, *start.parents) if (folder / MARKER).exists()), None)


def _empty() -> dict[str, Any]:
    return {section: {} for section in SECTIONS}


def _read(path: Path) -> dict[str, Any]:
    """The contents of a progress file. An unreadable file is renamed, not overwritten."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not _has_the_form(data):
            raise ValueError("not a progress file")
    except FileNotFoundError:
        return _empty()
    except (OSError, ValueError, RecursionError):
        aside = path.with_name(path.name + ".unreadable")
        with contextlib.suppress(OSError):
            os.replace(path, aside)
            print(f"{path.name} could not be read: it is {aside.name} now, and a new one begins")
        return _empty()
    return _empty() | data


def _has_the_form(data: Any) -> bool:
    """Whether it is as `update` writes it, where other modules rely on that."""
    if not isinstance(data, dict) or not all(isinstance(data.get(name, {}), dict) for name in SECTIONS):
        return False
    exercises, predictions, engine, milestones = (data.get(name, {}).values() for name in SECTIONS)
    if not all(isinstance(entry, dict) for entry in (*exercises, *predictions, *milestones)):
        return False
    counts = [entry.get(key, 0) for entry in exercises for key in ("tries", "hints")]
    numbers = [entry.get(key, 0) for entry in predictions for key in ("guess", "truth")]
    texts = [entry.get(key, "") for entry in predictions for key in ("chapter", "unit")]
    lists = [entry.get("reference_files") or [] for entry in milestones]
    return (
        all(isinstance(count, int) and 0 <= count < 2**31 for count in counts)
        and all(abs(number) < 2**63 for number in numbers if isinstance(number, int))
        and all(isinstance(text, str) for text in (*texts, *engine))
        and all(isinstance(files, list) and all(isinstance(file, str) for file in files) for files in lists)
        and all({"guess", "unit"} <= set(entry) for entry in predictions)
    )


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically (UTF-8), creating its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Inside, this process holds the folder's lock: several notebooks may be open at once."""
    with open(folder / MARKER, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def load(folder: Path | None = None) -> dict[str, Any]:
    """The progress recorded in a learner's folder (default: that of the current folder). Do not modify the result."""
    folder = folder or work_folder()
    return _read(folder / FILE) if folder else _empty() | _in_memory


def update(change: Callable[[dict[str, Any]], None], folder: Path | None = None) -> dict[str, Any]:
    """Apply `change` to the recorded progress, save it, and return it.

    If the folder cannot be written, a message is printed and nothing is raised.
    """
    folder = folder or work_folder()
    if folder is None:
        data = _empty() | _in_memory
        change(data)
        _in_memory.update(data)
        return data
    try:
        with _locked(folder):
            data = _read(folder / FILE)
            change(data)
            write_text(folder / FILE, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        print(f"not recorded: {error.strerror or error}")
        data = _read(folder / FILE)
        change(data)
    return data


def record_try(exercise: str, passed: bool) -> None:
    """Record one more try at an exercise. Once passed, an exercise stays passed."""

    def change(data: dict[str, Any]) -> None:
        entry = data["exercises"].setdefault(exercise, {"passed": False, "tries": 0, "hints": 0})
        entry["tries"] += 1
        entry["passed"] = entry["passed"] or passed

    update(change)


def record_hint(exercise: str, number: int) -> None:
    """Record that hint `number` of an exercise, counted from 1, was shown; the solution counts as the last hint."""

    def change(data: dict[str, Any]) -> None:
        entry = data["exercises"].setdefault(exercise, {"passed": False, "tries": 0, "hints": 0})
        entry["hints"] = max(entry["hints"], number)

    update(change)
