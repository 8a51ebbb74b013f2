"""An answer in a process of its own: whatever it does ends with a message, and this process goes on as it was."""

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest
from tiers import long, seldom

from common import check
from common.check import child, exercises, worker
from common.check.judge import judge

pytestmark = pytest.mark.skipif(not child.can_fork(), reason="a copy of this process is not safe on this system")

CHECK = """from common.check import expect


def check(double):
    expect(double(2), 4, what="double(2)", hint="twice two")
"""


@pytest.fixture(autouse=True)
def exercise(tmp_path, monkeypatch):
    folder = tmp_path / "01_toys" / "exercises" / "double"
    folder.mkdir(parents=True)
    (folder / "check.py").write_text(CHECK)
    solutions = tmp_path / "01_toys" / "solutions"
    solutions.mkdir()
    (solutions / "double.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.chdir(folder)
    return folder


def answer(folder, body, before="", seconds=30.0):
    """What check.run says of `def double(x):` with this body."""
    path = folder / "answer.py"
    lines = "\n    ".join(body.splitlines())
    imports = "import ctypes, os, sys, threading, time\nimport numpy as np\n"
    path.write_text(f"{imports}{before}\ndef double(x):\n    {lines}\n")
    return check.run("double", exercises.load(path)["double"], seconds=seconds)


OWN = "class Own(BaseException):\n    pass\n"
MUTE = "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\n"
KINDS = {
    "caught": ("while True:\n    try:\n        time.sleep(1e-4)\n    except:\n        pass", "not finished after 2 s"),
    "in C": ("return sum(range(10**10))", "not finished after 2 s, in line 5: `return sum(range(10**10))`"),
    "numpy": ("a = np.ones((3000, 3000))\nwhile True: a = a @ a", "not finished after 2 s, in line 6"),
    "BaseException": ("raise Own('why')", "Own: why, in line 7: `raise Own('why')`"),
    "GeneratorExit": ("raise GeneratorExit", "GeneratorExit, in line 5"),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt, in line 5"),
    "SystemExit": ("sys.exit(7)", "SystemExit: 7, in line 5"),
    "mute": ("raise Mute", "Mute: its __str__ raises ValueError, in line 8"),
    "surrogate": ("raise ValueError('\\ud800')", "ValueError: \\ud800, in line 5"),
    "surrogate given back": ("return '\\ud800'", "double(2) is '\\ud800', a string"),
    "long message": ("raise ValueError('y' * 10**7)", "yyy …"),
    "digits": ("return 10**(10**6)", "double(2) is a whole number of 1,000,001 digits, expected 4"),
    "digits in a message": ("raise ValueError(10**10**5)", "ValueError"),
    "long string": ("return 'y' * 10**8", "double(2) is 'yyyyyyyy"),
    "large array": ("return np.zeros(10**7)", "double(2) is an array of shape (10000000,), an array;"),
    "exit": ("os._exit(3)", "it has ended its process, with the exit status 3"),
    "exit well": ("os._exit(0)", "it has ended its process, with the exit status 0"),
    "null pointer": ("ctypes.string_at(0)", "used memory that is not its own"),
    "abort": ("os.abort()", "its process was aborted"),
    "kill": ("os.kill(0, 9)", "its process was killed"),
    "deep recursion": ("return double(x)", "RecursionError"),
    "recursion in C": (
        "a, b = [], []\nfor _ in range(10**6): a, b = [a], [b]\nsys.setrecursionlimit(10**9)\nreturn a == b",
        "its process used memory that is not its own, or ran out of stack",
    ),
    "memory": ("return bytearray(3 << 30)", "MemoryError, in line 5"),  # of addresses: nothing is written to
    "input": ("return int(input('x?'))", "input() asks nobody here"),
    "closed": ("os.closerange(3, 64)\nreturn 5", "it has ended its process"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_an_answer_does_ends_with_a_message(exercise, monkeypatch, kind):
    body, said = KINDS[kind]
    if kind == "memory":
        monkeypatch.setattr(child, "memory_limit", lambda: 1 << 30)
    began = time.monotonic()
    seconds = 2.0 if "not finished" in said else 30.0
    result = answer(exercise, body, {"BaseException": OWN, "mute": MUTE}.get(kind, ""), seconds)
    assert not result and said in result.message, result.message
    assert len(result.message) < 2_500
    result.message.encode()
    assert time.monotonic() - began < 20
    assert check.run("double", lambda x: 2 * x), "the next answer"


def test_the_statements_of_each_answer_are_counted_anew(exercise):
    assert [judge(exercise, [lambda x: 2 * x]).checks for _ in range(2)] == [1, 1]


def test_the_memory_is_watched(exercise, monkeypatch):
    """An answer whose addresses are not limited, as a kernel's are not."""
    monkeypatch.setattr(child, "memory_limit", lambda: 200 << 20)
    ended = child.forked(lambda line: [bytearray(1 << 20) for _ in iter(int, 1)], 10.0, limit_addresses=False)
    assert ended.why == "memory"


def test_what_an_answer_prints_is_printed(exercise, capsys):
    assert answer(exercise, "print('one')\nos.write(1, b'two\\n')\nprint('three', file=sys.stderr)\nreturn 2 * x")
    assert capsys.readouterr().out.splitlines()[:3] == ["one", "two", "three"]


def test_megabytes_that_are_printed_are_cut_off(exercise, capsys):
    assert answer(exercise, "print('µ' * 5_000_000)\nreturn 2 * x")
    out = capsys.readouterr().out
    assert len(out) < 2 * child.PRINTED and out.startswith("µ" * child.PRINTED)
    assert f"[{5_000_001 - child.PRINTED:,} letters more were printed, and are left out]" in out


def test_threads_and_processes_that_an_answer_leaves_behind_end_with_it(exercise):
    body = "threading.Thread(target=time.sleep, args=(600,)).start()\npid = os.fork()\n"
    body += "if pid == 0:\n    time.sleep(600)\nopen('left', 'w').write(str(pid))\nreturn 2 * x"
    assert answer(exercise, body)
    pid = int((exercise / "left").read_text())
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if " Z " in Path(f"/proc/{pid}/stat").read_text():  # dead, and init has not looked yet
            return
        time.sleep(0.02)
    pytest.fail("a process of the answer runs on")


def test_an_answer_changes_nothing_here(exercise):
    counted = []
    assert check.run("double", lambda x: counted.append(x) or os.environ.update(COURSE_X="1") or 2 * x)
    assert counted == [] and "COURSE_X" not in os.environ


def test_objects_of_the_notebook_are_there(exercise):
    torch = pytest.importorskip("torch")
    linear = torch.nn.Linear(64, 64)
    twos = torch.ones(64, 64) @ torch.ones(64, 64)  # its threads have run here
    double = lambda x: int((linear(twos) * 0 + x * 2).mean().item())  # noqa: E731
    assert check.run("double", double)


@pytest.fixture(autouse=True)
def interruptible():
    """A shell starts what runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_answer_at_once(exercise):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        check.run("double", lambda x: sum(range(10**10)))
    assert time.monotonic() - began < 20  # the sum would take minutes
    assert check.run("double", lambda x: 2 * x)


def test_neither_descriptors_nor_processes_are_left(exercise):
    check.run("double", lambda x: 2 * x)
    before, children = sorted(os.listdir("/proc/self/fd")), psutil.Process().children()
    for number in range(20):
        check.run("double", lambda x, n=number: os._exit(1) if n % 2 else 2 * x)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert psutil.Process().children() == children  # ended ones that nobody has waited for would be among them


def busy():
    """Seconds of processor time that this process and its children have taken: wall time tells of other processes."""
    return sum(os.times()[:4])


def test_it_takes_little_time(exercise):
    began = busy()
    for _ in range(20):
        check.run("double", lambda x: 2 * x)
    assert (busy() - began) / 20 < 0.15


# ---- Compilers


def test_the_clock_stands_still_while_a_compiler_runs():
    def slow(line):
        line.compiling(True)
        time.sleep(0.6)
        line.compiling(False)
        return "done"

    assert child.forked(slow, 0.5) == "done"

    def slow_by_itself(line):
        slow(line)
        time.sleep(0.6)

    assert child.forked(slow_by_itself, 0.5).why == "time"


def test_a_compiler_has_a_limit_of_its_own(monkeypatch):
    monkeypatch.setattr(child, "COMPILATION_SECONDS", 0.2)

    def endless(line):
        line.compiling(True)
        time.sleep(60)

    assert child.forked(endless, 30.0).why == "time"


# ---- CUDA C++

KERNEL = """extern "C" __global__ void twice(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    BODY
}
"""
KERNEL_CHECK = """import numpy as np

from common.check import expect, launch


def check(source):
    x, out = np.arange(77, dtype=np.float32), np.full(77, np.nan, np.float32)
    launch(source, "twice", (1,), (128,), (x, out, 77), what="twice")
    expect(out, 2 * x, what="out", hint="two of each")
"""
RIGHT = "if (i < n) out[i] = 2.0f * in[i];"


@pytest.fixture
def kernel(exercise):
    """Judges `twice` with this body."""
    folder = exercise.parent / "twice"
    folder.mkdir()
    (folder / "check.py").write_text(KERNEL_CHECK)
    (exercise.parents[1] / "solutions" / "twice.cu").write_text(KERNEL.replace("BODY", RIGHT))
    return lambda body, before="", seconds=10.0: check.run(
        "twice", before + KERNEL.replace("BODY", body), seconds=seconds
    )


CUDA_KINDS = {
    "endless": ("volatile int on = 1; while (on) {}", "", "does the loop end?"),
    "endless barriers": ("for (;;) __syncthreads();", "", "not finished after"),
    "endless accesses": ("for (int k = 0; k >= 0; k = (k + 1) & 63) out[i & 63] += 1.0f;", "", ""),
    "abort": ("if (i == 3) __builtin_trap();", "", "executed __trap()"),
    "assert": ("assert(i < 0);", "#include <assert.h>\n", "assert"),
    "exit": ("if (i == 3) exit(3);", "#include <stdlib.h>\n", ""),
    "null": ("*(volatile int*)0 = i;", "", ""),
}


@pytest.mark.parametrize("kind", CUDA_KINDS)
def test_whatever_a_kernel_does_ends_with_a_message(kernel, kind):
    body, before, said = CUDA_KINDS[kind]
    result = kernel(body, before, seconds=3.0)
    assert not result and said in result.message, result.message
    assert kernel(RIGHT), "the next answer"


@pytest.fixture
def through_a_worker(monkeypatch):
    monkeypatch.setattr(child, "can_fork", lambda: False)
    yield
    worker._forget()


@seldom(6)
@pytest.mark.parametrize("kind", ["endless", "null", "exit"])
def test_a_worker_judges_kernels_where_a_copy_will_not_do(kernel, through_a_worker, kind):
    assert kernel(RIGHT)
    first = worker._running[0].pid
    assert kernel(RIGHT) and worker._running[0].pid == first, "it lives on"
    body, before, said = CUDA_KINDS[kind]
    result = kernel(body, before, seconds=3.0)
    assert not result and said in result.message, result.message
    assert kernel(RIGHT), "the next answer"


def test_a_worker_is_interrupted_and_started_anew(kernel, through_a_worker):
    assert kernel(RIGHT)
    first = worker._running[0].pid
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        kernel("for (;;) __syncthreads();", seconds=30.0)
    result = kernel(RIGHT.replace("2.0f", "3.0f"))
    assert "out[1] is 3.0, expected 2.0" in result.message and worker._running[0].pid != first
    os.kill(worker._running[0].pid, signal.SIGKILL)
    time.sleep(0.1)
    assert kernel(RIGHT)


@long
def test_a_worker_takes_little_time(kernel, through_a_worker):
    def seconds():
        began = time.perf_counter()
        kernel(RIGHT)
        return time.perf_counter() - began

    kernel(RIGHT)
    assert min(seconds() for _ in range(20)) < 0.1


def test_a_worker_prints_and_ends_with_its_parent(kernel, through_a_worker, capsys):
    assert kernel('if (i == 0) printf("hello %d\\n", n); ' + RIGHT, "#include <stdio.h>\n")
    assert "hello 77" in capsys.readouterr().out
    process = worker._running[0]
    process.stdin.close()
    assert process.wait(5) == 0
