"""What a network is made of, as data: one entry per operator, one per fusion of layers, and the steps that they run.

    @register
    class LeakyReLU(Operator): ...       a kind of layer: how it is read and written, what runs it, what it costs
    @register
    class ConvHardSwish(Fusion): ...     layers in a row that run as one: Network(model, passes=["conv-hard-swish", …])

An entry is a class; `register` makes it known. operators.py has the entries of common.topology's layers.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

from ..topology.graph import Graph
from ..topology.layers import Layer, Shape


class Cost(NamedTuple):
    """What a step moves through memory, each array once, and computes: two FLOPs for a multiply-accumulate."""

    bytes: int
    flops: int


class Arrays(NamedTuple):
    """What a step reads and writes, arrays of the backend: inputs as Step.inputs names them, the residual or None."""

    inputs: list[Any]
    residual: Any
    out: Any

    @property
    def x(self) -> Any:
        """The first input."""
        return self.inputs[0]


@dataclass(frozen=True, kw_only=True)
class Step(Layer):
    """Layers that run as one, which a pass puts in their place; in a plan every layer is one, most of one layer alone.

    layers: in the order in which they are computed. inputs: the tensors that they read and none of them writes, each
    once. residual: the one of them that is added before the activation; activation: as the kernels take it.
    fusion: what made it and runs it, None for the operator of its layer. parts: what its pattern's parts are, by name.
    """

    arity: ClassVar[int | None] = None

    layers: tuple[Layer, ...]
    residual: str | None = None
    activation: Any = None
    fusion: "Fusion | None" = None
    parts: Mapping[str, Layer] = field(default_factory=dict)

    @classmethod
    def of(cls, *nodes: Layer, **fields: Any) -> Self:
        """The step that computes these layers or steps one after the other; fields: residual, activation, …"""
        if len(nodes) == 1:
            inputs, shapes = nodes[0].inputs, nodes[0].input_shapes
        else:
            written = {node.output for node in nodes}
            read = {n: shape for node in nodes for n, shape in zip(node.inputs, node.input_shapes, strict=True)}
            inputs = tuple(name for name in read if name not in written)
            shapes = tuple(read[name] for name in inputs)
        return cls(
            name=nodes[0].name,
            inputs=inputs,
            output=nodes[-1].output,
            input_shapes=shapes,
            layers=tuple(chain.from_iterable(node.layers if isinstance(node, Step) else (node,) for node in nodes)),
            **fields,
        )

    @property
    def layer(self) -> Any:
        """The layer that gives the step its kernel; the others are done on the side."""
        return self.layers[0]

    @property
    def reads(self) -> tuple[str, ...]:
        """The tensors that it reads, each once."""
        return tuple(dict.fromkeys(self.inputs))

    @property
    def title(self) -> str:
        """In words: "Conv2d(96, 24, 1, 1, 0, 1) + ResidualAdd"."""
        return " + ".join([str(self.layer), *(type(layer).__name__ for layer in self.layers[1:])])

    def __str__(self) -> str:
        return self.title

    def _infer_shape(self) -> Shape:
        return self.layers[-1].output_shape

    @property
    def parameter_shapes(self) -> dict[str, Shape]:
        return {name: shape for layer in self.layers for name, shape in layer.parameter_shapes.items()}

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return sum(layer.macs for layer in self.layers)

    @property
    def params(self) -> int:
        return sum(layer.params for layer in self.layers)

    def parameter_bytes(self, itemsize: int) -> int:
        """Bytes of parameters, each layer's read once."""
        return sum(layer.weight_bytes(itemsize) for layer in self.layers)

    def activation_bytes(self, itemsize: int = 4) -> int:
        """Bytes of activations, each tensor read once and the output written once."""
        shapes = dict(zip(self.inputs, self.input_shapes, strict=True))
        return itemsize * sum(math.prod(shape) for shape in (*shapes.values(), self.output_shape))


def as_step(node: Layer) -> Step:
    """A node of a graph as a step: itself, or one of a layer alone."""
    return node if isinstance(node, Step) else Step.of(node)


def first(node: Layer) -> Any:
    """The layer that gives a node of a graph its kernel: a step's first, else the node itself."""
    return node.layers[0] if isinstance(node, Step) else node


# ---- Entries


class Operator:
    """How layers of one kind run. Override what it has; a backend whose method is not overridden does not run it.

    layer: the kind. in_place: whether kernels may write the output where an input of its shape lies.
    onnx: how an ONNX operator becomes such a layer, {"LeakyRelu": read}, read(Translation, Node) → Activation as in
    common.topology.operators. Layers of common.topology need none, nor `write`.
    """

    layer: ClassVar[type[Layer]]
    in_place: ClassVar[bool] = False
    onnx: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {}

    def write(self, layer: Any, opset: int) -> Iterable[Any]:
        """The ONNX nodes and initializers of a layer, as in common.topology.writer."""
        raise NotImplementedError

    def prepare(self, layer: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays that runners keep besides the parameters, by name, from the parameters in NumPy."""
        return {}

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        """What backend "kernels" launches. run: the KernelBackend, with parameters, `run`, `launch` and `moved`."""
        raise NotImplementedError

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        """What backend "cudnn" launches. run: the CudnnBackend; see there."""
        raise NotImplementedError

    def torch(self, layer: Any, inputs: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        """The reference, on tensors of PyTorch, wherever they are and of whatever floating-point type."""
        raise NotImplementedError

    def refuses(self, backend: str, layer: Any) -> str | None:
        """What a backend that runs such layers does instead of this one, in words; None if it runs it."""
        return None

    def runs_on(self, backend: str) -> bool:
        """Whether a backend, "kernels", "cudnn" or "torch", runs such layers."""
        return getattr(type(self), backend) is not getattr(Operator, backend)

    def cost(self, step: Step, itemsize: int) -> Cost:
        """What a step moves and computes, with numbers of so many bytes."""
        return Cost(step.activation_bytes(itemsize) + step.parameter_bytes(itemsize), 2 * step.macs)

    def terms(self, layer: Any) -> int:
        """How many products or terms are added up for one number of the output, which sets how far it may be off."""
        return 1


@dataclass(frozen=True)
class Part:
    """A place in a pattern: layers, or steps, of these types for which `where` holds. many: one or more in a row."""

    name: str
    types: type | tuple[type, ...]
    where: Callable[[Any], bool] = lambda node: True
    optional: bool = False
    many: bool = False

    def fits(self, node: Layer) -> bool:
        return isinstance(node, self.types) and self.where(node)


@dataclass(frozen=True)
class Match:
    """Where a pattern was found: its nodes in order, its parts by name (of many the last), the graph that has them.

    target: the backend's options (Kernels, …) where a Network asks, else None. `match["bias"]` is None where the
    optional part is not there.
    """

    nodes: tuple[Layer, ...]
    parts: Mapping[str, Layer]
    graph: Graph
    target: Any = None

    def __getitem__(self, name: str) -> Any:
        return self.parts.get(name)


class Fusion(Operator):
    """Layers in a row that run as one step.

    pattern: parts, each of which reads what the one before it writes, and which nobody else reads, nor the caller.
    Optional parts are taken where they fit. waits: the step stands where its last part stood, when all that any part
    reads has been written; else where its first stood, and a part that reads what is written later does not fit.

    The entries of an Operator count for its steps: in_place, kernels, cudnn, cost, terms; the reference is by default
    that of the parts, one after the other.
    """

    name: ClassVar[str]
    pattern: ClassVar[tuple[Part, ...]]
    waits: ClassVar[bool] = True

    def condition(self, match: Match) -> bool | str:
        """Whether a match becomes a step; or why not, in words."""
        return True

    def build(self, match: Match) -> Layer | str:
        """The step of a match, or a layer that computes the same; or why there is none, in words."""
        return Step.of(*match.nodes, fusion=self, parts=match.parts)

    def torch(self, layer: Any, inputs: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        tensors = dict(zip(layer.inputs, inputs, strict=True))
        for one in layer.layers:
            given = [tensors[name] for name in one.inputs]
            tensors[one.output] = operator_of(one).torch(one, given, parameters)  # type: ignore[union-attr]
        return tensors[layer.output]

    def terms(self, layer: Any) -> int:
        return sum(map(terms, layer.parts.values()))


OPERATORS: dict[type[Layer], Operator] = {}
FUSIONS: dict[str, Fusion] = {}


def register(entry: type[Operator]) -> type[Operator]:
    """Makes an operator or a fusion known; used as a decorator. One made anew under its name replaces the older.

    TypeError for what is no class of an entry, ValueError for a layer or a name that another entry has.
    """
    if not (isinstance(entry, type) and issubclass(entry, Operator)):
        raise TypeError(f"entry must be a class made from Operator or Fusion, got {entry!r}")
    made = entry()
    table: dict[Any, Any] = FUSIONS if isinstance(made, Fusion) else OPERATORS
    missing = [name for name in (("name", "pattern") if table is FUSIONS else ("layer",)) if not hasattr(made, name)]
    if missing:
        raise TypeError(f"{entry.__name__} must have {' and '.join(missing)}, got none")
    key = made.name if isinstance(made, Fusion) else made.layer
    replaced: Operator | None = None
    for known, other in list(table.items()):
        if _spelled(known) != _spelled(key):
            continue
        if (type(other).__module__, type(other).__qualname__) != (entry.__module__, entry.__qualname__):
            raise ValueError(f"{entry.__name__}: {_spelled(key)!r} is registered by {type(other).__qualname__} already")
        replaced = table.pop(known)
    if made.onnx:
        from ..topology import operators, writer

        if taken := [op for op in made.onnx if op in operators.TRANSLATE and op not in getattr(replaced, "onnx", ())]:
            raise ValueError(f"{entry.__name__}: the ONNX operator {taken[0]!r} is read already")
        operators.TRANSLATE.update(made.onnx)
        writer.WRITE[made.layer] = made.write  # type: ignore[assignment]
    table[key] = made
    return entry


def unregister(entry: type[Operator]) -> None:
    """Makes a registered operator or fusion unknown again, for instance at the end of a test.

    KeyError if it is not registered.
    """
    key: Any = entry.name if issubclass(entry, Fusion) else entry.layer
    table: dict[Any, Any] = FUSIONS if issubclass(entry, Fusion) else OPERATORS
    if not isinstance(table.get(key), entry):
        raise KeyError(f"{entry.__name__} is not registered")
    from ..topology import operators, writer

    made = table.pop(key)
    for op in made.onnx:
        del operators.TRANSLATE[op]
    if made.onnx:
        del writer.WRITE[made.layer]


def _spelled(key: str | type) -> str:
    return key if isinstance(key, str) else key.__name__


def operator_of(node: Layer) -> Operator | None:
    """What runs a layer or a step; None for a kind of layer that nobody has registered."""
    if isinstance(node, Step):
        return node.fusion or OPERATORS.get(type(node.layer))
    return OPERATORS.get(type(node))


def terms(node: Layer) -> int:
    """How many products or terms are added up for one number of a layer's or a step's output; in a block, in all."""
    entry = operator_of(node)
    return entry.terms(node if isinstance(entry, Fusion) else first(node)) if entry else 1


def layers_on(backend: str) -> list[type[Layer]]:
    """The kinds of layers that a backend, "kernels", "cudnn" or "torch", runs, by name."""
    return sorted((kind for kind, entry in OPERATORS.items() if entry.runs_on(backend)), key=lambda k: k.__name__)


def cost(step: Step, itemsize: int) -> Cost:
    """What a step moves and computes; a step that nobody runs, its arrays and products all the same."""
    return (operator_of(step) or Operator()).cost(step, itemsize)
