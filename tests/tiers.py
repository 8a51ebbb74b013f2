"""Two tiers of tests: `make test` runs in minutes, `make test-all` everything with new random numbers.

pytestmark = long                       a test, or a file, of `make test-all` alone; of notebooks, cells tagged `long`
@seldom(6)                              a test, or a file, of one run in six; what is marked so takes turns
@pytest.mark.parametrize("n", [1, 7] + only_all([13, 129]))    cases of `make test-all` alone

Of several parameters' combinations `make test` takes so few that every two values of different parameters meet.
Where many cases are alike and each costs much (SHARES), a run takes one part of those; the parts take turns: each
commit runs the next one, COURSE_TURN=3 the part of that number, COURSE_TURN=every all of them. `make test-all` takes
every combination.

Notebooks take turns, too (NOTEBOOKS). What the last commits have changed, a notebook's code, a kernel, an exercise,
needs no turn.
"""

import contextlib
import functools
import heapq
import itertools
import json
import os
import random
import subprocess
import zlib
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest

ALL = os.environ.get("COURSE_TESTS") == "all"  # set by `pytest --all`, see conftest.py

EVERY = "every"  # of COURSE_TURN

# Of a test's cases in these folders, files and tests, `make test` runs one in so many; the longest name holds
SHARES = {
    "tests/kernels/": 50,
    "tests/optimize/": 50,
    "tests/network/": 50,
    "tests/cuda/inspect/test_machine_code.py": 9,
    "tests/cuda/test_cuda_cache.py": 3,
    "tests/cuda/test_nvrtc.py": 18,
    "tests/lab/test_engine_milestone.py": 12,
    "tests/lab/test_kernel_milestone.py": 12,
    "tests/lab/test_milestones.py": 12,
    "tests/lab/test_error_checks.py": 6,
    "tests/lab/test_plan_checks.py": 6,
    "tests/bench/": 14,
    "tests/draw/": 6,
    "tests/trace/": 10,
    "tests/quantize/": 14,
    "tests/many/test_on_ray.py": 3,
    "tests/test_faults.py": 2,
    "tests/check/test_child.py": 4,
    "tests/check/test_copies.py::test_a_copy_filled_with_its_solutions_is_its_source": 4,
    "tests/check/test_copies_run.py": 12,
    "tests/check/test_exercises.py::test_the_skeleton_fails_cleanly": 12,
    "tests/check/test_exercises.py::test_other_right_answers_pass": 3,
    "tests/check/test_exercises.py::test_the_solution_passes": 6,
    "tests/check/test_exercises.py::test_wrong_answers_are_refused_with_the_message_they_deserve": 4,
    "tests/check/test_kernel_checks.py": 2,
    "tests/check/test_own_rung.py": 3,
}

long = pytest.mark.long


def seldom(share: int) -> pytest.MarkDecorator:
    """The mark of a test, or a file, that costs seconds: one run in `share` has it."""
    return pytest.mark.seldom(share)


# Of the notebooks in these folders, those excepted that the last commits have changed, a run has one in so many
NOTEBOOKS = {
    "01_topology": 8, "02_weights": 8, "03_cudnn_baseline": 8, "04_kernels": 14, "05_network": 14, "06_optimize": 14,
}  # fmt: skip
LATELY = 5  # commits


def only_all(cases: list) -> list:
    """The cases in `make test-all`, none of them in `make test`."""
    return list(cases) if ALL else []


def in_turn(cases: Sequence, others: Sequence, each: int = 1) -> list[tuple]:
    """Pairs (case, other): `make test` has each case with so many of the others, in turn, `make test-all` with all."""
    count = len(others) if ALL else each
    return [(case, others[(i * each + j) % len(others)]) for i, case in enumerate(cases) for j in range(count)]


def examples(count: int) -> int:
    """How many examples hypothesis tries: the half in `make test`, four times as many in `make test-all`."""
    return 4 * count if ALL else (count + 1) // 2


def seed() -> int:
    """What everything drawn at random begins with: COURSE_SEED."""
    return int(os.environ["COURSE_SEED"])


def turn() -> int | None:
    """Which part is run of what takes turns: COURSE_TURN, or the number of commits; None: every part."""
    if ALL or os.environ.get("COURSE_TURN") == EVERY:
        return None
    if "COURSE_TURN" not in os.environ:
        count = ["git", "rev-list", "--count", "HEAD"]
        said = ""
        with contextlib.suppress(OSError):  # no git
            said = subprocess.run(count, cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip()
        os.environ["COURSE_TURN"] = said or "0"  # for the workers as well
    return int(os.environ["COURSE_TURN"])


def at_turn(cases: Sequence, share: int | None = None, pace: int = 1) -> list:
    """One of the cases, or one in `share`, the next one at each turn; all of them where all parts are run.

    pace: the number of turns until the next one.
    """
    number, step = turn(), max(1, min(share or len(cases), len(cases)))
    return list(cases) if number is None else list(cases[number // pace % step :: step])


def part(rows: Sequence[tuple[Hashable, ...]], share: int, number: int) -> list[int]:
    """The rows of one part of `share` parts, which together are all rows; there are fewer parts than rows or as many.

    A part takes, as far as it can, rows with values that it has not had yet.
    """
    left = list(range(len(rows)))
    random.Random(len(rows)).shuffle(left)
    parts = max(1, min(share, len(rows)))
    for i in range(parts):
        taken: list[int] = []
        met: set = set()
        for _ in range(-(-len(left) // (parts - i))):
            best = max(left, key=lambda row: len(set(enumerate(rows[row])) - met))
            left.remove(best)
            taken.append(best)
            met |= set(enumerate(rows[best]))
        if i == number % parts:
            break
    return sorted(taken)


def has_turn(name: str, share: int) -> bool:
    """Whether a test, or a file, of this name has its turn among the runs of which one in `share` has it."""
    number = turn()
    return number is None or (number + zlib.crc32(name.encode())) % share == 0


@functools.cache
def changed_lately(root: Path = Path(__file__).parents[1], commits: int = LATELY) -> frozenset[str]:
    """The files that the last commits have changed, merged branches included, and what is not committed.

    A notebook counts if its code has changed: text alone cannot change what a cell shows. New records change outputs of
    most notebooks at once, and `python -m common generate --all`, which writes those, has just executed them.
    """
    command = ["git", "diff", "--name-only", "--no-renames", f"HEAD~{commits}"]
    with contextlib.suppress(OSError):  # no git
        names = subprocess.run(command, cwd=root, capture_output=True, text=True).stdout.splitlines()
        notebooks = [name for name in names if name.endswith(".ipynb") and (root / name).is_file()]
        before = _committed([f"HEAD~{commits}:{name}" for name in notebooks], root)
        same = {
            name for name, text in zip(notebooks, before, strict=True)
            if text is not None and _code(text) == _code((root / name).read_bytes())
        }  # fmt: skip
        return frozenset(names) - same
    return frozenset()


def _committed(objects: Sequence[str], root: Path) -> list[bytes | None]:
    """The contents of committed files, "HEAD~5:README.md"; None for one that is not there."""
    asked = "".join(f"{name}\n" for name in objects).encode()
    said = subprocess.run(["git", "cat-file", "--batch"], input=asked, cwd=root, capture_output=True, check=True).stdout
    found: list[bytes | None] = []
    for _ in objects:
        head, _, said = said.partition(b"\n")
        if head.endswith(b" missing"):
            found.append(None)
            continue
        size = int(head.rpartition(b" ")[2])
        found.append(said[:size])
        said = said[size + 1 :]
    return found


def _code(text: bytes) -> list[str]:
    """The source of each code cell of a notebook."""
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def notebook_has_turn(name: str) -> bool:
    """Whether a notebook, "04_kernels/5_gemm.ipynb", has its turn; one that has changed lately has."""
    return name in changed_lately() or has_turn(name, NOTEBOOKS.get(name.partition("/")[0], 1))


def names_changed(nodeid: str) -> bool:
    """Whether a case's name has that of a kernel, a notebook or an exercise that the last commits have changed.

    Such a case always runs.
    """
    case = nodeid.partition("[")[2]
    return any(name in case for name in _names(changed_lately()))


@functools.cache
def _names(files: frozenset[str]) -> frozenset[str]:
    """The names of kernels, notebooks and exercises by their files."""
    names = set()
    for path in map(Path, files):
        if "exercises" in path.parts[:-2]:  # 04_kernels/exercises/NAME/…
            names.add(path.parts[path.parts.index("exercises") + 1])
        elif path.suffix in (".cu", ".ipynb") or {"solutions", "answers"} & set(path.parts):
            names.add(path.stem)
    return frozenset(names)


def share_of(nodeid: str) -> int:
    """The number of parts of a test's cases, by SHARES."""
    fitting = [name for name in SHARES if nodeid.startswith(name)]
    return SHARES[max(fitting, key=len)] if fitting else 1


def covering(rows: Sequence[tuple[Hashable, ...]]) -> list[int]:
    """Which of the rows are enough for every two values of different columns that meet in a row to meet in one.

    Greedy, from rows in a shuffled order, the same in every run: the next is the one with the most new pairs.
    """
    pairs = [set(itertools.combinations(enumerate(row), 2)) or {row} for row in rows]
    order = list(range(len(rows)))
    random.Random(len(rows)).shuffle(order)
    waiting = [(-len(pairs[i]), place, i) for place, i in enumerate(order)]
    heapq.heapify(waiting)
    met: set = set()
    taken = []
    while waiting:
        _, place, i = heapq.heappop(waiting)
        new = len(pairs[i] - met)
        if waiting and -new > waiting[0][0]:
            if new:
                heapq.heappush(waiting, (-new, place, i))
        elif new:
            met |= pairs[i]
            taken.append(i)
    return sorted(taken)
