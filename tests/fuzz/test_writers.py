"""Every command that writes a file, ended, unread or in odd surroundings: the file is the older or the new one, whole.

Outputs that cannot be written: tests/test_faults.py.
"""

import csv
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import test_faults
from PIL import Image
from tiers import long

from common import topology, weights

BEFORE = b"what was there"

WRITERS = test_faults.WRITERS  # name: (the file, the command that writes it)
inputs = test_faults.inputs
every_writer = pytest.mark.parametrize("name", WRITERS)

# Code that runs before the command

WAIT_BEFORE_THE_END = """
    import os, time
    def wait(descriptor):
        print("writing", flush=True)
        time.sleep(100)
    os.fsync = wait
"""
FEW_DIGITS = """
    import dataclasses
    from common import demo, weights
    split = weights.digits_split()
    few = dataclasses.replace(split, test_images=split.test_images[:20], test_labels=split.test_labels[:20])
    weights.digits_split = lambda: few
    demo._photo = lambda console: True
"""


@pytest.fixture
def target(name, tmp_path):
    """The file that a command is to replace, in a folder of its own."""
    path = tmp_path / "out" / WRITERS[name][0]
    path.parent.mkdir()
    path.write_bytes(BEFORE)
    return path


def start(name, target, inputs, code="", **options):
    """The command as a program; `code` runs before it."""
    words = [w.format(folder=target.parent, target=target, inputs=inputs) for w in WRITERS[name][1].split()]
    first = textwrap.dedent(FEW_DIGITS) if name == "demo" else ""
    program = f"{first}\n{textwrap.dedent(code)}\nfrom common.__main__ import main\nmain()"
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": target.parent} | options
    return subprocess.Popen([sys.executable, "-c", program, *words], **options)


def finished(process):
    """(exit status, standard error) of a program."""
    told = process.communicate(timeout=300)[1]
    return process.returncode, told.decode()


def is_whole(path):
    """Whether a file is what a command writes, to its end."""
    content = path.read_bytes()
    match path.suffix:
        case ".png":
            Image.open(path).load()
        case ".csv":
            rows = list(csv.reader(content.decode().splitlines(), strict=True))
            assert content.endswith(b"\n") and len(rows) > 10 and len({len(row) for row in rows}) == 1
        case ".npy":
            assert np.load(path).shape == (1, 3, 8, 8)
        case ".npz":
            assert weights.load(path)
        case ".onnx":
            assert topology.read_onnx(path)
    return content != BEFORE


def is_unchanged(target):
    assert target.read_bytes() == BEFORE
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@long
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT], ids=lambda end: end.name)
@every_writer
def test_ended_before_the_file_is_whole(name, end, target, inputs):
    process = start(name, target, inputs, WAIT_BEFORE_THE_END)
    for line in process.stdout:
        if line == b"writing\n":
            break
    time.sleep(0.2)  # it sleeps now
    process.send_signal(end)
    status, told = finished(process)
    expected = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}
    assert (status, "Traceback" in told) == (expected[end], False), told
    is_unchanged(target)


@long
@every_writer
def test_killed_at_any_time(name, target, inputs):
    """Whatever it was doing, the file is the older or the new one, and the next run ends well."""
    begin = time.monotonic()
    assert finished(start(name, target, inputs))[0] == 0
    takes = time.monotonic() - begin
    rng = np.random.default_rng(int(os.environ["COURSE_SEED"]))
    for _ in range(4):
        target.write_bytes(BEFORE)
        process = start(name, target, inputs)
        time.sleep(takes * rng.uniform(0.3, 1.05))
        process.kill()
        finished(process)
        assert target.read_bytes() == BEFORE or is_whole(target)
    assert finished(start(name, target, inputs)) == (0, "") and is_whole(target)


@long
@every_writer
def test_nobody_reads_the_output(name, target, inputs):
    """The pipe is closed, as by `| head -0`: nothing is said of it, and the file is whole if it was written."""
    reading, writing = os.pipe()
    os.close(reading)
    status, told = finished(start(name, target, inputs, stdout=writing))
    os.close(writing)
    assert status in (0, 1) and told == ""
    assert target.read_bytes() == BEFORE or is_whole(target)


SURROUNDINGS = {
    "no HOME": {"HOME": None, "XDG_CACHE_HOME": None, "XDG_CONFIG_HOME": None, "USER": None, "LOGNAME": None},
    "C locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ASCII output": {"PYTHONIOENCODING": "ascii"},
    "no TERM": {"TERM": "dumb", "COLUMNS": "1"},
}


@long
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
@every_writer
def test_surroundings(name, surroundings, target, inputs, tmp_path_factory):
    environment = dict(os.environ)
    environment.setdefault("COURSE_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))
    for variable, value in SURROUNDINGS[surroundings].items():
        environment.pop(variable, None)
        if value is not None:
            environment[variable] = value
    status, told = finished(start(name, target, inputs, env=environment))
    assert (status, told) == (0, "") and is_whole(target)


@pytest.mark.parametrize("name", ["weights make .npz"])
def test_one_ended_before_the_file_is_whole(name, target, inputs):
    test_ended_before_the_file_is_whole(name, signal.SIGKILL, target, inputs)


def test_every_command_that_writes_is_here():
    """Or it needs a GPU (bench, energy, tune), or writes into the course's own folders alone (lab, generate, …).

    handout writes a folder: tests/check/test_handout.py; label and serve: tests/many.
    """
    from common.__main__ import app

    groups = {group.name: group.typer_instance for group in app.registered_groups}
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    commands |= {
        f"{group} {c.name or c.callback.__name__}" for group, t in groups.items() for c in t.registered_commands
    }
    readers = {"classify", "compare", "doctor", "inspect", "topology", "weights check"}
    elsewhere = {"bench", "energy", "tune", "lab", "progress", "milestone", "generate", "handout", "label", "serve"}
    written = {name.partition(" -")[0].partition(" .")[0] for name in WRITERS}
    commands = {"bench" if name.startswith("bench ") else name for name in commands}
    assert commands == readers | elsewhere | written
