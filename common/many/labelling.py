"""python -m common label: class and score of many pictures, into one Parquet file with a row per picture.

The pictures are cut into batches, several batches are a part. A batch has the same pictures whoever computes it, a
worker that takes over from one that died included, and is padded to its full size; so the file does not depend on how
many workers there were. Parts are kept as they are done (parts.py), and a run that was ended goes on from them.
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import images
from ..classify import Task, probabilities
from ..files import open_regular
from ..text import printable
from . import cluster, sources
from .engine import Engine, network_of

if TYPE_CHECKING:
    import pyarrow as pa

    from .gpu_decoding import GpuBatch, GpuDecoder

PARTS = 64  # of a large input at least so many, to be spread over workers and kept
MOST_BATCHES = 16  # per part
FEW = 1000  # pictures that one process has labelled before Ray has started


@dataclass(frozen=True)
class Decoded:
    """A batch on its way to the engine.

    first: the number of its first picture. packed: (batch, …) as of Task.packed; zeros where there is an error and
    behind the last picture; or a GpuBatch, which the engine decodes. errors: per picture, why it could not be read, or
    None; of a GpuBatch complete once its logits are there.
    """

    first: int
    packed: Any
    errors: list[str | None]


@dataclass(frozen=True)
class Work:
    """What a worker must know to decode and label any part, without files of this machine but the pictures'.

    task: with its model. batch: pictures per batch. dtype: of the network. decode_on: "cpu", or "gpu" (gpu_decoding).
    """

    task: Task
    batch: int
    dtype: str
    decode_on: str = "cpu"

    @functools.cached_property
    def decoder(self) -> "Work":
        """The same without the model, for workers that decode alone."""
        return dataclasses.replace(self, task=dataclasses.replace(self.task, model=None))

    def decode(self, first: int, part: sources.Part, empty: Callable[[], np.ndarray] | None = None) -> Decoded:
        """Read and decode up to a batch of pictures, from number `first` on; with decode_on="gpu" read them only.

        empty: makes the array, as Engine.host_batch.
        """
        if self.decode_on == "gpu":
            batch = self.gpu_decoder.prepare(part.read(), self.batch)
            return Decoded(first, batch, batch.errors)
        height, width = self.task.input_size
        floats = self.task.normalised_before
        shape = (3, height, width) if floats else (height, width, 3)
        packed = empty() if empty else np.empty((self.batch, *shape), np.float32 if floats else np.uint8)
        errors: list[str | None] = []
        for place, content in enumerate(part.read()):
            errors.append(_decode(self.task, content, packed[place]))
            if errors[-1] is not None:
                packed[place] = 0
        packed[len(errors) :] = 0
        return Decoded(first, packed, errors)

    @functools.cached_property
    def gpu_decoder(self) -> "GpuDecoder":
        """What decodes with decode_on="gpu". RuntimeError where there is no GPU or no torchvision."""
        from .gpu_decoding import GpuDecoder

        return GpuDecoder(self.task)

    def engine(self) -> Engine:
        """The network on this machine's GPU, or on the simulator."""
        return Engine(self.task, network_of(self.task, self.dtype), self.batch)

    def table(self, logits: np.ndarray, errors: Sequence[str | None]) -> "pa.Table":
        """The rows of a batch, without their paths. logits: (batch, classes), of which the first len(errors) count."""
        import pyarrow as pa

        p = probabilities(logits[: len(errors)])
        classes = p.argmax(1)
        unread = np.array([error is not None for error in errors])
        labels = self.task.labels
        named = [labels[c] if labels else None for c in classes]
        scores = p[np.arange(len(p)), classes].astype(np.float32)
        return pa.table(
            {
                "class": pa.array(classes.astype(np.int32), mask=unread),
                "label": pa.array(named, pa.string(), mask=unread),
                "score": pa.array(scores, mask=unread),
                "error": pa.array(errors, pa.string()),
            }
        )


def _decode(task: Task, content: bytes | images.ImageError, out: np.ndarray) -> str | None:
    """Write a picture as Task.packed gives it into `out`; the reason if that fails."""
    if isinstance(content, images.ImageError):
        return str(content)
    try:
        out[...] = task.packed(images.decode(io.BytesIO(content)))
    except ValueError as error:  # ImageError is one
        return printable(error)
    return None


@dataclass(frozen=True)
class Summary:
    """What a run did. pictures: rows of the output. computed: those of this run. unread: rows with an error."""

    pictures: int
    computed: int
    unread: int
    seconds: float
    changed: str | None  # what changed in the input meanwhile


Labelled = Iterator[tuple[int, "pa.Table"]]  # (number of the first picture, Work.table) of batches, in any order
Way = Callable[[Work, "list[list[tuple[int, sources.Part]]]"], Labelled]  # parts, each a list of batches


def label(
    paths: Sequence[str],
    out: str | os.PathLike,
    task: Task,
    *,
    batch: int = 256,
    dtype: str = "fp32",
    decode_on: str = "cpu",
    anew: bool = False,
    way: Way | None = None,
) -> Summary:
    """Label the pictures of `paths`, see sources.find, into the Parquet file `out`, see parts.SCHEMA.

    batch: pictures per batch, fewer if there are fewer. decode_on: "cpu", or "gpu" for JPEG files (gpu_decoding).
    anew: forget what an earlier run has done. way: how batches are labelled; default: in_this_process. A progress bar
    is shown on a terminal.

    ValueError for paths or an output that do not fit; OSError, naming the file, if something cannot be written: then
    the output is as before, and what is done is kept.
    """
    import pyarrow as pa
    from tqdm import tqdm

    from .parts import SCHEMA, Parts, folder_of

    start = time.perf_counter()
    out = Path(out)
    if out.suffix.lower() != ".parquet":
        raise ValueError(printable(f"out must end in .parquet, got {out}"))
    with contextlib.suppress(FileNotFoundError):
        open_regular(out).close()
    left_out = (out, folder_of(out))
    if any(os.path.realpath(path) == os.path.realpath(out) for path in paths):
        raise ValueError(printable(f"out must be another file than the input, got {out}"))
    found = sources.find(paths, left_out)
    total = len(found.names)
    batch = min(batch, total)
    per_part = batch * max(1, min(MOST_BATCHES, total // (batch * PARTS)))
    settings = {"input": found.fingerprint, "network": _digest(task), "dtype": dtype, "batch": batch}
    if decode_on != "cpu":
        settings["decode"] = decode_on  # it rounds otherwise
    parts = Parts(out, settings, total, per_part)
    if parts.is_joined() and not anew:
        return Summary(total, 0, _unread(out), time.perf_counter() - start, None)
    parts.open(anew)
    missing = parts.missing()
    work = [[(first, found.part(first, min(first + batch, rows.stop))) for first in rows[::batch]]
            for rows in map(parts.rows, missing)]  # fmt: skip
    todo = sum(len(parts.rows(number)) for number in missing)
    waiting: dict[int, dict[int, pa.Table]] = {number: {} for number in missing}
    with tqdm(total=total, initial=total - todo, desc="label", unit=" pictures", disable=None, leave=False) as bar:
        for first, table in (way or in_this_process)(Work(task, batch, dtype, decode_on), work) if work else ():
            number = first // per_part
            waiting[number][first] = table
            bar.update(len(table))
            if sum(map(len, waiting[number].values())) == len(parts.rows(number)):
                rows = parts.rows(number)
                joined = pa.concat_tables([one for _, one in sorted(waiting.pop(number).items())])
                names = pa.array(found.names[rows.start : rows.stop], pa.string())
                parts.write(number, joined.add_column(0, SCHEMA.field("path"), names))
    parts.join()
    return Summary(total, todo, _unread(out), time.perf_counter() - start, _changes(paths, left_out, found))


def _digest(task: Task) -> str:
    """Changes with the network, its weights and its preprocessing."""
    name = task.source.name if task.source else "onnx"
    return f"{name} {hashlib.sha256(task.model.SerializeToString(deterministic=True)).hexdigest()}"


def _unread(out: Path) -> int:
    """How many rows of an output have an error."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(out) as file:
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        return sum(group.num_rows - group.column(4).statistics.null_count for group in groups)


def _changes(paths: Sequence[str], left_out: Sequence[str | os.PathLike], before: sources.Pictures) -> str | None:
    """What differs in the input from what was found at the beginning, in words; None if nothing does."""
    try:
        now = sources.find(paths, left_out)
    except (OSError, ValueError) as error:
        return str(error)
    if now.fingerprint == before.fingerprint:
        return None
    old, new = set(before.names), set(now.names)
    return f"{len(new - old)} files came, {len(old - new)} went, or others were changed"


# ---- One process


def in_this_process_if_few(way: Way) -> Way:
    """in_this_process for fewer than FEW pictures, unless RAY_ADDRESS names a cluster; else the given way."""

    def chosen(work: Work, parts: list[list[tuple[int, sources.Part]]]) -> Labelled:
        pictures = work.batch * sum(map(len, parts))
        return (in_this_process if pictures < FEW and not cluster.address() else way)(work, parts)

    return chosen


def in_this_process(
    work: Work, parts: list[list[tuple[int, sources.Part]]], engine: Engine | None = None, threads: int | None = None
) -> Labelled:
    """Label batches with threads that decode, by default one per core, and one engine, by default a new one."""
    import warnings

    threads = threads or os.cpu_count() or 1
    batches = iter([batch for part in parts for batch in part])
    if work.decode_on == "gpu":
        _ = work.gpu_decoder  # made here, before threads ask for it
    engine = engine or work.engine()
    make = engine.host_batch
    errors: list[tuple[int, list[str | None]]] = []

    def decoded(pool: ThreadPoolExecutor) -> "Iterator[np.ndarray | GpuBatch]":
        ahead: list[Future[Decoded]] = []
        while True:
            while len(ahead) <= threads and (batch := next(batches, None)):
                ahead.append(pool.submit(work.decode, *batch, make))
            if not ahead:
                return
            done = ahead.pop(0).result()
            errors.append((done.first, done.errors))
            yield done.packed

    with ThreadPoolExecutor(threads) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of odd files
        for logits in engine.run(decoded(pool)):
            first, reasons = errors.pop(0)
            yield first, work.table(logits, reasons)
