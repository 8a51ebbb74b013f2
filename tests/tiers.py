"""Two tiers of tests: `make test` runs in minutes, `make test-all` everything with new random numbers.

pytestmark = long                       a test, or a file, of `make test-all` alone
@pytest.mark.parametrize("n", [1, 7] + only_all([13, 129]))    cases of `make test-all` alone
pytestmark = pairwise                   of several parameters' combinations `make test` takes so few that every two
                                        values of different parameters meet; `make test-all` takes them all
"""

import heapq
import itertools
import os
import random
from collections.abc import Hashable, Sequence

import pytest

ALL = os.environ.get("COURSE_TESTS") == "all"  # set by `pytest --all`, see conftest.py

long = pytest.mark.long
pairwise = pytest.mark.pairwise


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
