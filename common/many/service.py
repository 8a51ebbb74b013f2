"""python -m common serve: a service that classifies pictures over HTTP, on Ray Serve.

    GET /            a page with a form to drop a picture on
    POST /           a picture's bytes; JSON {"class", "label", "score", "top": [{"class", "label", "score"}, …]}
    GET /healthz     200, with what the worker that answers has computed: {"status", "device", "pictures", "batches"}

Requests that arrive together are computed together: the first one of a batch waits for others, at most as long as the
window says. What cannot be answered gets a status of 400 to 504 and JSON {"error": one sentence}.
"""

import asyncio
import io
import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda, images
from ..classify import Task, best
from . import cluster
from .engine import Engine, network_of

PAGE = Path(__file__).with_name("page.html")
TOP = 5  # classes in an answer
ELONGATED = 50  # a longer side of so many times the shorter one; resizing would make millions of pixels of thousands
APPLICATION = "classify"


@dataclass(frozen=True)
class Options:
    """Options of a service.

    max_batch: pictures per batch. max_wait_ms: how long the first picture of a batch waits for others. dtype: of the
    network. max_bytes, max_pixels: of a picture. max_waiting: requests per worker that are answered or wait for it;
    more are refused. upload_s, answer_s: seconds for a request to arrive and for its answer. ValueError, naming the
    option, for what is not above 0.
    """

    max_batch: int = 32
    max_wait_ms: float = 5.0
    dtype: str = "fp32"
    max_bytes: int = 20_000_000
    max_pixels: int = 50_000_000
    max_waiting: int = 512
    upload_s: float = 30.0
    answer_s: float = 30.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name == "max_wait_ms":
                if not 0 <= value <= 10_000:
                    raise ValueError(f"max_wait_ms must be between 0 and 10,000, got {value}")
            elif name != "dtype" and not value > 0:
                raise ValueError(f"{name} must be above 0, got {value}")


class Refused(Exception):
    """A request that is not answered with classes. status: of HTTP; the message is a sentence for the client."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Classifier:
    """A network for batches of any size up to a largest one, padded to a power of two.

    pictures, batches: how many it has computed.
    """

    def __init__(self, task: Task, max_batch: int, dtype: str) -> None:
        network = network_of(task, dtype)
        sizes = [1 << i for i in range((max_batch - 1).bit_length())] + [max_batch]
        self.engines = [Engine(task, network, size) for size in dict.fromkeys(sizes)]
        self.pictures = self.batches = 0
        self(np.zeros((1, *self.engines[0].shape[1:]), self.engines[0].packed_type))  # compiles what is left

    def __call__(self, pictures: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        """The logits (N, classes) of N packed pictures, see Task.packed."""
        engine = next(engine for engine in self.engines if engine.batch >= len(pictures))
        batch = np.zeros(engine.shape, engine.packed_type)
        batch[: len(pictures)] = pictures
        (logits,) = engine.run([batch])
        self.pictures, self.batches = self.pictures + len(pictures), self.batches + 1
        return logits[: len(pictures)]


class Answers:
    """What a worker does with a request: reads, checks and decodes its picture, and answers with classes.

    classify: an asynchronous function, which returns the logits of one packed picture. computed: (pictures, batches).
    """

    def __init__(
        self,
        task: Task,
        options: Options,
        classify: Callable[[np.ndarray], Any],
        computed: Callable[[], tuple[int, int]],
    ) -> None:
        self.task, self.options, self.classify, self.computed = task, options, classify, computed
        self.decoders = ThreadPoolExecutor(os.cpu_count() or 1)
        self.page = PAGE.read_text(encoding="utf-8")
        warnings.filterwarnings("ignore", module=r"PIL\.")  # of odd pictures

    async def __call__(self, request: Any) -> Any:
        """The answer to a starlette Request, a Response."""
        from starlette.responses import JSONResponse

        try:
            return await self._routed(request)
        except Refused as refused:
            headers = {"Allow": "GET, POST"} if refused.status == 405 else {}
            return JSONResponse({"error": str(refused)}, refused.status, headers)

    async def _routed(self, request: Any) -> Any:
        from starlette.responses import HTMLResponse, JSONResponse

        path, method = request.url.path, request.method
        if path not in ("/", "/healthz"):
            raise Refused(404, "There is nothing at this path; POST a picture to /, or GET / or /healthz.")
        if path == "/healthz" and method in ("GET", "HEAD"):
            pictures, batches = self.computed()
            state = {"status": "ok", "device": cuda.backend(), "pictures": pictures, "batches": batches}
            return JSONResponse(state)
        if path == "/" and method in ("GET", "HEAD"):
            return HTMLResponse(self.page)
        if path == "/" and method == "POST":
            return JSONResponse(await self._answer(request))
        raise Refused(405, "Only GET and POST of a picture to / are understood.")

    async def _answer(self, request: Any) -> dict[str, Any]:
        content = await self._body(request)
        try:
            async with asyncio.timeout(self.options.answer_s):
                packed = await asyncio.get_running_loop().run_in_executor(self.decoders, self._decoded, content)
                logits = await self.classify(packed)
        except TimeoutError:
            raise Refused(504, f"The answer took longer than {self.options.answer_s:g} s; try again later.") from None
        top = [self._named(index, p) for index, p in best(logits, TOP)]
        return {**top[0], "top": top}

    async def _body(self, request: Any) -> bytes:
        """The bytes of a request. Refused if they are too many, too slow, none, or a form instead of a picture."""
        limit = self.options.max_bytes
        too_large = Refused(413, f"The picture is too large: at most {limit:,} bytes are read.")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise too_large
        if request.headers.get("content-type", "").startswith("multipart/"):
            raise Refused(415, "Send the picture itself as the body, as curl --data-binary @FILE does, not a form.")
        content = bytearray()
        try:
            async with asyncio.timeout(self.options.upload_s):
                async for chunk in request.stream():
                    content += chunk
                    if len(content) > limit:
                        raise too_large
        except TimeoutError:
            raise Refused(408, f"The picture did not arrive within {self.options.upload_s:g} s.") from None
        if not content:
            raise Refused(400, "The request has no body: POST the bytes of a picture.")
        return bytes(content)

    def _decoded(self, content: bytes) -> np.ndarray:
        try:
            picture = images.decode(io.BytesIO(content), self.options.max_pixels)
            if max(picture.size) > ELONGATED * min(picture.size):
                raise ValueError(f"too elongated: {picture.width}×{picture.height} pixels")
            return self.task.packed(picture)
        except ValueError as error:
            reason = str(error)
            raise Refused(
                413 if reason.startswith("too large") else 415, f"This picture was not read: {reason}."
            ) from None

    def _named(self, index: int, p: float) -> dict[str, Any]:
        labels = self.task.labels
        return {"class": index, "label": labels[index] if labels else None, "score": p}


def application(task: Task, options: Options, workers: int, gpus: int) -> Any:
    """The Ray Serve application: `workers` replicas of one deployment, each with a GPU if there are any."""
    from ray import serve

    @serve.deployment(
        name=APPLICATION, num_replicas=workers, ray_actor_options={"num_gpus": 1 if gpus else 0, "num_cpus": 0},
        max_ongoing_requests=options.max_waiting, max_queued_requests=options.max_waiting,
        graceful_shutdown_wait_loop_s=0.1, graceful_shutdown_timeout_s=options.upload_s + options.answer_s,
    )  # fmt: skip
    class Worker:
        def __init__(self) -> None:
            cluster.keep_replica_to_this_machine()
            self.classifier = network = Classifier(task, options.max_batch, options.dtype)
            self.answers = Answers(task, options, self.classify, lambda: (network.pictures, network.batches))

        @serve.batch(max_batch_size=options.max_batch, batch_wait_timeout_s=options.max_wait_ms / 1e3)
        async def classify(self, pictures: list[np.ndarray]) -> list[np.ndarray]:
            # in a thread: meanwhile the next batch gathers
            return list(await asyncio.to_thread(self.classifier, pictures))

        async def __call__(self, request: Any) -> Any:
            return await self.answers(request)

    deployment: Any = Worker
    return deployment.bind()


def check_free(host: str, port: int) -> None:
    """Raise OSError, naming host and port, if nothing can listen there."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise OSError(f"nothing can listen on {host}:{port}: {error.strerror}") from None


def start(task: Task, options: Options, host: str, port: int, workers: int | None = None) -> None:
    """Start the service in the running Ray and return when it answers. RuntimeError if that fails."""
    from ray import serve
    from ray.serve.exceptions import RayServeException
    from ray.serve.schema import LoggingConfig

    gpus = cluster.gpus()
    quiet = LoggingConfig(log_level="ERROR", enable_access_log=False)
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    serve.start(proxy_location="HeadOnly", http_options={"host": host, "port": port}, logging_config=quiet)
    try:
        serve.run(application(task, options, workers or gpus or 1, gpus), name=APPLICATION, logging_config=quiet)
    except (RayServeException, RuntimeError) as error:
        raise RuntimeError(f"the service did not start: {error}") from None


def stop() -> None:
    """Answer what was accepted, and stop. On a cluster, Ray Serve goes on if it has other applications."""
    from ray import serve

    serve.delete(APPLICATION)
    if cluster.address() and not serve.status().applications:
        serve.shutdown()


def run(task: Task, options: Options, host: str, port: int, workers: int | None, ready: Callable[[], None]) -> None:
    """Serve until SIGINT (Ctrl+C) or SIGTERM; then answer what was accepted and return. ready: called once it answers.

    Errors as of `start` and cluster.ray_running.
    """
    ended = threading.Event()
    with cluster.ray_running(workers or 1):
        before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            start(task, options, host, port, workers)
            ready()
            ended.wait()
        finally:
            stop()
            for number, handler in before.items():
                signal.signal(number, handler)
