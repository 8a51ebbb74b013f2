"""The command of the search within a network: python -m common tune --in-network SECONDS.

tune(model, batches, dtypes, seconds) searches, tells, and keeps: see tuning_network.py, and for int8
tuning_network_int8.py.
"""

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.markup import escape

from ..optimize import search
from .candidates import DTYPES, UNFUSED
from .peers import INT8
from .tuning import check_search
from .tuning_network import FAILED, KEPT, SECONDS, SLOWER, WRONG, Trial, Trials, descend, medians, read_times
from .tuning_network_int8 import Int8Trials

FIELDS = ("precision", "batch", "block", "tile", "us", "before_us", "verdict")  # of the file of trials


def tune(
    model: Any, batches: Sequence[int], dtypes: Sequence[str], seconds: float = SECONDS, tried: int = search.TRIED,
    save_to: Path | None = None, times: Path | None = None, trials_to: Path | None = None,
    console: Console | None = None, timer: search.Timer | None = None,
) -> list[Trial]:  # fmt: skip
    """Search tiles within a network (ONNX ModelProto or path), and cache each that is kept when it is found.

    seconds: of trials, for each dtype and batch, after the candidates are compiled. tried: candidates of a block.
    save_to: a further file for the tiles. times: a file of the suite "candidates", whose fastest tiles are tried, but
    not of int8, whose tiles are timed first. trials_to: a CSV file that gets a row per trial, at once. timer: as for
    search.search. Errors as of tuning.tune.
    """
    console = console or Console(highlight=False)
    if wrong := [dtype for dtype in dtypes if dtype not in (*DTYPES, INT8)]:
        raise ValueError(f"dtype must be one of {', '.join((*DTYPES, INT8))}, got {wrong[0]!r}")
    if save_to and INT8 in dtypes and len(set(dtypes)) > 1:
        raise ValueError("--save-to: the tiles of int8 have a file of their own, tune --dtype int8 alone")
    check_search(batches, tried, timer)
    known = read_times(times) if times else {}
    every: list[Trial] = []
    for dtype in dtypes:
        for batch in batches:
            start = perf_counter()
            trials = _trials(model, dtype, batch, tried, console, timer)
            with console.status("compiling"):
                some = trials.compiled(known, tried)
            took = perf_counter() - start
            console.print(f"batch {batch}, {dtype}: candidates compiled in {took:.0f} s, trials for {seconds:.0f} s")
            found: list[Trial] = []
            for trial in descend(trials, some, timer or medians, seconds):
                found.append(trial)
                if trials_to is not None:
                    _note(trial, trials, trials_to)
                if trial.verdict == KEPT:
                    _keep(trial, trials, save_to, console, timer)
                elif trial.more:
                    console.print(f"{trials.named(trial.block)}: {trial.verdict}: {escape(trial.more)}", soft_wrap=True)
            _show(found, dtype, batch, perf_counter() - start, console)
            every += found
    return every


def _trials(
    model: Any, dtype: str, batch: int, tried: int, console: Console, timer: search.Timer | None
) -> Trials:  # fmt: skip
    return Int8Trials(model, batch, tried, timer, console) if dtype == INT8 else Trials(model, dtype, batch)


def _note(trial: Trial, trials: Trials, path: Path) -> None:
    """Append a row to the file of trials; with its names of columns if it is new."""
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        if new:
            rows.writerow(FIELDS)
        tile = UNFUSED if trial.tile is None else trials.text(trial.tile)
        us = [f"{number:.2f}" for number in (trial.us, trial.before_us)]
        verdict = f"{trial.verdict} {trial.more}".strip()
        rows.writerow([trials.dtype, trials.batch, trials.named(trial.block), tile, *us, verdict])


def _keep(
    trial: Trial, trials: Trials, save_to: Path | None, console: Console, timer: search.Timer | None
) -> None:  # fmt: skip
    """Tell of a tile that is kept, and keep it on disk."""
    times = f"{trial.before_us:,.2f} → {trial.us:,.2f} µs"
    change = f"{trials.described(trial.before)} → {trials.described(trial.tile)}"
    console.print(f"{times}: {trials.named(trial.block)}: {change}", soft_wrap=True)
    for text in trials.keep(trial, save_to, timer):
        console.print(f"{trials.named(trial.block)}: not kept on disk: alone {escape(text)}", soft_wrap=True)


def _show(found: Sequence[Trial], dtype: str, batch: int, seconds: float, console: Console) -> None:
    """Print the number of trials by verdict, and the network's time before and after."""
    counts = Counter(trial.verdict for trial in found)
    said = ", ".join(f"{counts[name]} {name}" for name in (KEPT, SLOWER, WRONG, FAILED) if counts[name])
    console.print(f"batch {batch}, {dtype}: {len(found)} trials in {seconds:.0f} s: {said or 'none'}")
    if kept := [trial for trial in found if trial.verdict == KEPT]:
        console.print(f"the network: {found[0].before_us:,.2f} → {kept[-1].us:,.2f} µs")
