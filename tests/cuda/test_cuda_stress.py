"""Launch after launch: nothing is leaked, and threads, forks and large grids do not get in each other's way."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from leaks import growth, needs_proc
from tiers import ALL, seldom

from common import cuda

simulator_only = pytest.mark.skipif(cuda.backend() == "gpu", reason="a property of the simulator")

LOOP = r"""extern "C" __global__ void k(int n, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] + 1; }"""
FIBERS = r"""extern "C" __global__ void k(int n, const float* x, float* y) {
    __shared__ float s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[63 - threadIdx.x] = i < n ? x[i] : 0; __syncthreads();
    if (i < n) y[i] = s[63 - threadIdx.x] + 1; }"""
PRINTS = r"""extern "C" __global__ void k(int n, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] + 1;
    if (i == 0) printf("%f\n", x[0]); }"""
COOPERATES = r"""#include <cooperative_groups.h>
extern "C" __global__ void k(int n, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cooperative_groups::this_grid().sync();
    if (i < n) y[i] = x[i] + 1; }"""


def threads():
    return len(os.listdir("/proc/self/task"))


def settled(count, limit):
    """`count()` once it is no more than `limit`, or after a second: threads take a moment to be gone."""
    end = time.monotonic() + 1
    while (now := count()) > limit and time.monotonic() < end:
        time.sleep(0.01)
    return now


@seldom(6)
@simulator_only
@needs_proc
@pytest.mark.parametrize(
    ("source", "options", "plain"),
    [(LOOP, {}, False), (FIBERS, {}, False), (FIBERS, {}, True), (PRINTS, {}, False), (COOPERATES, {"enable_cooperative_groups": True}, False)],
    ids=["loop", "fibers", "plain arrays", "printf", "cooperative"],
)  # fmt: skip
def test_many_launches_leak_neither_memory_nor_threads(source, options, plain, capsys):
    kernel = cuda.RawKernel(source, "k", **options)
    make = (lambda n: np.zeros(n, np.float32)) if plain else cuda.zeros
    x, y = make(500), make(500)

    def launch(times):
        for _ in range(times):
            kernel((8,), (64,), (500, x, y))
        capsys.readouterr()

    launch(50)
    tasks, maps = threads(), count_of_maps()
    times = 250 if ALL else 60
    assert growth(lambda: launch(times)) < times << 10  # less than 1 KiB a launch
    assert (y == 1).all()
    assert settled(threads, tasks) <= tasks
    assert count_of_maps() <= maps + 10


def count_of_maps():
    return Path("/proc/self/maps").read_bytes().count(b"\n")


@simulator_only
@needs_proc
def test_arrays_give_their_memory_back():
    keep = [cuda.zeros(10) for _ in range(10)]
    gc.collect()
    maps = count_of_maps()

    def make_and_drop():
        for _ in range(100 if ALL else 50):
            array = cuda.full((100, 100), 1)
            view = array[3:5].T  # a view keeps the memory, and no longer
            del array
            assert (view == 1).all()
            del view

    assert growth(make_and_drop) < 1 << 20  # one round makes 2 MB or more
    assert count_of_maps() <= maps + 5
    assert len(keep) == 10


def test_many_arrays_at_once():
    arrays = [cuda.full(100, i) for i in range(2000)]
    kernel = cuda.RawKernel(LOOP, "k")
    for a, b in zip(arrays[::2], arrays[1::2], strict=True):
        kernel((2,), (64,), (100, a, b))
    assert all((cuda.asnumpy(b) == 2 * i + 1).all() for i, b in enumerate(arrays[1::2]))


def test_launches_from_several_threads_at_once():
    kernels = [cuda.RawKernel(LOOP, "k"), cuda.RawKernel(FIBERS, "k")]
    wrong = []

    def work(number):
        x = cuda.full(300, number)
        for round_ in range(60):
            y = cuda.zeros(300)
            kernels[(number + round_) % 2]((5,), (64,), (300, x, y))
            if not (cuda.asnumpy(y) == number + 1).all():
                wrong.append((number, round_))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@simulator_only
def test_faults_in_one_thread_leave_the_others_alone():
    good = cuda.RawKernel(FIBERS, "k")
    bad = cuda.RawKernel('extern "C" __global__ void k(float* y) { y[threadIdx.x << 20] = 1; }', "k")
    failures, wrong = [], []

    def fail():
        y = cuda.zeros(4)
        for _ in range(40):
            with pytest.raises(cuda.KernelError):
                bad((2,), (8,), (y,))
            failures.append(1)

    def work():
        x, y = cuda.full(300, 4), cuda.zeros(300)
        for _ in range(40):
            good((5,), (64,), (300, x, y))
            if not (y == 5).all():
                wrong.append(1)

    workers = [threading.Thread(target=f) for f in (fail, work, fail, work)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(failures) == 80
    assert not wrong


@simulator_only
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_a_forked_child_launches_too():
    """Also while another thread of the parent is in the middle of a launch."""
    code = textwrap.dedent(f"""
        import multiprocessing, threading, numpy as np
        from common import cuda
        kernel = cuda.RawKernel({FIBERS!r}, "k")
        x, y = cuda.full(300, 1), cuda.zeros(300)
        def child(queue):
            for _ in range(20):
                kernel((5,), (64,), (300, x, y))
            bad = cuda.RawKernel('extern "C" __global__ void k(float* y) {{ y[(threadIdx.x + 1) << 20] = 1; }}', "k")
            try:
                bad((2,), (8,), (y,))
            except cuda.KernelError as error:
                queue.put(("out of bounds" in str(error), float(y.sum())))
        kernel((5,), (64,), (300, x, y))
        y[:] = 0
        stop = threading.Event()
        z = cuda.zeros(300)
        def busy():
            while not stop.is_set():
                kernel((5,), (64,), (300, x, z))
        thread = threading.Thread(target=busy)
        thread.start()
        fork = multiprocessing.get_context("fork")
        queue = fork.Queue()
        children = [fork.Process(target=child, args=(queue,)) for _ in range(4)]
        for c in children: c.start()
        print([queue.get(timeout=30) for _ in children])
        for c in children: c.join()
        stop.set(); thread.join()
        assert (y == 0).all(), "the child's writes are its own"
        kernel((5,), (64,), (300, x, y))
        assert (y == 2).all()
    """)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([(True, 600.0)] * 4)


@simulator_only
def test_a_process_ends_at_once_while_a_launch_goes_on():
    code = textwrap.dedent("""
        import os, threading, time, numpy as np
        from common import cuda
        kernel = cuda.RawKernel('extern "C" __global__ void k(volatile int* y) { while (y[0] == 0) {} }', "k")
        y = cuda.zeros(1, np.int32)
        threading.Thread(target=lambda: kernel((4,), (4,), (y,)), daemon=True).start()
        time.sleep(0.3)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


@simulator_only
def test_a_large_block_after_small_ones_and_back():
    kernel = cuda.RawKernel(FIBERS.replace("63", "1023").replace("64", "1024"), "k")
    x = cuda.full(3000, 1)
    for size in (1, 1024, 33, 1000, 2, 1024):
        y = cuda.zeros(3000)
        kernel((-(-3000 // size),), (size,), (3000, x, y))
        assert (y == 2).all()
