"""python -m common bench all: every suite of this card, one after the other, and how long that takes, said first.

How long: what the records of a card took, of this one if it has any, else of the course's. The estimate is a sum of
runs, as long as `measure.environment.Watch` watched each; for energy it is a sum of what will be metered. torch.compile
compiles for minutes per batch size: the suite network times it only where it is named, and of the others only energy
runs it, for four of its sixteen cells.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from ..cuda import graphs
from ..measure import environment
from ..report import results, tables
from ..report.results import Results
from . import driver, energy, network

# (suite, its options): what the course's tables are made of, in this order. Those behind it need ncu
SUITES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("peaks", {}), ("network", {}), ("network", {"mode": "rotating"}), ("network", {"mode": "host"}),
    ("network", {"mode": "call"}), ("network", {"mode": "replay"}), ("network", {"precisions": ("int8",)}),
    ("chain", {}), ("operators", {}), ("kernels", {}), ("late", {}), ("plans", {}), ("errors", {}), ("families", {}),
    ("multiprocessor", {}), ("timeline", {}), ("two-of-four", {}), ("fp8", {}), ("candidates", {}), ("sparse", {}),
    ("energy", {}), ("energy", {"backends": ("ours", "onnxruntime-cuda"), "precisions": ("int8",)}),
    ("profile", {}), ("trace", {}), ("sections", {}), ("inspect", {}),
)  # fmt: skip
NAMES = tuple(dict.fromkeys(name for name, _ in SUITES))


@dataclass(frozen=True, kw_only=True)
class Options:
    """suites: of NAMES, all if not given. save: measure and save; else the estimate is printed, and nothing more.

    ValueError for an unknown suite.
    """

    suites: tuple[str, ...] = ()
    save: bool = False
    folder: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "suites", driver.choose("suite", self.suites, NAMES, NAMES))


def seconds(recorded: Results, suite: str) -> float | None:
    """How long the runs took that a suite's records are of; None if they do not say it.

    The suites network and chain share a table, and are told apart by the names of their runs. What is only of SLOW
    implementations is left out, as it is in SUITES. Energy: what its own plan says, with the compilation of SLOW ones.
    """
    if suite == "energy":
        plans = (energy.Options(save=True, **given).durations() for name, given in SUITES if name == suite)
        return sum(prepare + meter for plan in plans for prepare, meter in plan.values())
    table = {"chain": "network"}.get(suite, suite)
    names = {
        r["run"] for r in recorded.suite(table) if f"-{suite}-" in r["run"] and r["implementation"] not in network.SLOW
    }
    looks = [recorded.runs[name].get("watch", {}).get("looks", 0) for name in names]
    return environment.PERIOD * sum(looks) or None


def show_plan(options: Options, recorded: Results, console: Console) -> None:
    """Print what will be measured, and how long the same took when the records in `recorded` were made."""
    known = {name: seconds(recorded, name) for name in options.suites}
    rows = [
        {"suite": name, "minutes": tables.DASH if known[name] is None else f"{(known[name] or 0) / 60:.1f}"}
        for name in options.suites
    ]
    console.print(driver.table(rows))
    card = next((run["card"] for run in recorded.runs.values()), "no card")
    total = sum(filter(None, known.values()))
    unknown = sum(value is None for value in known.values())
    more = f", and {unknown} suites whose time is not known" if unknown else ""
    console.print(
        f"together about {total / 60:.0f} minutes, as recorded on {card}{more}; nothing else may use the card",
        soft_wrap=True,
    )


def bench(options: Options, console: Console, load: Callable[[str], Any] | None = None) -> bool:
    """Print the plan; with options.save run the suites, each into this card's results. Returns whether all went well.

    A suite that fails is named, and the others go on. NoGpu on the simulator. load: a suite's module by name.
    """
    with graphs.on_stream():
        pass  # raises NoGpu before anything is said
    own = results.load(results.path_of(environment.card(), options.folder))
    show_plan(options, own if own.runs else results.load(tables.CARD), console)
    if not options.save:
        console.print("nothing was measured: with --save it is")
        return True
    failed: list[str] = []
    for name, given in SUITES:
        if name in options.suites:
            what = " ".join([name, *(f"--{key.removesuffix('s')} {_said(value)}" for key, value in given.items())])
            console.rule(what)
            module = (load or _module)(name)
            try:
                fine = module.bench(module.Options(save=True, folder=options.folder, **given), console)
            except Exception as error:  # a missing tool or library, or a card that lacks something
                console.print(f"{what}: {escape(str(error).strip().splitlines()[0] or type(error).__name__)}")
                fine = False
            failed += [] if fine else [what]
    if failed:
        console.print(f"not measured, or wrong: {', '.join(failed)}", soft_wrap=True)
    console.print("python -m common generate --all makes tables, plots and notebooks of the records", soft_wrap=True)
    return not failed


def _said(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _module(name: str) -> Any:
    return importlib.import_module(f".{name.replace('-', '_')}", __package__)
