"""The suite "scaling": pictures per second with one GPU and with more, each with a process of its own.

    decoded       pictures that are decoded already, in pinned memory: as fast as copies and computation allow
    memory, disk  JPEG files in memory and on the disk, decoded on the CPU's cores (which the GPUs share) or on the GPU
    on Ray        the same files on the disk, labelled by Ray Data, if it is installed

All processes begin at the same moment; the time is that until the last one ends. Files on the disk are read from there,
not from the memory in which the system keeps what was read before. On the simulator processes stand for GPUs.
"""

import dataclasses
import itertools
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from .. import classify, cuda
from ..cuda.graphs import gpu
from ..many import cluster
from ..many.engine import Engine
from ..many.gpu_decoding import available
from ..many.labelling import Work, in_this_process
from ..many.sources import FilePart, Part
from ..report.results import Record
from . import driver
from .driver import Measured
from .pipeline import InMemory, forget, synthetic, written

FILES = 64  # different pictures in memory
DECODED = 4  # different batches of decoded pictures
VISIBLE = "CUDA_VISIBLE_DEVICES"
PATIENCE_S = 120  # for all processes to be ready


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """Options of the suite. gpus: how many; default: 1, and all that there are. repeats: batches per GPU.

    seconds: that decoded pictures are computed for, about. ray: whether Ray is measured, too, where it is installed.
    """

    gpus: tuple[int, ...] = ()
    repeats: int = 20
    seconds: float = 2.0
    ray: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        driver.choose("precision", self.precisions, ("fp32", "fp16"))
        if self.repeats < 2:
            raise ValueError(f"repeats must be at least 2, got {self.repeats}")
        if not self.seconds > 0:
            raise ValueError(f"seconds must be above 0, got {self.seconds}")
        most = _gpus()
        for count in self.gpus:
            if count < 1 or (most and count > most):
                raise ValueError(f"gpus must be between 1 and {most or 'the number of cores'}, got {count}")
        if self.save:
            gpu()  # times of the simulator are not kept


def _gpus() -> int:
    """The GPUs of this machine that this process may use; 0 on the simulator."""
    if cuda.backend() != "gpu":
        return 0
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


@dataclass(frozen=True)
class Case:
    """What is measured. source: "decoded", "memory" or "disk". decode_on: "cpu", "gpu"; "" for decoded pictures."""

    source: str
    decode_on: str

    @property
    def name(self) -> str:
        """As in the records."""
        return self.source if not self.decode_on else f"{self.source}, JPEG decoded on the {self.decode_on.upper()}"


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield the records of each precision and batch."""
    on_gpu = cuda.backend() == "gpu"
    task = classify.task("seeded" if on_gpu else "digits")
    groups = [[Case("decoded", ""), Case("memory", "cpu"), Case("disk", "cpu")]]
    if available():
        groups.append([Case("memory", "gpu"), Case("disk", "gpu")])
    counts = options.gpus or tuple(dict.fromkeys((1, _gpus() or 2)))
    for precision in options.precisions or (("fp16",) if on_gpu else ("fp32",)):
        for batch in options.batches or ((256,) if on_gpu else (16,)):
            work = Work(task, batch, precision)
            with tempfile.TemporaryDirectory() as folder:
                pictures = synthetic(task, FILES, np.random.default_rng(0))
                files = written(pictures, Path(folder), batch * options.repeats * max(counts))
                for cases in groups:
                    measured = [r for count in counts for r in _together(work, cases, count, options, files)]
                    yield _finished(measured, precision, batch, console), True
                if options.ray and cluster.installed():
                    with cluster.ray_running(max(counts)):
                        measured = [r for count in counts for r in _on_ray(work, count, files)]
                    yield _finished(measured, precision, batch, console), True


def _finished(records: list[Record], precision: str, batch: int, console: Console) -> list[Record]:
    """Records with their keys, and with the efficiency of more GPUs: their rate over that of one times their number."""
    alone = {r["source"]: r["pictures_per_s"] for r in records if r["gpus"] == 1}
    for r in records:
        r |= {"suite": "scaling", "implementation": "ours", "precision": precision, "batch": batch}
        if r["gpus"] > 1 and r["source"] in alone:
            r["efficiency"] = round(r["pictures_per_s"] / (r["gpus"] * alone[r["source"]]), 3)
    console.print(driver.table([_shown(r) for r in records], 1, f"{precision}, batch {batch}"))
    return records


def _record(name: str, count: int, pictures: int, seconds: float) -> Record:
    rate = round(pictures / seconds, 1)
    return {
        "case": f"{name}, {count} GPU{'s' if count > 1 else ''}",
        "source": name,
        "gpus": count,
        "pictures_per_s": rate,
    }


def _shown(r: Record) -> dict[str, str]:
    """A record as a row of the table on the console."""
    efficiency = f"{r['efficiency']:.3f}" if "efficiency" in r else ""
    return {"case": r["case"], "pictures/s": f"{r['pictures_per_s']:,.0f}", "efficiency": efficiency}


# ---- Processes


def _together(work: Work, cases: Sequence[Case], count: int, options: Options, files: Sequence[str]) -> list[Record]:
    """Records of `count` processes with a GPU each. RuntimeError if one of them fails."""
    context = multiprocessing.get_context("spawn")
    begin, results = context.Barrier(count), context.SimpleQueue()
    processes = []
    visible = os.environ.get(VISIBLE)
    names = visible.split(",") if visible else [str(i) for i in range(count)]
    try:
        for number in range(count):
            os.environ[VISIBLE] = names[number % len(names)]
            given = (work, cases, (number, count), options, files, begin, results)
            processes.append(context.Process(target=_worker, args=given, daemon=True))
            processes[-1].start()
    finally:
        if visible is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = visible
    for process in processes:
        process.join()
    found = [results.get() for _ in range(count)] if all(process.exitcode == 0 for process in processes) else []
    if len(found) < count:
        raise RuntimeError(f"one of {count} processes failed, see above")
    records = []
    for i, case in enumerate(cases):
        pictures, starts, ends = zip(*(one[i] for one in found), strict=True)
        records.append(_record(case.name, count, sum(pictures), max(ends) - min(starts)))
    return records


def _worker(
    work: Work, cases: Sequence[Case], place: tuple[int, int], options: Options, files: Sequence[str], begin: Any,
    results: Any,
) -> None:  # fmt: skip
    """A process of `_together`, with place = (its number, their count): puts (pictures, start, end) of each case."""
    number, count = place
    threads = max(1, (os.cpu_count() or 1) // count)
    engine = work.engine()
    mine = files[number * len(files) // count :][: work.batch * options.repeats]
    contents = [Path(path).read_bytes() for path in mine[:FILES]]
    found = []
    for case in cases:
        if case.source == "decoded":
            found.append(_decoded(work, engine, contents, options.seconds, begin))
            continue
        given = _batches(case, work.batch, mine, contents)
        on = dataclasses.replace(work, decode_on=case.decode_on or "cpu")
        list(in_this_process(on, [given[: threads + 2]], engine, threads))  # warm-up, and all pinned memory
        begin.wait(PATIENCE_S)
        if case.source == "disk":
            forget(mine)
            begin.wait(PATIENCE_S)
        start = time.monotonic()
        list(in_this_process(on, [given], engine, threads))
        found.append((work.batch * len(given), start, time.monotonic()))
    results.put(found)


def _batches(case: Case, batch: int, files: Sequence[str], contents: Sequence[bytes]) -> list[tuple[int, Part]]:
    """The batches of a case, as many as the files make."""
    firsts = range(0, len(files) - batch + 1, batch)
    if case.source == "disk":
        paths = [os.fsencode(path) for path in files]
        return [(first, FilePart(tuple(paths[first : first + batch]))) for first in firsts]
    cycle = itertools.cycle(contents)
    return [(first, InMemory(tuple(itertools.islice(cycle, batch)))) for first in firsts]


def _decoded(
    work: Work, engine: Engine, contents: Sequence[bytes], seconds: float, begin: Any
) -> tuple[int, float, float]:
    """(pictures, start, end) of batches that are decoded already."""
    cycle = itertools.cycle(contents)
    few = []
    for i in range(DECODED):
        part = InMemory(tuple(itertools.islice(cycle, work.batch)))
        few.append(work.decode(i * work.batch, part, engine.host_batch).packed)
    list(engine.run(few))  # warm-up
    start = time.monotonic()
    list(engine.run(few))
    count = max(DECODED, round(DECODED * seconds / (time.monotonic() - start)))
    begin.wait(PATIENCE_S)
    start = time.monotonic()
    for _ in engine.run(itertools.islice(itertools.cycle(few), count)):
        pass
    return work.batch * count, start, time.monotonic()


# ---- Ray


def _on_ray(work: Work, count: int, files: Sequence[str]) -> list[Record]:
    """Records of Ray Data with `count` workers: from the first batch that is done to the last one."""
    from ..many.spread import Spread

    records = []
    for decode_on in ("cpu", "gpu") if available() else ("cpu",):
        case = Case("disk", decode_on)
        on = dataclasses.replace(work, decode_on=decode_on)
        forget(files)
        ends = [time.monotonic() for _ in Spread(count)(on, [[one] for one in _batches(case, work.batch, files, ())])]
        if len(ends) > 1:
            rest = work.batch * (len(ends) - 1)
            records.append(_record(f"{case.name}, on Ray", count, rest, ends[-1] - ends[0]))
    return records


def superseded(rows: list[Record]) -> driver.Superseded:
    """A predicate for older records of the same precision, batch and source."""
    return driver.same(rows, "suite", "precision", "batch", "source")


bench: Any = driver.suite("scaling", run, superseded)
