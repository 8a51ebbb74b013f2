"""Search of the fastest tiles for a network's fused blocks on this card: python -m common tune."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from .. import topology, weights
from ..cuda import graphs
from ..network import DTYPES
from ..network.steps import fuse
from ..optimize import search, tiles
from ..optimize.features import missing
from ..optimize.fusions import InvertedResidual, is_pointwise
from ..optimize.generate import Block, Tile
from ..optimize.tiles import Found, Problem
from . import driver

BATCHES = (1, 8, 32, 256)


def tune(
    model: Any, batches: Sequence[int] = BATCHES, dtypes: Sequence[str] = DTYPES, tried: int = search.TRIED,
    save_to: Path | None = None, console: Console | None = None, timer: search.Timer | None = None,
) -> list[Found]:  # fmt: skip
    """Search the fastest tile for every distinct block of a network (ONNX ModelProto or path), and cache the results.

    Which layers are fused depends on the results: if a block is faster without its expansion, the rest is searched by
    itself. tried: candidates to time per block. save_to: a further file for the results, in the format of tiles.json.
    timer: as for search.search. NoGpu on the simulator; ValueError for invalid batches, dtypes or `tried`, and for a
    card before sm_80.
    """
    from tqdm import tqdm

    console = console or Console(highlight=False)
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    check_search(batches, tried, timer)
    graph, _ = weights.fold_batch_norm(*topology.read_onnx_with_parameters(model))
    every: list[Found] = []
    if timer is None:
        with console.status("compiling"):
            search.compile_ahead(_problems(graph, batches, dtypes), tried)
    for dtype in dtypes:
        name = np.dtype({"fp32": np.float32, "fp16": np.float16}[dtype]).name
        for batch in batches:
            count = sum(map(is_pointwise, fuse(graph.with_batch(batch))))
            found: dict[Block, Found | None] = {}
            with tqdm(total=count, desc=f"batch {batch}, {dtype}", unit="", leave=False, disable=None) as bar:

                def choose(block: Block, batch: int, _: str, found: Any = found, bar: Any = bar) -> Tile | None:
                    if block not in found:
                        bar.set_postfix_str(str(block))
                        found[block] = _searched(problem_of(block, batch, name), tried, timer, console)  # noqa: B023
                    bar.update()
                    return found[block].tile if found[block] else None

                fuse(graph.with_batch(batch), InvertedResidual(choose))
            results = [one for one in found.values() if one is not None]
            every += results
            _show(results, batch, dtype, console)
            for path in (None, *([save_to] if save_to else [])):
                console.print(f"kept in {tiles.remember(results, path)}", soft_wrap=True)
    return every


def check_search(batches: Sequence[int], tried: int, timer: Any) -> None:
    """ValueError for a batch or `tried` below 1 and for a card without fused blocks; NoGpu without GPU and timer."""
    if wrong := [batch for batch in batches if batch < 1]:
        raise ValueError(f"batch must be at least 1, got {wrong[0]}")
    if tried < 1:
        raise ValueError(f"tried must be at least 1, got {tried}")
    if timer is None:
        with graphs.on_stream():
            pass  # raises NoGpu on the simulator
    if lacks := missing("fused blocks"):
        raise ValueError(f"there are no tiles to tune: fused blocks: {lacks}")


def problem_of(block: Block, batch: int, dtype: str) -> Problem:
    """What a network that states bounds takes: floats as pairs of halves."""
    return Problem(block, batch, dtype, "halves" if dtype == "float32" else "tf32x3")


def _problems(graph: Any, batches: Sequence[int], dtypes: Sequence[str]) -> list[Problem]:
    """The problems to search if every fusible block is fused."""
    problems: dict[Problem, None] = {}
    for dtype in dtypes:
        name = np.dtype({"fp32": np.float32, "fp16": np.float16}[dtype]).name
        for batch in batches:

            def note(block: Block, batch: int, _: str, name: str = name) -> Tile | None:
                problems[problem_of(block, batch, name)] = None
                return tiles.rule(block, batch, np.dtype(name).itemsize)

            fuse(graph.with_batch(batch), InvertedResidual(note))
    return list(problems)


def _searched(problem: Problem, tried: int, timer: search.Timer | None, console: Console) -> Found | None:
    try:
        found = search.search(problem, tried, timer)
    except ValueError as error:
        console.print(f"{problem.block}: {escape(str(error))}", soft_wrap=True)
        return None
    for text in found.wrong:
        console.print(f"{problem.block}: [red]wrong[/], never chosen: {escape(text)}", soft_wrap=True)
    for text in found.failed:
        console.print(f"{problem.block}: left out: {escape(' '.join(text.split())[:300])}", soft_wrap=True)
    return found if found.best is not None else None


def _show(founds: Sequence[Found], batch: int, dtype: str, console: Console) -> None:
    shown = [
        {
            "block": str(found.problem.block),
            "tile": tiles.describe(found.best) + ("" if found.tile else "; separate kernels are faster"),
            "predicted µs": f"{found.predicted_us:,.2f}", "measured µs": f"{found.us:,.2f}",
            "unfused µs": f"{found.unfused_us:,.2f}", "gain": f"{found.gain:.2f}×",
        }
        for found in founds
    ]  # fmt: skip
    console.print(driver.table(shown, 2, f"batch {batch}, {dtype}"))
