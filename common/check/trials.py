"""Shared by the checks of Python exercises: random numbers of every magnitude, and hints for recognised slips."""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .answers import how_it_differs

_TOPS = (4, 20, 200, 10**4, 2**33, 2**57)
FEW, MANY = 200, 10**4  # largest sizes for answers that loop over two dimensions, over one
NO_FLOAT = 2**55  # beyond this, not every integer is representable as a float


def whole(draw: random.Random, least: int = 1, most: int = _TOPS[-1]) -> int:
    """A random integer of at least `least`, of 1 to 18 digits, every magnitude equally likely.

    So no constant in an answer (a limit, a table, a short integer type) covers all of them.

    most: approximate upper bound. Use FEW or MANY where a right answer may loop over the number.
    """
    return least + draw.randrange(draw.choice([top for top in _TOPS if top <= most]))


def _seed() -> int:
    return int(os.environ.get("COURSE_SEED") or random.randrange(10**6))


def numpy_random() -> np.random.Generator:
    """NumPy's generator, with a new seed at every call, or with that of the environment variable COURSE_SEED."""
    return np.random.default_rng(_seed())


def python_random() -> random.Random:
    """Python's generator, seeded as numpy_random()."""
    return random.Random(_seed())


def seeded() -> tuple[np.random.Generator, str]:
    """(NumPy generator, "COURSE_SEED=…" for messages). COURSE_SEED sets the seed, so that a failure can be repeated."""
    seed = _seed()
    return np.random.default_rng(seed), f"COURSE_SEED={seed}"


class Slips:
    """Known slips, {hint: function with the slip}, narrowed down to those consistent with every result so far."""

    def __init__(self, slips: Mapping[str, Callable[..., Any]]):
        self._fitting = dict(slips)

    def hint(self, got: Any, arguments: Sequence[Any], otherwise: str) -> str:
        """The hint of the slip that explains `got` and all earlier results; `otherwise` unless it is the only one.

        Call it for each result, right or wrong, before expect() judges it. arguments: those that gave `got`.
        """
        self._fitting = {hint: slip for hint, slip in self._fitting.items() if _gives(slip, arguments, got)}
        return next(iter(self._fitting)) if len(self._fitting) == 1 else otherwise


def _gives(slip: Callable[..., Any], arguments: Sequence[Any], got: Any) -> bool:
    try:
        with np.errstate(all="ignore"):
            return not how_it_differs(got, slip(*arguments), 1e-9, 0.0)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False  # a function with this slip would have raised
