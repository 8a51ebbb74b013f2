"""Every command under faults: one line on standard error, no traceback, the older file whole, no temporary file left.

No case names a device: a full disk is a limit on the size of files, a place that waits is a FIFO of the test's own.
"""

import contextlib
import dataclasses
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from tiers import only_all, seldom

from common import cuda, topology, weights
from common.commands import errors
from common.text import printable

DIGITS = ("--weights", "digits")


@pytest.fixture
def run(invoke):
    return invoke


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with a picture, photo.png, and a network, small.onnx."""
    folder = tmp_path_factory.mktemp("inputs")
    y, x = np.mgrid[0:40, 0:50]
    Image.fromarray(np.stack([x * 5, y * 6, x * y % 256], -1).astype(np.uint8)).save(folder / "photo.png")
    graph = topology.build(0.35, 7, 32, batch_norm=True)
    (folder / "small.onnx").write_bytes(
        topology.write_onnx(graph, weights.seeded_parameters(graph)).SerializeToString()
    )
    return folder


def is_explained(result, *parts):
    """Exit status 2 and one line on standard error that holds the parts."""
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert all(part in result.stderr for part in parts), result.stderr


# Which errors are explained


class _OfOnnxRuntime(Exception):
    __module__ = "onnxruntime.capi.onnxruntime_pybind11_state"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a.onnx"), "a.onnx: No such file or directory"),
        (OSError("a.onnx: expected a regular file"), "a.onnx: expected a regular file"),
        (ValueError("size must be at least 1, got 0"), "size must be at least 1, got 0"),
        (RuntimeError("no C++ compiler"), "no C++ compiler"),
        (topology.InvalidModel("bad"), "bad"),
        (cuda.CompileError("line 3: expected ;"), "line 3: expected ;"),
        (MemoryError(), "not enough memory"),
        (MemoryError("Unable to allocate 9 GiB"), "not enough memory: Unable to allocate 9 GiB"),
        (_OfOnnxRuntime("no Conv"), "ONNX Runtime does not run this network: no Conv"),
        (
            ModuleNotFoundError(name="sklearn.datasets"),
            "demo needs scikit-learn, which is not installed: pip install scikit-learn, or"
            ' pip install ".[reference]" in the course\'s folder',
        ),
    ],
)
def test_what_a_user_can_mend_is_explained(error, told):
    assert errors.explanation(error, "demo") == told


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        TypeError("x"),
        IndexError("x"),
        AssertionError("x"),
        RecursionError("x"),
        NotImplementedError("x"),
        ModuleNotFoundError(name="common.nothing"),
        BrokenPipeError(errno.EPIPE, "Broken pipe"),  # left to typer, which says nothing
    ],
)
def test_bugs_keep_their_traceback(error, run, monkeypatch):
    assert errors.explanation(error) is None

    def fails(**options):
        raise error

    monkeypatch.setattr(topology, "build", fails)
    if not isinstance(error, OSError):
        with pytest.raises(type(error)):
            run("topology")


def test_a_traceback_is_shown_on_request(run, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        run("topology", "--onnx", tmp_path / "none.onnx")


def test_messages_are_one_printable_line(capsys):
    assert errors.fail("one\ntwo \x1b[2J" + 900 * "x").exit_code == 2
    told = capsys.readouterr().err
    assert told.startswith(r"one two \x1b[2Jxxx") and told.count("\n") == 1 and len(told) <= errors.MAX_MESSAGE + 1


def test_every_extra_is_one_of_pyproject():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    for distribution, extra in errors.EXTRAS.values():
        assert any(line.startswith(distribution) for line in project["optional-dependencies"][extra]), distribution


# Outputs


WRITERS = {  # the file, and the command that writes it; {inputs} is the folder of the inputs
    "demo": ("digits.png", "demo --out {folder}"),
    "profile --csv": ("rows.csv", "profile --weights resnet20 --runs 1 --csv {target}"),
    "profile --plot": ("steps.png", "profile --weights resnet20 --runs 1 --plot {target}"),
    "images pack": ("inputs.npy", "images pack {inputs}/photo.png --size 8 --out {target}"),
    "weights make .npz": ("weights.npz", "weights make digits --force --out {target}"),
    "weights make .onnx": ("digits.onnx", "weights make digits --force --out {target}"),
    "quantize": (
        "network.onnx",
        "quantize --onnx {inputs}/small.onnx --calibrate {inputs}/photo.png --ranges minmax --force -o {target}",
    ),
    "weights extract": ("weights.npz", "weights extract {inputs}/small.onnx --force --out {target}"),
}


@pytest.fixture
def write(run, inputs, monkeypatch):
    """write(name, target): run the command that writes `target`, in little time."""
    split = weights.digits_split()
    few = dataclasses.replace(split, test_images=split.test_images[:20], test_labels=split.test_labels[:20])
    monkeypatch.setattr(weights, "digits_split", lambda: few)
    monkeypatch.setattr("common.demo._photo", lambda console: True)

    def call(name, target):
        words = WRITERS[name][1].split()
        return run(*(word.format(folder=target.parent, target=target, inputs=inputs) for word in words))

    return call


@contextlib.contextmanager
def full_disk(size=100):
    """Files grow to `size` bytes, which is where a disk would be full. Kernels have to be in the cache by then."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def read_only(folder):
    """No file can be made in the folder, not by root either."""
    opened = os.open

    def refusing(path, flags, *arguments, **named):
        inside = os.path.realpath(folder) in (os.path.realpath(path), os.path.realpath(os.path.dirname(path)))
        if inside and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system", path)
        return opened(path, flags, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", refusing)
        yield


def listing(folder):
    return sorted((path.name, path.read_bytes() if path.is_file() else None) for path in folder.iterdir())


@pytest.mark.parametrize("fault", ["full disk", "read-only", "FIFO", "link to a FIFO", "folder", "below a file"])
@pytest.mark.parametrize("name", WRITERS)
def test_an_output_that_cannot_be_written(write, tmp_path, name, fault):
    target = tmp_path / "out" / WRITERS[name][0]
    target.parent.mkdir()
    outside = contextlib.nullcontext()
    match fault:
        case "full disk":
            assert write(name, target).exit_code == 0  # and kernels are compiled
            outside = full_disk()
        case "read-only":
            target.write_bytes(b"before")
            outside = read_only(target.parent)
        case "FIFO":
            os.mkfifo(target)
        case "link to a FIFO":
            os.mkfifo(target.parent / "fifo")
            target.symlink_to("fifo")
        case "folder":
            target.mkdir()
        case "below a file":
            target.parent.rmdir()
            target.parent.write_bytes(b"before")
    before = listing(target.parent) if target.parent.is_dir() else None
    with outside:
        result = write(name, target)
    is_explained(result, str(target.parent))
    assert before is None or listing(target.parent) == before


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_is_written_through(write, tmp_path, name):
    target = tmp_path / "out" / WRITERS[name][0]
    target.parent.mkdir()
    (tmp_path / "kept").write_bytes(b"")
    target.symlink_to("../kept")
    assert write(name, target).exit_code == 0
    assert target.is_symlink() and (tmp_path / "kept").stat().st_size > 100


def test_the_older_picture_survives_a_full_disk(write, tmp_path):
    """As digits.png once did not."""
    (tmp_path / "digits.png").write_bytes(b"before")
    write("demo", tmp_path / "again" / "digits.png")
    with full_disk():
        assert write("demo", tmp_path / "digits.png").exit_code == 2
    assert (tmp_path / "digits.png").read_bytes() == b"before"


# Networks that a backend does not run


def double_network(path):
    """A CNN in float64, which ONNX knows and ONNX Runtime's CPU kernels do not."""
    rng = np.random.default_rng(0)
    kernel = numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3)), "kernel")
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["conv"]),
        helper.make_node("GlobalAveragePool", ["conv"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [1, 3, 32, 32])
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, [1, 4])
    graph = helper.make_graph(nodes, "double", [x], [y], [kernel])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("command", ["compare --onnx {0}", "classify {1} --onnx {0} --backend onnxruntime"])
def test_what_onnx_runtime_does_not_run(run, inputs, tmp_path, command):
    path = double_network(tmp_path / "double.onnx")
    result = run(*command.format(path, inputs / "photo.png").split())
    is_explained(result, "ONNX Runtime", "network", "NOT_IMPLEMENTED")


def test_an_error_in_a_call_ends_classify(run, inputs, monkeypatch):
    def refuse(self, x):
        raise ValueError("x must have 4 dimensions")

    monkeypatch.setattr("common.network.Network.__call__", refuse)
    is_explained(run("classify", inputs / "photo.png", *DIGITS), "x must have 4 dimensions")


# As programs: surroundings, terminals, signals


def program(*arguments, code="", environment=(), **options):
    """python -m common in a process of its own; `code` runs before it."""
    start = f"{textwrap.dedent(code)}\nfrom common.__main__ import main\nmain()"
    variables = {name: value for name, value in os.environ.items() if name != "COURSE_TRACEBACK"}
    variables |= {"COLUMNS": "120", **dict(environment)}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    command = [sys.executable, "-c", start, *map(os.fsencode, arguments)]
    return subprocess.run(command, env=variables, timeout=300, **options)


def told(done, *parts):
    text = done.stderr.decode()
    assert done.returncode == 2 and len(text.splitlines()) == 1, text
    assert all(part in text for part in parts), text


READERS = {
    "topology": ("topology",),
    "classify": ("classify", "{inputs}/photo.png", *DIGITS),
    "compare": ("compare", *DIGITS, "--inputs", "1", "--no-photo"),
    "profile": ("profile", "--weights", "resnet20", "--runs", "1"),
    "weights check": ("weights", "check", "{inputs}/small.onnx", "--onnx", "{inputs}/small.onnx"),
    "doctor": ("doctor",),
    "demo": ("demo", "--out", "{inputs}/out"),
}
CHEAP = ["topology"]
COMPUTING = ["classify", "compare", "profile", "demo"]


def words(name, inputs):
    return [word.format(inputs=inputs) for word in READERS[name]]


@seldom(6)
@pytest.mark.parametrize("name", ["classify", *only_all(["compare", "profile", "demo"])])
@pytest.mark.parametrize(
    ("variable", "value", "part"),
    [
        ("COURSE_DEVICE", "tpu", "COURSE_DEVICE must be 'gpu' or 'simulator', got 'tpu'"),
        ("COURSE_CACHE", "{inputs}/photo.png", "COURSE_CACHE"),
        *only_all(
            [
                ("COURSE_CACHE", "{inputs}/photo.png/below", "COURSE_CACHE"),
                ("HOME", "{inputs}/photo.png", "COURSE_CACHE"),
            ]
        ),
    ],
)
def test_surroundings_that_are_wrong(inputs, name, variable, value, part):
    environment = {"COURSE_DEVICE": "simulator", "XDG_CACHE_HOME": "", variable: value.format(inputs=inputs)}
    if variable == "HOME":  # ONNX Runtime and Matplotlib say a word of their own
        environment["COURSE_CACHE"] = ""
        done = program(*words(name, inputs), environment=environment)
        assert done.returncode == 2 and b"Traceback" not in done.stderr and part.encode() in done.stderr
    else:
        told(program(*words(name, inputs), environment=environment), part)


@seldom(6)
@pytest.mark.parametrize("name", ["classify", *only_all(["compare", "profile", "demo"])])
def test_a_full_disk_for_kernels(inputs, tmp_path, name):
    """What is compiled cannot be kept. g++ dies of the limit, so that its own words are not looked at."""

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    environment = {"COURSE_DEVICE": "simulator", "COURSE_CACHE": str(tmp_path)}
    told(program(*words(name, inputs), environment=environment, preexec_fn=limited))
    assert list(tmp_path.glob("*.so")) == []


ASCII = {"PYTHONIOENCODING": "ascii"}
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


ENCODINGS = (ASCII, C_LOCALE, {"PYTHONIOENCODING": "latin-1"})


@seldom(6)
@pytest.mark.parametrize(
    ("name", "environment"),
    [("classify", ASCII), ("topology", C_LOCALE), *only_all([(name, e) for name in READERS for e in ENCODINGS])],
)
def test_terminals_that_are_not_utf_8(inputs, name, environment):
    """What they cannot show is "?"."""
    done = program(*words(name, inputs), environment=environment)
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()
    done.stdout.decode(environment.get("PYTHONIOENCODING", "ascii"))
    assert name != "topology" or "latin-1" in environment.values() or b"?" in done.stdout


@seldom(6)
@pytest.mark.parametrize("name", CHEAP + only_all([name for name in READERS if name not in CHEAP]))
@pytest.mark.parametrize("fault", ["closed", "reader gone", "full", "closed input"])
def test_standard_output_that_takes_nothing(inputs, tmp_path, name, fault):
    environment = {"COURSE_CACHE": os.environ.get("COURSE_CACHE", "")}
    command = words(name, inputs)
    match fault:
        case "closed":
            done = program(*command, environment=environment, stdout=None, preexec_fn=lambda: os.close(1))
            assert (done.returncode, done.stderr) == (0, b"")
        case "closed input":
            done = program(*command, environment=environment, preexec_fn=lambda: os.close(0))
            assert (done.returncode, done.stderr) == (0, b"")
        case "reader gone":
            reading, writing = os.pipe()
            os.close(reading)
            done = program(*command, environment=environment, stdout=writing)
            os.close(writing)
            assert (done.returncode, done.stderr) == (1, b"")
        case "full":
            code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
            if name != "demo":  # which has a file to write
                assert program(*command).returncode == 0  # its kernels are compiled
                with open(tmp_path / "output", "wb") as output:
                    done = program(*command, code=code, stdout=output)
                if name == "doctor":  # whose trial of a kernel fails, too
                    assert b"Traceback" not in done.stderr and done.returncode == 2
                else:
                    told(done, "the output cannot be written: File too large")


@pytest.mark.parametrize(
    "name", ["es\x1b[2Jc.png", "two\nlines.png", *only_all(["größe×.png", os.fsdecode(b"\xff\xfe.png"), "n" * 240])]
)
@pytest.mark.parametrize("there", [True, False])
def test_names_of_files(run, inputs, tmp_path, name, there):
    """No letter of theirs reaches the terminal that could steer it."""
    if there:
        shutil.copy(inputs / "photo.png", tmp_path / name)
    result = run("classify", tmp_path / name, *DIGITS)
    assert result.exit_code == (0 if there else 2)
    text = result.stdout if there else result.stderr
    assert printable(name) in text or printable(" ".join(name.split())) in text
    assert all(character.isprintable() for character in text.replace("\n", "")) and "\x1b" not in text


@seldom(6)
def test_sigterm_removes_temporary_files(tmp_path):
    code = """
        import os, sys, time
        from common import files
        def wait(descriptor):
            print("writing", flush=True)
            time.sleep(60)
        os.fsync = wait
    """
    start = f"{textwrap.dedent(code)}\nfrom common.__main__ import main\nmain()"
    command = [sys.executable, "-c", start, "weights", "make", "seeded", "--out", tmp_path / "w.npz"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        for line in process.stdout:
            if line == b"writing\n":
                break
        time.sleep(0.1)  # it sleeps now
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=30)[1]
    assert process.returncode == 128 + signal.SIGTERM and told == b""
    assert list(tmp_path.iterdir()) == []


# What `pip install .` leaves out

BLOCKED = """
    import importlib.abc, sys
    class Blocked(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name.partition(".")[0] == {0!r}:
                raise ModuleNotFoundError(name, name=name)
    sys.meta_path.insert(0, Blocked())
"""
NEEDS = {
    "sklearn": [("demo", "--out", "{inputs}/out"), ("classify",)],
    "onnxruntime": [("demo", "--out", "{inputs}/out"), ("compare", *DIGITS, "--inputs", "1", "--no-photo")],
    "torch": [("classify", "{inputs}/photo.png", *DIGITS, "--backend", "torch")],
    "matplotlib": [
        ("classify", "--weights", "seeded"),
        ("profile", "--weights", "resnet20", "--runs", "1", "--plot", "{inputs}/out.png"),
    ],
}


MISSING = [(module, command) for module, commands in NEEDS.items() for command in commands]


@pytest.mark.parametrize(("module", "command"), [MISSING[0], *only_all(MISSING[1:])])
def test_a_package_that_is_not_installed(inputs, module, command):
    arguments = [word.format(inputs=inputs) for word in command]
    told(program(*arguments, code=BLOCKED.format(module)), "pip install")


def test_jupyterlab_that_is_not_installed(run, monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("common.check.exercises.REPOSITORY", tmp_path)
    monkeypatch.setattr("common.check.copies.update", lambda work: [])
    monkeypatch.setattr("common.check.start.write", lambda work: None)
    (tmp_path / "01_topology").mkdir()
    (tmp_path / "01_topology" / "1.ipynb").touch()
    is_explained(run("lab"), "lab needs jupyterlab", 'pip install ".[notebooks]"')


def test_memory_that_runs_out(run, monkeypatch):
    def more(**options):
        np.empty(1 << 60, np.uint8)

    monkeypatch.setattr(topology, "build", more)
    is_explained(run("topology"), "not enough memory: Unable to allocate")


def test_an_exit_status_is_passed_on(run, monkeypatch):
    def leave(**options):
        raise typer.Exit(7)

    monkeypatch.setattr(topology, "build", leave)
    assert run("topology").exit_code == 7
