"""Exercises on disk: <chapter>/exercises/<name>/ with solution, check and wrong answers, .py or .cu."""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..lab import markup

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Exercise:
    """One exercise: its name and its folder."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def is_cuda(self) -> bool:
        """Whether the answer is the text of a CUDA kernel; else it is Python."""
        return (self.folder / "solution.cu").exists()

    @property
    def solution(self) -> Path:
        """The file of the solution, its regions marked (markup.py)."""
        return self.folder / ("solution.cu" if self.is_cuda else "solution.py")

    @property
    def source(self) -> str:
        """The text of the solution with its marks: what the source notebook's cell holds."""
        return self.solution.read_text(encoding="utf-8")

    @property
    def skeleton_file(self) -> Path:
        """The file that a learner starts from where any line may change; most exercises have none."""
        return self.solution.with_stem("skeleton")

    @property
    def skeleton(self) -> str:
        """What the learner starts from: the file skeleton.* where there is one, as for a bug to be found, where any
        line may change; else the solution with its regions cut out."""
        own = self.skeleton_file
        return own.read_text(encoding="utf-8") if own.exists() else markup.strip(self.source, self.is_cuda)

    @property
    def wrong(self) -> list[Path]:
        return sorted(self.folder.glob(f"wrong/*{self.solution.suffix}"))

    def check(self) -> Callable[..., None]:
        """The function `check` of check.py, read anew at each call."""
        return load(self.folder / "check.py")["check"]

    def objects(self, path: Path) -> list[Any]:
        """What an answer in a file hands in: an object for each parameter of check(), or None; the text of a kernel."""
        if self.is_cuda:
            return [path.read_text(encoding="utf-8")]
        names = inspect.signature(self.check()).parameters
        namespace = load(path)
        return [namespace.get(name) for name in names]


def load(path: Path) -> dict[str, Any]:
    """Run a Python file and return the names that it defines. Nothing is cached, as learners edit files."""
    namespace: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
    return namespace


def find_all(root: Path = REPOSITORY) -> list[Exercise]:
    """The exercises of all chapters below a folder, in order."""
    return [Exercise(check.parent) for check in sorted(root.glob("*/exercises/*/check.py"))]


def find(name: str, start: Path | None = None) -> Exercise:
    """The exercise of this name, looked for from a folder (the current one) upwards, then in this repository.

    Raises LookupError, naming those with a similar name, if there is none of this name.
    """
    start = (start or Path.cwd()).resolve()
    known: list[str] = []
    for root in [start, *start.parents, REPOSITORY]:
        for exercise in find_all(root):
            if exercise.name == name:
                return exercise
            known.append(exercise.name)
    similar = difflib.get_close_matches(name, dict.fromkeys(known), n=2, cutoff=0.7)
    advice = f". Did you mean {' or '.join(similar)}?" if similar else ""
    raise LookupError(f"no exercise is called {name!r}{advice}")
