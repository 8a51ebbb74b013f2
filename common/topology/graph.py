"""Graph: a network as a list of layers in execution order, with its census, totals and listing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from ..text import printable
from .grids import Grid
from .layers import Layer, Shape

MAX_NAME = 200  # characters of the network's name in a listing; in a file it can have any length


Signature = Shape | tuple[Shape, ...]  # the shape of the only input, or those of several


def shapes_of(signature: Signature) -> tuple[Shape, ...]:
    """The shape of each input, of a Graph.signature."""
    return tuple(cast(Any, signature)) if isinstance(signature[0], tuple) else (cast(Shape, signature),)


def signature_of(shapes: Iterable[Shape]) -> Signature:
    """The Graph.signature of the shapes of all inputs."""
    every = tuple(shapes)
    return every if len(every) > 1 else every[0]


def with_batch(signature: Signature, batch: int) -> Signature:
    """A Graph.signature for another batch size."""
    return signature_of((batch, *shape[1:]) for shape in shapes_of(signature))


def show_shapes(signature: Signature) -> str:
    """A Graph.signature in words: "1 × 3 × 224 × 224", of several inputs one after the other."""
    return ", ".join(" × ".join(map(str, shape)) for shape in shapes_of(signature))


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A network from the tensor `input`, of shape `input_shape` with the batch first, to the tensor `output`.

    layers: in execution order. more_inputs: (name, shape) of further inputs, more_outputs: names of further outputs;
    `inputs` and `outputs` have them all. grids: (name, Grid) of parameters that are stored as integers; their numbers
    are on these grids, and a file holds the codes.

    ValueError unless every tensor is written once and before it is read, input shapes agree with the shapes written,
    all inputs have one batch size, and layers that share a parameter agree on its shape.
    """

    name: str
    input: str
    input_shape: Shape
    layers: tuple[Layer, ...]
    output: str
    more_inputs: tuple[tuple[str, Shape], ...] = ()
    more_outputs: tuple[str, ...] = ()
    grids: tuple[tuple[str, Grid], ...] = ()

    def __post_init__(self) -> None:
        shapes = self.shapes
        if len(shapes) != 1 + len(self.more_inputs) + len(self.layers):
            raise ValueError("two layers write the same tensor")
        if len(batches := {shape[0] for shape in self.inputs.values()}) > 1:
            raise ValueError(f"the inputs have the batch sizes {sorted(batches)}, not one")
        written = set(self.inputs)
        for layer in self.layers:
            for tensor, shape in zip(layer.inputs, layer.input_shapes, strict=True):
                if tensor not in written:
                    raise ValueError(f"layer {layer.name!r} reads {tensor!r} before any layer writes it")
                if shapes[tensor] != shape:
                    raise ValueError(f"layer {layer.name!r} takes {tensor!r} to be {shape}, it is {shapes[tensor]}")
            written.add(layer.output)
        for output in self.outputs:
            if output not in written:
                raise ValueError(f"no layer writes the output {output!r}")
        self.parameter_shapes  # noqa: B018  raises if two layers disagree on a parameter

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """Shape of every activation by tensor name, beginning with the inputs'."""
        return self.inputs | {layer.output: layer.output_shape for layer in self.layers}

    @cached_property
    def inputs(self) -> dict[str, Shape]:
        """Shape of each input by tensor name."""
        return {self.input: self.input_shape} | dict(self.more_inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the output tensors, of which several may be the same."""
        return (self.output, *self.more_outputs)

    @property
    def signature(self) -> Signature:
        """The input's shape, or a tuple of the shapes of several inputs: read_onnx's `input_shape`."""
        return signature_of(self.inputs.values())

    @property
    def output_shape(self) -> Shape:
        """Shape of the tensor `output`, the batch first."""
        return self.shapes[self.output]

    @cached_property
    def parameter_shapes(self) -> Mapping[str, Shape]:
        """Shape of every parameter array by name, in the order of first use. ValueError if two layers disagree."""
        shapes: dict[str, Shape] = {}
        for layer in self.layers:
            for name, shape in layer.parameter_shapes.items():
                if shapes.setdefault(name, shape) != shape:
                    raise ValueError(f"the parameter {name!r} is used as {shapes[name]} and as {shape}")
        return shapes

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run at this batch size, see Layer.macs."""
        return sum(layer.macs for layer in self.layers)

    @property
    def params(self) -> int:
        """The number of learned parameters; shared ones are counted once."""
        return sum({tuple(layer.parameter_shapes): layer.params for layer in self.layers}.values())

    def census(self) -> Counter[str]:
        """The number of layers by kind, the class's name."""
        return Counter(type(layer).__name__ for layer in self.layers)

    def with_batch(self, batch: int, layers: Sequence[Layer] | None = None) -> "Graph":
        """A copy of the network for another batch size. ValueError for a size below 1.

        layers: those of the copy, if they are more than the layers here with other input shapes.
        """
        if layers is None:
            layers = [
                replace(layer, input_shapes=tuple((batch, *shape[1:]) for shape in layer.input_shapes))
                for layer in self.layers
            ]
        first, *more = shapes_of(with_batch(self.signature, batch))
        names = [name for name, _ in self.more_inputs]
        return replace(self, input_shape=first, more_inputs=tuple(zip(names, more, strict=True)), layers=tuple(layers))

    def describe(self, layer: Layer) -> str:
        """`str(layer)`; for several inputs with the indices of the layers that it reads: `ResidualAdd(9, 14)`."""
        if layer.arity == 1 or type(layer).__str__ is not Layer.__str__:
            return str(layer)
        names = (self._indices.get(tensor, tensor if self.more_inputs else "input") for tensor in layer.inputs)
        return f"{type(layer).__name__}({', '.join(names)})"

    @cached_property
    def _indices(self) -> dict[str, str]:
        return {layer.output: str(i) for i, layer in enumerate(self.layers)}

    def __str__(self) -> str:
        """The listing: index, layer, output shape, MACs and parameters per layer, then census and totals."""
        rows = [
            (
                f"{i}:",
                self.describe(layer),
                " × ".join(map(str, layer.output_shape)),
                f"{layer.macs:,}" if layer.macs else "",
                f"{layer.params:,}" if layer.params else "",
            )
            for i, layer in enumerate(self.layers)
        ]
        rows = [("", "layer", "output", "MACs", "parameters"), *rows]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = [
            f"{row[0]:>{widths[0]}} {row[1]:<{widths[1]}}  {row[2]:<{widths[2]}}  "
            f"{row[3]:>{widths[3]}}  {row[4]:>{widths[4]}}".rstrip()
            for row in rows
        ]
        census = ", ".join(f"{count} {kind}" for kind, count in self.census().most_common())
        heading = f"{printable(self.name, MAX_NAME)}, input {show_shapes(self.signature)}"
        if self.more_outputs:
            found = (self._indices.get(tensor, tensor) for tensor in self.outputs)
            heading += f", outputs {printable(', '.join(found), MAX_NAME)}"
        return "\n".join(
            [
                heading,
                "",
                *lines,
                "",
                f"{len(self)} layers: {census}",
                f"{self.macs / 1e6:,.1f} million multiply-accumulates, {self.params / 1e6:,.3f} million parameters",
            ]
        )
