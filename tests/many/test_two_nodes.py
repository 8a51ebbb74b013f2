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
START_S = 240  # on a busy machine Ray's first try may end after 30 s


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
    """Context manager: a node of Ray, `ray start …`, as a process of psutil."""
    command = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        "--block",
        "--node-ip-address=127.0.0.1",
        *arguments,
    ]
    with open(folder / f"{len(list(folder.iterdir()))}.log", "w") as log:
        process = psutil.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield process
        finally:
            below = process.children(recursive=True) if process.is_running() else []
            process.terminate()
            psutil.wait_procs([process], timeout=20)
            for one in below:
                with contextlib.suppress(psutil.Error):
                    one.kill()


def wait_for_nodes(environment, count):
    """Until the cluster has so many nodes."""
    ask = (
        "import ray; ray.init(logging_level='ERROR', log_to_driver=False); print(sum(n['Alive'] for n in ray.nodes()))"
    )
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        found = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True)
        if found.stdout.strip() == str(count):
            return
        time.sleep(1)
    raise AssertionError(f"there are not {count} nodes: {found.stdout} {found.stderr}")


def test_a_second_node_shares_the_work_and_the_file_is_the_same(tmp_path, rng):
    pictures, network = draw_pictures(tmp_path / "in", 90, rng), tmp_path / "small.onnx"
    network.write_bytes(small_task().model.SerializeToString())
    (pictures / "00017.png").write_text("not a picture")
    (tmp_path / "logs").mkdir()
    address = f"127.0.0.1:{free_port()}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"PYTHONPATH": str(ROOT), "COURSE_DEVICE": "simulator", "RAY_USAGE_STATS_ENABLED": "0"}
    alone = label(environment, pictures, network, tmp_path / "alone.parquet", "--workers", "0")
    assert alone.wait(300) == 0
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_ADDRESS": address}
    nodes = environment | {name: secret[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    port = address.rpartition(":")[2]
    head = ("--head", f"--port={port}", "--num-cpus=1", "--num-gpus=0", "--include-dashboard=false")
    with node(nodes, tmp_path / "logs", *head) as first:
        wait_for_nodes(environment | secret, 1)
        with node(nodes, tmp_path / "logs", f"--address={address}", "--num-cpus=2", "--num-gpus=0") as second:
            wait_for_nodes(environment | secret, 2)
            out = tmp_path / "spread.parquet"
            done = label(environment | secret, pictures, network, out, "--workers", "2")
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
