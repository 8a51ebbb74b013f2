"""Assertions for check.py: each compares an answer with what is expected and carries a hint for the failure."""

import math
import numbers
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

NEARLY = "nearly: only the last digits differ. Is a number rounded on its way?"


class Wrong(Exception):
    """The answer is wrong.

    what      what is wrong with it
    hint      the likely mistake, without giving the answer away
    picture   shown below the message: any object that a notebook can display, such as a kernel's trace
    """

    def __init__(self, what: str, hint: str = "", picture: Any = None):
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.picture = picture


class Short(Wrong):
    """The results are right, but the required technique is not used."""


class ToDo(Exception):
    """The exercise has not been started. A function that returns None counts as not started."""


def expect(
    got: Any,
    want: Any,
    *,
    what: str,
    hint: str,
    rtol: float = 0.0,
    atol: float = 0.0,
    dtype: Any = None,
    signed_zeros: bool = False,
    nearly: bool = True,
    kind_hint: str = "",
) -> None:
    """Raise Wrong unless `got` equals `want` within the tolerance, ToDo if it is None or `...` and should not be.

    Values: integers, strings, bools and None must be equal. Floats may differ by atol + rtol·|want|, and each element
    of an array by atol + rtol·max|want|. NaN equals NaN, inf equals inf, and neither is within a tolerance of a number.
    −0 equals 0.

    Types: an integer is accepted for a float, a NumPy scalar for Python's if it is as precise (float64, any integer).
    A tuple or an array is not accepted for a list. An array must have the shape of `want` and its kind of dtype
    (integers, floats, …). Lists, tuples and dicts are compared item by item. If the type, shape or dtype is wrong, the
    message says so and shows kind_hint instead of hint. None is a value.

    what          the expression that was evaluated, as the learner would type it: "output_size(7, kernel=3)"
    hint          the likely cause of a wrong value
    dtype         the exact dtype that an array or a NumPy scalar must have: np.float32
    signed_zeros  whether −0 and 0 differ
    nearly        whether a number that is wrong only in about its last three digits gets the hint NEARLY instead of
                  `hint`; False where the digits are what the exercise is about
    kind_hint     the likely cause of a wrong type, shape or dtype
    """
    _count()
    if (got is None or got is ...) and want is not None:
        raise ToDo(f"{what} gives {'nothing' if got is None else '...'} back yet")
    found = _compare(got, want, _Tolerance(rtol, atol, signed_zeros))
    if found is None and dtype is not None:
        found = _dtype_difference(got, np.dtype(dtype))
    if found is None:
        return
    if found.of_kind:
        raise Wrong(f"{what}{found.text}", kind_hint)
    raise Wrong(f"{what}{found.text}", NEARLY if nearly and found.nearly else hint)


def require(holds: bool, *, what: str, hint: str, picture: Any = None) -> None:
    """Raise Wrong with `what`, a sentence that says what is wrong, unless `holds` is true."""
    _count()
    if not holds:
        raise Wrong(what, hint, picture)


def expect_error(kind: type[Exception], call: Callable[[], Any], *, what: str, hint: str) -> None:
    """Raise Wrong unless `call()` raises an exception of type `kind`."""
    _count()
    try:
        result = call()
    except kind:
        return
    except (Wrong, ToDo, NotImplementedError):
        raise
    except Exception as error:
        raised = f"{type(error).__name__}: {error}".rstrip(": ")
        raise Wrong(f"{what} raises {raised}; it should raise {kind.__name__}", hint) from error
    raise Wrong(f"{what} gives {show(result)}, it should raise {kind.__name__}", hint)


# Number of assertions since the counter was last reset: what "passed (6 checks)" counts.
counter = 0


def _count() -> None:
    global counter
    counter += 1


# ---- Differences


class Difference(NamedTuple):
    """How a value differs from the expected one.

    text      the rest of a sentence that begins with the value's name: " is 3, expected 4"
    of_kind   whether the type, shape or dtype differs rather than the value
    nearly    whether a number or an array is wrong only in about its last three significant digits
    """

    text: str
    of_kind: bool = False
    nearly: bool = False


class _Tolerance(NamedTuple):
    rtol: float
    atol: float
    signed_zeros: bool = False

    def of(self, want: float) -> float:
        return self.atol + self.rtol * abs(want)

    def nearly(self, want: float, epsilon: float) -> float:
        """Largest error of a number that counts as nearly `want`; epsilon: the relative precision of its dtype."""
        return min(1e3 * max(self.of(want), epsilon * abs(want)), 1e-3 * abs(want))


def how_it_differs(got: Any, want: Any, rtol: float, atol: float) -> str:
    """How `got` differs from `want`, as the rest of a sentence that begins with its name; "" if it does not.

    rtol, atol: as in `expect`.
    """
    found = _compare(got, want, _Tolerance(rtol, atol))
    return found.text if found else ""


def _compare(got: Any, want: Any, tolerance: _Tolerance) -> Difference | None:
    if isinstance(want, np.ndarray):
        return _array_difference(got, want, tolerance)
    if isinstance(want, Mapping):
        return _mapping_difference(got, want, tolerance)
    if isinstance(want, list | tuple):
        return _sequence_difference(got, want, tolerance)

    kind, wanted_kind = _kind(got), _kind(want)
    may_be_whole = wanted_kind == "a float" and kind == "a whole number"
    if kind != wanted_kind and not may_be_whole:
        return _of_another_kind(got, want)
    if wanted_kind == "a float":
        return _float_difference(got, float(want), tolerance)
    return None if bool(got == want) else Difference(f" is {show(got)}, expected {show(want)}")


def _of_another_kind(got: Any, want: Any) -> Difference:
    words = f" is {show(got)}, {_kind(got)}; {_kind(want)} is expected: {show(want)}"
    return Difference(words, of_kind=got is not None and want is not None)


def _float_difference(got: Any, want: float, tolerance: _Tolerance) -> Difference | None:
    try:
        value = float(got)
    except OverflowError:  # an integer larger than any float
        return Difference(f" is {show(got)}, expected {show(want)}")
    if tolerance.signed_zeros and value == want == 0 and math.copysign(1, value) != math.copysign(1, want):
        return Difference(f" is {value!r}, expected {want!r}: the sign of zero counts here")
    if math.isnan(want) and math.isnan(value):
        return None
    off = abs(value - want)
    if value == want or (math.isfinite(off) and off <= tolerance.of(want)):  # the first for infinities
        return None
    nearly = math.isfinite(off) and off <= tolerance.nearly(want, np.finfo(float).eps)
    return Difference(f" is {show(got, want)}, expected {show(want, value)}", nearly=nearly)


def _sequence_difference(got: Any, want: list | tuple, tolerance: _Tolerance) -> Difference | None:
    if not isinstance(got, list if isinstance(want, list) else tuple):
        return _of_another_kind(got, want)
    for index, (one, other) in enumerate(zip(got, want, strict=False)):
        if found := _compare(one, other, tolerance):
            return found._replace(text=f"[{index}]{found.text}")
    if len(got) != len(want):
        items = "1 item" if len(got) == 1 else f"{len(got)} items"
        return Difference(f" has {items}, {show(got)}; expected {len(want)}: {show(want)}")
    return None


def _mapping_difference(got: Any, want: Mapping, tolerance: _Tolerance) -> Difference | None:
    if not isinstance(got, Mapping):
        return Difference(f" is {show(got)}, {_kind(got)}; {_kind(want)} is expected", of_kind=True)
    for key in want:
        if key not in got:
            return Difference(f" has no {show(key)}")
        if found := _compare(got[key], want[key], tolerance):
            return found._replace(text=f"[{show(key)}]{found.text}")
    unknown = [key for key in got if key not in want]
    return Difference(f" has {show(unknown[0])}, which does not belong there") if unknown else None


def _array_difference(got: Any, want: np.ndarray, tolerance: _Tolerance) -> Difference | None:
    if not hasattr(got, "shape"):
        words = f" is {show(got)}, {_kind(got)}; an array of shape {want.shape} is expected"
        return Difference(words, of_kind=True)
    array = as_numpy(got)
    if array.shape != want.shape:
        return Difference(f" has shape {array.shape}, expected {want.shape}", of_kind=True)
    kind, wanted_kind = _DTYPE_KINDS.get(array.dtype.kind), _DTYPE_KINDS.get(want.dtype.kind)
    if kind != wanted_kind:
        return Difference(f" has dtype {array.dtype}, expected {want.dtype}", of_kind=True)
    if want.size == 0:
        return None
    nearly = False
    if wanted_kind != "floats":
        differs = array != want
    else:
        finite = np.abs(want[np.isfinite(want)])
        largest = float(finite.max()) if finite.size else 0.0
        with np.errstate(invalid="ignore"):  # inf − inf
            off = np.abs(array.astype(np.float64) - want.astype(np.float64))
        same = (array == want) | (np.isnan(array) & np.isnan(want))
        if tolerance.signed_zeros:
            same &= np.signbit(array) == np.signbit(want)
            off = np.where((array == 0) & (want == 0), np.inf, off)
        allowed = same | (np.isfinite(off) & (off <= tolerance.of(largest)))
        differs = ~allowed
        epsilon = float(np.finfo(array.dtype).eps)
        nearly = bool((same | (np.isfinite(off) & (off <= tolerance.nearly(largest, epsilon)))).all())
    if not differs.any():
        return None
    index = tuple(int(i) for i in np.argwhere(differs)[0])
    place = "[" + ", ".join(map(str, index)) + "]" if index else ""
    one, other = array[index], want[index]
    words = f"{place} is {show(one, other)}, expected {show(other, one)}"
    return Difference(f"{words} ({int(differs.sum())} of {want.size} elements differ)", nearly=nearly)


def _dtype_difference(got: Any, want: np.dtype) -> Difference | None:
    found = as_numpy(got).dtype if hasattr(got, "dtype") else None
    if found == want:
        return None
    return Difference(f" has dtype {found}, expected {want}" if found else f" is {_kind(got)}, expected {want}", True)


_DTYPE_KINDS = {
    "b": "bools",
    "i": "whole numbers",
    "u": "whole numbers",
    "f": "floats",
    "c": "complex numbers",
}


def as_numpy(array: Any) -> np.ndarray:
    """Convert an array, a PyTorch tensor or a CuPy array to a NumPy array on the CPU."""
    if hasattr(array, "detach"):
        return array.detach().cpu().numpy()
    if hasattr(array, "get") and hasattr(array, "__cuda_array_interface__"):
        return array.get()
    return np.asarray(array)


# ---- In words


def _kind(value: Any) -> str:
    """The type of a value, in words."""
    if isinstance(value, np.floating) and not isinstance(value, float):
        return f"a {value.dtype} of NumPy"
    kinds: list[tuple[Any, str]] = [
        (type(None), "nothing"),
        ((bool, np.bool_), "a bool"),
        (numbers.Integral, "a whole number"),
        (numbers.Real, "a float"),
        (str, "a string"),
        (list, "a list"),
        (tuple, "a tuple"),
        (Mapping, "a dict"),
    ]
    for types, words in kinds:
        if isinstance(value, types):
            return words
    return "an array" if hasattr(value, "shape") else f"of type {type(value).__name__}"


def show(value: Any, other: Any = None) -> str:
    """A short text for a value, at most 60 characters, the same in every run (no addresses).

    other: a value shown in the same sentence; floats get enough digits to distinguish the two.
    """
    if isinstance(value, float | np.floating):
        rounded = float(f"{value:.9g}")  # without the last digits, where rounding shows
        apart = other is None or float(f"{other:.9g}") != rounded or not math.isfinite(rounded)
        return repr(rounded if apart else float(value))
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "shape"):
        return f"an array of shape {tuple(value.shape)}"
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"a whole number of {int(value.bit_length() * math.log10(2)) + 1:,} digits"
    if isinstance(value, str | bytes | bytearray) and len(value) > 200:
        value = value[:200]
    try:
        text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    except Exception as error:
        return f"a {type(value).__name__} whose repr() raises {type(error).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
