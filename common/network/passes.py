"""Passes: functions from a graph to an equivalent graph, and the pattern matcher of those that fuse layers.

    Network(model, passes=["conv-hard-swish", *DEFAULT])            names of fusions, fusions, or functions
    for name, graph in net.stages(): print(name, graph, sep="\\n")   the graph after each pass

A pass takes and returns a topology.Graph; some of its layers may be steps (registry.Step): layers fused into one.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..topology.graph import Graph
from ..topology.layers import Layer
from .registry import FUSIONS, Fusion, Match, Step, as_step

Pass = Callable[[Graph], Graph]
Pipeline = list[tuple[str, Pass]]  # passes in order, with their names

DEFAULT = ("epilogue",)  # the default passes of backends "kernels" and "cudnn"


@dataclass(frozen=True)
class Refusal:
    """A match that was not fused: the names of its layers, and the reason."""

    layers: tuple[str, ...]
    reason: str


class _Nodes:
    """A graph's nodes by index, and the readers of each tensor."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes = graph, graph.layers
        self.written = dict.fromkeys(graph.inputs, -1) | {node.output: i for i, node in enumerate(graph.layers)}
        self._readers: dict[str, list[int]] = {name: [-1] for name in graph.outputs}  # the caller
        for i, node in enumerate(graph.layers):
            for name in node.inputs:
                self._readers.setdefault(name, []).append(i)

    def reader(self, tensor: str) -> int | None:
        """The index of a tensor's reader, if a single node reads it once and the caller does not; else None."""
        found = self._readers.get(tensor, ())
        return found[0] if len(found) == 1 and found[0] >= 0 else None

    def match(self, fusion: Fusion, start: int, gone: set[int]) -> tuple[list[int], dict[str, Layer]] | None:
        """A match that starts at node `start`: (indices of its nodes, the parts by name), or None.

        gone: indices of nodes that are part of a step already.
        """
        numbers: list[int] = []
        parts: dict[str, Layer] = {}
        at: int | None = start

        def fits(part: Any) -> bool:
            if at is None or at in gone or not part.fits(self.nodes[at]):
                return False
            return (
                fusion.waits
                or not numbers
                or all(
                    self.written[name] < start
                    for name in self.nodes[at].inputs
                    if name != self.nodes[numbers[-1]].output
                )
            )

        for part in fusion.pattern:
            while fits(part):
                assert at is not None
                numbers.append(at)
                parts[part.name] = self.nodes[at]
                at = self.reader(self.nodes[at].output)
                if not part.many:
                    break
            if part.name not in parts and not part.optional:
                return None
        return (numbers, parts) if numbers else None


def matches(graph: Graph, fusion: Fusion, target: Any = None) -> Iterator[Match]:
    """The matches of a fusion's pattern, starting at every node; Fusion.condition is not evaluated."""
    nodes = _Nodes(graph)
    for start in range(len(graph)):
        if found := nodes.match(fusion, start, set()):
            yield Match(tuple(graph.layers[i] for i in found[0]), found[1], graph, target)


def rewrite(
    graph: Graph, fusions: Sequence[Fusion], target: Any = None, refusals: list[Refusal] | None = None
) -> Graph:
    """The graph with matches of the fusions replaced by their steps.

    For each node in order, the first fusion that matches there and does not refuse is applied; a layer becomes part of
    at most one step. Time: O(layers × length of a refused match).
    target: the backend's options, for Match.target. refusals: a list to which refused matches are appended.
    """
    nodes = _Nodes(graph)
    made: dict[int, Layer] = {}
    gone: set[int] = set()
    for start in range(len(graph)):
        if start in gone:
            continue
        for fusion in fusions:
            found = nodes.match(fusion, start, gone)
            if found is None:
                continue
            numbers, parts = found
            match = Match(tuple(graph.layers[i] for i in numbers), parts, graph, target)
            able = fusion.condition(match)
            step = fusion.build(match) if able is True else able
            if isinstance(step, Layer):
                place = numbers[-1] if fusion.waits else start
                made[place] = step
                nodes.written[step.output] = place
                gone.update(numbers)
                break
            if refusals is not None and step:
                refusals.append(Refusal(tuple(node.name for node in match.nodes), str(step)))
    layers = (made.get(i, node) for i, node in enumerate(graph.layers) if i in made or i not in gone)
    return replace(graph, layers=tuple(layers))


@dataclass(frozen=True)
class Fuse:
    """The pass that applies one fusion. target: the backend's options, or None."""

    fusion: Fusion
    target: Any = None

    @property
    def name(self) -> str:
        """The fusion's name."""
        return self.fusion.name

    def __call__(self, graph: Graph, refusals: list[Refusal] | None = None) -> Graph:
        """The rewritten graph, see `rewrite`."""
        return rewrite(graph, (self.fusion,), self.target, refusals)


def resolve(passes: Iterable[Any], target: Any = None) -> Pipeline:
    """(name, function) for each pass: a function of a graph, a Fusion, its class, or the name of a registered one.

    target: the backend's options, for the fusions. TypeError for anything else, ValueError for an unknown name.
    """
    if isinstance(passes, str) or not isinstance(passes, Iterable):
        raise TypeError(f"passes must be a list of passes, got {passes!r}")
    found: Pipeline = []
    for one in passes:
        if isinstance(one, str):
            if one not in FUSIONS:
                raise ValueError(f"passes: a fusion must be one of {', '.join(FUSIONS)}, got {one!r}")
            one = FUSIONS[one]
        elif isinstance(one, type) and issubclass(one, Fusion):
            one = one()
        if isinstance(one, Fusion):
            one = Fuse(one, target)
        elif not callable(one):
            raise TypeError(f"passes: must be functions, fusions or their names, got {one!r}")
        found.append((getattr(one, "name", getattr(one, "__name__", type(one).__name__)), one))
    return found


def stages(graph: Graph, pipeline: Pipeline) -> Iterator[tuple[str, Graph]]:
    """(name of the pass, graph after it) for each pass.

    TypeError for a pass that does not return a Graph; ValueError for one that changes the name or the shape of the
    input or output, or uses parameters that the graph before it does not have.
    """
    for name, one in pipeline:
        after = one(graph)
        if not isinstance(after, Graph):
            raise TypeError(f"pass {name!r} must give a Graph, got {type(after).__name__}")
        for what in ("input", "input_shape", "more_inputs", "output", "more_outputs"):
            if getattr(after, what) != getattr(graph, what):
                raise ValueError(
                    f"pass {name!r} must keep the {what} {getattr(graph, what)}, got {getattr(after, what)}"
                )
        for output in graph.outputs:
            if after.shapes[output] != graph.shapes[output]:
                raise ValueError(
                    f"pass {name!r} must keep the output_shape {graph.shapes[output]}, got {after.shapes[output]}"
                )
        if unknown := after.parameter_shapes.keys() - graph.parameter_shapes.keys():
            raise ValueError(f"pass {name!r} must use the graph's own parameters, got {sorted(unknown)[0]!r}")
        graph = after
        yield name, graph


def explain(graph: Graph, pipeline: Pipeline) -> str:
    """A text: the number of layers after each pass, and per reason the number of refused matches and the first one."""
    lines = [f"{len(graph)} layers"]
    for name, one in pipeline:
        refusals: list[Refusal] = []
        noting = functools.partial(one, refusals=refusals) if isinstance(one, Fuse) else one
        ((_, graph),) = stages(graph, [(name, noting)])
        lines.append(f"{name}: {len(graph)} layers")
        for reason, count in Counter(refusal.reason for refusal in refusals).items():
            layers = next(refusal.layers for refusal in refusals if refusal.reason == reason)
            lines.append(f"    refused {count} times, first {' + '.join(layers)}: {reason}")
    return "\n".join(lines)


def as_steps(graph: Graph) -> list[Step]:
    """The layers of a graph as steps; each layer that is not a step becomes a step of its own."""
    return [as_step(layer) for layer in graph.layers]
