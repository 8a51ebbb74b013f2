"""label on a cluster of two nodes, which here run on one machine: the same command, the same file, both nodes work."""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from small_task import draw_pictures, small_task
from tiers import long

from common.many import cluster

pytestmark = [
    long,  # two times Ray's start
    pytest.mark.skipif(not cluster.installed(), reason='Ray is not installed: pip install ".[many]"'),
]

ROOT = Path(__file__).parents[2]
TRIES = 4  # a node that does not start within Ray's 30 s, on a busy machine, ends


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def working(process):
    """The names of Ray's workers below a process that have work of Ray Data."""
    found = set()
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            name = " ".join(child.cmdline()[:1])
            found |= {kind for kind in ("_Labeller", "_decode") if f"MapBatches({kind}" in name}
    return found


@contextlib.contextmanager
def node(environment, folder, *arguments):
    """Context manager: a node of Ray, `ray start …`, as a process of psutil. On a busy machine it is tried again."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--node-ip-address=127.0.0.1"]
    for number in range(TRIES):
        log = folder / f"{arguments[0].strip('-').partition('=')[0]}-{number}.log"
        with open(log, "w") as file:
            process = psutil.Popen([*command, *arguments], env=environment, stdout=file, stderr=file)
        while process.poll() is None and "Ray runtime started" not in log.read_text():
            time.sleep(0.2)
        if process.poll() is None:
            break
    assert process.poll() is None, log.read_text()[-2000:]
    try:
        yield process
    finally:
        below = process.children(recursive=True)
        process.terminate()
        psutil.wait_procs([process], timeout=20)
        for one in below:
            with contextlib.suppress(psutil.Error):
                one.kill()


@pytest.mark.parametrize(
    "gpus", [0, 1]
)  # of a node, as Ray counts them: a worker for each, which computes on the CPU here
def test_a_second_node_shares_the_work_and_the_file_is_the_same(tmp_path, rng, gpus):
    pictures, network = draw_pictures(tmp_path / "in", 90, rng), tmp_path / "small.onnx"
    network.write_bytes(small_task().model.SerializeToString())
    (pictures / "00017.png").write_text("not a picture")
    (tmp_path / "logs").mkdir()
    address = f"127.0.0.1:{free_port()}"
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"PYTHONPATH": path, "COURSE_DEVICE": "simulator", "RAY_USAGE_STATS_ENABLED": "0"}
    environment["PYTHONUNBUFFERED"] = "1"
    if gpus:
        del environment["COURSE_DEVICE"]  # with it no worker asks for a GPU
    alone = label(environment, pictures, network, tmp_path / "alone.parquet", "--workers", "0")
    assert alone.wait(300) == 0
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_ADDRESS": address}
    nodes = environment | {name: secret[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    port = address.rpartition(":")[2]
    head = ("--head", f"--port={port}", "--num-cpus=1", f"--num-gpus={gpus}", "--include-dashboard=false")
    second_node = (f"--address={address}", "--num-cpus=2", f"--num-gpus={gpus}")
    logs = tmp_path / "logs"
    with node(nodes, logs, *head) as first, node(nodes, logs, *second_node) as second:
        out = tmp_path / "spread.parquet"
        done = label(environment | secret, pictures, network, out, "--workers", "auto" if gpus else "2")
        worked = {"first": set(), "second": set()}
        while done.poll() is None:
            worked["first"] |= working(first)
            worked["second"] |= working(second)
            time.sleep(0.05)
        said, wrong = done.communicate()
        assert done.returncode == 0, wrong
        assert "90 pictures, 1 of them not readable" in said
        assert worked["first"] and worked["second"], worked
        assert worked["first"] | worked["second"] == {"_Labeller", "_decode"}
        assert out.read_bytes() == (tmp_path / "alone.parquet").read_bytes()
        assert first.is_running() and second.is_running()  # the command leaves a cluster as it is
        if gpus:
            return
        stranger = environment | secret | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
        refused = label(stranger, pictures, network, tmp_path / "stranger.parquet", "--workers", "2")
        _, wrong = refused.communicate(timeout=200)
        assert refused.returncode == 2 and f"Ray could not be joined at RAY_ADDRESS={address}" in wrong
        assert "Traceback" not in wrong and not (tmp_path / "stranger.parquet").exists()


def label(environment, pictures, network, out, *more):
    """The running command."""
    command = [sys.executable, "-m", "common", "label", str(pictures), "-o", str(out), "--onnx", str(network)]
    command += ["--batch", "3", *more]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
