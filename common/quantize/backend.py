"""The backend of quantized models: integer steps by the rules, everything else in float32 on PyTorch."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .. import cuda, topology, weights
from ..network import passes
from ..network.passes import Pipeline
from ..network.reference import run_layer
from ..network.registry import Step
from ..topology import layers as kinds
from ..topology.graph import Signature, signature_of
from .rules import OPERATORS, RULES, Call, Rule, in_one_step, int8_grid

KEPT = 4  # input shapes whose steps are kept


def unread_removed(graph: topology.Graph) -> topology.Graph:
    """The pass that removes layers whose output nothing reads: Dequantize layers that are parts of steps now."""
    read, layers = set(graph.outputs), []
    for layer in reversed(graph.layers):
        if layer.output in read:
            read.update(layer.inputs)
            layers.append(layer)
    return replace(graph, layers=tuple(layers[::-1]))


@dataclass(frozen=True)
class Integers:
    """Integer steps of a quantized model, on the CPU; layers that no rule fits run in float32.

    operators: functions that replace operators of rules.OPERATORS, {"conv2d": mine}, called with the same arguments;
    kernels.int8_operators.OPERATORS are the int8 kernels, on a GPU or on the simulator.
    as_kernels: whether the multipliers of convolutions and linear layers are those of IntegerKernels with `optimize`,
    which moves some by a few floats (rules.in_one_step); else those of the file.
    ValueError for another name, TypeError for what is no function.
    """

    operators: Mapping[str, Callable[..., Any]] | None = None
    as_kernels: bool = False
    name: ClassVar[str] = "integers"
    dtype: ClassVar[str] = "int8"
    layout: ClassVar[str] = "NCHW"
    arithmetic: ClassVar[str] = "int8"
    passes: ClassVar[tuple[Any, ...]] = (*RULES, unread_removed)

    def __post_init__(self) -> None:
        for operator, function in (self.operators or {}).items():
            if operator not in OPERATORS:
                raise ValueError(f"operators: must be of {', '.join(OPERATORS)}, got {operator!r}")
            if not callable(function):
                raise TypeError(f"operators: {operator!r} must be a function, got {type(function).__name__}")

    def runner(self, model: Any, pipeline: Pipeline) -> "IntegerRunner":
        """The runner of a model, see network.backends.Backend.runner."""
        return IntegerRunner(model, self, pipeline)


class IntegerRunner:
    """Runs the steps of a quantized model in order, over NumPy arrays.

    model: an onnx.ModelProto. UnsupportedModel for an output that is not dequantized, and as Rule.call.
    """

    def __init__(self, model: Any, target: Integers, pipeline: Pipeline) -> None:
        self._model, self._pipeline = model, pipeline
        self._operators, self._moves = {**OPERATORS, **(target.operators or {})}, target.as_kernels
        graph, self._parameters = self.folded()
        self._grids = dict(graph.grids)
        self._programs: OrderedDict[Signature, tuple[topology.Graph, dict[str, Call]]] = OrderedDict()
        self._signature = graph.signature
        self._program(graph.signature)

    def folded(self, shape: Signature | None = None) -> tuple[topology.Graph, dict[str, np.ndarray]]:
        """(graph, parameters) for an input shape, with batch-norms folded; parameters: float32 by name."""
        return weights.fold_batch_norm(*topology.read_onnx_with_parameters(self._model, shape))

    def stages(self, shape: Signature) -> Iterator[tuple[str, topology.Graph]]:
        """(name, graph) for an input shape: as read, with batch-norms folded, and after each pass."""
        yield "read", topology.read_onnx(self._model, shape)
        graph, _ = self.folded(shape)
        yield "fold batch-norm", graph
        yield from passes.stages(graph, self._pipeline)

    def explain(self, shape: Signature) -> str:
        """A text: the number of layers after each pass, and the refused matches, see passes.explain."""
        return passes.explain(self.folded(shape)[0], self._pipeline)

    def _program(self, shape: Signature) -> tuple[topology.Graph, dict[str, Call]]:
        """(the graph for an input shape after all passes, the call of each integer step by its output)."""
        if shape not in self._programs:
            *_, (_, graph) = self.stages(shape)
            calls = {}
            for node in graph:
                if isinstance(node, Step) and isinstance(node.fusion, Rule):
                    call = node.fusion.call(node, self._parameters, self._grids)
                    calls[node.output] = in_one_step(call) if self._moves else call
                elif isinstance(node, kinds.Quantize | kinds.Dequantize):
                    grid, operator = int8_grid(node.grid), type(node).__name__.lower()
                    calls[node.output] = Call(operator, grid.scale[0], grid.zero_point[0])
            for node in graph:
                if node.output in graph.outputs and isinstance(
                    (*getattr(node, "layers", (node,)),)[-1], kinds.Quantize
                ):
                    raise topology.UnsupportedModel(
                        f"layer '{node.name}': the output {node.output!r} is integers, a DequantizeLinear is missing"
                    )
            self._programs[shape] = graph, calls
        self._programs.move_to_end(shape)
        while len(self._programs) > KEPT:
            self._programs.popitem(last=False)
        return self._programs[shape]

    def call(self, step: topology.Layer) -> Call:
        """What computes an integer step of the last of `stages`: the operator of kernels.int8 and its arguments.

        Of a convolution args are weight (O, C / groups, kH, kW) int8, bias (O,) int32 with the input's zero point in
        it, or None, and multiplier (O,) float32; named has zero_point, bounds, … KeyError if the step is none.
        """
        return self._program(self._signature)[1][step.output]

    def __call__(self, *inputs: Any) -> Any:
        """The network's output for its inputs (N, C, H, W): a float32 NumPy array; of several outputs a tuple."""
        graph, _ = self._program(signature_of(tuple(x.shape) for x in inputs))
        tensors = self.tensors(*inputs)
        results = tuple(tensors[name] for name in graph.outputs)
        return results if len(results) > 1 else results[0]

    def tensors(self, *inputs: Any) -> dict[str, np.ndarray]:
        """Every tensor of a run by name: int8 codes between integer steps (those of uint8 128 lower), else float32."""
        graph, calls = self._program(signature_of(tuple(x.shape) for x in inputs))
        tensors = {name: cuda.asnumpy(x).astype(np.float32) for name, x in zip(graph.inputs, inputs, strict=True)}
        for node in graph:
            if node.output not in calls:
                tensors[node.output] = self._in_float(node, [tensors[name] for name in node.inputs])
                continue
            by_rule = isinstance(node, Step) and isinstance(node.fusion, Rule)
            reads = node.fusion.codes_read(node) if by_rule else node.inputs  # type: ignore[attr-defined]
            read = [tensors[name] for name in reads]
            tensors[node.output] = calls[node.output](self._operators, read)
        return tensors

    def _in_float(self, node: kinds.Layer, inputs: list[np.ndarray]) -> np.ndarray:
        """A layer's output by PyTorch, in float32."""
        import torch

        given = [torch.from_numpy(x) for x in inputs]
        used = {name: torch.from_numpy(np.array(self._parameters[name])) for name in node.parameter_shapes}
        with torch.no_grad():
            return run_layer(node, given, used).numpy()
