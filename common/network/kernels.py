"""The backend "kernels": every layer on this project's own CUDA C++, on a GPU or on the simulator."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from .. import cuda, kernels, topology
from ..cuda import layout as layouts
from ..cuda.checks import bounds
from ..optimize import compositions, features, head
from ..optimize.blocks import inverted_residual
from ..topology import layers as kinds
from . import blocks
from .program import DTYPES, Launch, StepBackend, as_pictures, in_turn
from .steps import Step, activation_of, fuse

Operator = Callable[..., Any]


class Named(Protocol):
    """A launch that says what it is: "pointwise/split_k"."""

    name: str

    def __call__(self) -> None: ...


FUNCTIONS = {kinds.Sigmoid: "sigmoid", kinds.HardSigmoid: "hardsigmoid", kinds.HardSwish: "hardswish"}


def operator_of(layer: kinds.Conv2d) -> str:
    """Which operator of common.kernels a convolution is."""
    if layer.groups == layer.in_channels == layer.out_channels:
        return "depthwise"
    plain = layer.kernel_size == layer.stride == (1, 1) and layer.padding == ((0, 0), (0, 0)) and layer.groups == 1
    return "pointwise" if plain else "conv2d"


class KernelBackend(StepBackend):
    """A network's steps on common.kernels; NCHW, or NHWC, in which most kernels are faster on a GPU.

    variants: the rung to use for an operator, {"pointwise": "naive"}, where it takes the arrays; else the fastest.
    operators: functions to run in the place of an operator of common.kernels, {"global_avg_pool": mine}, with the same
    arguments: arrays of the backend, `out` among them, which they must write. In NHWC their strides say so; a kernel is
    given common.cuda.layout.as_stored(x), which has the order of memory. Of "add", "multiply", "clamp" and "activate"
    `out` may be an input.
    optimize: "latency", "throughput" or a Composition of common.optimize.compositions, in NHWC. Convolutions of an
    operator in `variants` or `operators` stay out of fused blocks.
    """

    name = "kernels"
    layers = frozenset(
        {
            kinds.AveragePool2d, kinds.BatchNorm2d, kinds.Clip, kinds.Concat, kinds.Conv2d, kinds.GlobalAveragePool,
            kinds.HardSigmoid, kinds.HardSwish, kinds.Linear, kinds.MaxPool2d, kinds.Mul, kinds.Pad, kinds.Permute,
            kinds.ReLU, kinds.ReLU6, kinds.Reshape, kinds.ResidualAdd, kinds.Sigmoid, kinds.Softmax,
        }
    )  # fmt: skip
    in_place = (
        kinds.Clip, kinds.HardSigmoid, kinds.HardSwish, kinds.Mul, kinds.ReLU, kinds.ReLU6, kinds.ResidualAdd,
        kinds.Sigmoid,
    )  # fmt: skip
    views = True

    def __init__(
        self, model: Any, dtype: str = "fp32", layout: str = "NCHW", variants: Mapping[str, str] | None = None,
        operators: Mapping[str, Operator] | None = None, optimize: str | compositions.Composition | None = None,
    ) -> None:  # fmt: skip
        self.composition = compositions.composition(optimize)
        if self.composition is not None and layout != "NHWC":
            raise ValueError(f"layout must be NHWC with optimize={optimize!r}, got {layout}")
        self.composed = self.composition.name if self.composition else None
        self._programmatic = bool(
            self.composition and self.composition.programmatic and not features.missing("programmatic launches")
        )
        self._variants, self._operators = dict(variants or {}), dict(operators or {})
        for operator, variant in self._variants.items():
            if variant not in kernels.variants(operator):  # which names an unknown operator
                raise ValueError(
                    f"variants: {operator!r} must be one of {', '.join(kernels.variants(operator))}, got {variant!r}"
                )
        for operator, function in self._operators.items():
            if operator not in kernels.OPERATORS:
                raise ValueError(f"operators: must be of {', '.join(kernels.OPERATORS)}, got {operator!r}")
            if not callable(function):
                raise TypeError(f"operators: {operator!r} must be a function, got {type(function).__name__}")
        super().__init__(model, dtype, layout)

    def run(self, operator: str, *args: Any, **named: Any) -> list[Named]:
        """The launches of an operator of common.kernels, or the call of the function that stands in its place."""
        if operator in self._operators:
            function = self._operators[operator]
            return [_Call(function, args, named)]
        variant = self._variants.get(operator)
        x = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
        layout = "NCHW" if layouts.has(x, "NCHW") else "NHWC"
        if variant is not None and variant in kernels.variants(operator, x.dtype, layout):
            named["variant"] = variant
        with kernels.recorded(self._programmatic) as launches:
            getattr(kernels, operator)(*args, **named)
        return list(launches)

    def steps(self, graph: topology.Graph) -> list[Step]:
        steps, made = fuse(graph), self.composition
        if made is None or features.missing("fused blocks"):
            return steps
        batch, dtype, choose = graph.input_shape[0], np.dtype(DTYPES[self._dtype]).name, made.fuse
        if choose is not None:
            steps = blocks.merge(steps, graph, lambda block: choose(block, batch, dtype), self._free)
        return blocks.merge_pool(steps, graph, self._poolable) if made.head else steps

    def _free(self, step: Step) -> bool:
        """Whether a step's operator is not one for which a rung or a function was given."""
        layer = step.layer
        operator = operator_of(layer) if isinstance(layer, kinds.Conv2d) else "global_avg_pool"
        return operator not in self._variants and operator not in self._operators

    def _poolable(self, step: Step) -> bool:
        layer, itemsize = step.layer, np.dtype(DTYPES[self._dtype]).itemsize
        if not isinstance(layer, kinds.Conv2d):
            return self._free(step)
        n, _, h, w = layer.output_shape
        made = head.Head(h * w, layer.in_channels, layer.out_channels)
        tile = head.head_rule(made, n, itemsize, cuda.multiprocessors(), cuda.shared_memory())
        return self._free(step) and head.HeadGeometry(made, tile, itemsize).problem(cuda.shared_memory()) is None

    def _few_rows(self, x: Any, weight: Any) -> bool:
        """Whether x · weightᵀ runs on the kernel for few rows of x."""
        made = self.composition
        if made is None or not made.head or features.missing("fused blocks") or len(x) > head.MOST_ROWS:
            return False
        if "gemm" in self._variants or "gemm" in self._operators:
            return False
        linear, itemsize = head.Linear(x.shape[1], len(weight)), x.dtype.itemsize
        tile = head.linear_rule(linear, itemsize, cuda.multiprocessors(), cuda.shared_memory())
        return head.LinearGeometry(linear, tile, itemsize).problem(cuda.shared_memory()) is None

    def whole(self, graph: topology.Graph, steps: list[Step], buffers: dict[str, Any]) -> Launch | None:
        if self.composition is None or not self.composition.persistent:
            return None
        from ..optimize.persistent import Persistent

        phases = self._phases(graph, steps)
        if phases is None:
            return None
        try:
            network = Persistent(buffers[graph.input], phases)
        except (ValueError, RuntimeError):  # no tiles fit, or the card launches no such kernel
            return None
        if network.output.shape != buffers[graph.output].shape:
            return None
        buffers[graph.output] = network.output
        return network.launch

    def _phases(self, graph: topology.Graph, steps: list[Step]) -> list[tuple[Any, list[Any]]] | None:
        """The steps as phases of a persistent kernel; None unless each reads what the one before it writes."""
        phases: list[tuple[Any, list[Any]]] = []
        last, p = graph.input, self.parameters
        for step in steps:
            residual = last if isinstance(step, blocks.BlockStep) and step.residual else None
            if step.inputs != [last] or step.residual != residual:
                return None
            layer, last = step.layer, step.output
            if isinstance(step, blocks.BlockStep):
                phases.append((step.block, self._arrays(step)))
                continue
            arrays = [p[layer.weight], p[layer.bias] if layer.bias else None] if hasattr(layer, "weight") else []
            if isinstance(step, blocks.PoolStep):
                _, c, h, w = layer.input_shapes[0]
                low, high = map(float, bounds(step.activation))
                phases.append((head.Head(h * w, c, layer.out_channels, (low, high)), arrays))
            elif isinstance(layer, kinds.Linear):
                phases.append((head.Linear(layer.in_features, layer.out_features), arrays))
            elif not self._only_seen(step):
                return None
        return phases

    def _arrays(self, step: blocks.BlockStep) -> list[Any]:
        """Weight and bias of each of a block's three convolutions."""
        arrays: list[Any] = []
        for layer in step.convolutions:
            arrays.append(None if layer is None else self.parameters[layer.weight])
            arrays.append(self.parameters[layer.bias] if layer is not None and layer.bias else None)
        return arrays

    def block(self, step: blocks.BlockStep, x: Any, residual: Any, out: Any) -> list[Named]:
        """The launch of a fused block."""
        assert step.block is not None
        block = step.block
        return self.fused(
            inverted_residual, x, *self._arrays(step), stride=block.stride, residual=residual, activations=block.bounds,
            out=out, tile=step.tile,
        )  # fmt: skip

    def fused(self, operator: Operator, *args: Any, **named: Any) -> list[Named]:
        """The launches of an operator of common.optimize."""
        with kernels.recorded(self._programmatic) as launches:
            operator(*args, **named, programmatic=self._programmatic)
        return list(launches)

    def bind(self, step: Step, inputs: list[Any], residual: Any, out: Any) -> list[Named]:
        layer, x, parameters = step.layer, inputs[0], self.parameters
        if isinstance(step, blocks.BlockStep):
            return self.block(step, x, residual, out)
        if isinstance(step, blocks.PoolStep):
            return self.fused(
                head.pointwise_pool, x, parameters[layer.weight], parameters[layer.bias] if layer.bias else None,
                activation=step.activation, out=out,
            )  # fmt: skip
        match layer:
            case kinds.Conv2d():
                operator = operator_of(layer)
                geometry: dict[str, Any] = {
                    "stride": layer.stride,
                    "padding": layer.padding,
                    "dilation": layer.dilation,
                }
                if operator == "conv2d":
                    geometry["groups"] = layer.groups
                return self.run(
                    operator, x, parameters[layer.weight], parameters[layer.bias] if layer.bias else None,
                    **(geometry if operator != "pointwise" else {}),
                    residual=residual, activation=step.activation, out=out,
                )  # fmt: skip
            case kinds.BatchNorm2d():
                shape = as_pictures(x.shape)
                pictures = (a if a is None else a.reshape(shape) if a.ndim != 4 else a for a in (x, residual, out))
                source, added, target = pictures
                scale, shift = parameters[f"{layer.name}/scale"], parameters[f"{layer.name}/shift"]
                return self.run(
                    "depthwise", source, scale, shift, residual=added, activation=step.activation, out=target
                )
            case kinds.Linear():
                before: list[Named] = []
                if not layouts.has(x, "NCHW"):  # features are flattened in their logical order
                    source, x = x, cuda.empty(x.shape, x.dtype)
                    before = self.moved(source, x, (0, 1, 2, 3))
                flat = x.reshape(len(x), -1)
                bias = parameters[layer.bias] if layer.bias else None
                if self._few_rows(flat, parameters[layer.weight]):
                    return [*before, *self.fused(head.few_rows, flat, parameters[layer.weight], bias, out=out)]
                return [*before, *self.run("gemm", flat, parameters[layer.weight], bias, transpose_b=True, out=out)]
            case kinds.ReLU() | kinds.ReLU6() | kinds.Clip():
                low, high = map(float, bounds(activation_of(layer)))
                return self.run("clamp", x, low, high, out=out)
            case kinds.HardSigmoid():
                return self.run("activate", x, "hardsigmoid", alpha=layer.alpha, beta=layer.beta, out=out)
            case kinds.Sigmoid() | kinds.HardSwish():
                return self.run("activate", x, FUNCTIONS[type(layer)], out=out)
            case kinds.Softmax():
                # in NHWC what lies in memory is (N, H, W, C)
                dim = layer.dim if layouts.has(x, "NCHW") else {1: 3, 2: 1, 3: 2}[layer.dim]
                return self.run("softmax", layouts.as_stored(x), dim=dim, out=layouts.as_stored(out))
            case kinds.ResidualAdd():
                return self.run("add", *inputs, out=out)
            case kinds.Mul():
                return self.run("multiply", *inputs, out=out)
            case kinds.Concat():
                return self.run("concat", inputs, layer.dim, out=out)
            case kinds.Pad():
                return self.run("pad", x, layer.padding, layer.value, out=out)
            case kinds.GlobalAveragePool():
                return self.run("global_avg_pool", x, out=out)
            case kinds.MaxPool2d():
                return self.run(
                    "pool2d", x, layer.kernel_size, layer.stride, layer.padding, layer.dilation, kind="max",
                    ceil_mode=layer.ceil_mode, out=out,
                )  # fmt: skip
            case kinds.AveragePool2d():
                return self.run(
                    "pool2d", x, layer.kernel_size, layer.stride, layer.padding, kind="average",
                    ceil_mode=layer.ceil_mode, count_include_pad=layer.count_include_pad, out=out,
                )  # fmt: skip
            case kinds.Permute():
                return self.moved(x, out, layer.dims)
            case _:  # Reshape
                if self._only_seen(step):
                    return []
                return self.moved(x, out, tuple(range(x.ndim)))

    def moved(self, x: Any, out: Any, dims: tuple[int, ...]) -> list[Named]:
        """x, its dimensions permuted, written to the elements of out in their logical order."""
        shape = tuple(x.shape[dim] for dim in dims)
        if layouts.has(out, "NCHW"):
            return self.run("permute", x, dims, out=out.reshape(shape))
        if shape != out.shape:  # another shape in another layout: by way of the elements in their logical order
            between = cuda.empty(shape, x.dtype)
            return [
                *self.run("permute", x, dims, out=between),
                *self.moved(between.reshape(out.shape), out, (0, 1, 2, 3)),
            ]
        stored = tuple(dims[i] for i in (0, 2, 3, 1))
        return self.run("permute", x, stored, out=layouts.as_stored(out))

    def compile(self, bound: list[list[Named]]) -> None:
        kernels.compile_together(launch for launches in bound for launch in launches)

    def finish(self, bound: list[list[Named]]) -> tuple[list[Launch], list[str]]:
        told = [" + ".join(launch.name for launch in launches) or "no launch" for launches in bound]
        return [in_turn(launches) for launches in bound], told


class _Call:
    """A learner's function in the place of an operator."""

    def __init__(self, function: Operator, args: tuple, named: dict[str, Any]) -> None:
        self.name = f"{getattr(function, '__name__', 'function')} (yours)"
        self._function, self._args, self._named = function, args, named

    def __call__(self) -> None:
        self._function(*self._args, **self._named)
