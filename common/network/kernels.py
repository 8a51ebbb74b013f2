"""The backend "kernels": every layer on this project's own CUDA C++, on a GPU or on the simulator."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .. import cuda, kernels
from ..cuda import layout as layouts
from ..cuda.checks import bounds
from ..topology import layers as kinds
from .program import Launch, StepBackend, as_pictures, in_turn
from .steps import Step, activation_of

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
        operators: Mapping[str, Operator] | None = None,
    ) -> None:  # fmt: skip
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
        with kernels.recorded() as launches:
            getattr(kernels, operator)(*args, **named)
        return list(launches)

    def bind(self, step: Step, inputs: list[Any], residual: Any, out: Any) -> list[Named]:
        layer, x, parameters = step.layer, inputs[0], self.parameters
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
