"""Exercises on disk: <chapter>/exercises/<name>/ with skeleton, solution, check and wrong answers, .py or .cu."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The lines of a skeleton that a learner fills in. They alone may be missing from the solution.
PLACEHOLDER = re.compile(r"\s*(\.\.\.\s*#|//) your code")

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
        return (self.folder / "skeleton.cu").exists()

    @property
    def placeholder(self) -> str:
        """How a line that a learner fills in begins."""
        return "// your code" if self.is_cuda else "...  # your code"

    @property
    def skeleton(self) -> Path:
        return self.folder / ("skeleton.cu" if self.is_cuda else "skeleton.py")

    @property
    def solution(self) -> Path:
        return self.skeleton.with_stem("solution")

    @property
    def wrong(self) -> list[Path]:
        return sorted(self.folder.glob(f"wrong/*{self.skeleton.suffix}"))

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

    Raises LookupError, naming the exercises that there are, if there is none of this name.
    """
    start = (start or Path.cwd()).resolve()
    for root in [start, *start.parents, REPOSITORY]:
        for exercise in find_all(root):
            if exercise.name == name:
                return exercise
    known = ", ".join(exercise.name for exercise in find_all()) or "none yet"
    raise LookupError(f"no exercise is called {name!r}; there are: {known}")
