"""The suite "operators": each distinct step of MobileNetV2 alone, on cuDNN and on this project's kernels.

A step is what one launch computes if everything is fused: a convolution with its bias, activation and residual. It runs
on the network's own activations, and its result is compared with PyTorch's in float64 before it is timed.
"""

import functools
from collections import Counter
from collections.abc import Iterator
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

    def combinations(self) -> Iterator[tuple[str, int, str, str]]:
        """Yield (implementation, batch, precision, layout) to measure. Ours has no tf32, and one layout by default."""
        for implementation in self.backends:
            for batch in self.batches:
                for precision in self.precisions:
                    if implementation == "ours" and precision == "tf32":
                        continue
                    own = ("NHWC",) if implementation == "ours" else LAYOUTS_OF[precision]
                    for layout in self.layouts or own:
                        yield implementation, batch, precision, layout


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


def measure(
    implementation: str, model: Model, precision: str, layout: str, batch: int, options: Options, console: Console
) -> Measured:
    """(records, whether all results were correct) of every distinct step at one batch size."""
    net = network_of(implementation, model, precision, layout, options.tune)
    program = net.program((batch, *model.graph.input_shape[1:]))
    program.input[...] = cuda.asarray(pictures(batch, model.graph.input_shape[1:]))
    program.launch()
    records, right = [], True
    for operator in operators(program.steps):
        step = program.steps[operator.index]
        program.buffers[step.output][...] = np.nan
        program.launch_step(operator.index)
        error, k = error_of(program, operator.index)
        most = allowed(precision, k)
        if not error <= most:
            console.print(f"{operator.case}: [red]wrong[/], not timed: an error of {error:.1e}, allowed {most:.1e}")
            right = False
            continue
        launch = functools.partial(program.launch_step, operator.index)
        measured = timing.time(launch, samples=options.samples or SAMPLES)
        records.append(
            record(
                "operators", operator.case, implementation, precision=precision, batch=batch,
                arithmetic=arithmetic(implementation, program.told[operator.index], precision), timing=measured,
                work=work_of(step, 2 if precision == "fp16" else 4), error=error, layout=layout, kind=operator.kind,
                shape=operator.shape, count=operator.count, plan=program.told[operator.index],
            )
        )  # fmt: skip
    return records, right


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
    """Yield (records, whether all were correct) per combination. NoGpu on the simulator."""
    with on_stream():
        model = model or Model.of()
        for implementation, batch, precision, layout in options.combinations():
            records, right = measure(implementation, model, precision, layout, batch, options, console)
            _show(records, console)
            yield records, right


bench = driver.suite("operators", run)
