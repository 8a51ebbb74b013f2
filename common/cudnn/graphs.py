"""cuDNN graphs as data (tensors, a chain of nodes, an arithmetic), and the alternative graphs for a convolution.

Nothing here needs a GPU. `print(graph)` shows what `plans` passes to cuDNN.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..cuda import layout as layouts

ARITHMETICS = ("fp32", "tf32", "fp16")


@dataclass(frozen=True)
class Tensor:
    """A tensor of a graph: logical shape (N, C, H, W), strides in elements (the layout), dtype "fp32" or "fp16"."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name:9s} {self.shape!s:20s} strides {self.strides!s:24s} {self.dtype}"

    @property
    def nbytes(self) -> int:
        """Bytes of the dense tensor."""
        return math.prod(self.shape) * (2 if self.dtype == "fp16" else 4)


@dataclass(frozen=True)
class Node:
    """One operation on the previous node's output (the first node's: the first tensor) and, if named, an operand."""

    op: str
    operand: str | None = None
    attributes: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        details = [self.operand] if self.operand else []
        details += [f"{key} {value}" for key, value in self.attributes]
        return f"{self.op}({', '.join(details)})" if details else self.op


@dataclass(frozen=True)
class Graph:
    """One cuDNN graph: a chain of nodes from the first of `tensors` to `output`."""

    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    output: Tensor
    arithmetic: str

    def __str__(self) -> str:
        lines = [str(tensor) for tensor in (*self.tensors, self.output)]
        return "\n".join([*lines, f"{self.spelling}, in {self.arithmetic}"])

    @property
    def spelling(self) -> str:
        """The chain in one line: conv_fprop(w, …) → add(bias) → clamp(…)."""
        return " → ".join(map(str, self.nodes))

    @property
    def heavy(self) -> bool:
        """Whether the graph contains a convolution, the only operation whose arithmetic can be chosen."""
        return self.nodes[0].op.startswith("conv_")


@dataclass(frozen=True)
class Convolution:
    """Specification of activation(conv2d(x, w) + bias + residual).

    x, w: shapes (N, C, H, W) and (O, C/groups, kH, kW). stride, dilation and padding (the same on opposite sides):
    (height, width). bias, residual: whether they are added.
    """

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    bias: bool = False
    residual: bool = False
    bounds: tuple[float, float] | None = None  # of the activation: (0, 6) for ReLU6
    layout: str = "NCHW"
    arithmetic: str = "fp32"

    @property
    def dtype(self) -> str:
        """The dtype of all tensors, "fp32" or "fp16"."""
        return "fp16" if self.arithmetic == "fp16" else "fp32"

    @property
    def groups(self) -> int:
        """Number of groups, C of x over C of w."""
        return self.x[1] // self.w[1]

    @property
    def y(self) -> tuple[int, int, int, int]:
        """The output's shape."""
        extents = [
            (self.x[i + 2] + 2 * self.padding[i] - self.dilation[i] * (self.w[i + 2] - 1) - 1) // self.stride[i] + 1
            for i in range(2)
        ]
        return self.x[0], self.w[0], extents[0], extents[1]

    def tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A dense tensor of this shape in the convolution's layout and dtype."""
        return Tensor(name, shape, layouts.strides(shape, self.layout), self.dtype)

    @property
    def window(self) -> tuple[tuple[str, Any], ...]:
        """Padding, stride and dilation as a node's attributes."""
        return ("padding", self.padding), ("stride", self.stride), ("dilation", self.dilation)

    def compositions(self) -> Iterator[tuple[Graph, ...]]:
        """The alternatives for computing it, each one graph or two; the default without tuning comes first.

        Which of them cuDNN supports depends on the card and the shape; which is fastest must be measured.
        """
        chain = [Node("add", "bias")] * self.bias + [Node("add", "residual")] * self.residual
        if self.bounds:
            chain.append(Node("clamp", None, (("low", self.bounds[0]), ("high", self.bounds[1]))))
        if not chain:
            yield (self._first([]),)
            return
        fused = (self._first(chain),)
        # An identity after the convolution breaks the pattern that cuDNN's prebuilt engines match, so its runtime
        # fusion engine, which generates a kernel for any chain, takes the graph. It supports only NHWC.
        generated = (self._first([Node("identity"), *chain]),)
        split: list[tuple[Graph, ...]] = [self._split(chain, 0)]
        if self.bias and len(chain) > 1:
            split.insert(0, self._split(chain, 1))
        if self.bias and self.residual:
            # the order in which the prebuilt engines can add both
            split.append((self._first([chain[1], chain[0], *chain[2:]]),))
        if self.layout == "NCHW":
            yield from [*split, fused]
        elif self.arithmetic == "fp32" and self.groups == 1:
            yield from [*split, fused, generated]
        else:
            yield from [generated, *split, fused]

    def _first(self, chain: list[Node], output: str = "y") -> Graph:
        """The graph of the convolution followed by a chain of nodes."""
        tensors = [self.tensor("x", self.x), self.tensor("w", self.w)]
        tensors += [self._operand(node.operand) for node in chain if node.operand]
        convolution = Node("conv_fprop", "w", self.window)
        return Graph(tuple(tensors), (convolution, *chain), self.tensor(output, self.y), self.arithmetic)

    def _operand(self, name: str) -> Tensor:
        return self.tensor(name, (1, self.w[0], 1, 1) if name == "bias" else self.y)

    def _split(self, chain: list[Node], at: int) -> tuple[Graph, Graph]:
        """Two graphs, the second reading the first's output: the convolution with `at` nodes, then the other nodes."""
        head, rest = chain[:at], chain[at:]
        if at and len(rest) == 1 and rest[0].op == "clamp" and self.bounds and self.bounds[0] == 0:
            # the prebuilt engines support ReLU; the second graph clamps from above
            head = [*head, Node("clamp", None, (("low", 0.0), ("high", math.inf)))]
        return self._first(head, "between"), self._elementwise(rest)

    def _elementwise(self, chain: list[Node]) -> Graph:
        operands = [node.operand for node in chain if node.operand]
        return elementwise(self.y, chain, operands, self.layout, self.dtype, "between")


def elementwise(
    shape: tuple[int, ...], chain: list[Node], operands: list[str], layout: str, dtype: str, first: str = "x"
) -> Graph:
    """A graph of elementwise nodes on dense arrays of one shape; an operand "bias" has one value per channel.

    cuDNN's engine for such graphs supports only NHWC with more than one channel. Without a bias the order of elements
    does not matter, so arrays of any layout are declared as a list of pixels; with a bias, an NCHW array is declared as
    an NHWC array with H·W channels and rows of C pixels.

    layout: of the arrays, "NCHW" or "NHWC"; dtype: "fp32" or "fp16"; first: the name of the first tensor.
    """
    n, c, h, w = shape
    view: tuple[int, ...]
    bias: tuple[int, ...] = ()
    if "bias" not in operands:
        size = math.prod(shape)
        channels = math.gcd(size, 64) if size % 2 == 0 else size
        view = (1, channels, size // channels, 1)
    elif layout == "NHWC":
        view, bias = (n, c, h, w), (1, c, 1, 1)
    else:
        view, bias = (n, h * w, c, 1), (1, 1, c, 1)
    strides = layouts.strides(view, "NHWC")
    tensors = [Tensor(first, view, strides, dtype)]
    for name in operands:
        if name == "bias":
            tensors.append(Tensor(name, bias, layouts.strides(bias, "NHWC"), dtype))
        else:
            tensors.append(Tensor(name, view, strides, dtype))
    return Graph(tuple(tensors), tuple(chain), Tensor("y", view, strides, dtype), "fp32")


def gradient_to_input(c: Convolution) -> Graph:
    """The graph of dx for y = conv2d(x, w), from dy and w."""
    tensors = (c.tensor("dy", c.y), c.tensor("w", c.w))
    return Graph(tensors, (Node("conv_dgrad", "w", c.window),), c.tensor("dx", c.x), c.arithmetic)


def gradient_to_weight(c: Convolution) -> Graph:
    """The graph of dw for y = conv2d(x, w), from dy and x."""
    tensors = (c.tensor("x", c.x), c.tensor("dy", c.y))
    return Graph(tensors, (Node("conv_wgrad", "dy", c.window),), c.tensor("dw", c.w), c.arithmetic)
