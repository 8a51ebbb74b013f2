"""Labelling on Ray Data: tasks decode on all CPU cores of all machines, and one worker per GPU computes.

Ray Data streams blocks from task to worker with bounded memory, and gives a block of a worker that died to another one.
Without GPUs the workers are simulators on the CPU.
"""

import io
import logging
import os
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import cluster, sources
from .labelling import Labelled, Work, in_this_process

CORES = 0.5  # of a worker without a GPU, for Ray's count


class Spread:
    """A way to label (labelling.Way) with `workers` workers; None: one per GPU, or one per two CPU cores."""

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        self.workers = workers

    def __call__(self, work: Work, parts: list[list[tuple[int, sources.Part]]]) -> Labelled:
        """Label the batches of these parts. RuntimeError if Ray gives up."""
        with cluster.ray_running(self.workers or 1):
            yield from _labelled(work, parts, self.workers)


def _labelled(work: Work, parts: list[list[tuple[int, sources.Part]]], workers: int | None) -> Labelled:
    import pyarrow as pa
    import ray
    import ray.data
    from ray.exceptions import RayError

    gpus = cluster.gpus()
    count = workers or gpus or max(1, (os.cpu_count() or 1) // 2)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    batches = [pa.table({"batch": [pickle.dumps(batch) for batch in part]}) for part in parts]  # a block per part
    given = ray.data.from_arrow(batches)
    if work.decode_on == "cpu":
        given = given.map_batches(_decode, batch_size=None, batch_format="pyarrow", fn_args=(work.decoder,), num_cpus=1)
    done = (
        given.map_batches(
            _Labeller, batch_size=1, batch_format="numpy", zero_copy_batch=True, fn_constructor_args=(work,),
            compute=ray.data.ActorPoolStrategy(size=count), num_gpus=1 if gpus else 0,
            num_cpus=0 if gpus else CORES,  # other than a decoding task's: Ray Data would fuse the two
        )
    )  # fmt: skip
    try:
        for rows in done.iter_rows():
            yield rows["first"], pa.ipc.open_stream(rows["table"]).read_all()
    except RayError as error:
        raise RuntimeError(f"Ray stopped: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    """The first line of the error that a task or worker raised."""
    cause = getattr(error, "cause", None) or error.__cause__ or error
    return next(iter(str(cause).strip().splitlines()), "") or type(cause).__name__


def _decode(batches: Any, work: Work) -> Iterator[Any]:
    """Batches that are to be read, pickled, as decoded ones: a row each."""
    import warnings

    warnings.simplefilter("ignore")  # Pillow's, of odd files
    for batch in batches["batch"].to_pylist():
        done = work.decode(*pickle.loads(batch))
        yield {
            "first": np.array([done.first]),
            "packed": done.packed[np.newaxis],
            "errors": np.array([pickle.dumps(done.errors)], object),
        }


class _Labeller:
    """A worker: an engine, which is called with blocks of decoded batches."""

    def __init__(self, work: Work) -> None:
        self.work, self.engine = work, work.engine()

    def __call__(self, block: dict[str, np.ndarray]) -> dict[str, Any]:
        """The rows of each batch as an Arrow stream."""
        if "batch" in block:  # it is to be read and decoded here
            given = [[pickle.loads(batch) for batch in block["batch"]]]
            found = list(in_this_process(self.work, given, self.engine))
            return {
                "first": np.array([first for first, _ in found]),
                "table": np.array([_stream(table) for _, table in found], object),
            }
        tables = [
            _stream(self.work.table(logits, pickle.loads(errors)))
            for logits, errors in zip(self.engine.run(block["packed"]), block["errors"], strict=True)
        ]
        return {"first": block["first"], "table": np.array(tables, object)}


def _stream(table: Any) -> bytes:
    import pyarrow as pa

    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()
