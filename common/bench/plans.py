"""The suite "plans": a few convolutions, expressed to cuDNN in every possible way, each with its fastest plans.

The time depends on the composition of the cuDNN graphs, the layout and the arithmetic far more than on the number of
multiply-adds. Every result is checked against PyTorch in float64 before its time is kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from .. import cuda, cudnn
from ..cuda.graphs import on_stream
from ..cuda.layout import LAYOUTS
from ..cudnn import plans
from ..cudnn.graphs import Graph
from ..measure import timing
from ..measure.roofline import ARITHMETIC, conv2d_work
from ..report.results import record
from . import driver
from .driver import Measured
from .operators import SAMPLES, TUNED, allowed, convolved, relative_error
from .peers import PRECISIONS

CASES = {  # x, weight, padding; each with bias and ReLU6
    "expand 14×14 64>384": ((1, 64, 14, 14), (384, 64, 1, 1), 0),
    "pointwise 14×14 384>64": ((1, 384, 14, 14), (64, 384, 1, 1), 0),
    "depthwise 56×56 144": ((1, 144, 56, 56), (144, 1, 3, 3), 1),
}


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to time. layouts: by default both."""

    layouts: tuple[str, ...] = ()

    CHOICES: ClassVar = {"layouts": (LAYOUTS, LAYOUTS), "precisions": (PRECISIONS, PRECISIONS)}


def in_words(graphs: tuple[Graph, ...]) -> str:
    """A composition as text: "conv + identity + add + clamp", or "conv + add | clamp" for two graphs."""
    names = {"conv_fprop": "conv"}
    return " | ".join(" + ".join(names.get(node.op, _node_in_words(node)) for node in graph.nodes) for graph in graphs)


def _node_in_words(node: Any) -> str:
    if node.op != "clamp":
        return f"{node.operand}" if node.operand else node.op
    high = dict(node.attributes)["high"]
    return "ReLU" if high == float("inf") else f"ReLU{high:g}"


def arrays_of(c: cudnn.Convolution) -> tuple[dict[str, Any], Any]:
    """(random arrays by name in the convolution's layout and dtype, the correct result, a float64 GPU tensor)."""
    random = np.random.default_rng(0)
    dtype = np.float16 if c.dtype == "fp16" else np.float32
    shapes = {"x": c.x, "w": c.w, "bias": (1, c.w[0], 1, 1), "y": c.y}
    arrays = {
        name: cuda.to_layout(cuda.asarray(random.standard_normal(shape, np.float32).astype(dtype)), c.layout)
        for name, shape in shapes.items()
    }
    x, w, bias = arrays["x"], arrays["w"], arrays["bias"].ravel()
    want = convolved(x, w, bias, c.stride, c.padding, c.dilation, c.groups)
    return arrays, want.clamp(*(c.bounds or ()))


def measure(case: str, precision: str, layout: str, options: Options, console: Console) -> Measured:
    """(a record of each composition that cuDNN has plans for and whose result is correct, whether all are correct)."""
    x, w, padding = CASES[case]
    c = cudnn.Convolution(
        x, w, padding=(padding, padding), bias=True, bounds=(0.0, 6.0), layout=layout, arithmetic=precision
    )
    arrays, want = arrays_of(c)
    pointers = {name: array.data.ptr for name, array in arrays.items()}
    records, right = [], True
    for graphs in c.compositions():
        best = [plans.fastest(graph, TUNED) for graph in graphs]
        found = [entry for entry in best if entry is not None]
        way = in_words(graphs)
        if len(found) < len(graphs):
            console.print(f"{case}, {precision} {layout}: no plan for {way}", soft_wrap=True)
            continue
        composition = plans.Composition(tuple(plan for plan, _ in found))
        scratch = cuda.empty(max(1, composition.scratch), np.uint8)
        arrays["y"][...] = np.nan

        def launch(composition: plans.Composition = composition, scratch: Any = scratch) -> None:
            composition.launch(pointers, scratch.data.ptr)

        launch()
        error = relative_error(arrays["y"], want)
        if not error <= allowed(precision, int(np.prod(w[1:]))):
            console.print(f"{case}, {precision} {layout}, {way}: [red]wrong[/] by {error:.1e}", soft_wrap=True)
            right = False
            continue
        records.append(
            record(
                "plans", f"{case}: {way}", "cudnn", precision=precision, arithmetic=ARITHMETIC[precision], batch=1,
                timing=timing.time(launch, samples=options.samples or SAMPLES), error=error,
                work=conv2d_work(x, w, 1, padding, 1, 2 if c.dtype == "fp16" else 4), layout=layout, operator=case,
                way=way, plans=[plan.name for plan in composition.plans], workspace=composition.scratch,
            )
        )  # fmt: skip
    return records, right


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield (records, whether all were correct) per case, precision and layout. NoGpu on the simulator."""
    shown: list[dict[str, str]] = []
    with on_stream():
        for case in CASES:
            for precision in options.precisions:
                for layout in options.layouts:
                    records, right = measure(case, precision, layout, options, console)
                    shown += (
                        {"operator": case, "precision": precision, "layout": layout, "way": r["way"]}
                        | {"plans": ", ".join(r["plans"])} | driver.cells(r)
                        for r in records
                    )  # fmt: skip
                    yield records, right
    console.print(driver.table(shown, 5))


bench = driver.suite("plans", run)
