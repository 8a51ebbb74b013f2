"""Ray, for the time of one command: joined at RAY_ADDRESS, or started on this machine for this process alone."""

import contextlib
import importlib.util
import logging
import os
import secrets
import sys
import warnings
from collections.abc import Iterator
from typing import Any

ADDRESS = "RAY_ADDRESS"
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0: on Linux, too, Ray is for this machine alone
HANDED_OVER = ("COURSE_DEVICE",)  # variables that workers on other machines get, too


def installed() -> bool:
    """Whether Ray can be imported."""
    return importlib.util.find_spec("ray") is not None


def address() -> str | None:
    """Where Ray runs already, as the environment variable RAY_ADDRESS says."""
    return os.environ.get(ADDRESS) or None


@contextlib.contextmanager
def ray_running(workers: int = 1) -> Iterator[None]:
    """Context manager: Ray runs inside. Ray that runs already in this process is used, and left running.

    With RAY_ADDRESS it is joined there. Otherwise it is started here, for one worker or more beside a decoding task per
    core; it listens on this machine only (127.0.0.1), asks for a token of its own, and ends with the block.
    ModuleNotFoundError if Ray is not installed; RuntimeError if it cannot be joined or started.
    """
    if address() is None:
        _keep_to_this_machine()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it warns of every worker that may be restarted
    import ray

    if ray.is_initialized():
        yield
        return
    options: dict[str, Any]
    if address() is None:
        # "local": never another Ray of this machine, nor one that has ended and left its address behind
        options = {"address": "local", "num_cpus": (os.cpu_count() or 1) + workers, "include_dashboard": False}
    else:
        options = {"runtime_env": {"env_vars": {name: os.environ[name] for name in HANDED_OVER if name in os.environ}}}
    for last in (False, False, True):  # a busy machine may not start all of Ray's processes within Ray's 30 s
        with warnings.catch_warnings(), _silent():
            warnings.simplefilter("ignore")
            try:
                ray.init(**options, logging_level=logging.ERROR, log_to_driver=False)
                break
            except Exception as error:  # of many kinds, Exception itself among them
                if last or address():
                    where = f"joined at {ADDRESS}={address()}" if address() else "started"
                    raise RuntimeError(f"Ray could not be {where}: {_first_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _keep_to_this_machine() -> None:
    """Set what Ray reads when it is imported. RuntimeError if it is imported already, but was not started.

    Without a "cluster", as is its default on macOS and Windows, Ray uses the loopback address; with a token another
    user of this machine cannot give it work.
    """
    ray = sys.modules.get("ray")
    if ray is not None and os.environ.get(LOOPBACK) != "0" and not ray.is_initialized():
        raise RuntimeError(f"ray is imported already, and would listen to other machines: set {LOOPBACK}=0 before")
    os.environ.setdefault(LOOPBACK, "0")
    if not os.environ.keys() & {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))


def keep_replica_to_this_machine() -> None:
    """In a replica's constructor: let its server for other replicas, "[::]:0" in Ray Serve, listen on 127.0.0.1.

    With RAY_ADDRESS nothing is changed: the other replicas may be on other machines.
    """
    if address() is not None:
        return
    from ray.serve._private import replica

    listen = replica.add_port_to_grpc_server
    replica.add_port_to_grpc_server = lambda server, place: listen(server, place.replace("[::]", "127.0.0.1"))


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Context manager: what Ray's C++ says on standard error while it starts is discarded."""
    with open(os.devnull, "w") as nowhere:
        before = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)


def gpus() -> int:
    """The GPUs of all machines of the running Ray; none if COURSE_DEVICE=simulator."""
    import ray

    return 0 if os.environ.get("COURSE_DEVICE") == "simulator" else int(ray.cluster_resources().get("GPU", 0))
