"""python -m common energy: millijoules per image of MobileNetV2: this project, cuDNN, PyTorch, torch.compile.

All implementations of one batch size and precision are measured in one process, on the same pictures. Each is checked
against ONNX Runtime as in the suite "network" and timed briefly in its suitable layouts; the energy of the fastest is
measured (see `measure.energy` for the method and the interval). Afterwards its results must be unchanged.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Console
from rich.markup import escape

from ..cuda import graphs
from ..measure import energy, timing
from . import driver, network
from .driver import Measured
from .network import Row, composed, configurations, prepared, timed_in_turn
from .peers import INT8, PRECISIONS, Model, switches

IMPLEMENTATIONS = ("ours", "cudnn", "torch-graph", "torch-compile")  # the default
BATCHES = (1, 256)
DEFAULT_PRECISIONS = ("fp32", "fp16")
SAMPLES = 10  # timings per layout
SAVED_SECONDS = 10.0  # the least duration per workload and round of results that are saved
# approximate s to build, compile, tune, check and time one implementation at one batch size and precision (H200)
PREPARED = {"ours": 15, "cudnn": 20, "torch-eager": 10, "torch-graph": 15, "torch-compile": 600, "xla": 40}
PREPARED |= {"onnxruntime-cuda": 30, "tensorrt": 60}


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to measure. backends: of PREPARED. seconds, rounds, seed: as for measure.energy.measure."""

    backends: tuple[str, ...] = ()
    seconds: float = energy.SECONDS
    rounds: int = energy.ROUNDS
    seed: int | None = None

    CHOICES: ClassVar = {
        "backends": (tuple(PREPARED), IMPLEMENTATIONS), "batches": (None, BATCHES),
        "precisions": ((*PRECISIONS, INT8), DEFAULT_PRECISIONS),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        least = SAVED_SECONDS if self.save else energy.LEAST_SECONDS
        if not self.seconds >= least:
            kept = " to be saved" if self.save else ""
            raise ValueError(f"seconds must be at least {least:g}{kept}, got {self.seconds:g}")
        if self.rounds < 2:
            raise ValueError(f"rounds must be at least 2, got {self.rounds}: one has no interval")

    def backends_in(self, precision: str) -> tuple[str, ...]:
        """The backends that support a precision: ours has no tf32."""
        return tuple(name for name in self.backends if network.DEFAULT_LAYOUTS[name].get(precision))

    def durations(self) -> dict[tuple[int, str], tuple[float, float]]:
        """By (batch, precision): (approximate s to prepare, s to measure)."""
        return {
            (batch, precision): (
                float(sum(PREPARED[name] for name in self.backends_in(precision))),
                energy.duration(len(self.backends_in(precision)), self.seconds, self.rounds),
            )
            for batch in self.batches
            for precision in self.precisions
            if self.backends_in(precision)
        }


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes"


def show_plan(options: Options, console: Console) -> None:
    """Print what will be measured and how long that takes."""
    durations = options.durations()
    for (batch, precision), (prepare, meter) in durations.items():
        names = ", ".join(options.backends_in(precision))
        console.print(
            f"batch {batch}, {precision}: {names}; {_minutes(meter)} of metering ({options.rounds} rounds of"
            f" {options.seconds:g} s each, and idleness), about {_minutes(prepare)} before that to build and check",
            soft_wrap=True,
        )
    console.print(f"together about {_minutes(sum(map(sum, durations.values())))}; nothing else may use the card")


# ---- One batch size and precision


def _fastest(rows: Sequence[Row], comparison: timing.Comparison) -> list[Row]:
    """The fastest row of each implementation, over all layouts and ways to launch it."""
    best: dict[str, Row] = {}
    for row in rows:
        name = row.configuration.implementation
        if name not in best or comparison[row.name].median_us < comparison[best[name].name].median_us:
            best[name] = row
    return list(best.values())


def _workload(row: Row, batch: int, waiting: ThreadPoolExecutor) -> energy.Workload:
    timed = row.built.benchmark(row.launch)
    wait = timed.wait
    if wait is None:
        return energy.Workload(timed.calls[0], batch)
    # a runtime with streams of its own: a thread waits for the last call that was enqueued
    return energy.Workload(timed.calls[0], batch, lambda: waiting.submit(wait).done)


def measure(
    options: Options, model: Model, reference: network.Reference, batch: int, precision: str, console: Console,
    machine: energy.Machine | None = None,
) -> Measured:  # fmt: skip
    """(records, whether all results were correct) of one batch size and precision. machine: as for energy.measure."""
    group = configurations(precision, options.backends, (), composed(batch))
    brief = network.Options(samples=SAMPLES)
    rows, right = prepared(group, model, reference, batch, brief, console)
    rows = [row for row in rows if row.launch == row.built.launches[0]]  # a graph, where there is one
    rows, comparison, still = timed_in_turn(rows, batch, brief, console)
    right &= still
    if comparison is None or not rows:
        return [], right
    chosen = _fastest(rows, comparison)
    before = {id(row): row.built.run() for row in chosen}
    for row in chosen:
        row.built.poison()
    with ThreadPoolExecutor(energy.AHEAD + 1) as waiting:
        measured = energy.measure(
            {row.configuration.implementation: _workload(row, batch, waiting) for row in chosen},
            seconds=options.seconds, rounds=options.rounds, seed=options.seed, machine=machine,
            log=lambda line: console.print(escape(f"batch {batch}, {precision}: {line}"), soft_wrap=True),
        )  # fmt: skip
    correct = []
    for row in chosen:
        if network._still_right(row, before[id(row)]):
            correct.append(row)
        else:
            console.print(f"{row.name}, batch {batch}: [red]wrong[/] when it was metered, though right before")
            right = False
    records = [_record(row, measured, comparison, model, batch) for row in correct]
    _show(records, measured, batch, precision, console)
    return records, right


def _digits(value: float) -> float:
    """Round to four significant digits: repeated measurements differ by more."""
    return float(f"{value:.4g}")


def _record(
    row: Row, measured: energy.Measured, comparison: timing.Comparison, model: Model, batch: int
) -> dict[str, Any]:
    c, name = row.configuration, row.configuration.implementation
    found = measured[name]
    entry: dict[str, Any] = {
        "suite": "energy", "case": model.name, "implementation": name, "precision": c.precision,
        "arithmetic": row.built.arithmetic, "batch": batch, "layout": c.layout,
        "launch": row.built.launched_as or row.launch, "error": float(f"{row.check.error:.3g}"),
        **row.check.fields,
        "mj_per_image": _digits(found.mj_per_image), "mj_low": _digits(found.low), "mj_high": _digits(found.high),
        "gross_mj": _digits(found.gross), "gross_mj_low": _digits(found.gross_range[0]),
        "gross_mj_high": _digits(found.gross_range[1]), "idle_w": _digits(found.idle_w),
        "watts": _digits(found.watts), "seconds": round(found.seconds, 2), "rounds": len(found.rounds),
        "images": found.images, "method": measured.method, "seed": measured.seed,
        "time_us": _digits(comparison[row.name].median_us), "throttle": found.throttle,
    }  # fmt: skip
    if found.sm_mhz is not None:
        entry["sm_mhz"] = found.sm_mhz
    if name == "ours":
        entry["composition"] = c.optimize or "none"
    if row.built.note:
        entry["note"] = row.built.note
    if notes := [note for note in (measured.word, *found.notes) if note]:
        entry["notes"] = notes
    return entry


def best_peer(records: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The record with the least energy per image of all implementations other than ours; None without any."""
    others = [r for r in records if r["implementation"] != "ours"]
    return min(others, key=lambda r: r["mj_per_image"], default=None)


def ratio(a: dict[str, Any], b: dict[str, Any]) -> tuple[float, float, float]:
    """(median, low, high) of a's energy over b's. The bounds combine the extremes of both, so they are wide."""
    most = a["mj_high"] / b["mj_low"] if b["mj_low"] > 0 else float("inf")
    return a["mj_per_image"] / b["mj_per_image"], a["mj_low"] / b["mj_high"], most


def _show(
    records: Sequence[dict[str, Any]], measured: energy.Measured, batch: int, precision: str, console: Console
) -> None:
    peer = best_peer(records)
    how = {"counter": "energy counter", "power": "power readings, integrated"}[measured.method]
    title = f"batch {batch}, {precision}; {how}, orders of seed {measured.seed}"
    shown = [
        {
            "implementation": " ".join(filter(None, (r["implementation"], r.get("composition")))),
            "layout": r["layout"], "launch": r["launch"], "throttled by": ", ".join(r["throttle"]),
            "mJ / image": f"{r['mj_per_image']:.4g}", "low – high": f"{r['mj_low']:.4g} – {r['mj_high']:.4g}",
            "with idle": f"{r['gross_mj']:.4g}",
            "÷ best peer's": "" if peer is None else "best peer" if r is peer
            else "{:.3f} ({:.3f} – {:.3f})".format(*ratio(r, peer)),
            "W": f"{r['watts']:.0f}", "idle W": f"{r['idle_w']:.1f}",
            "images / s": f"{r['images'] / r['seconds']:,.0f}",
            "MHz": f"{r['sm_mhz'][1]:.0f}" if "sm_mhz" in r else "",
        }
        for r in records
    ]  # fmt: skip
    console.print(driver.table(shown, 4, title))
    for r in records:
        for note in (*filter(None, [r.get("note")]), *r.get("notes", ())):
            console.print(f"{r['implementation']}: {escape(note)}", soft_wrap=True)
    ours = next((r for r in records if r["implementation"] == "ours"), None)
    if ours is not None and peer is not None:
        middle, low, high = ratio(peer, ours)
        console.print(
            f"an image takes the best peer, {peer['implementation']}, {middle:.2f} times the energy that it takes ours"
            f" ({low:.2f} – {high:.2f})",
            soft_wrap=True,
        )
    console.print()


# ---- The suite


def run(
    options: Options, console: Console, model: Model | None = None, checked: int = network.CHECKED,
    machine: energy.Machine | None = None,
) -> Iterator[Measured]:  # fmt: skip
    """Yield (records, whether all results were correct) per batch size and precision.

    model: by default the seeded network. NoGpu on the simulator, Unmetered if the card's energy cannot be measured.
    """
    with graphs.on_stream():
        pass  # raises NoGpu before anything is computed
    machine = machine or energy.Card()
    show_plan(options, console)
    model = model or Model.of()
    reference = network.Reference(model, checked)
    for batch, precision in options.durations():
        # the switches first: they import PyTorch, and on_stream sets the stream of the libraries imported so far
        with switches(precision), graphs.on_stream():
            measured = measure(options, model, reference, batch, precision, console, machine)
        network._free()
        yield measured


def superseded(records: Sequence[dict[str, Any]]) -> driver.Superseded:
    """A predicate for older records of the same implementation, in any layout or arithmetic: one of each is kept."""
    return driver.same(records, "suite", "case", "implementation", "precision", "batch")


bench = driver.suite("energy", run, superseded)
