"""What the checks of Python exercises share: numbers of every magnitude, and hints for slips that are recognised."""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .answers import how_it_differs

_TOPS = (4, 20, 200, 10**4, 2**33, 2**57)
FEW, MANY = 200, 10**4  # so far an answer may count one by one, in two directions and in one
NO_FLOAT = 2**55  # from here on not every whole number is a float


def whole(draw: random.Random, least: int = 1, most: int = _TOPS[-1]) -> int:
    """A whole number from `least` on, of 1 to 18 digits: each magnitude is as likely as any other.

    Constants in an answer (a limit, a table, a kind of number with few digits) do not reach all of them.

    most: about how large it may become. Where a right answer may count one by one, in a loop or with a list, it has
    to come to its end in time: FEW or MANY.
    """
    return least + draw.randrange(draw.choice([top for top in _TOPS if top <= most]))


def _seed() -> int:
    return int(os.environ.get("COURSE_SEED") or random.randrange(10**6))


def numpy_random() -> np.random.Generator:
    """NumPy's generator: other numbers at every check, or those of the seed in the environment, COURSE_SEED."""
    return np.random.default_rng(_seed())


def python_random() -> random.Random:
    """Python's generator, seeded as numpy_random()."""
    return random.Random(_seed())


def seeded() -> tuple[np.random.Generator, str]:
    """(a generator, how a message names its seed). COURSE_SEED sets the seed, so that a failure can be repeated."""
    seed = _seed()
    return np.random.default_rng(seed), f"COURSE_SEED={seed}"


class Slips:
    """Known slips, {hint: what an answer with the slip gives}, of which those stay that fit every result so far.

    So a hint names a slip only if nothing that the answer has given contradicts it.
    """

    def __init__(self, slips: Mapping[str, Callable[..., Any]]):
        self._fitting = dict(slips)

    def hint(self, got: Any, arguments: Sequence[Any], otherwise: str) -> str:
        """The hint of the one slip left that gives `got` for the arguments too; `otherwise` if none or several do.

        To be asked about each result, right or wrong, before expect() judges it.
        """
        self._fitting = {hint: slip for hint, slip in self._fitting.items() if _gives(slip, arguments, got)}
        return next(iter(self._fitting)) if len(self._fitting) == 1 else otherwise


def _gives(slip: Callable[..., Any], arguments: Sequence[Any], got: Any) -> bool:
    try:
        with np.errstate(all="ignore"):
            return not how_it_differs(got, slip(*arguments), 1e-9, 0.0)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False  # an answer with this slip would have given nothing
