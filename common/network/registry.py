"""The registry of operators and fusions, and the steps that they run.

    @register
    class CELU(Operator): ...            a type of layer: its ONNX form, its implementations, its cost
    @register
    class ConvHardSwish(Fusion): ...     a chain of layers run as one: Network(model, passes=["conv-hard-swish", …])

An entry is a class, which `register` adds. operators.py has the entries for common.topology's layers.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

from ..topology.graph import Graph
from ..topology.layers import Dequantize, Layer, Quantize, Shape


class Cost(NamedTuple):
    """Bytes that a step reads and writes, each array once, and FLOPs: two per multiply-accumulate."""

    bytes: int
    flops: int


class Arrays(NamedTuple):
    """The arrays of a step, of the backend: `inputs` in the order of Step.inputs, the residual or None, the output."""

    inputs: list[Any]
    residual: Any
    out: Any

    @property
    def x(self) -> Any:
        """The first input."""
        return self.inputs[0]


@dataclass(frozen=True, kw_only=True)
class Step(Layer):
    """Layers that run as one; a pass puts it in their place. In a plan every layer is a step.

    layers       in the order of computation
    inputs       the tensors that the layers read and that none of them writes
    residual     the input that is added before the activation, if any
    activation   as the kernels take it: "relu6", "relu", (low, high) or None
    fusion       the Fusion that made the step and runs it; None: the operator of its only layer runs it
    parts        the parts of the fusion's pattern, by name
    """

    arity: ClassVar[int | None] = None

    layers: tuple[Layer, ...]
    residual: str | None = None
    activation: Any = None
    fusion: "Fusion | None" = None
    parts: Mapping[str, Layer] = field(default_factory=dict)

    @classmethod
    def of(cls, *nodes: Layer, **fields: Any) -> Self:
        """The step that computes these layers or steps in order. fields: residual, activation, …, of the class."""
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
        """The first layer, whose kernel computes the step; the others are its epilogue."""
        return self.layers[0]

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the tensors that the step reads, each once."""
        return tuple(dict.fromkeys(self.inputs))

    @property
    def title(self) -> str:
        """The step in words: "Conv2d(96, 24, 1, 1, 0, 1) + ResidualAdd"; of integer steps without the grids."""
        of_numbers = [layer for layer in self.layers if not isinstance(layer, Quantize | Dequantize)]
        head, *rest = of_numbers or self.layers
        return " + ".join([str(head), *(type(layer).__name__ for layer in rest)])

    def __str__(self) -> str:
        return self.title

    def _infer_shape(self) -> Shape:
        return self.layers[-1].output_shape

    @property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Shapes of the parameters of all layers, by name."""
        return {name: shape for layer in self.layers for name, shape in layer.parameter_shapes.items()}

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all layers."""
        return sum(layer.macs for layer in self.layers)

    @property
    def params(self) -> int:
        """Number of parameters of all layers."""
        return sum(layer.params for layer in self.layers)

    def parameter_bytes(self, itemsize: int) -> int:
        """Bytes of the parameters of all layers. itemsize: bytes per number."""
        return sum(layer.weight_bytes(itemsize) for layer in self.layers)

    def activation_bytes(self, itemsize: int = 4) -> int:
        """Bytes of activations: each input read once, the output written once. itemsize: bytes per element."""
        shapes = dict(zip(self.inputs, self.input_shapes, strict=True))
        return itemsize * sum(math.prod(shape) for shape in (*shapes.values(), self.output_shape))


def with_batch(node: Layer, batch: int) -> Any:
    """A layer or a step, with its layers and parts, for another batch size."""
    shapes = tuple((batch, *shape[1:]) for shape in node.input_shapes)
    if not isinstance(node, Step):
        return replace(node, input_shapes=shapes)
    parts = {name: with_batch(part, batch) for name, part in node.parts.items()}
    return replace(
        node, input_shapes=shapes, layers=tuple(with_batch(layer, batch) for layer in node.layers), parts=parts
    )


def as_step(node: Layer) -> Step:
    """A node of a graph as a step: itself, or a step of this one layer."""
    return node if isinstance(node, Step) else Step.of(node)


def first(node: Layer) -> Any:
    """The first layer of a step, or the layer itself."""
    return node.layers[0] if isinstance(node, Step) else node


def layers_of(graph: Graph) -> Iterator[Layer]:
    """The layers of a graph of layers or steps, in order."""
    for node in graph.layers:
        yield from node.layers if isinstance(node, Step) else (node,)


# ---- Entries


class Operator:
    """An entry for one type of layer. A backend whose method is not overridden does not support the layer.

    layer      the type of layer
    in_place   whether the kernels may write the output over an input of the same shape
    onnx       readers of ONNX operators, {"Celu": read} with read(Translation, Node) → Activation, as in
               common.topology.operators. Layers of common.topology need neither `onnx` nor `write`
    """

    layer: ClassVar[type[Layer]]
    in_place: ClassVar[bool] = False
    onnx: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {}

    def write(self, layer: Any, opset: int) -> Iterable[Any]:
        """The ONNX nodes and initializers of a layer, for an opset version, as in common.topology.writer."""
        raise NotImplementedError

    def prepare(self, layer: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Further arrays that runners store with the parameters: float32 NumPy arrays by name, as `parameters` are."""
        return {}

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        """The launches of a step on backend "kernels".

        run: the KernelBackend, which has `parameters`, `run`, `launch` and `permute`. arrays: what the step reads and
        writes.
        Called again, with other arrays, if kernels of the network ask for workspaces (cuda.workspace).
        """
        raise NotImplementedError

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        """The call of a step on backend "cudnn", as the methods of `run`, the CudnnBackend, return it."""
        raise NotImplementedError

    def torch(self, layer: Any, inputs: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        """The layer's output by PyTorch, the reference. inputs, parameters: tensors of any device and float dtype."""
        raise NotImplementedError

    def refuses(self, backend: str, layer: Any) -> str | None:
        """Why a backend that runs such layers cannot run this one: "runs …, not …"; None if it can."""
        return None

    def runs_on(self, backend: str) -> bool:
        """Whether a backend, "kernels", "cudnn" or "torch", has an implementation of such layers."""
        return getattr(type(self), backend) is not getattr(Operator, backend)

    def cost(self, step: Step, itemsize: int) -> Cost:
        """The bytes and FLOPs of a step. itemsize: bytes per number."""
        return Cost(step.activation_bytes(itemsize) + step.parameter_bytes(itemsize), 2 * step.macs)

    def terms(self, layer: Any) -> int:
        """Number of terms summed per output element, which determines the tolerance of the result."""
        return 1


@dataclass(frozen=True)
class Part:
    """A part of a pattern: a layer or step of one of `types` for which `where` returns True.

    optional: may be absent. many: matches one or more in a chain.
    """

    name: str
    types: type | tuple[type, ...]
    where: Callable[[Any], bool] = lambda node: True
    optional: bool = False
    many: bool = False

    def fits(self, node: Layer) -> bool:
        """Whether a layer or step matches this part."""
        return isinstance(node, self.types) and self.where(node)


@dataclass(frozen=True)
class Match:
    """A match of a pattern in a graph.

    nodes    the matched layers or steps, in order
    parts    the same by the part's name; for a part with `many`, the last one. match["bias"] is None for an absent
             optional part
    target   the backend's options (Kernels, …) if a Network applies the pass, else None
    """

    nodes: tuple[Layer, ...]
    parts: Mapping[str, Layer]
    graph: Graph
    target: Any = None

    def __getitem__(self, name: str) -> Any:
        return self.parts.get(name)


class Fusion(Operator):
    """An entry for a chain of layers that runs as one step.

    name      for Network(passes=[…])
    pattern   parts; each reads the output of the one before, which no other layer reads and which is not the network's
              output. Optional parts match where they can
    waits     True: the step takes the place of its last part, where all inputs are available. False: the place of its
              first part; a part that reads a tensor that is written later does not match

    in_place, kernels, cudnn, cost and terms are as of Operator, for the step. The reference, `torch`, runs the layers
    one after the other by default.
    """

    name: ClassVar[str]
    pattern: ClassVar[tuple[Part, ...]]
    waits: ClassVar[bool] = True

    def condition(self, match: Match) -> bool | str:
        """True if a match becomes a step, else the reason why not, in words."""
        return True

    def build(self, match: Match) -> Layer | str:
        """The step of a match, or a layer that computes the same; else the reason why there is none, in words."""
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
    """Class decorator that adds an operator or a fusion. A class of the same module and name is replaced.

    Returns the class. TypeError if it is not a subclass of Operator or lacks a required attribute, ValueError for a
    layer, fusion name or ONNX operator that another entry has.
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
    """Remove a registered operator or fusion, for example at the end of a test. KeyError if it is not registered."""
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
    """The entry that runs a layer or a step; None for a type of layer that is not registered."""
    if isinstance(node, Step):
        return node.fusion or OPERATORS.get(type(node.layer))
    return OPERATORS.get(type(node))


def terms(node: Layer) -> int:
    """Number of terms summed per output element of a layer or step; for a fusion, the sum over its parts."""
    entry = operator_of(node)
    return entry.terms(node if isinstance(entry, Fusion) else first(node)) if entry else 1


def layers_on(backend: str) -> list[type[Layer]]:
    """The types of layers that a backend, "kernels", "cudnn" or "torch", runs, sorted by name."""
    return sorted((kind for kind, entry in OPERATORS.items() if entry.runs_on(backend)), key=lambda k: k.__name__)


def cost(step: Step, itemsize: int) -> Cost:
    """The bytes and FLOPs of a step, of its arrays and MACs if it has no entry. itemsize: bytes per number."""
    return (operator_of(step) or Operator()).cost(step, itemsize)
