"""Predictions: a guess is recorded before the number is shown.

    check.predict("blocks", 19, unit="blocks")                       in one cell: locks the guess
    check.reveal("blocks", blocks, slips={19: "…"})                  in the next: shows guess and value

A guess is a number, one of `choices`, or the items of `order` in some order. In a learner's copy the guess is `...`,
and nothing is shown until it is replaced.
"""

import math
import numbers
import textwrap
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from . import progress

# Relative tolerance within which a guess counts as right, or as a slip's number. Integers below EXACT must be equal.
WITHIN, EXACT = 0.02, 1000
LINE = "line"  # a unit: the number names a line of code, so no factor says how far off a guess is
COLUMNS = 95  # as wide as JupyterLab shows a line beside its file browser


class Unanswered(NotImplementedError):
    """A prediction that has not been made; shown as "not started yet", like the stub of an answer."""

    def __init__(self, what: str):
        super().__init__(f"write: {what}")


def predict(
    name: str,
    guess: Any = ...,
    *,
    unit: str = "",
    choices: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
) -> None:
    """Record a guess and lock it: only the first one counts.

    name      of the prediction, the same in `reveal`
    guess     a finite number; with `choices` one of them; with `order` a list of its items in the guessed order
    unit      of the number: "blocks", "µs", "bytes"; "line": the number of a line of code

    Raises NotImplementedError while the guess is `...`, TypeError for a guess that is not a number where one is
    expected, ValueError for one that is not finite, not among `choices` or not an ordering of `order`.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"name: must be the prediction's name, a string, got {name!r}")
    if choices is not None and order is not None:
        raise ValueError("choices and order: give one of them")
    if guess is ... or guess is None:
        raise Unanswered(f"your guess in the place of ... {_expected(unit, choices, order)}")
    guess = _checked(guess, choices, order)
    kept = progress.load()["predictions"].get(name)
    if kept is not None and kept["guess"] != guess:
        print(f"Locked: your first guess, {_formatted(kept['guess'], kept['unit'])}, counts.")
        return
    if kept is None:
        entry = {"chapter": _chapter(), "guess": guess, "unit": unit}
        progress.update(lambda data: data["predictions"].setdefault(name, entry))
    print(f"Your guess: {_formatted(guess, unit)}. It is locked; run the next cell.")


def reveal(name: str, value: Any, slips: Mapping[Any, str] | None = None) -> None:
    """Show the guess and the value, how far off the guess is, and the slip that explains it.

    value   measured or computed, of the same type as the guess
    slips   {wrong guess: its explanation}; a number within 2 % of a wrong guess matches it

    Raises NotImplementedError, showing nothing, if no guess was made.
    """
    kept = progress.load()["predictions"].get(name)
    if kept is None:
        raise Unanswered(f"your guess for {name!r} first, in the cell with check.predict")
    guess, unit = kept["guess"], kept["unit"]
    if hasattr(value, "item"):
        value = value.item()
    value = list(value) if isinstance(guess, list) else value
    if kept.get("truth") != value:
        progress.update(lambda data: data["predictions"][name].update(truth=value))
    first = f"Your guess: {_formatted(guess, unit)}."
    second = f"The answer: {_formatted(value, unit)}; {_verdict(guess, value, unit)}."
    print(first, second, sep=" " if len(first) + len(second) < COLUMNS else "\n")
    slip = None if _near(guess, value) else _slip(guess, slips or {})
    if slip:
        print("\n".join(textwrap.fill(line, COLUMNS) for line in slip.split("\n")))


def ratio(entry: Mapping[str, Any]) -> float | None:
    """guess / value of a recorded prediction; None if it is not revealed, not a finite number, zero or of another sign.

    None as well for the number of a line, and for a quotient beyond what a float holds.
    """
    if entry.get("unit") == LINE:
        return None
    guess: Any = entry.get("guess")
    value: Any = entry.get("truth")
    if not (_is_number(guess) and _is_number(value)):
        return None
    if value == 0 or guess == 0 or (guess > 0) != (value > 0):
        return None
    try:
        times = guess / value
    except OverflowError:  # of integers
        return None
    return times if 0 < times < math.inf and 1 / times < math.inf else None


def how_far_off(entry: Mapping[str, Any]) -> float | None:
    """The factor by which a recorded guess is too high or too low, ≥ 1.0; None as in `ratio`."""
    times = ratio(entry)
    return None if times is None else max(times, 1 / times)


def _expected(unit: str, choices: Sequence[str] | None, order: Sequence[str] | None) -> str:
    if choices is not None:
        return "(one of " + ", ".join(map(repr, choices)) + ")"
    if order is not None:
        return "(a list, in order, of " + ", ".join(map(repr, order)) + ")"
    if unit in ("×", "times"):
        return "(a factor)"
    if unit == LINE:
        return "(the number of a line)"
    counted = unit[:1].isalpha() and not unit.startswith(("of ", "per "))
    return f"(a number of {unit})" if counted else f"(a number: … {unit})" if unit else "(a number)"


def _checked(guess: Any, choices: Sequence[str] | None, order: Sequence[str] | None) -> Any:
    if choices is not None:
        if guess not in choices:
            raise ValueError(f"guess: must be one of {', '.join(map(repr, choices))}, got {guess!r}")
        return guess
    if order is not None:
        if not isinstance(guess, list | tuple) or sorted(map(str, guess)) != sorted(map(str, order)):
            raise ValueError(f"guess: must be a list of {', '.join(map(repr, order))} in order, got {guess!r}")
        return list(guess)
    if hasattr(guess, "item") and getattr(guess, "size", 1) == 1:
        guess = guess.item()
    if isinstance(guess, bool) or not isinstance(guess, numbers.Real):
        raise TypeError(f"guess: must be a number, got {guess!r}")
    guess = int(guess) if isinstance(guess, numbers.Integral) else float(guess)
    if not math.isfinite(guess):
        raise ValueError(f"guess: must be a finite number, got {guess!r}")
    return guess


def _chapter() -> str:
    """The chapter whose folder the notebook is in, "01_topology", or ""."""
    return next((part.name for part in (Path.cwd(), *Path.cwd().parents) if part.name[:2].isdigit()), "")


def _formatted(value: Any, unit: str) -> str:
    if isinstance(value, list):
        return " < ".join(map(str, value))
    if isinstance(value, float):
        value = f"{value:,.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
    elif isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:,}"
    return f"{LINE} {value}" if unit == LINE else f"{value} {unit}".rstrip()


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _near(guess: Any, value: Any) -> bool:
    if not (_is_number(guess) and _is_number(value)):
        return bool(guess == value)
    if isinstance(guess, int) and isinstance(value, int) and max(abs(guess), abs(value)) < EXACT:
        return guess == value
    return bool(abs(guess - value) <= WITHIN * abs(value))


def _verdict(guess: Any, value: Any, unit: str) -> str:
    """How far off a guess is, in words."""
    if guess == value:
        return "exactly right"
    if unit == LINE:
        return "not the line that you guessed"
    if isinstance(value, list):
        pairs = list(combinations(value, 2))
        kept = sum(guess.index(first) < guess.index(second) for first, second in pairs)
        return f"{kept} of {len(pairs)} pairs are in the right order"
    if not (_is_number(guess) and _is_number(value)):
        return "not what you guessed"
    if _near(guess, value):
        return "right"
    times = ratio({"guess": guess, "truth": value})
    if times is None:
        return f"you are off by {_formatted(abs(guess - value), '')}"
    off = max(times, 1 / times)
    factor = f"{off:,.0f}" if off >= 100 else f"{off:.3g}"
    return f"your guess is {factor}× too {'high' if times > 1 else 'low'}"


def _slip(guess: Any, slips: Mapping[Any, str]) -> str | None:
    for wrong, text in slips.items():
        if _near(guess, list(wrong) if isinstance(wrong, tuple) else wrong):
            return text
    return None
