"""The backend of quantized models on the int8 kernels: planned buffers, prepared launches, a CUDA graph.

    net = Network("quantized.onnx", IntegerKernels(optimize="throughput"))
    print(net)                 the plan: steps, kernels, one arena for codes and floats
    net.capture(256)           its launches as one CUDA graph

Network("quantized.onnx") takes this backend by itself on a GPU, where every layer has a kernel; elsewhere it takes
backend.Integers. Both compute the same codes, bit for bit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import cuda, kernels, topology, weights
from ..cuda import layout as layouts
from ..kernels import int8
from ..kernels.one_step import one_step
from ..network import registry
from ..network.backends import composition
from ..network.kernels import KernelBackend
from ..network.passes import Pipeline, as_steps, resolve, stages
from ..network.registry import Arrays, Cost, Fusion, Match, Part, Step, register
from ..topology import layers as kinds
from ..topology.graph import Signature
from .backend import unread_removed
from .rules import RULES, Call, IntegerAdd, IntegerConv, Rule, in_one_step, int8_grid, integer_cost

FULL = (int8.LOW, int8.HIGH)


def is_rule(node: Any, kind: type[Rule]) -> bool:
    """Whether a node is a step that a rule of this kind made."""
    return isinstance(node, Step) and isinstance(node.fusion, kind)


def rule_steps(step: Step) -> Iterator[Step]:
    """The steps of rules within a step: itself, or the parts of a fusion of such steps."""
    if isinstance(step.fusion, Rule):
        yield step
    for part in step.parts.values() if isinstance(step.fusion, OfRules) else ():
        if isinstance(part, Step):
            yield from rule_steps(part)


class OfRules(Fusion):
    """A fusion of integer steps, for IntegerKernels."""

    def cost(self, step: Step, itemsize: int) -> Cost:
        return integer_cost(step)

    def integer_kernels(self, run: "IntegerKernelBackend", step: Step, arrays: Arrays) -> list[Any]:
        """The launches of a step. As Operator.kernels."""
        raise NotImplementedError


def residual_problem(conv: Step, add: Step) -> str | None:
    """Why a convolution's kernel cannot make an addition to its output as well, in words; None if it can."""
    reads = add.fusion.codes_read(add)  # type: ignore[union-attr]
    if reads.count(conv.output) != 1 or len(reads) != 2:
        return "it adds its output to itself"
    if len(set(add.input_shapes)) > 1:
        return "the addition broadcasts"
    grid = Rule.output_grid(conv)
    if grid is None or Rule.clamp(conv, grid) != FULL:
        return "it has an activation before the addition"
    return None


@register
class IntegerResidual(OfRules):
    """Fuses a convolution of codes, other than a depthwise one, with the addition that follows it."""

    name = "integer-residual"
    pattern = (
        Part("conv", Step, lambda node: is_rule(node, IntegerConv)),
        Part("add", Step, lambda node: is_rule(node, IntegerAdd)),
    )

    def condition(self, match: Match) -> bool | str:
        layer = match["conv"].parts["conv"]
        if layer.groups == layer.out_channels > 1:
            return "depthwise kernels add nothing"
        return residual_problem(match["conv"], match["add"]) or True

    def integer_kernels(self, run: "IntegerKernelBackend", step: Step, arrays: Arrays) -> list[Any]:
        conv, add = step.parts["conv"], step.parts["add"]
        assert isinstance(conv, Step) and isinstance(add, Step)
        of_name = dict(zip(step.inputs, arrays.inputs, strict=True))
        return run.convolution(conv, of_name[conv.inputs[0]], arrays.out, **run.residual_of(conv, add, of_name))


def refusal(step: Step) -> str | None:
    """Why IntegerKernels cannot run a step: "runs no …"; None if it can."""
    if isinstance(step.fusion, OfRules):
        return next(filter(None, map(refusal, rule_steps(step))), None)
    if not isinstance(step.fusion, Rule):
        if isinstance(step.layer, kinds.Quantize | kinds.Dequantize):
            return None
        entry = registry.operator_of(step)
        return None if entry and entry.runs_on("kernels") else f"runs no {type(step.layer).__name__}"
    main: Any = step.parts[step.fusion.main]
    if step.fusion.name in ("integer-multiply", "integer-function"):
        return f"has no int8 kernel for {type(main).__name__}"
    if isinstance(main, kinds.Conv2d) and Rule.output_grid(step) is None:
        return "has no int8 kernel for a convolution whose output is not quantized"
    if isinstance(main, kinds.Linear) and not layouts.is_plain(step.input_shapes[0]):
        return "runs linear layers of vectors and of images of one pixel"
    if isinstance(step.fusion, IntegerAdd) and (len(main.inputs) != 2 or len(set(main.input_shapes)) > 1):
        return "adds two arrays of one shape"
    if step.fusion.name != "integer-move":
        return None
    if any(x != Rule.output_grid(step) for x in step.fusion.input_grids(step, main)):
        return f"runs {type(main).__name__} on codes of one grid, the output has another"
    plain = all(map(layouts.is_plain, (*main.input_shapes, main.output_shape)))
    if isinstance(main, kinds.MaxPool2d) or (isinstance(main, kinds.Reshape) and plain):
        return None
    return f"has no int8 kernel for {main}"


@dataclass(frozen=True)
class IntegerKernels:
    """The int8 kernels, for quantized models, on a GPU or on the simulator. Activations are NHWC.

    optimize   "latency", "throughput", or a Composition: fuses inverted-residual blocks where its `fuse_int8` has a
               tile; None: a kernel per convolution, with the addition that follows it
    variants   the rung to use for an operator, {"pointwise_int8": "dp4a"}, where it supports the arrays

    Layers that no rule fits run in float32 on the kernels of backend "kernels". The codes are those of
    backend.Integers, bit for bit; with `optimize` those of Integers(as_kernels=True), some of whose multipliers have
    moved by a few floats, so that fused blocks requantize in one step (rules.in_one_step). UnsupportedModel from
    Network for what has no kernel; ValueError and TypeError from the constructor for options that do not fit.
    """

    optimize: Any = None
    variants: Mapping[str, str] | None = None
    name: ClassVar[str] = "integer-kernels"
    dtype: ClassVar[str] = "int8"
    layout: ClassVar[str] = "NHWC"
    arithmetic: ClassVar[str] = "int8"
    operators: ClassVar[None] = None
    by_halves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimize", composition(self.optimize))
        for operator, variant in (self.variants or {}).items():
            if variant not in kernels.variants(operator):  # raises for an unknown operator
                raise ValueError(
                    f"variants: {operator!r} must be one of {', '.join(kernels.variants(operator))}, got {variant!r}"
                )

    def replaces(self, operator: str) -> bool:
        """Whether `variants` has an entry for an operator of common.kernels."""
        return operator in (self.variants or ())

    @property
    def passes(self) -> tuple[Any, ...]:
        """The default passes of a Network on this backend."""
        blocks = self.optimize.integer_passes if self.optimize else ()
        return (*RULES, unread_removed, *blocks, IntegerResidual.name)

    @classmethod
    def able(cls, graph: topology.Graph) -> bool:
        """Whether every layer of a graph, with batch-norms folded, has a kernel here."""
        target = cls()
        *_, (_, after) = stages(graph, resolve(target.passes, target))
        codes = [step.output for step in as_steps(after) if isinstance(step.layers[-1], kinds.Quantize)]
        return not set(codes) & set(graph.outputs) and not any(map(refusal, as_steps(after)))

    def runner(self, model: Any, pipeline: Pipeline) -> "IntegerKernelBackend":
        """The runner of a model, see network.backends.Backend.runner."""
        return IntegerKernelBackend(model, self, pipeline)


class IntegerKernelBackend(KernelBackend):
    """A quantized network's steps on the int8 kernels. target: IntegerKernels."""

    name = IntegerKernels.name

    # Layers and parameters

    def folded(self, shape: Signature | None = None) -> tuple[topology.Graph, dict[str, np.ndarray]]:
        """(graph, parameters) for an input shape, with batch-norms folded; parameters: float32 NumPy arrays by name."""
        return weights.fold_batch_norm(*topology.read_onnx_with_parameters(self._model, shape))

    def prepared(self, graph: topology.Graph, parameters: dict[str, np.ndarray]) -> dict[str, Any]:
        grids, self.calls = dict(graph.grids), dict[str, Call]()
        self.small: set[str] = set()  # outputs of products whose sums are small, see int8.small_sums
        arrays: dict[str, Any] = {}
        for step in as_steps(self.rewritten(graph)):
            for one in rule_steps(step):
                call = one.fusion.call(one, parameters, grids)  # type: ignore[union-attr]
                if self.target.optimize is not None:
                    call = in_one_step(call)
                if call.operator in ("conv2d", "linear", "linear_to_float"):
                    weight, bias, multiplier = call.args
                    if weight.dtype != np.int8:
                        raise self._unsupported(one, "takes weights of symmetric grids, which are int8, got int16")
                    if int8.small_sums(weight, bias, multiplier):
                        self.small.add(one.output)
                    there = cuda.asarray(weight)
                    there = cuda.to_layout(there, "NHWC") if there.ndim == 4 else there
                    call.args = there, cuda.asarray(bias), cuda.asarray(multiplier)
                    names = (f"{one.output}.{what}" for what in ("weight", "bias", "multiplier"))
                    arrays |= dict(zip(names, call.args, strict=True))
                self.calls[one.output] = call
            if not any(True for _ in rule_steps(step)):
                for name in step.parameter_shapes:
                    array = cuda.asarray(parameters[name], np.float32)
                    arrays[name] = cuda.to_layout(array, "NHWC") if array.ndim == 4 else array
        return arrays

    def _unsupported(self, step: kinds.Layer, why: str) -> topology.UnsupportedModel:
        return topology.UnsupportedModel(
            f"layer '{step.name}': backend '{self.name}' {why}; quantize.Integers() runs it"
        )

    def check(self, graph: topology.Graph) -> None:
        """Raise UnsupportedModel for the first step that has no kernel, and for an output that is not dequantized."""
        for step in as_steps(graph):
            if step.output in graph.outputs and isinstance(step.layers[-1], kinds.Quantize):
                raise topology.UnsupportedModel(
                    f"layer '{step.name}': the output {step.output!r} is integers, a DequantizeLinear is missing"
                )
            if problem := self.refuses(step):
                raise self._unsupported(step, problem)

    def refuses(self, layer: topology.Layer) -> str | None:
        """Why this backend cannot run a step: "runs no …"; None if it can."""
        return refusal(registry.as_step(layer))

    # Plans

    def dtypes(self, graph: topology.Graph) -> Mapping[str, np.dtype]:
        """int8 for tensors of codes, float32 for all others."""
        found: dict[str, np.dtype[Any]] = dict.fromkeys(graph.shapes, np.dtype(np.float32))
        for step in as_steps(graph):
            if isinstance(step.layers[-1], kinds.Quantize):
                found[step.output] = np.dtype(np.int8)
        return found

    def is_view(self, step: Step) -> bool:
        """Whether a step is a reshape that moves no element in memory, of floats or of codes."""
        if is_rule(step, Rule):
            return isinstance(step.parts[step.fusion.main], kinds.Reshape)  # type: ignore[union-attr]
        return super().is_view(step)

    # Binding

    def bind(self, step: Step, arrays: Arrays) -> list[Any]:
        """The launches of a step."""
        if isinstance(step.fusion, OfRules):
            return step.fusion.integer_kernels(self, step, arrays)
        if not isinstance(step.fusion, Rule):
            if isinstance(step.layer, kinds.Quantize | kinds.Dequantize):
                grid = int8_grid(step.layer.grid)
                name = type(step.layer).__name__.lower()
                return self.run(name, arrays.x, grid.scale[0], grid.zero_point[0], out=arrays.out)
            return registry.operator_of(step).kernels(self, step, arrays)  # type: ignore[union-attr]
        call, main = self.calls[step.output], step.parts[step.fusion.main]
        if isinstance(main, kinds.Conv2d):
            return self.convolution(step, arrays.x, arrays.out)
        if isinstance(main, kinds.Linear):
            x = arrays.x.reshape(len(arrays.x), -1)
            return self.run(
                "linear_int8", x, *call.args, **call.named, to_float="zero_point" not in call.named, out=arrays.out
            )
        if isinstance(step.fusion, IntegerAdd):
            of_name = dict(zip(step.inputs, arrays.inputs, strict=True))
            terms = (of_name[name] for name in step.fusion.codes_read(step))
            return self.run("add_int8", *terms, *call.args, **call.named, out=arrays.out)
        if isinstance(main, kinds.GlobalAveragePool):
            return self.run("global_avg_pool_int8", arrays.x, *call.args, **call.named, out=arrays.out)
        if isinstance(main, kinds.AveragePool2d):
            window, multiplier = call.args
            given = call.named | {"kind": "average", "multiplier": multiplier}
            return self.run("pool2d_int8", arrays.x, window, **given, out=arrays.out)
        if isinstance(main, kinds.MaxPool2d):
            where = {
                "stride": main.stride,
                "padding": main.padding,
                "dilation": main.dilation,
                "ceil_mode": main.ceil_mode,
            }
            return self.run("pool2d_int8", arrays.x, main.kernel_size, **where, out=arrays.out)
        return []  # a view

    def convolution(self, step: Step, x: Any, out: Any, **residual: Any) -> list[Any]:
        """The launches of an "integer-conv" step. residual: see residual_of."""
        layer: Any = step.parts["conv"]
        call = self.calls[step.output]
        window = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}
        end = {"zero_point": call.named["zero_point"], "bounds": call.named["bounds"], "out": out} | residual
        zero = call.named["input_zero_point"]
        plain = (layer.kernel_size, layer.stride, layer.padding) == ((1, 1), (1, 1), ((0, 0), (0, 0)))
        if plain and layer.groups == 1:
            end |= self.shorter(step)
            return self.run("pointwise_int8", x, *call.args, **end)
        if layer.groups == layer.in_channels == layer.out_channels:
            end |= self.shorter(step)
            return self.run("depthwise_int8", x, *call.args, **window, input_zero_point=zero, **end)
        return self.run("conv2d_int8", x, *call.args, **window, groups=layer.groups, input_zero_point=zero, **end)

    def shorter(self, step: Step) -> dict[str, Any]:
        """What lets a convolution's kernel requantize in fewer instructions: its arguments small and one_step."""
        made = None
        if self.target.optimize is not None:
            weight, bias, multiplier = map(cuda.asnumpy, self.calls[step.output].args)
            made, exact = one_step(weight, bias, multiplier, self.calls[step.output].named["zero_point"])
            made = cuda.asarray(made) if exact.all() else None
        return {"small": step.output in self.small, "one_step": made}

    def residual_of(self, conv: Step, add: Step, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a convolution's kernel for the addition to its output. arrays: by name.

        They are residual, residual_scales, residual_offset, residual_first and bounds, which clamp the sum.
        """
        first, second = add.fusion.codes_read(add)  # type: ignore[union-attr]
        call = self.calls[add.output]
        return {
            "residual": arrays[first if second == conv.output else second], "residual_scales": call.args[0],
            "residual_offset": call.named["offset"], "residual_first": second == conv.output,
            "bounds": call.named["bounds"],
        }  # fmt: skip
