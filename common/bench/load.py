"""The suite "load": latency of the service against offered load, for several batching windows.

A window is how long the first picture of a batch waits for others. For each window the service is started anew.
Requests are offered at shares of the largest rate that it answered with the first window, the same for all windows. On
the simulator it runs with the digits network.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from .. import classify, cuda
from ..cuda.graphs import gpu
from ..many import cluster, service
from ..many.load import Load, offer
from ..report.results import Record
from . import driver
from .driver import Measured
from .pipeline import synthetic

HOST = "127.0.0.1"
PORT = 8765
SHARES = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1)  # of the largest rate that was answered


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """Options of the suite.

    windows: in ms. rates: offered, requests per second; default: SHARES of what the service can answer. seconds: for
    each rate. batches: the largest batch. port: of HTTP.
    """

    windows: tuple[float, ...] = (0.0, 2.0, 10.0)
    rates: tuple[float, ...] = ()
    seconds: float = 10.0
    port: int = PORT

    def __post_init__(self) -> None:
        super().__post_init__()
        driver.choose("precision", self.precisions, ("fp32", "fp16"))
        if any(not window >= 0 for window in self.windows):
            raise ValueError(f"window must be at least 0 ms, got {min(self.windows)}")
        for name, values in (("rate", self.rates), ("seconds", (self.seconds,))):
            if any(not value > 0 for value in values):
                raise ValueError(f"{name} must be above 0, got {min(values)}")
        if self.save:
            gpu()  # times of the simulator are not kept


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield the records of each precision, largest batch and window. A request that is lost makes a result wrong."""
    rng = np.random.default_rng(0)
    on_gpu = cuda.backend() == "gpu"
    task = classify.task("seeded" if on_gpu else "digits")
    bodies = synthetic(task, 32, rng)
    url = f"http://{HOST}:{options.port}/"
    service.check_free(HOST, options.port)
    with cluster.ray_running():
        try:
            for precision in options.precisions or (("fp16",) if on_gpu else ("fp32",)):
                for batch in options.batches or ((64,) if on_gpu else (8,)):
                    rates = options.rates
                    for window in options.windows:
                        chosen = service.Options(
                            max_batch=batch, max_wait_ms=window, dtype=precision, max_waiting=100_000
                        )
                        service.start(task, chosen, HOST, options.port)
                        offer(url, bodies, 20, 1, rng)  # connections, first batches
                        if not rates:
                            most = _capacity(url, bodies, rng)
                            rates = tuple(round(share * most, 1) for share in SHARES)
                        records, lost = _window(url, bodies, rates, options.seconds, rng)
                        for r in records:
                            r |= {
                                "precision": precision,
                                "batch": batch,
                                "window_ms": window,
                                "case": f"window {window:g} ms, {r['offered']:g} per second",
                            }
                        console.print(
                            driver.table([_shown(r) for r in records], 0, f"{precision}, window {window:g} ms")
                        )
                        yield records, not lost
        finally:
            service.stop()


def _window(
    url: str, bodies: list[bytes], rates: tuple[float, ...], seconds: float, rng: np.random.Generator
) -> tuple[list[Record], int]:
    """(a record per rate, lost requests) of the running service."""
    loads = [offer(url, bodies, rate, seconds, rng) for rate in rates]
    return [_record(load) for load in loads if len(load.latencies_s)], sum(load.refused for load in loads)


def _capacity(url: str, bodies: list[bytes], rng: np.random.Generator) -> float:
    """Answers per second where more is offered than is answered: the rate is doubled until answers fall behind."""
    rate = 16.0
    while (load := offer(url, bodies, rate, 2, rng)).answered_per_s > 0.7 * rate:
        rate *= 2
    return load.answered_per_s


def _record(load: Load) -> Record:
    p50, p95, p99 = (round(load.percentile(percent), 3) for percent in (50, 95, 99))
    return {
        "suite": "load", "implementation": "ours", "offered": load.rate, "answered": round(load.answered_per_s, 1),
        "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "in_flight": round(load.in_flight, 2),
        "requests": len(load.latencies_s),
    }  # fmt: skip


def _shown(r: Record) -> dict[str, str]:
    """A record as a row of the table on the console."""
    return {
        "offered/s": f"{r['offered']:,.1f}", "answered/s": f"{r['answered']:,.1f}",
        **{f"p{p} ms": f"{r[f'p{p}_ms']:,.1f}" for p in (50, 95, 99)}, "in flight": f"{r['in_flight']:,.1f}",
    }  # fmt: skip


def superseded(rows: list[Record]) -> driver.Superseded:
    """A predicate for older records of the same window, which may have other rates."""
    return driver.same(rows, "suite", "precision", "batch", "window_ms")


bench: Any = driver.suite("load", run, superseded)
