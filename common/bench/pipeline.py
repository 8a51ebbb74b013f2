"""The suite "pipeline": where time goes between the bytes of a picture and its class: decoding, copying, computing.

Each stage is timed alone, then together, with copies in turn with computation and overlapped with it; and when each
copy and each computation ran. Decoding alone is timed in threads and in processes: threads of one process take turns at
Python's lock (the GIL). On the simulator it runs with the digits network, whose pictures are decoded as anywhere.
"""

import dataclasses
import io
import itertools
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console

from .. import classify, cuda
from ..cuda.graphs import gpu
from ..images import ImageError
from ..many.engine import Engine, Interval, network_of
from ..many.gpu_decoding import available
from ..many.labelling import Work, in_this_process
from ..many.sources import FilePart, Part
from ..report.results import Record
from . import driver
from .driver import Measured

FILES = 64  # different pictures, decoded over and over
SHOWN = 8  # batches of the timeline
PIECE = 32  # pictures that a thread decodes at a time, where decoding alone is timed
PATIENCE_S = 120  # for all processes to be ready
SIDES = (375, 500)  # of a synthetic photograph, ImageNet's most frequent size


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """Options of the suite. batches: pictures per batch. repeats: batches per measurement."""

    repeats: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        driver.choose("precision", self.precisions, ("fp32", "fp16"))
        if self.repeats < 2:
            raise ValueError(f"repeats must be at least 2, got {self.repeats}")
        if self.save:
            gpu()  # times of the simulator are not kept


@dataclass(frozen=True)
class InMemory:
    """Some pictures whose bytes are at hand, as a sources.Part."""

    contents: tuple[bytes, ...]

    def read(self) -> Iterator[bytes | ImageError]:
        """The bytes of each picture."""
        return iter(self.contents)


def synthetic(task: classify.Task, count: int, rng: np.random.Generator) -> list[bytes]:
    """JPEG files that a task can read: of smooth noise, like photographs, or of held-out digits."""
    found = []
    for i in range(count):
        if task.normalised_before:
            from .. import weights

            digit = Image.fromarray(classify.as_grey(weights.digits_split().test_images[i : i + 1])[0])
            picture = Image.new("L", (200, 200), 255)
            picture.paste(digit.resize((160, 160), Image.Resampling.BICUBIC), (20, 20))
        else:
            small = rng.integers(0, 256, (SIDES[0] // 8, SIDES[1] // 8, 3), np.uint8)
            picture = Image.fromarray(small).resize(SIDES[::-1], Image.Resampling.BICUBIC)
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=90)
        found.append(file.getvalue())
    return found


def written(contents: Sequence[bytes], folder: Path, count: int) -> list[str]:
    """The paths of `count` new files in a folder, with these contents over and over."""
    paths = []
    for i in range(count):
        path = folder / f"{i:06}.jpg"
        path.write_bytes(contents[i % len(contents)])
        paths.append(str(path))
    return paths


def forget(paths: Sequence[str]) -> None:
    """Write files to the disk, and ask the system not to keep them in memory, where it can be asked (Linux)."""
    if not hasattr(os, "posix_fadvise"):
        return
    os.sync()
    for path in paths:
        number = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield the records of each precision and batch. Logits that overlap changes are wrong."""
    on_gpu = cuda.backend() == "gpu"
    task = classify.task("seeded" if on_gpu else "digits")
    files = synthetic(task, FILES, np.random.default_rng(0))
    for precision in options.precisions or (("fp32", "fp16") if on_gpu else ("fp32",)):
        for batch in options.batches or ((256,) if on_gpu else (16,)):
            work = Work(task, batch, precision)
            for records, right in (_measured(work, files, options.repeats), *_on_gpu(work, files, options.repeats)):
                for r in records:
                    r |= {"suite": "pipeline", "implementation": "ours", "precision": precision, "batch": batch}
                rates = [r for r in records if "pictures_per_s" in r]
                shown = [{"stage": r["case"], "pictures/s": f"{r['pictures_per_s']:,.0f}"} for r in rates]
                console.print(driver.table(shown, 1, f"{precision}, batch {batch}"))
                yield records, right


def _measured(work: Work, files: Sequence[bytes], repeats: int) -> Measured:
    """(records, whether overlapped and not overlapped copies gave the same logits) of decoding on the CPU."""
    given = _batches(work, files, repeats)
    network = network_of(work.task, work.dtype)
    overlapped = Engine(work.task, network, work.batch)
    records = _decoding(work, files, repeats)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        make = overlapped.host_batch
        decoded = [done.packed for done in pool.map(lambda one: work.decode(one[0], one[1], make), given)]
    logits = []
    for engine, name in ((Engine(work.task, network, work.batch, slots=1), "in turn"), (overlapped, "overlapped")):
        list(engine.run(decoded[:2]))  # warm-up
        intervals: list[Interval] = []
        start = time.perf_counter()
        logits.append(list(engine.run(decoded, intervals.append)))
        records.append(_rate(f"copy and compute, {name}", "copy and compute", work, repeats, start))
        records += _timeline(name, intervals)
    decoded.clear()
    records += _together(work, given, files, overlapped, "")
    return records, bool(np.array_equal(logits[0], logits[1]))


def _decoding(work: Work, files: Sequence[bytes], repeats: int) -> list[Record]:
    """The rates of decoding alone, by one thread, by a thread per core, and by a process per core.

    Pieces of a batch are decoded, so that all threads have work until the end.
    """
    cores = os.cpu_count() or 1
    piece = dataclasses.replace(work.decoder, batch=min(PIECE, work.batch))
    count = -(-repeats * work.batch // piece.batch)
    records = []
    for threads in dict.fromkeys((1, cores)):
        some = _batches(piece, files, count if threads == cores else max(2, count // cores))  # one core takes long
        with ThreadPoolExecutor(threads) as pool:
            start = time.perf_counter()
            for _ in pool.map(lambda one: piece.decode(*one), some):
                pass
            records.append(_rate(f"decode, {threads} threads", "decode", piece, len(some), start, threads))
    each = _batches(piece, files, max(2, count // cores))
    start, end = _in_processes(piece, each, cores)
    rate = round(piece.batch * len(each) * cores / (end - start), 1)
    case = {"case": f"decode, {cores} processes", "stage": "decode", "pictures_per_s": rate, "processes": cores}
    return [*records, case]


def _in_processes(work: Work, given: list[tuple[int, Part]], count: int) -> tuple[float, float]:
    """When `count` processes that decode these batches each began, and when the last one was done: time.monotonic.

    RuntimeError if one of them fails.
    """
    context = multiprocessing.get_context("spawn")
    begin, results = context.Barrier(count), context.SimpleQueue()
    processes = [
        context.Process(target=_decode_all, args=(work, given, begin, results), daemon=True) for _ in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError(f"one of {count} processes failed, see above")
    starts, ends = zip(*(results.get() for _ in processes), strict=True)
    return min(starts), max(ends)


def _decode_all(work: Work, given: list[tuple[int, Part]], begin: Any, results: Any) -> None:
    """A process of `_in_processes`: puts (start, end)."""
    work.decode(*given[0])  # warm-up
    begin.wait(PATIENCE_S)
    start = time.monotonic()
    for one in given:
        work.decode(*one)
    results.put((start, time.monotonic()))


def _on_gpu(work: Work, files: Sequence[bytes], repeats: int) -> Iterator[Measured]:
    """(records, True) of decoding on the GPU: alone, with all that follows, and the timeline. Nothing without one."""
    if not available():
        return
    on = dataclasses.replace(work, decode_on="gpu")
    _ = on.gpu_decoder
    given = _batches(on, files, repeats)
    batches = [on.decode(*batch).packed for batch in given]
    engine = Engine(work.task, network_of(work.task, work.dtype), work.batch)
    out = cuda.empty(engine.shape, engine.packed_type)
    for batch in batches[:2]:
        batch.write(out)
    cuda.synchronize()
    start = time.perf_counter()
    for batch in batches:
        batch.write(out)
        cuda.synchronize()
    alone = _rate("decode on the GPU", "decode on the GPU", work, len(batches), start)
    off = np.abs(cuda.asnumpy(out).astype(np.int16) - work.decode(*given[-1]).packed)
    alone |= {"pixels_off": round(float(off.mean()), 3), "pixels_off_most": int(off.max())}
    intervals: list[Interval] = []
    list(engine.run(batches[:SHOWN], intervals.append))
    shown = _timeline("decoded on the GPU", intervals)
    yield [alone, *shown, *_together(on, given, files, engine, ", decoded on the GPU")], True


def _batches(work: Work, files: Sequence[bytes], repeats: int) -> list[tuple[int, Part]]:
    contents = itertools.cycle(files)
    return [(i * work.batch, InMemory(tuple(itertools.islice(contents, work.batch)))) for i in range(repeats)]


def _together(
    work: Work, given: list[tuple[int, Part]], files: Sequence[bytes], engine: Engine, suffix: str
) -> list[Record]:
    """The rates of all stages together, from memory and from the disk."""
    cores, repeats = os.cpu_count() or 1, len(given)
    list(in_this_process(work, [given], engine))  # warm-up, and all pinned memory
    start = time.perf_counter()
    list(in_this_process(work, [given], engine))
    records = [_rate(f"decode, copy and compute{suffix}", "all", work, repeats, start, cores)]
    with tempfile.TemporaryDirectory() as folder:
        paths = written(files, Path(folder), work.batch * repeats)
        names = [os.fsencode(path) for path in paths]
        on_disk: list[tuple[int, Part]] = [
            (i, FilePart(tuple(names[i : i + work.batch]))) for i in range(0, len(names), work.batch)
        ]
        forget(paths)
        start = time.perf_counter()
        list(in_this_process(work, [on_disk], engine))
        records.append(_rate(f"read from disk, decode, copy and compute{suffix}", "all", work, repeats, start, cores))
    return records


def _rate(case: str, stage: str, work: Work, repeats: int, start: float, threads: int | None = None) -> Record:
    seconds = time.perf_counter() - start
    rate = round(work.batch * repeats / seconds, 1)
    return {"case": case, "stage": stage, "pictures_per_s": rate, **({"threads": threads} if threads else {})}


def _timeline(name: str, intervals: Sequence[Interval]) -> list[Record]:
    """The first batches' intervals as records, in µs from the first one's start."""
    shown = [interval for interval in intervals if interval.batch < SHOWN]
    zero = min(interval.start for interval in shown)
    return [
        {
            "case": f"{name}, {one.what} {one.batch:03}", "stage": one.what, "number": one.batch, "copies": name,
            "start_us": round(1e6 * (one.start - zero), 1), "us": max(0.1, round(1e6 * (one.end - one.start), 1)),
        }
        for one in shown
    ]  # fmt: skip


def superseded(rows: list[Record]) -> driver.Superseded:
    """A predicate for older records of the same precision and batch, and of decoding on the same processor."""
    kinds = {"GPU" in r["case"] for r in rows}
    same = driver.same(rows, "suite", "precision", "batch")
    return lambda r: same(r) and ("GPU" in r["case"]) in kinds


bench: Any = driver.suite("pipeline", run, superseded)
