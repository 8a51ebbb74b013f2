"""The suite "chain": MobileNetV2 on this project's kernels, one optimization added at a time.

    naive               the first rung of every operator, NCHW, launched one by one
    best rungs NCHW     the fastest rung for each shape
    NHWC                the same in the other layout
    graph               captured in a CUDA graph and replayed
    programmatic        programmatic dependent launch (PDL): a kernel starts before the previous one has ended
    fused blocks        one kernel per inverted-residual block; at small batches the head is fused as well
    persistent          one kernel for the whole network, where there is one

Each adds one thing to the one before. All are timed in turn in one process, on the same pictures, and checked before
and after, as in the suite "network". Records belong to that suite, with the case "<network>, chain".
"""

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from .. import kernels
from ..cuda import graphs
from ..measure import timing
from ..measure.roofline import Work
from ..network import Network
from ..optimize.compositions import Composition, always
from ..optimize.features import missing
from ..report.results import record
from . import driver, network
from .driver import Measured, choose
from .network import (
    CHECKED,
    OUR_ARITHMETIC,
    Configuration,
    Reference,
    Row,
    composed,
    over,
    prepared,
    timed_in_turn,
    work,
)
from .peers import Built, Model, Unavailable, switches

BATCHES = (1, 32)
PRECISIONS = ("fp32", "fp16")


@dataclass(frozen=True)
class Rung:
    """A composition of the network: arguments of Network, and how it is launched, "eager" or "graph".

    suited: `optimize` is chosen by the batch, see network.composed.
    """

    name: str
    launch: str = "graph"
    options: dict[str, Any] = field(default_factory=dict)
    needs: str | None = None  # the feature, of common.optimize.features, that it requires
    suited: bool = False


def rungs() -> tuple[Rung, ...]:
    """All rungs, in the order of the chain."""
    first = {operator: kernels.variants(operator)[0] for operator in kernels.OPERATORS}
    programmatic = Composition("programmatic", fuse=None, programmatic=True, head=False)
    every = [
        Rung("naive", "eager", {"layout": "NCHW", "variants": first}),
        Rung("best rungs NCHW", "eager", {"layout": "NCHW"}),
        Rung("NHWC", "eager", {"layout": "NHWC"}),
        Rung("graph", "graph", {"layout": "NHWC"}),
        Rung("programmatic", "graph", {"optimize": programmatic}, "programmatic launches"),
        Rung("fused blocks", "graph", {}, "fused blocks", suited=True),
    ]
    if importlib.util.find_spec("..optimize.persistent", __package__):
        persistent = Composition("persistent", fuse=always, persistent=True)
        every.append(Rung("persistent", "graph", {"optimize": persistent}, "fused blocks"))
    return tuple(every)


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to time. rungs: names, by default all. ValueError for an unknown one."""

    rungs: tuple[str, ...] = ()

    CHOICES: ClassVar = {"batches": (None, BATCHES), "precisions": (PRECISIONS, PRECISIONS)}

    def __post_init__(self) -> None:
        super().__post_init__()
        every = tuple(rung.name for rung in rungs())
        object.__setattr__(self, "rungs", choose("backend", self.rungs, every, every))


def build(rung: Rung, precision: str, model: Model, x: np.ndarray) -> tuple[Built, Any]:
    """A rung, ready to run on x (N, C, H, W) float32, and the plan of its network."""
    suited: dict[str, Any] = {"optimize": composed(len(x))} if rung.suited else {}
    net = Network(model.onnx, dtype=precision, **rung.options, **suited)
    program = net.program(x.shape, arena=True)
    if rung.name == "persistent" and program.single_launch is None:
        raise Unavailable("no tiles of all layers fit into one kernel at this batch, or the card cannot launch it")
    built = over([program], (rung.launch,), OUR_ARITHMETIC[precision])
    built.feed(x)
    return built, program.plan


def measure(
    chosen: Sequence[Rung], model: Model, reference: Reference, batch: int, precision: str, options: Options,
    console: Console,
) -> Measured:  # fmt: skip
    """(records, whether all results were correct) of rungs in one precision and batch size, timed in turn."""
    by_name, plans = {rung.name: rung for rung in chosen}, {}

    def builder(c: Configuration, model: Model, x: np.ndarray, mode: str, tune: bool) -> Built:
        built, plans[c.implementation] = build(by_name[c.implementation], precision, model, x)
        return built

    group = []
    for rung in chosen:
        if rung.needs and (lacks := missing(rung.needs)):
            console.print(f"{rung.name}: not timed: {rung.needs}: {lacks}", soft_wrap=True)
            continue
        group.append(Configuration(rung.name, precision, rung.options.get("layout", "NHWC")))
    rows, right = prepared(group, model, reference, batch, network.Options(samples=options.samples), console, builder)
    timed, comparison, still = timed_in_turn(rows, batch, options, console)
    if comparison is None:
        return [], right and still
    records = [_record(row, plans, comparison, model, batch) for row in timed]
    _show(timed, comparison, records, batch, precision, console)
    return records, right and still


def _record(row: Row, plans: dict[str, Any], comparison: timing.Comparison, model: Model, batch: int) -> dict[str, Any]:
    c = row.configuration
    plan = plans[c.implementation]
    # the traffic of this rung's steps, if each reads its inputs and writes its output once
    moved = Work(plan.bytes, work(model, batch, c.precision).flops)
    return record(
        "network", f"{model.name}, chain", c.implementation, precision=c.precision, arithmetic=row.built.arithmetic,
        batch=batch, timing=comparison[row.name], work=moved, error=row.check.error, layout=c.layout,
        launch=row.launch, rung=[rung.name for rung in rungs()].index(c.implementation) + 1, steps=len(plan.steps),
        **row.check.fields,
    )  # fmt: skip


def _show(
    rows: Sequence[Row], comparison: timing.Comparison, records: Sequence[dict[str, Any]], batch: int, precision: str,
    console: Console,
) -> None:  # fmt: skip
    shown = []
    for i, (row, r) in enumerate(zip(rows, records, strict=True)):
        before, first = (comparison.ratio(other.name, row.name).median for other in (rows[max(i - 1, 0)], rows[0]))
        shown.append(
            {"rung": r["implementation"], "layout": r["layout"], "launch": r["launch"], "steps": str(r["steps"])}
            | driver.cells(r) | {"× the rung before": f"{before:.2f}", "× the first": f"{first:.2f}"}
        )  # fmt: skip
    console.print(driver.table(shown, 3, f"batch {batch}, {precision}"), end="\n\n")


def run(options: Options, console: Console, model: Model | None = None, checked: int = CHECKED) -> Iterator[Measured]:
    """Yield (records, whether all were correct) per batch size and precision. NoGpu on the simulator."""
    with graphs.on_stream():
        pass  # raises NoGpu before anything is computed
    model = model or Model.of()
    reference = Reference(model, checked)
    chosen = [rung for rung in rungs() if rung.name in options.rungs]
    for batch in options.batches:
        for precision in options.precisions:
            with switches(precision), graphs.on_stream():
                yield measure(chosen, model, reference, batch, precision, options, console)


bench = driver.suite("chain", run)
