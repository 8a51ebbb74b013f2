"""Arguments are inputs: a function that changes what it is given, or gives a view of it back, is refused."""

import functools
import inspect
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .answers import Wrong, as_numpy, show

_DEPTH = 30  # containers within containers that are looked into
_HINT = "work on a copy: `*=`, `[…] =`, sort() and pop() write into what the caller still holds"
_VIEW_HINT = "give back a new array: who writes into a view writes into the argument as well; .copy() makes one"


def recorded(
    function: Callable[..., Any], inout: Collection[str] = (), views_allowed: bool = False, name: str = ""
) -> Callable[..., Any]:
    """The function, which raises Wrong when a call of it changes an argument, or gives back a view of one.

    Compared are lists, tuples, dicts, sets, arrays, tensors, ONNX messages and the attributes of objects, all the way
    down; NaN equals NaN. Functions and classes among the arguments are not looked into.

    inout           the parameters that the exercise asks to be written to
    views_allowed   whether the results may share their memory with arguments
    name            what a message calls the function; else its own name
    """
    shown = name or getattr(function, "__name__", "the function")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = {
            key: (value, _held(value, copy=True)) for key, value in _named(function, args, kwargs) if key not in inout
        }
        result = function(*args, **kwargs)
        for key, (value, before) in given.items():
            if change := _change(before, _held(value, copy=False), key):
                raise Wrong(f"{shown} changes its argument `{key}`: {change}", _HINT)
        if not views_allowed:
            arrays = list(_arrays(result))
            for key, (value, _) in given.items() if arrays else ():
                if any(_share_memory(one, other) for one in arrays for other in _arrays(value)):
                    what = f"{shown} gives back a view of its argument `{key}`, not an array of its own"
                    raise Wrong(what, _VIEW_HINT)
        return result

    return call


def _named(function: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(the parameter's name, the argument) of a call; a call that does not fit is left to the function to refuse."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return
    for parameter in bound.signature.parameters.values():
        if parameter.name not in bound.arguments:
            continue
        value = bound.arguments[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            yield from ((f"{parameter.name}[{i}]", one) for i, one in enumerate(value))
        elif parameter.kind is parameter.VAR_KEYWORD:
            yield from value.items()
        else:
            yield parameter.name, value


# ---- What an argument holds


class _Held(NamedTuple):
    """What a value holds at one moment: "atom", "array", "items", "mapping", "set" or "object", and its content."""

    kind: str
    content: Any


_ATOMS = (int, float, complex, str, bytes, bool, type(None), type, np.generic, range, slice)


def _held(value: Any, copy: bool, seen: frozenset[int] = frozenset()) -> _Held:
    """What a value holds now. With `copy` it stays so whatever happens to the value."""
    if isinstance(value, _ATOMS) or id(value) in seen or len(seen) > _DEPTH:
        return _Held("atom", value)
    array = _array(value)
    if array is not None and array.dtype != object:
        return _Held("array", array.copy(order="K") if copy else array)
    inside = seen | {id(value)}
    if isinstance(value, list | tuple | deque) or array is not None:
        return _Held("items", [_held(item, copy, inside) for item in (value if array is None else array.ravel())])
    if isinstance(value, Mapping):
        return _Held("mapping", {key: _held(item, copy, inside) for key, item in value.items()})
    if isinstance(value, set | frozenset):
        return _Held("set", set(value))
    if isinstance(value, bytearray | memoryview):
        return _Held("atom", bytes(value))
    if hasattr(value, "SerializeToString"):  # ONNX
        return _Held("atom", value.SerializeToString(deterministic=True))
    attributes = getattr(value, "__dict__", None)
    if attributes is None or (callable(value) and not hasattr(value, "state_dict")):  # code; a PyTorch module is data
        return _Held("atom", value)
    return _Held("object", {f".{key}": _held(item, copy, inside) for key, item in attributes.items()})


def _array(value: Any) -> np.ndarray | None:
    """The numbers of an array or a tensor, on this machine's CPU without a copy if they lie there."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "shape") and (hasattr(value, "detach") or hasattr(value, "__cuda_array_interface__")):
        return as_numpy(value)
    return None


def _change(before: _Held, now: _Held, name: str) -> str:
    """What has become of an argument, in words, or ""."""
    one, other = before.content, now.content
    if before.kind != now.kind:
        return f"{name} is something else now"
    if before.kind == "array":
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"{name} has shape {other.shape} and dtype {other.dtype}, it had {one.shape} and {one.dtype}"
        differs = ~_equal(one, other)
        if not differs.any():
            return ""
        index = tuple(int(i) for i in np.argwhere(differs)[0])
        place = f"[{', '.join(map(str, index))}]" if index else ""
        return f"{name}{place} is {show(other[index])}, it was {show(one[index])}"
    if before.kind in ("mapping", "object"):
        return _mapping_change(one, other, name, before.kind == "object")
    if before.kind == "items":
        if len(one) != len(other):
            return f"{name} has {len(other)} items, it had {len(one)}"
        changes = (_change(a, b, f"{name}[{i}]") for i, (a, b) in enumerate(zip(one, other, strict=True)))
        return next(filter(None, changes), "")
    if one is other or bool(_equal(one, other)):
        return ""
    return f"{name} is {show(other)}, it was {show(one)}" if not isinstance(one, bytes) else f"{name} is not as it was"


def _mapping_change(before: Mapping, now: Mapping, name: str, attributes: bool) -> str:
    for key in [*before, *(key for key in now if key not in before)]:
        path = f"{name}{key}" if attributes else f"{name}[{show(key)}]"
        if key not in now:
            return f"{path} is gone"
        if key not in before:
            return f"{path} is new"
        if change := _change(before[key], now[key], path):
            return change
    return ""


def _equal(one: Any, other: Any) -> Any:
    """Whether two things, or the elements of two arrays, are the same; NaN is NaN."""
    try:
        with np.errstate(invalid="ignore"):
            return (one == other) | ((one != one) & (other != other))
    except Exception:  # things that cannot be compared are the same if they are one, which was asked before
        return type(one) is type(other)


# ---- Views


def _arrays(value: Any, depth: int = 0) -> Iterator[np.ndarray]:
    """All arrays and tensors in a value and the containers in it; one without dimensions is a number."""
    array = _array(value)
    if array is not None:
        if array.ndim:
            yield array
    elif depth < _DEPTH and isinstance(value, list | tuple):
        for item in value:
            yield from _arrays(item, depth + 1)
    elif depth < _DEPTH and isinstance(value, Mapping):
        yield from _arrays(list(value.values()), depth + 1)


def _share_memory(one: np.ndarray, other: np.ndarray) -> bool:
    return np.may_share_memory(one, other) and np.shares_memory(one, other)
