"""Checks that parameters fit a network: none missing, none left over, the right shapes, finite numbers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..text import printable
from ..topology import Graph

MAX_NAMED = 20  # the most parameters that one message names


@dataclass(frozen=True)
class Finding:
    """The comparison of one parameter with the graph; `problem` is "" if it fits.

    expected: the shape in the graph, None if no layer reads the parameter. array: None if it is missing.
    """

    name: str
    layer: str  # the layer that reads it, "" if none does
    expected: tuple[int, ...] | None
    array: np.ndarray | None
    problem: str

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


def findings(graph: Graph, parameters: Mapping[str, np.ndarray]) -> Iterator[Finding]:
    """Yield a Finding for each parameter of the graph, in its order, then for each that no layer reads."""
    readers = {name: layer.name for layer in reversed(graph.layers) for name in layer.parameter_shapes}
    for name, shape in graph.parameter_shapes.items():
        array = parameters.get(name)
        yield Finding(name, readers[name], shape, array, problem_with(array, shape))
    for name in parameters:
        if name not in readers:
            array = np.asarray(parameters[name])
            yield Finding(name, "", None, array, f"no layer reads it, got {array.shape}")


def problem_with(array: np.ndarray | None, shape: tuple[int, ...]) -> str:
    """Why the array (None: missing) cannot be a parameter of this shape, as text; "" if it can."""
    if array is None:
        return f"missing, expected {shape}"
    if array.shape != shape:
        return f"expected {shape}, got {array.shape}"
    if array.dtype.kind != "f":
        return f"expected floating-point numbers, got {array.dtype}"
    if bad := array.size - int(np.isfinite(array).sum()):
        return f"{bad} of {array.size} numbers are infinite or not a number"
    return ""


def check(graph: Graph, parameters: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError if parameters are missing, left over, misshapen or not finite; it names the first MAX_NAMED."""
    problems = [str(finding) for finding in findings(graph, parameters) if finding.problem]
    if problems:
        count = f"{len(problems)} parameters do not fit" if len(problems) > 1 else "a parameter does not fit"
        shown = [*problems[:MAX_NAMED], *(["…"] if len(problems) > MAX_NAMED else [])]
        raise ValueError(printable(f"{graph.name}: {count}: " + "; ".join(shown)))
