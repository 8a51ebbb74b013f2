"""A stand-in for NVIDIA's Python package `cudnn` that lists every call and computes nothing. It needs no GPU.

calls(graph)                          the calls that `plans.lower` makes for a cuDNN graph

operations(graph)                     only the calls that add an operation
recorded(build, "x", "w")             the calls of a function of your own, build(graph, x, w)
"""

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

from . import library, plans
from .graphs import Graph

# one spelling for calls that mean the same: arguments that are listed by name, or by place
_BY_NAME = {"conv_fprop": ("image", "weight")}
_BY_PLACE = {"add": ("a", "b"), "identity": ("input",), "relu": ("input",)}
_NODES = ("conv_fprop", "conv_dgrad", "conv_wgrad", "identity", "add", "relu")
_RESULT = re.compile(r"t\d+")


class Recorder:
    """An object on which every attribute exists; a call is listed, and what it returns can be called again."""

    def __init__(self, name: str, lines: list[str]):
        self._name, self._lines = name, lines

    def __repr__(self) -> str:
        return self._name

    def __getattr__(self, attribute: str) -> "Recorder":
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Recorder(f"{self._name}.{attribute}", self._lines)

    def __call__(self, *arguments: Any, **named: Any) -> "Recorder":
        """List the call; returns a stand-in for its result."""
        owner, _, method = self._name.rpartition(".")
        if method == "get_uid":
            return Recorder(owner, self._lines)
        result = owner
        if method == "pygraph":
            result = "graph"
        elif method == "tensor":
            result = str(named.get("name", "tensor"))
        elif method in _NODES:
            result = f"t{sum(map(_is_operation, self._lines)) + 1}"
        arguments, named = _spelled(method, arguments, named)
        shown = [*map(repr, arguments), *(f"{key}={value!r}" for key, value in named.items())]
        line = f"{self._name}({', '.join(shown)})".replace("cudnn.", "")
        self._lines.append(line if result == owner else f"{result} = {line}")
        return Recorder(result, self._lines)


def _spelled(method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments as this module lists them; of a sum, results of other operations before tensors."""
    names = _BY_NAME.get(method, ())
    named = dict(zip(names, arguments, strict=False)) | named
    arguments = arguments[len(names) :]
    places = _BY_PLACE.get(method, ())[len(arguments) :]
    if places and all(name in named for name in places):
        arguments += tuple(named.pop(name) for name in places)
    if method == "add":
        arguments = tuple(sorted(arguments, key=lambda one: _RESULT.fullmatch(repr(one)) is None))
    order = [*names, *(name for name in named if name not in names)]
    return arguments, {name: named[name] for name in order if name in named}


def calls(graph: Graph) -> list[str]:
    """The calls of NVIDIA's package that `plans.lower` makes for a cuDNN graph, one per line."""
    lines: list[str] = []
    package, handle = Recorder("cudnn", lines), Recorder("handle", lines)
    with mock.patch.object(library, "require", lambda: package), mock.patch.object(library, "handle", lambda: handle):
        plans.lower(graph)
    return lines


def operations(graph: Graph) -> list[str]:
    """The calls that add an operation to a cuDNN graph, one per line: "t1 = graph.conv_fprop(…)"."""
    return [line for line in calls(graph) if _is_operation(line)]


def recorded(build: Callable[..., Any], *names: str) -> list[str]:
    """The calls that build(graph, *tensors) makes. names: of the tensors."""
    lines: list[str] = []
    build(Recorder("graph", lines), *(Recorder(name, lines) for name in names))
    return lines


def _is_operation(line: str) -> bool:
    return line.split(" = ", 1)[-1].startswith(tuple(f"graph.{op}(" for op in _NODES))
