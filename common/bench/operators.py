"""The suite "operators": each distinct step of MobileNetV2 alone, on cuDNN and on this project's kernels.

A step is what one launch computes if everything is fused: a convolution with its bias, activation and residual. It runs
on the network's own activations, and its result is compared with PyTorch's in float64 before it is timed. A step's
implementations and layouts are timed in one process, one sample of each in turn. Records have the ratios to the fastest
of cuDNN and of ours there.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from .. import cuda, kernels
from ..cuda import checks
from ..cuda.graphs import on_stream
from ..cuda.layout import LAYOUTS
from ..kernels.ladder import OF_HALVES
from ..measure import timing
from ..measure.roofline import ARITHMETIC
from ..network import Network
from ..network.program import Program
from ..network.steps import Step
from ..network.work import work_of
from ..report.results import record
from ..topology import Conv2d, GlobalAveragePool, Linear
from . import driver
from .driver import Measured
from .peers import PRECISIONS, Model
from .pictures import pictures

BATCHES = (1, 32, 256)
LAYOUTS_OF = {"fp32": ("NCHW", "NHWC"), "tf32": ("NHWC",), "fp16": ("NHWC",)}
SAMPLES = 20
IMPLEMENTATIONS = ("cudnn", "ours")
CHECKED = 4  # pictures per batch whose results are compared
# relative error; for fp32 to be multiplied by √K, see `allowed`. int8 is exact
ALLOWED = {"fp32": 1e-6, "tf32": 2e-3, "fp16": 2e-3, "int8": 0.0}
TUNED = 5  # plans per graph that are timed


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to time. backends: of IMPLEMENTATIONS. layouts: by default LAYOUTS_OF. tune: let cuDNN time its plans."""

    backends: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    tune: bool = True

    CHOICES: ClassVar = {
        "backends": (IMPLEMENTATIONS, IMPLEMENTATIONS), "batches": (None, BATCHES), "layouts": (LAYOUTS, ()),
        "precisions": (PRECISIONS, ("fp32", "fp16")),
    }  # fmt: skip

    def groups(self) -> Iterator[tuple[int, str, list[tuple[str, str]]]]:
        """Yield (batch, precision, the implementations and layouts that are timed in turn).

        Ours has no tf32, and one layout by default.
        """
        for batch in self.batches:
            for precision in self.precisions:
                sides = [
                    (name, layout)
                    for name in self.backends if (name, precision) != ("ours", "tf32")
                    for layout in self.layouts or (("NHWC",) if name == "ours" else LAYOUTS_OF[precision])
                ]  # fmt: skip
                if sides:
                    yield batch, precision, sides


@dataclass(frozen=True)
class Operator:
    """A distinct step of the network: its kind and shape as text, its number of occurrences, the index of the first."""

    kind: str
    shape: str
    count: int
    index: int

    @property
    def case(self) -> str:
        """The "case" of its records: "expand 56×56 24>144"."""
        return f"{self.kind} {self.shape}"


def operators(steps: list[Step]) -> list[Operator]:
    """The distinct steps of MobileNetV2, in the order of the network."""
    names = [(kind_of(step), shape_of(step)) for step in steps]
    return [Operator(*name, count, names.index(name)) for name, count in Counter(names).items()]


def kind_of(step: Step) -> str:
    """The kind of a step: "stem", "expand", "depthwise", "project", "head", "pool" or "linear"."""
    layer = step.layer
    if isinstance(layer, Conv2d):
        if layer.groups > 1:
            return "depthwise"
        if layer.kernel_size != (1, 1):
            return "stem"
        if step.activation is None:
            return "project"
        return "head" if layer.out_channels >= 1280 else "expand"
    if isinstance(layer, GlobalAveragePool):
        return "pool"
    if isinstance(layer, Linear):
        return "linear"
    raise TypeError(f"layer {layer.name!r}: a {type(layer).__name__} is no step of MobileNetV2")


def shape_of(step: Step) -> str:
    """A step's shape as text: height × width of the input, channels in > out, stride, residual: "56×56 24>144"."""
    layer = step.layer
    if isinstance(layer, Linear):
        return f"{layer.in_features}>{layer.out_features}"
    _, c, h, w = layer.input_shapes[0]
    if isinstance(layer, GlobalAveragePool):
        return f"{h}×{w} {c}"
    channels = f"{c}" if layer.groups > 1 else f"{c}>{layer.out_channels}"
    stride = f" stride {layer.stride[0]}" if layer.stride != (1, 1) else ""
    return f"{h}×{w} {channels}{stride}{' +residual' if step.residual else ''}"


def float64(array: Any) -> Any:
    """A backend's array as a float64 PyTorch tensor on the same device."""
    import torch

    return torch.from_dlpack(cuda.asarray(array)).double()


def convolved(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """A convolution of the backend's arrays as a float64 tensor; stride, padding, dilation as for kernels.conv2d."""
    import torch.nn.functional as F

    (top, bottom), (left, right) = checks.padding(padding)
    x = F.pad(float64(x), (left, right, top, bottom))
    return F.conv2d(x, float64(weight), float64(bias), stride, 0, dilation, groups)


def relative_error(out: Any, want: Any) -> float:
    """‖out − want‖ / ‖want‖ over the first len(want) pictures or rows; want: a float64 tensor."""
    return float((float64(out[: len(want)]) - want).norm() / want.norm())


def allowed(precision: str, k: int) -> float:
    """The largest relative error allowed for sums of k products."""
    return ALLOWED[precision] * (k**0.5 if precision == "fp32" else 1)


def reference(program: Program, index: int) -> tuple[Any, int]:
    """(a step's correct result for the first pictures in its inputs, in float64; the number of products per sum)."""
    import torch.nn.functional as F

    step, layer, parameters = program.steps[index], program.steps[index].layer, program.parameters
    x = program.buffers[step.inputs[0]][:CHECKED]
    if isinstance(layer, Conv2d):
        weight, bias = parameters[layer.weight], parameters[str(layer.bias)]
        want = convolved(x, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)
        if step.residual:
            want = want + float64(program.buffers[step.residual][:CHECKED])
        low, high = map(float, checks.bounds(step.activation))
        want, k = want.clamp(low, high), weight[0].size
    elif isinstance(layer, GlobalAveragePool):
        want, k = float64(x).mean((2, 3), keepdim=True), x[0, 0].size
    else:
        weight = float64(parameters[layer.weight])
        want, k = F.linear(float64(x).flatten(1), weight, float64(parameters[str(layer.bias)])), weight.shape[1]
    return want, k


def error_of(program: Program, index: int) -> tuple[float, int]:
    """(‖out − ref‖ / ‖ref‖ of a launched step over the first pictures; the number of products per sum)."""
    want, k = reference(program, index)
    return relative_error(program.buffers[program.steps[index].output], want), k


def network_of(implementation: str, model: Model, precision: str, layout: str, tune: bool) -> Network:
    """The network on an implementation: "cudnn", with TUNED plans timed per graph if `tune`, or "ours"."""
    dtype = "fp16" if precision == "fp16" else "fp32"
    if implementation == "ours":
        return Network(model.onnx, "kernels", dtype=dtype, layout=layout)
    return Network(model.onnx, "cudnn", dtype=dtype, layout=layout, arithmetic=precision, tune=TUNED if tune else False)


def arithmetic(implementation: str, kernel: str, precision: str) -> str:
    """The arithmetic of a step, as records state it. kernel: the rung that runs it, "pointwise/tensor_cores"."""
    if implementation != "ours":
        return ARITHMETIC[precision]
    operator, _, variant = kernel.split(" + ")[0].partition("/")  # a second kernel sums partial results
    return ARITHMETIC["3xfp16"] if OF_HALVES in variant else kernels.arithmetic(operator, variant, precision)


@dataclass(frozen=True)
class Side:
    """The network on one implementation, in one layout, after one pass: its buffers hold all activations."""

    implementation: str
    layout: str
    program: Program

    @property
    def name(self) -> str:
        """Its name in ratios: "cudnn NHWC"."""
        return f"{self.implementation} {self.layout}"

    def checked(self, operator: Operator) -> tuple[float, int]:
        """(the error of a step that is launched now, the number of products per sum)."""
        self.program.buffers[self.program.steps[operator.index].output][...] = np.nan
        self.program.launch_step(operator.index)
        return error_of(self.program, operator.index)

    def benchmark(self, operator: Operator) -> timing.Benchmark:
        """One step, to be timed."""
        return timing.Benchmark(functools.partial(self.program.launch_step, operator.index))


def prepared(implementation: str, layout: str, model: Model, precision: str, batch: int, tune: bool) -> Side:
    """An implementation after one pass over the pictures."""
    program = network_of(implementation, model, precision, layout, tune).program((batch, *model.graph.input_shape[1:]))
    program.input[...] = cuda.asarray(pictures(batch, model.graph.input_shape[1:]))
    program.launch()
    return Side(implementation, layout, program)


def measure(
    sides: Sequence[tuple[str, str]], model: Model, precision: str, batch: int, options: Options, console: Console
) -> Measured:
    """(records, whether all results were correct) of every distinct step at one batch size and precision.

    sides: implementations and layouts, timed in turn step by step.
    """
    ready = [prepared(*side, model, precision, batch, options.tune) for side in sides]
    records, right = [], True
    for operator in operators(ready[0].program.steps):
        errors: dict[str, float] = {}
        for side in ready:
            error, k = side.checked(operator)
            most = allowed(precision, k)
            if error <= most:
                errors[side.name] = error
            else:
                what = f"{side.name}, {operator.case}"
                console.print(f"{what}: [red]wrong[/], not timed: an error of {error:.1e}, allowed {most:.1e}")
                right = False
        timed = [side for side in ready if side.name in errors]
        if not timed:
            continue
        comparison = timing.compare(
            {side.name: side.benchmark(operator) for side in timed}, samples=options.samples or SAMPLES
        )
        for side in timed:
            step, told = side.program.steps[operator.index], side.program.told[operator.index]
            ratios = _ratios(side, timed, comparison)
            records.append(
                record(
                    "operators", operator.case, side.implementation, precision=precision, batch=batch,
                    arithmetic=arithmetic(side.implementation, told, precision), timing=comparison[side.name],
                    work=work_of(step, 2 if precision == "fp16" else 4), error=errors[side.name], layout=side.layout,
                    kind=operator.kind, shape=operator.shape, count=operator.count, plan=told,
                    **({"ratios": ratios} if ratios else {}),
                )
            )  # fmt: skip
    return records, right


def _ratios(side: Side, timed: Sequence[Side], comparison: timing.Comparison) -> dict[str, Any]:
    """A side's time over the fastest of the other implementation in the same process, with its interval."""
    found = {}
    for name in IMPLEMENTATIONS:
        others = [one for one in timed if one.implementation == name != side.implementation]
        best = min(others, key=lambda one: comparison[one.name].median_us, default=None)
        if best is not None:
            ratio = comparison.ratio(side.name, best.name)
            low, median, high = (float(f"{value:.4g}") for value in (ratio.low, ratio.median, ratio.high))
            found[name] = {"to": best.name, "median": median, "low": low, "high": high}
    return found


def _show(records: list[dict[str, Any]], console: Console) -> None:
    if not records:
        return
    first = records[0]
    title = f"{first['implementation']}, batch {first['batch']}, {first['precision']} {first['layout']}"
    shown = [
        {"step": r["case"], "what runs": r["plan"][:60], "times": str(r["count"])} | driver.cells(r)
        | {"TB/s": f"{r['bytes'] / r['median_us'] / 1e6:.2f}", "TFLOP/s": f"{r['flops'] / r['median_us'] / 1e6:.1f}"}
        for r in records
    ]  # fmt: skip
    total = sum(r["count"] * r["median_us"] for r in records)
    console.print(driver.table(shown, 2, title))
    console.print(f"all {sum(r['count'] for r in records)} steps one by one: {total:,.1f} µs\n")


def run(options: Options, console: Console, model: Model | None = None) -> Iterator[Measured]:
    """Yield (records, whether all were correct) per batch size and precision. NoGpu on the simulator."""
    with on_stream():
        model = model or Model.of()
        for batch, precision, sides in options.groups():
            records, right = measure(sides, model, precision, batch, options, console)
            for implementation, layout in sides:
                own = [r for r in records if (r["implementation"], r["layout"]) == (implementation, layout)]
                _show(own, console)
            yield records, right


def superseded(records: Sequence[dict[str, Any]]) -> driver.Superseded:
    """A predicate for older records of the same step, side and layout, in any arithmetic: another program's."""
    return driver.same(records, "suite", "case", "implementation", "precision", "layout", "batch")


bench = driver.suite("operators", run, superseded)
