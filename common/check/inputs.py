"""Guard arguments: reject a function that modifies an argument or returns a view of one."""

import functools
import inspect
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .answers import Wrong, as_numpy, show

_DEPTH = 30  # nesting depth of containers that are compared
_HINT = "work on a copy: `*=`, `[…] =`, sort() and pop() write into what the caller still holds"
_VIEW_HINT = "give back a new array: who writes into a view writes into the argument as well; .copy() makes one"


def guarded(
    function: Callable[..., Any], inout: Collection[str] = (), views_allowed: bool = False, name: str = ""
) -> Callable[..., Any]:
    """Wrap a function so that a call that modifies an argument or returns a view of one raises Wrong.

    Lists, tuples, dicts, sets, arrays, tensors, ONNX messages and objects' attributes are compared recursively; NaN
    equals NaN. Functions and classes among the arguments are ignored.

    inout           names of the parameters that the function may modify
    views_allowed   whether results may share memory with arguments
    name            the function's name in messages; its own by default
    """
    shown = name or getattr(function, "__name__", "the function")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        snapshots = {
            key: (value, _snapshot(value, copy=True))
            for key, value in _named(function, args, kwargs)
            if key not in inout
        }
        result = function(*args, **kwargs)
        for key, (value, before) in snapshots.items():
            if change := _change(before, _snapshot(value, copy=False), key):
                raise Wrong(f"{shown} changes its argument `{key}`: {change}", _HINT)
        if not views_allowed:
            arrays = list(_arrays(result))
            for key, (value, _) in snapshots.items() if arrays else ():
                if any(_share_memory(one, other) for one in arrays for other in _arrays(value)):
                    what = f"{shown} gives back a view of its argument `{key}`, not an array of its own"
                    raise Wrong(what, _VIEW_HINT)
        return result

    return call


def _named(function: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(parameter name, argument) pairs of a call; none if the arguments do not fit, for which the call itself fails."""
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


# ---- Contents of an argument


class _Snapshot(NamedTuple):
    """The contents of a value at one moment; kind: "atom", "array", "items", "mapping", "set" or "object"."""

    kind: str
    content: Any


_ATOMS = (int, float, complex, str, bytes, bool, type(None), type, np.generic, range, slice)


def _snapshot(value: Any, copy: bool, seen: frozenset[int] = frozenset()) -> _Snapshot:
    """The contents of a value now; with `copy`, independent of later changes to it."""
    if isinstance(value, _ATOMS) or id(value) in seen or len(seen) > _DEPTH:
        return _Snapshot("atom", value)
    array = _array(value)
    if array is not None and array.dtype != object:
        return _Snapshot("array", array.copy(order="K") if copy else array)
    inside = seen | {id(value)}
    if isinstance(value, list | tuple | deque) or array is not None:
        return _Snapshot(
            "items", [_snapshot(item, copy, inside) for item in (value if array is None else array.ravel())]
        )
    if isinstance(value, Mapping):
        return _Snapshot("mapping", {key: _snapshot(item, copy, inside) for key, item in value.items()})
    if isinstance(value, set | frozenset):
        return _Snapshot("set", set(value))
    if isinstance(value, bytearray | memoryview):
        return _Snapshot("atom", bytes(value))
    if hasattr(value, "SerializeToString"):  # ONNX
        return _Snapshot("atom", value.SerializeToString(deterministic=True))
    attributes = getattr(value, "__dict__", None)
    if attributes is None or (callable(value) and not hasattr(value, "state_dict")):  # code; a PyTorch module is data
        return _Snapshot("atom", value)
    return _Snapshot("object", {f".{key}": _snapshot(item, copy, inside) for key, item in attributes.items()})


def _array(value: Any) -> np.ndarray | None:
    """An array or tensor as a NumPy array, without a copy if it is in CPU memory; None for other values."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "shape") and (hasattr(value, "detach") or hasattr(value, "__cuda_array_interface__")):
        return as_numpy(value)
    return None


def _change(before: _Snapshot, now: _Snapshot, name: str) -> str:
    """How an argument changed, in words; "" if it did not."""
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
    """Equality of two values, or of two arrays element by element; NaN equals NaN."""
    try:
        with np.errstate(invalid="ignore"):
            return (one == other) | ((one != one) & (other != other))
    except Exception:  # not comparable: only the types are compared (identity was tested before)
        return type(one) is type(other)


# ---- Views


def _arrays(value: Any, depth: int = 0) -> Iterator[np.ndarray]:
    """All arrays and tensors in a value and its containers, except 0-dimensional ones."""
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
