"""label and serve on Ray, one instance for all tests here: as in one process, with workers killed, over HTTP."""

import concurrent.futures
import contextlib
import functools
import http.client
import io
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image
from small_task import draw_pictures, small_task
from tiers import long, seldom

from common.many import cluster, labelling, parts, service, spread

pytestmark = [
    seldom(6),  # Ray takes 15 s to start on two idle cores, and up to 30 s on busy ones
    pytest.mark.skipif(not cluster.installed(), reason='Ray is not installed: pip install ".[many]"'),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Ray itself
]

ROOT = Path(__file__).parents[2]
LIMITS = {"max_bytes": 200_000, "max_pixels": 1_000_000, "upload_s": 1.5, "max_waiting": 32}


@pytest.fixture(scope="module")
def ray_here():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(cluster.ADDRESS, raising=False)
        with cluster.ray_running():
            yield


# ---- label


def own_processes(name):
    """Ray's processes of this test run with that name."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[:1] and process.cmdline()[0].startswith(f"ray::{name}"):
                found.append(process)
    return found


def test_with_workers_killed_the_file_is_that_of_one_process(ray_here, tmp_path, rng):
    """Every picture once, in the order of the input; unreadable ones and a part of an earlier run among them."""
    task, folder = small_task(), draw_pictures(tmp_path / "in", 61, rng)
    (folder / "00017.png").write_text("not a picture")
    (folder / "00033.png").unlink()
    alone, spread_out = tmp_path / "alone.parquet", tmp_path / "spread.parquet"
    labelling.label([str(folder)], alone, task, batch=4)
    killed = []

    def kill(name):
        for process in own_processes(name):
            process.send_signal(signal.SIGKILL)
            killed.append(name)

    def way(work, given):
        for number, labelled in enumerate(spread.Spread(1)(work, given)):
            yield labelled
            if number == 2:
                kill("MapWorker(MapBatches(_Labeller")
                kill("MapBatches(_decode")

    done = labelling.label([str(folder)], spread_out, task, batch=4, way=way)
    assert "MapWorker(MapBatches(_Labeller" in killed
    assert (done.pictures, done.unread) == (60, 1)
    assert alone.read_bytes() == spread_out.read_bytes() and not parts.folder_of(spread_out).exists()


def test_an_error_of_a_worker_is_one_sentence(ray_here, tmp_path):
    """A Parquet file that changes while it is read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"bytes": [b"1"] * 9}), path)

    def changing(work, given):
        path.write_bytes(path.read_bytes() + b" ")
        return spread.Spread(1)(work, given)

    with pytest.raises(RuntimeError, match=r"^Ray stopped: .*in\.parquet: it was changed while it was read$"):
        labelling.label([str(path)], tmp_path / "out.parquet", small_task(), batch=4, way=changing)
    assert not (tmp_path / "out.parquet").exists()


# ---- serve


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def port(ray_here):
    number = free_port()
    options = service.Options(max_batch=8, max_wait_ms=20, **LIMITS)
    service.start(small_task(), options, "127.0.0.1", number)
    yield number
    service.stop()


def ask(port, body=None, method=None, path="/", headers=()):
    """(status, the JSON of the answer)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method or ("GET" if body is None else "POST"), path, body, dict(headers))
        answer = connection.getresponse()
        content = answer.read()
        kind = answer.getheader("content-type", "")
        return answer.status, json.loads(content) if kind.startswith("application/json") else content.decode()


@functools.cache
def picture(i):
    """A picture as bytes of a PNG file."""
    file = io.BytesIO()
    rng = np.random.default_rng(i)
    small = Image.fromarray(rng.integers(0, 256, (4, 5, 3), np.uint8))
    small.resize((70, 56), Image.Resampling.BICUBIC).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """What label says of pictures 0 to 19."""
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("pictures")
    for i in range(20):
        (folder / f"{i:02}.png").write_bytes(picture(i))
    labelling.label([str(folder)], folder / "out.parquet", small_task())
    found = pq.read_table(folder / "out.parquet").to_pylist()
    assert len({row["class"] for row in found}) >= 3  # a wrong picture's class would be noticed
    return found


def computed(port):
    return ask(port, path="/healthz")[1]["pictures"]


def test_a_picture_is_answered_with_its_classes_as_label_gives_them(port, rows):
    for i, row in enumerate(rows):
        status, answer = ask(port, picture(i))
        assert status == 200 and (answer["class"], answer["label"]) == (row["class"], None)
        assert answer["score"] == pytest.approx(row["score"], rel=1e-4)
        scores = [one["score"] for one in answer["top"]]
        assert len(scores) == service.TOP and scores == sorted(scores, reverse=True) and scores[0] == answer["score"]


def png(width, height):
    file = io.BytesIO()
    Image.new("L", (width, height)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("request_of", "status", "says"),
    [
        (lambda: {"body": b"no picture"}, 415, "not an image of a known format"),
        (lambda: {"body": picture(0)[:900]}, 415, "broken image"),
        (lambda: {"body": png(1, 60_000)}, 415, "too elongated"),
        (lambda: {"body": png(1001, 1000)}, 413, "more than 1,000,000 pixels"),
        (lambda: {"body": bytes(200_001)}, 413, "at most 200,000 bytes"),
        (lambda: {"body": iter([bytes(150_000)] * 2)}, 413, "at most 200,000 bytes"),  # chunks, no Content-Length
        (lambda: {"body": b""}, 400, "no body"),
        (lambda: {"body": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=x"}.items()}, 415, "form"),
        (lambda: {"body": b"x", "method": "PUT"}, 405, "Only GET and POST"),
        (lambda: {"path": "/none"}, 404, "nothing at this path"),
    ],
)  # fmt: skip
def test_what_is_no_picture_gets_a_status_and_a_sentence(port, request_of, status, says):
    found, answer = ask(port, **request_of())
    assert found == status and set(answer) == {"error"} and says in answer["error"]
    assert answer["error"].endswith(".") and "\n" not in answer["error"]


def test_a_body_that_does_not_arrive_is_not_waited_for(port):
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.settimeout(20)
        slow.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n\r\nsome bytes")
        answer = http.client.HTTPResponse(slow)
        answer.begin()
        assert answer.status == 408 and "did not arrive within 1.5 s" in answer.read().decode()
    assert 1 < time.monotonic() - start < 15


def test_clients_that_disconnect_cost_nothing(port, rows):
    """More of them than may wait; afterwards all places are free, and few of their pictures were computed."""
    content = picture(5)
    head = f"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: {len(content)}\r\n\r\n".encode()
    before = computed(port)
    for i in range(2 * LIMITS["max_waiting"] + 10):
        with socket.create_connection(("127.0.0.1", port)) as gone:
            gone.sendall(head + content[: len(content) if i % 2 else 100])
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # closed with a reset
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: ask(port, content), range(16)))
    assert [(status, answer["class"]) for status, answer in found] == [(200, rows[5]["class"])] * 16
    assert computed(port) - before < 16 + LIMITS["max_waiting"] + 5


def test_requests_that_arrive_together_are_computed_together(port):
    before = ask(port, path="/healthz")[1]
    content = picture(1)
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        assert {status for status, _ in pool.map(lambda _: ask(port, content), range(24))} == {200}
    after = ask(port, path="/healthz")[1]
    assert after["pictures"] - before["pictures"] == 24 and 3 <= after["batches"] - before["batches"] <= 12


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=long)])
def test_none_of_many_requests_is_lost(port, rows, count):
    """One in a hundred is no picture; sixteen clients at a time, fewer than may wait."""

    def one(i):
        """(number, status, answer) if it is not as it should be."""
        bad = i % 100 == 50
        status, answer = ask(port, b"no picture" if bad else picture(i % 20))
        right = status == 415 if bad else status == 200 and answer["class"] == rows[i % 20]["class"]
        return None if right else (i, status, answer)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert [found for found in pool.map(one, range(count)) if found] == []


def test_more_requests_than_may_wait_are_refused_at_once(port, rows):
    """The others are answered."""
    content = picture(2)
    with concurrent.futures.ThreadPoolExecutor(150) as pool:
        found = list(pool.map(lambda _: ask(port, content), range(150)))
    answered = [answer for status, answer in found if status == 200]
    refused = [answer for status, answer in found if status == 503]
    assert len(answered) >= 8 and len(answered) + len(refused) == 150
    assert {answer["class"] for answer in answered} == {rows[2]["class"]}
    assert all("backpressure" in answer and "\n" not in answer for answer in refused)
    assert ask(port, content)[0] == 200


def test_the_page_is_complete(port):
    status, page = ask(port)
    assert status == 200 and "<title>What is in this picture?</title>" in page
    assert "http:" not in page and "https:" not in page  # nothing from elsewhere


def test_it_listens_on_this_machine_only(port):
    """So do all of Ray's processes."""
    listening = [
        connection.laddr.ip.removeprefix("::ffff:")
        for process in psutil.Process().children(recursive=True)
        for connection in connections(process)
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening and set(listening) <= {"127.0.0.1", "::1"}


def connections(process):
    try:
        return process.net_connections("inet")
    except psutil.Error:  # it has ended, or is another user's
        return []


def test_stopping_answers_what_was_accepted(port, rows):
    """(The last test of this service.)"""
    content = picture(3)
    before = computed(port)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(ask, port, content) for _ in range(12)]
        while computed(port) == before:
            time.sleep(0.01)
        service.stop()
        answers = [future.result() for future in asked]
    assert [(status, answer["class"]) for status, answer in answers] == [(200, rows[3]["class"])] * 12


@long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_a_signal_and_leaves_nothing(number, tmp_path):
    port, network = free_port(), tmp_path / "small.onnx"
    network.write_bytes(small_task().model.SerializeToString())
    command = [sys.executable, "-m", "common", "serve", "--onnx", str(network), "--port", str(port), "--max-batch", "8"]
    content = picture(4)
    serving = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert f"http://127.0.0.1:{port}/ answers" in serving.stdout.readline()
        children = psutil.Process(serving.pid).children(recursive=True)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            asked = [pool.submit(ask, port, content) for _ in range(12)]
            while computed(port) < 2:
                time.sleep(0.01)
            serving.send_signal(number)
            assert all(future.result()[0] == 200 for future in asked)
        out, err = serving.communicate(timeout=60)
        assert serving.returncode == 0 and out.startswith("stopped") and err == "starting …\n", err
        assert psutil.wait_procs(children, timeout=20)[1] == []
    finally:
        serving.kill()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_batch": 0}, "max_batch must be above 0, got 0"),
        ({"max_wait_ms": -1.0}, "max_wait_ms must be between 0 and 10,000, got -1.0"),
        ({"answer_s": float("nan")}, "answer_s must be above 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        service.Options(**options)


def test_a_port_that_is_taken_is_one_line(invoke):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        refused = invoke("serve", "--weights", "digits", "--port", number)
    assert refused.exit_code == 2 and f"nothing can listen on 127.0.0.1:{number}" in refused.stderr
