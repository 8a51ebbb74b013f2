"""The suite "chain": MobileNetV2 on this project's kernels, one optimization added at a time.

    naive               the first rung of every operator, NCHW
    best rungs NCHW     the fastest rung for each shape
    NHWC                the same in the other layout
    programmatic        programmatic dependent launch (PDL): a kernel starts before the previous one has ended
    fused blocks        one kernel per inverted-residual block; at small batches the head is fused as well
    persistent          one kernel for the whole network, where there is one

Each adds one thing to the one before, and all are replayed from a CUDA graph, so that no time is Python's. Beside the
chain stands the program of NHWC launched from Python, kernel by kernel: what a graph is worth. All are timed in turn in
one process, on the same pictures, and checked before and after, as in the suite "network". Records belong to that
suite, with the case "<network>, chain", and without graph "<network>, from Python".
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
FROM_PYTHON = "NHWC"  # the rung that is launched from Python as well


@dataclass(frozen=True)
class Rung:
    """A composition of the network: arguments of Network.

    suited: `optimize` is chosen by the batch, see network.composed.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    needs: str | None = None  # the feature, of common.optimize.features, that it requires
    suited: bool = False


def rungs() -> tuple[Rung, ...]:
    """All rungs, in the order of the chain."""
    first = {operator: kernels.variants(operator)[0] for operator in kernels.OPERATORS}
    programmatic = Composition("programmatic", fuse=None, programmatic=True, head=False)
    every = [
        Rung("naive", {"layout": "NCHW", "variants": first}),
        Rung("best rungs NCHW", {"layout": "NCHW"}),
        Rung(FROM_PYTHON, {"layout": "NHWC"}),
        Rung("programmatic", {"optimize": programmatic}, "programmatic launches"),
        Rung("fused blocks", {}, "fused blocks", suited=True),
    ]
    if importlib.util.find_spec("..optimize.persistent", __package__):
        persistent = Composition("persistent", fuse=always, persistent=True)
        every.append(Rung("persistent", {"optimize": persistent}, "fused blocks"))
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
    launches = ("graph", "eager") if rung.name == FROM_PYTHON else ("graph",)
    built = over([program], launches, OUR_ARITHMETIC[precision])
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
    case, more = f"{model.name}, from Python", {}
    if row.launch != "eager":
        case = f"{model.name}, chain"
        more["rung"] = [rung.name for rung in rungs()].index(c.implementation) + 1
    return record(
        "network", case, c.implementation, precision=c.precision, arithmetic=row.built.arithmetic, batch=batch,
        timing=comparison[row.name], work=moved, error=row.check.error, layout=c.layout, launch=row.launch,
        steps=len(plan.steps), **row.check.fields, **more,
    )  # fmt: skip


def _show(
    rows: Sequence[Row], comparison: timing.Comparison, records: Sequence[dict[str, Any]], batch: int, precision: str,
    console: Console,
) -> None:  # fmt: skip
    shown = []
    chained = [row for row in rows if row.launch != "eager"]
    for row, r in zip(rows, records, strict=True):
        ratios = {"× the rung before": "", "× the first": ""}
        if row.launch != "eager":
            others = chained[max(chained.index(row) - 1, 0)], chained[0]
            medians = (comparison.ratio(other.name, row.name).median for other in others)
            ratios = {name: f"{median:.2f}" for name, median in zip(ratios, medians, strict=True)}
        shown.append(
            {"rung": r["implementation"], "layout": r["layout"], "launch": r["launch"], "steps": str(r["steps"])}
            | driver.cells(r)
            | ratios
        )
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


def superseded(records: Sequence[dict[str, Any]]) -> driver.Superseded:
    """A predicate for older records of the same chain: launched from Python, no rung any more, or a rung's former ones.

    A rung's former record may be of another arithmetic, so that the new one does not replace it.
    """
    of = {(r["case"], r["precision"], r["batch"]) for r in records if r["launch"] == "graph"}
    names = {rung.name for rung in rungs()}
    again = driver.same(records, "suite", "case", "implementation", "precision", "batch")

    def old(r: dict[str, Any]) -> bool:
        here = tuple(r.get(key) for key in ("case", "precision", "batch")) in of  # records of other suites lack some
        return again(r) or (here and (r["launch"] != "graph" or r["implementation"] not in names))

    return old


bench = driver.suite("chain", run, superseded)
