"""The suite "timeline": when each kernel of one forward pass starts and ends, and when the host launched it.

    torch-eager          PyTorch, its kernels launched one by one
    torch-graph          the same kernels, captured in a CUDA graph
    cudnn                the steps on cuDNN in a CUDA graph
    ours step by step    this project's kernels, one or more per step, in a CUDA graph (chapter 05)
    ours                 with the optimizations of the suite "network" (chapter 06)

torch.profiler records the GPU's own times of all kernels of the process. Of REPEATS forward passes the one with the
median span is kept. A second, annotated pass says which layer each kernel belongs to; it is slower, so its times are
not used. `untraced_us` is the median time of the same call without the profiler: what the recording itself costs can
be seen. Profilers add about a microsecond between the kernels of a CUDA graph.
"""

import difflib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Console
from rich.markup import escape

from ..cuda import graphs
from ..measure import timeline, timing
from ..measure.timeline import Slice
from ..network.registry import Step
from ..topology import Conv2d, GlobalAveragePool, Linear
from . import driver, network
from .driver import Measured
from .network import Configuration, Reference, composed
from .operators import kind_of
from .peers import Built, Model, switches

BATCHES = (1,)  # at large batches there are no gaps to see
PRECISIONS = ("fp32", "fp16")
REPEATS = 9
WARM_UP = 20  # calls
STEPWISE = "ours step by step"
BACKENDS = ("torch-eager", "torch-graph", "cudnn", STEPWISE, "ours", "torch-compile")
DEFAULT = BACKENDS[:5]  # torch-compile compiles for minutes
LONGEST_NAME = 90


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to record. tune: let cuDNN time its plans."""

    backends: tuple[str, ...] = ()
    tune: bool = True

    CHOICES: ClassVar = {
        "backends": (BACKENDS, DEFAULT), "batches": (None, BATCHES), "precisions": (PRECISIONS, PRECISIONS),
    }  # fmt: skip


# ---- Which layer a kernel belongs to


def label_of(step: Step) -> str:
    """A step's kind, or "block" for a step that several layers with weights or pooling were fused into."""
    parts = [layer for layer in step.layers if isinstance(layer, (Conv2d, GlobalAveragePool, Linear))]
    return kind_of(step) if len(parts) == 1 else "block"


def matched(names: Sequence[str], others: Sequence[str], labels: Sequence[str | None]) -> list[str]:
    """A label for each of `names`, from the labels of `others`, nearly the same kernels; "" where none fits."""
    found = [""] * len(names)
    for block in difflib.SequenceMatcher(None, names, others, autojunk=False).get_matching_blocks():
        for i in range(block.size):
            found[block.a + i] = labels[block.b + i] or ""
    return found


def steps_in_turn(program: Any) -> None:
    """Launch a program step by step, each in an annotation with its label; a single launch is labelled "network"."""
    from torch.profiler import record_function

    if program.single_launch is not None:
        with record_function("network"):
            program.launch()
        return
    for i, step in enumerate(program.steps):
        with record_function(label_of(step)):
            program.launch_step(i)


# ---- Recording


def recorded(call: Callable[[], Any], repeats: int = REPEATS) -> list[Slice]:
    """The kernels of one call on the GPU: of `repeats` calls, the one with the median span. RuntimeError without any.

    ValueError if the calls launch different numbers of kernels.
    """
    timeline.traced(call, gpu=True, host=False)  # the profiler's own initialization
    slices = timeline.kernels(timeline.traced(call, repeats, gpu=True, host=False))
    if not slices:
        raise RuntimeError("the profiler saw no kernel: it needs CUPTI, and the right to use it")
    return timeline.median(timeline.split(slices, repeats))


def records(
    slices: Sequence[Slice], labels: Sequence[str], implementation: str, untraced_us: float, **more: Any
) -> list[dict[str, Any]]:
    """Records of the suite, one per kernel. more: precision, batch, layout, launch. ValueError for too few labels."""
    if len(slices) != len(labels):
        raise ValueError(f"labels must be as many as the kernels, {len(slices)}, got {len(labels)}")
    made = []
    for order, (one, label) in enumerate(zip(slices, labels, strict=True), 1):
        name = one.name if len(one.name) <= LONGEST_NAME else f"{one.name[: LONGEST_NAME - 1]}…"
        r = {
            "suite": "timeline", "case": f"{implementation}, {order:03}", "order": order,
            "implementation": "ours" if implementation == STEPWISE else implementation, "kernel": name,
            "kind": label or "other", "start_us": round(one.start_us, 3), "us": round(one.us, 3),
            "stream": one.stream, "untraced_us": round(untraced_us, 2), **more,
        }  # fmt: skip
        if one.launched_us is not None and one.host_us is not None:
            r |= {"launched_us": round(one.launched_us, 3), "host_us": round(one.host_us, 3)}
        made.append(r)
    return made


def configuration_of(backend: str, precision: str, batch: int) -> Configuration:
    """A backend in the layout in which it is fastest: PyTorch in NCHW for fp32, all others in NHWC."""
    if backend in (STEPWISE, "ours"):
        return Configuration("ours", precision, "NHWC", composed(batch, "none" if backend == STEPWISE else None))
    torch = backend.startswith("torch")
    return Configuration(backend, precision, "NCHW" if torch and precision == "fp32" else "NHWC")


def module_of(call: Any) -> Any:
    """The PyTorch module that a call of the peers runs: a variable of the function."""
    inside = dict(zip(call.__code__.co_freevars, call.__closure__ or (), strict=True))
    return inside["module"].cell_contents


def labels_for(slices: Sequence[Slice], built: Built, backend: str, eager: Callable[[], Built]) -> list[str]:
    """The label of each kernel, from an annotated pass over the same network. eager: builds PyTorch's."""
    if backend in ("cudnn", "ours", STEPWISE):
        program = built.calls[0].__self__  # type: ignore[attr-defined]  # the method launch of a program
        found = timeline.kernels(timeline.traced(lambda: steps_in_turn(program), gpu=True))
    elif backend in ("torch-eager", "torch-graph"):
        call = eager().calls[0]
        for _ in range(3):
            call()
        with timeline.annotated(timeline.kinds_of_modules(module_of(call))):
            found = timeline.kernels(timeline.traced(call, gpu=True))
    else:
        return [""] * len(slices)
    return matched([s.name for s in slices], [s.name for s in found], [s.label for s in found])


def measured(
    backend: str, precision: str, model: Model, reference: Reference, batch: int, options: Options, console: Console
) -> Measured:
    """Check an implementation, time it, record its timeline: (records, whether its results were correct)."""
    configuration = configuration_of(backend, precision, batch)
    rows, right = network.prepared(
        [configuration], model, reference, batch, network.Options(tune=options.tune), console
    )
    if not rows:
        return [], right
    launch = "graph" if any(row.launch == "graph" for row in rows) else rows[0].launch
    built = next(row.built for row in rows if row.launch == launch)
    call = graphs.capture(built.calls[0]).launch if launch == "graph" else built.calls[0]
    untraced = timing.time(call, launch="eager", samples=options.samples or 30).median_us
    for _ in range(WARM_UP):
        call()
    slices = recorded(call)
    same = Configuration("torch-eager", precision, configuration.layout)
    labels = labels_for(
        slices, built, backend, lambda: network.build(same, model, reference.pictures(batch), "hot", False)
    )
    made = records(
        slices, labels, backend, untraced, precision=precision, batch=batch, layout=configuration.layout,
        launch=built.launched_as or launch,
    )  # fmt: skip
    console.print(
        f"{backend}, {precision}, batch {batch}: {len(slices)} kernels in {timeline.span(slices):,.1f} µs,"
        f" {timeline.gaps(slices):,.1f} µs of gaps; {untraced:,.1f} µs without the profiler,"
        f" {sum(not label for label in labels)} kernels without a label",
        soft_wrap=True,
    )
    return made, right


def superseded(rows: Sequence[dict[str, Any]]) -> driver.Superseded:
    """A predicate for older timelines of the same implementation, which may have other kernels."""

    def names(r: Any) -> tuple[Any, ...]:
        return r["suite"], r["case"].rpartition(",")[0], r.get("precision"), r.get("batch")

    now = {names(r) for r in rows}
    return lambda r: names(r) in now


def run(options: Options, console: Console, model: Model | None = None) -> Iterator[Measured]:
    """Yield the records per batch size, precision and implementation. NoGpu on the simulator."""
    with graphs.on_stream():
        pass  # raises NoGpu before anything is computed
    # CUPTI stays attached between recordings: graphs that were captured in between would not be seen otherwise
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")
    import torch

    timeline.traced(lambda: torch.zeros(1, device="cuda"), gpu=True)
    model = model or Model.of()
    reference = Reference(model, 8)
    for batch in options.batches:
        for precision in options.precisions:
            for backend in options.backends:
                with switches(precision), graphs.on_stream():
                    try:
                        found = measured(backend, precision, model, reference, batch, options, console)
                    except (RuntimeError, ValueError) as error:  # the others can still be recorded
                        console.print(f"{backend}, {precision}, batch {batch}: not recorded: {escape(str(error))}")
                        found = [], True
                network._free()
                yield found


bench = driver.suite("timeline", run, superseded)
