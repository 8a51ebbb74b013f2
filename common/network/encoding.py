"""Graphs of steps as JSON values, and back: data only, never code.

    json.dumps(encoded(graph))
    decoded(Graph, json.loads(text))

An object of a dataclass becomes {"type": "module:Class", fields…}, a fusion {"fusion": name}, a tuple a list, an
infinite number {"float": "inf"}. Decoding follows the types of the classes' fields: it makes objects only of classes
that such a field allows and that are loaded already, from values of the field's type.
"""

import sys
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any

import numpy as np

from .registry import FUSIONS, Operator


class NotLoaded(ValueError):
    """A class or a fusion that a file needs and that no loaded module defines."""

    def __init__(self, what: str, module: str) -> None:
        how = "define it" if module == "__main__" else f"import {module}"
        super().__init__(f"needs {what} of module {module}: {how} before loading")


def encoded(value: Any) -> Any:
    """A value as JSON has it. TypeError for what is not data: a function, an array, an object of no dataclass."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else {"float": repr(value)}
    if isinstance(value, (tuple, list)):
        return [encoded(one) for one in value]
    if isinstance(value, Mapping):
        return {"map": {str(key): encoded(one) for key, one in value.items()}}
    if isinstance(value, Operator):
        name = getattr(value, "name", None)
        if type(FUSIONS.get(name)) is not type(value):  # type: ignore[arg-type]
            raise TypeError(f"fusion {type(value).__qualname__} must be registered, with @register above its class")
        return {"fusion": name}
    if is_dataclass(value) and not isinstance(value, type):
        made = {"type": _key(type(value))}
        for field in fields(value):
            try:
                made[field.name] = encoded(getattr(value, field.name))
            except TypeError as error:
                raise TypeError(f"{type(value).__name__}.{field.name}: {error}") from None
        return made
    raise TypeError(f"cannot be saved: an object of type {type(value).__qualname__}")


def decoded(hint: Any, value: Any) -> Any:
    """The value of a type that `encoded` made a JSON value of. hint: the type, as annotations of fields have it.

    NotLoaded for a class or fusion that is not loaded, ValueError for a value that is not of the type.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return _plain(value)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        return _first_of([one for one in arguments if one is not type(None)], value)
    if hint is None or hint is type(None):
        return _of(value is None, None, value, "null")
    if hint is bool:
        return _of(isinstance(value, bool), value, value, "true or false")
    if hint is int:
        return _of(isinstance(value, int) and not isinstance(value, bool), value, value, "an integer")
    if hint is float:
        number = _plain(value) if isinstance(value, dict) else value
        return _of(isinstance(number, (int, float)) and not isinstance(number, bool), number, value, "a number")
    if hint is str:
        return _of(isinstance(value, str), value, value, "a text")
    if origin is tuple:
        _of(isinstance(value, list), value, value, "a list")
        each = [arguments[0]] * len(value) if arguments[1:] == (...,) else list(arguments)
        _of(len(each) == len(value), value, value, f"a list of {len(each)}")
        return tuple(decoded(one, part) for one, part in zip(each, value, strict=True))
    if origin in (dict, Mapping):
        _of(isinstance(value, dict) and isinstance(value.get("map"), dict), value, value, "a mapping")
        return {key: decoded(arguments[1], one) for key, one in value["map"].items()}
    if isinstance(hint, type) and issubclass(hint, Operator):
        _of(isinstance(value, dict) and isinstance(value.get("fusion"), str), value, value, "a fusion")
        return _of(value["fusion"] in FUSIONS, FUSIONS.get(value["fusion"]), value, "a registered fusion")
    if isinstance(hint, type) and is_dataclass(hint):
        return _object(hint, value)
    raise ValueError(f"a field of type {hint} cannot be loaded")


def _of(fits: bool, result: Any, value: Any, expected: str) -> Any:
    if not fits:
        raise ValueError(f"expected {expected}, got {str(value)[:80]!r}")
    return result


def _plain(value: Any) -> Any:
    """A value of no type in particular: a number, a text, None, or a tuple of such."""
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return float(_of(value.get("float") in ("inf", "-inf", "nan"), value, value, "a number")["float"])
    return value


def _first_of(hints: Iterable[Any], value: Any) -> Any:
    """The value of the first of several types that it fits."""
    problem = ValueError("no type")
    for hint in hints:
        try:
            return decoded(hint, value)
        except NotLoaded:
            raise
        except ValueError as error:
            problem = error
    raise problem


def _object(hint: type, value: Any) -> Any:
    """An object of a dataclass, or of one made from it."""
    _of(isinstance(value, dict) and isinstance(value.get("type"), str), value, value, f"a {hint.__name__}")
    key = value["type"]
    kind = next((kind for kind in _classes(hint) if _key(kind) == key), None)
    if kind is None:
        module, _, name = key.partition(":")
        raise NotLoaded(f"the class {name}", module)
    hints = typing.get_type_hints(kind)
    given = {name: part for name, part in value.items() if name != "type"}
    names = {field.name for field in fields(kind) if field.init}
    _of(given.keys() == names, given, sorted(given), f"the fields {sorted(names)} of {kind.__name__}")
    return kind(**{name: decoded(hints[name], part) for name, part in given.items()})


def _key(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _classes(base: type) -> list[type]:
    """A class and all that are made from it. Of several of one name, as reloading leaves, the module's is first."""
    found: list[type] = [base]
    for kind in found:
        found += filter(is_dataclass, type.__subclasses__(kind))
    return sorted(found, key=lambda kind: getattr(sys.modules.get(kind.__module__), kind.__name__, None) is not kind)
