"""What a check.py is written with: statements about an answer, each with a hint for when it does not hold."""

import math
import numbers
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


class Wrong(Exception):
    """The answer is wrong: what about it, and a hint that names the mistake, not the answer.

    A notebook shows `picture` below the message: anything that displays itself, such as a kernel's trace.
    """

    def __init__(self, what: str, hint: str = "", picture: Any = None):
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.picture = picture


class ToDo(Exception):
    """The exercise has not been started. A skeleton may raise it; a None given back counts as one."""


def expect(got: Any, want: Any, *, what: str, hint: str, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Raise Wrong unless `got` is `want`.

    Whole numbers, strings, bools and None have to be equal and of the same kind. Floats may differ by
    atol + rtol·|want|, and each element of an array by atol + rtol·max|want|. NaN equals NaN, nothing else.
    An array has to have the shape of `want` and its kind of dtype (whole numbers, floats, …), not its width.
    Tuples, lists and dicts are compared item by item.

    what    the expression that was tried, as the learner would type it: "output_size(7, kernel=3)"
    hint    what may have led to a wrong answer here
    """
    _count()
    if (got is None or got is ...) and want is not None:
        raise ToDo(f"{what} gives {'nothing' if got is None else '...'} back yet")
    difference = how_it_differs(got, want, rtol, atol)
    if difference:
        raise Wrong(f"{what}{difference}", hint)


def require(holds: bool, *, what: str, hint: str, picture: Any = None) -> None:
    """Raise Wrong with `what`, a sentence that says what is the matter, unless `holds` is true."""
    _count()
    if not holds:
        raise Wrong(what, hint, picture)


def expect_error(kind: type[Exception], call: Callable[[], Any], *, what: str, hint: str) -> None:
    """Raise Wrong unless `call()` raises an error of this kind."""
    _count()
    try:
        result = call()
    except kind:
        return
    raise Wrong(f"{what} gives {_show(result)}, it should raise {kind.__name__}", hint)


# How many statements were tried since the counter was last set to 0: what "passed (6 checks)" counts.
counter = 0


def _count() -> None:
    global counter
    counter += 1


def how_it_differs(got: Any, want: Any, rtol: float, atol: float) -> str:
    """How `got` differs from `want`, as the rest of a sentence that begins with its name, or ""."""
    if isinstance(want, np.ndarray):
        return _array_difference(got, want, rtol, atol)
    if isinstance(want, Mapping):
        return _mapping_difference(got, want, rtol, atol)
    if isinstance(want, list | tuple):
        return _sequence_difference(got, want, rtol, atol)

    kind, wanted_kind = _kind(got), _kind(want)
    may_be_whole = wanted_kind == "a float" and kind == "a whole number"
    if kind != wanted_kind and not may_be_whole:
        return f" is {_show(got)}, {kind}; {wanted_kind} is expected: {_show(want)}"
    is_float = wanted_kind == "a float"
    equal = _close(float(got), float(want), rtol, atol) if is_float else bool(got == want)
    return "" if equal else f" is {_show(got)}, expected {_show(want)}"


def _close(got: float, want: float, rtol: float, atol: float) -> bool:
    if math.isnan(want):
        return math.isnan(got)
    return got == want or abs(got - want) <= atol + rtol * abs(want)  # the first for infinities


def _sequence_difference(got: Any, want: list | tuple, rtol: float, atol: float) -> str:
    if not isinstance(got, list | tuple):
        return f" is {_show(got)}, {_kind(got)}; {_kind(want)} is expected: {_show(want)}"
    for index, (one, other) in enumerate(zip(got, want, strict=False)):
        if difference := how_it_differs(one, other, rtol, atol):
            return f"[{index}]{difference}"
    if len(got) != len(want):
        return f" has {len(got)} items, expected {len(want)}: {_show(want)}"
    return ""


def _mapping_difference(got: Any, want: Mapping, rtol: float, atol: float) -> str:
    if not isinstance(got, Mapping):
        return f" is {_show(got)}, {_kind(got)}; {_kind(want)} is expected"
    for key in want:
        if key not in got:
            return f" has no {key!r}"
        if difference := how_it_differs(got[key], want[key], rtol, atol):
            return f"[{key!r}]{difference}"
    unknown = [key for key in got if key not in want]
    return f" has {unknown[0]!r}, which does not belong there" if unknown else ""


def _array_difference(got: Any, want: np.ndarray, rtol: float, atol: float) -> str:
    if not hasattr(got, "shape"):
        return f" is {_show(got)}, {_kind(got)}; an array of shape {want.shape} is expected"
    array = _as_numpy(got)
    if array.shape != want.shape:
        return f" has shape {array.shape}, expected {want.shape}"
    kind, wanted_kind = _DTYPE_KINDS.get(array.dtype.kind), _DTYPE_KINDS.get(want.dtype.kind)
    if kind != wanted_kind:
        return f" has dtype {array.dtype}, expected {want.dtype}"
    if want.size == 0:
        return ""
    if wanted_kind != "floats":
        differs = array != want
    else:
        finite = np.abs(want[np.isfinite(want)])
        allowed = atol + rtol * (float(finite.max()) if finite.size else 0.0)
        with np.errstate(invalid="ignore"):  # inf − inf
            off = np.abs(array.astype(np.float64) - want.astype(np.float64))
        # `not ≤` rather than `>`: a NaN is neither
        differs = ~((off <= allowed) | (array == want) | (np.isnan(array) & np.isnan(want)))
    if not differs.any():
        return ""
    index = tuple(int(i) for i in np.argwhere(differs)[0])
    place = "[" + ", ".join(map(str, index)) + "]" if index else ""
    return (
        f"{place} is {_show(array[index])}, expected {_show(want[index])}"
        f" ({int(differs.sum())} of {want.size} elements differ)"
    )


_DTYPE_KINDS = {
    "b": "bools",
    "i": "whole numbers",
    "u": "whole numbers",
    "f": "floats",
    "c": "complex numbers",
}


def _as_numpy(array: Any) -> np.ndarray:
    """A NumPy array of anything that is shaped like one: PyTorch's tensors and CuPy's arrays say how."""
    if hasattr(array, "detach"):
        return array.detach().cpu().numpy()
    if hasattr(array, "get") and hasattr(array, "__cuda_array_interface__"):
        return array.get()
    return np.asarray(array)


def _kind(value: Any) -> str:
    """What kind of thing a value is, in words."""
    kinds: list[tuple[Any, str]] = [
        (type(None), "nothing"),
        ((bool, np.bool_), "a bool"),
        (numbers.Integral, "a whole number"),
        ((numbers.Real, np.floating), "a float"),
        (str, "a string"),
        (list, "a list"),
        (tuple, "a tuple"),
        (Mapping, "a dict"),
    ]
    for types, words in kinds:
        if isinstance(value, types):
            return words
    return "an array" if hasattr(value, "shape") else f"of type {type(value).__name__}"


def _show(value: Any) -> str:
    """A value in a few letters, the same in every run."""
    if isinstance(value, float | np.floating):
        return repr(float(f"{value:.9g}"))  # without the last digits, where rounding shows
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "shape"):
        return f"an array of shape {tuple(value.shape)}"
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) <= 60 else text[:57] + "..."
