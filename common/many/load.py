"""Requests at a given rate against a running service, and how long their answers took.

    load = offer("http://127.0.0.1:8000/", bodies, rate=200, seconds=5, rng=rng)
    load.percentile(99), load.answered_per_s, load.in_flight

The load is open: requests are sent at the moments of a Poisson process, whether earlier ones have been answered or not,
as by clients that do not know of one another. An answer's time counts from the moment at which its request was due, so
a service that falls behind shows it.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TIMEOUT_S = 60  # for an answer


@dataclass(frozen=True)
class Load:
    """What was offered and answered. rate: requests per second, offered. seconds: from the first to the last answer.

    latencies_s: of the answers with status 200, ascending. refused: requests with another status, or without an answer.
    """

    rate: float
    seconds: float
    latencies_s: np.ndarray
    refused: int

    def percentile(self, percent: float) -> float:
        """The latency in ms that `percent` of the answers do not exceed. ValueError without answers."""
        if not len(self.latencies_s):
            raise ValueError("latencies must be at least one, no request was answered")
        return 1e3 * float(np.percentile(self.latencies_s, percent))

    @property
    def answered_per_s(self) -> float:
        """Answers per second."""
        return len(self.latencies_s) / self.seconds

    @property
    def in_flight(self) -> float:
        """The mean number of requests in the service, by Little's law: answers per second times mean latency."""
        return float(self.latencies_s.sum()) / self.seconds


def offer(url: str, bodies: Sequence[bytes], rate: float, seconds: float, rng: np.random.Generator) -> Load:
    """POST `bodies` in turn at `rate` requests per second for some seconds, and wait for the answers.

    ValueError for a rate or a time that is not above 0, and without bodies.
    """
    if not (rate > 0 and seconds > 0 and bodies):
        got = f"{rate}, {seconds} and {len(bodies)} bodies"
        raise ValueError(f"rate, seconds and the number of bodies must be above 0, got {got}")
    count = max(1, round(rate * seconds))
    return asyncio.run(_offered(url, bodies, np.cumsum(rng.exponential(1 / rate, count)), rate))


async def _offered(url: str, bodies: Sequence[bytes], due_s: np.ndarray, rate: float) -> Load:
    import aiohttp

    limits = {"timeout": aiohttp.ClientTimeout(total=TIMEOUT_S), "connector": aiohttp.TCPConnector(limit=0)}
    async with aiohttp.ClientSession(**limits) as session:  # type: ignore[arg-type]
        start = time.perf_counter()

        async def one(number: int) -> float | None:
            due = start + due_s[number]
            await asyncio.sleep(due - time.perf_counter())
            try:
                async with session.post(url, data=bodies[number % len(bodies)]) as answer:
                    await answer.read()
                    return time.perf_counter() - due if answer.status == 200 else None
            except (aiohttp.ClientError, TimeoutError):
                return None

        found = await asyncio.gather(*(one(number) for number in range(len(due_s))))
        latencies = np.array(sorted(latency for latency in found if latency is not None))
        return Load(rate, time.perf_counter() - start, latencies, len(found) - len(latencies))
