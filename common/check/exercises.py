"""Exercises on disk: <chapter>/exercises/<name>/ with check, <chapter>/solutions/<name>.py or .cu."""

import difflib
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from ..lab import engine, markup
from ..lab.engine_files import FILES

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Exercise:
    """One exercise: its name and its folder."""

    folder: Path

    @property
    def name(self) -> str:
        """The exercise's name, which is its folder's."""
        return self.folder.name

    @property
    def engine_file(self) -> str:
        """The file of the engine that the answer is saved as, "kernels/add.cu"; "" for most exercises."""
        return next((file for file, one in FILES.items() if one.exercise == self.name), "")

    @property
    def magic(self) -> str:
        """The first line of the exercise's cell, if the answer is CUDA C++."""
        return f"%%engine {self.engine_file}" if self.engine_file else f"%%exercise {self.name}"

    @property
    def is_cuda(self) -> bool:
        """Whether the answer is the source of a CUDA kernel; otherwise it is Python."""
        return self.solution.suffix == ".cu"

    @property
    def solution(self) -> Path:
        """The path of the solution, whose regions are marked (markup.py): of an engine's file, the reference's."""
        if self.engine_file:
            return engine.REFERENCE / self.engine_file
        cuda = self._solution(".cu")
        return cuda if cuda.exists() else self._solution(".py")

    def _solution(self, suffix: str) -> Path:
        return self.folder.parents[1] / "solutions" / (self.name + suffix)

    @property
    def hints_file(self) -> Path:
        """The chapter's file with hints."""
        return self.folder.parent / "hints.md"

    @property
    def source(self) -> str:
        """The text of the solution with its marks, as in the source notebook's cell."""
        return self.solution.read_text(encoding="utf-8")

    @property
    def skeleton_file(self) -> Path:
        """The path of skeleton.*, for exercises in which any line may change; most exercises have no such file."""
        return self.folder / f"skeleton{self.solution.suffix}"

    @property
    def skeleton(self) -> str:
        """The learner's starting text: the file skeleton.* if there is one, else the solution without its regions."""
        own = self.skeleton_file
        return own.read_text(encoding="utf-8") if own.exists() else markup.strip(self.source, self.is_cuda)

    def check(self) -> Callable[..., None]:
        """The function `check` of check.py, which is reloaded at each call."""
        return load(self.folder / "check.py")["check"]

    def objects(self, path: Path) -> list[Any]:
        """The arguments for check() from an answer in a file: one per parameter (None if not defined), or the text."""
        if self.is_cuda:
            return [path.read_text(encoding="utf-8")]
        names = inspect.signature(self.check()).parameters
        namespace = load(path)
        return [namespace.get(name) for name in names]


def load(path: Path) -> dict[str, Any]:
    """Run a Python file and return the names that it defines. The file is read at each call, as learners edit it."""
    namespace: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    exec(_compiled(path.read_text(encoding="utf-8"), str(path)), namespace)
    return namespace


@functools.lru_cache(maxsize=256)
def _compiled(text: str, path: str) -> CodeType:
    return compile(text, path, "exec")


def find_all(root: Path = REPOSITORY) -> list[Exercise]:
    """The exercises of all chapters below a folder, sorted by path."""
    return [Exercise(check.parent) for check in sorted(root.glob("*/exercises/*/check.py"))]


def find(name: str, start: Path | None = None) -> Exercise:
    """Find an exercise by name, from the folder `start` (default: the current one) upwards, then in this repository.

    Raises LookupError, with similar names, for an unknown exercise.
    """
    start = (start or Path.cwd()).resolve()
    roots = [start, *start.parents, REPOSITORY]
    for root in roots if re.fullmatch(r"[\w-]+", name) else ():
        for check in sorted(root.glob(f"*/exercises/{name}/check.py")):
            return Exercise(check.parent)
    known = [exercise.name for root in roots for exercise in find_all(root)]
    similar = difflib.get_close_matches(name, dict.fromkeys(known), n=2, cutoff=0.7)
    advice = f". Did you mean {' or '.join(similar)}?" if similar else ""
    raise LookupError(f"no exercise is called {name!r}{advice}")
