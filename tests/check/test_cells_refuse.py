"""Cells that check what the learner wrote without check.run: they accept it, and name the mistake in a wrong answer."""

import json
import math
import time
from unittest import mock

import numpy as np
import pytest
import torch

from common import check, cuda, kernels, topology, weights
from common.bench.operators import pictures
from common.bench.peers import Model
from common.check.exercises import REPOSITORY
from common.cuda.machine_code import occupancy
from common.cudnn import emulation
from common.draw import card
from common.lab import markup
from common.lab.cases import drawn
from common.lab.reference.engine import graph
from common.lab.reference.engine import weights as own_weights
from common.network import Network
from common.report import generated, sections
from common.report import multiprocessor as recorded

CHAPTER = REPOSITORY / "03_cudnn_baseline"
KERNELS = REPOSITORY / "04_kernels"
MULTIPROCESSOR, PROFILER = "3_inside_a_multiprocessor.ipynb", "6_profiler_ptx_sass.ipynb"


def cell(notebook, begins, chapter=CHAPTER):
    """The source of the notebook's only code cell with a line that begins like this."""
    cells = json.loads((chapter / notebook).read_text(encoding="utf-8"))["cells"]
    texts = [generated.source(one) for one in cells if one["cell_type"] == "code"]
    (text,) = [text for text in texts if any(line.startswith(begins) for line in text.split("\n"))]
    return text


def verdict(written, solution, checking, **names):
    """What the cell `checking` says of the function that the text `written` defines; "" if it accepts it.

    `written` None stands for the solution's own.
    """
    space = {"np": np, "time": time, "math": math, "check": mock.Mock(spec=check), **names}
    exec(markup.plain(solution) if written is None else written, space)
    try:
        exec(checking, space)
    except AssertionError as error:
        return str(error)
    return ""


class Clock:
    """What `time` shows on a machine that does nothing else: sleeping takes its time, reading the clock 1 µs."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds

    def perf_counter(self):
        self.now += 1e-6
        return self.now


CLOCK = "def per_call_us(call, calls):\n    start = time.perf_counter()\n"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (None, ""),
        (
            CLOCK + "    for _ in range(calls): call()\n    return (time.perf_counter() - start) * 1e6",
            "divide by `calls`",
        ),
        (CLOCK + "    for _ in range(calls): call()\n    return (time.perf_counter() - start) / calls", "µs per call"),
        (CLOCK + "    for _ in range(calls): call()\n    return (time.perf_counter() - start) / calls * 1e9", "µs per"),
        (CLOCK + "    call()\n    return (time.perf_counter() - start) / calls * 1e6", "µs per call"),
    ],
)
def test_the_clock(written, told):
    notebook = "2_time_it_fairly.ipynb"
    said = verdict(written, cell(notebook, "def per_call_us"), cell(notebook, "few, many ="), torch=torch, time=Clock())
    assert told in said and bool(told) == bool(said)


@pytest.fixture(scope="module")
def run():
    """(program, its picture, its logits), as in notebook 3."""
    program = Network(Model.of("seeded").onnx, "kernels").program((1, 3, 64, 64))
    picture = cuda.asarray(pictures(1, (3, 64, 64)))
    program.input[...] = picture
    program.launch()
    return program, picture, cuda.asnumpy(program.output).copy()


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("def poison(program): pass", "earlier run"),
        ("def poison(program): program.output.fill(np.nan)", "earlier run"),
        ("def poison(program):\n    for one in program.buffers.values(): one.fill(0)", "earlier run"),
        ("def poison(program):\n    for one in program.buffers.values(): one.fill(np.nan)", "input must stay"),
        (None, ""),  # the last one: nothing that the others left behind counts
    ],
)
def test_poison(run, written, told):
    program, picture, logits = run
    notebook = "3_the_network_beside_others.ipynb"

    def launched_without(index):
        for i in range(len(program.steps)):
            if i != index:
                program.launch_step(i)
        return cuda.asnumpy(program.output).copy()

    names = {
        "program": program,
        "picture": picture,
        "logits": logits,
        "cuda": cuda,
        "launched_without": launched_without,
    }
    said = verdict(written, cell(notebook, "def poison"), cell(notebook, "incomplete = np.isnan("), **names)
    assert told in said and bool(told) == bool(said)


APPENDIX = "appendix_engines_and_plans.ipynb"
SEARCH = (
    "def winners_time(random, plans, runs, us=5.0, noise=0.03, searches=1000):\n"
    "    times = random.normal(us, {deviation}, (searches, plans, runs))\n    return {result}"
)


@pytest.mark.parametrize(
    ("deviation", "result", "right"),
    [
        ("noise * us", "np.median(times, axis=2).min(axis=1).mean()", True),
        ("noise", "np.median(times, axis=2).min(axis=1).mean()", False),
        ("noise * us", "times.mean(axis=2).min(axis=1).mean()", False),
        ("noise * us", "times.min(axis=2).min(axis=1).mean()", False),
        ("noise * us", "np.median(times, axis=2).mean()", False),
        ("noise * us", "np.median(times, axis=1).min(axis=1).mean()", False),
        ("noise * us", "np.median(times, axis=2).min()", False),
    ],
)
def test_the_winners_time(deviation, result, right):
    text = SEARCH.format(deviation=deviation, result=result)
    said = verdict(text, "", cell(APPENDIX, "for plans, runs, want in"))
    assert ("expected about" in said) != right


def test_the_winners_time_of_another_generator():
    space = {"np": np}
    exec(markup.plain(cell(APPENDIX, "def winners_time")), space)
    checking = cell(APPENDIX, "for plans, runs, want in")
    for seed in range(2, 12):  # the check's bounds are not those of one seed
        assert (
            verdict(
                None, cell(APPENDIX, "def winners_time"), checking.replace("default_rng(1)", f"default_rng({seed})")
            )
            == ""
        )


PART = (
    "def times_part(wide, b, out):\n"
    "    emulation.gemm(b, wide[{start}:], out, m=N, n=M, k=K, lda=N, ldb={ldb}, ldc=N)\n"
)


@pytest.mark.parametrize(
    ("start", "ldb", "told"),
    [
        (2, 10, ""),
        (0, 10, "at which element does the part begin"),
        (1, 10, "at which element does the part begin"),
        (2, 5, "how far is it to a next row"),
        (2, 7, "how far is it to a next row"),
    ],
)
def test_the_product_of_a_part(start, ldb, told):
    names = {"M": 3, "N": 4, "K": 5, "emulation": emulation, "random": np.random.default_rng(1)}
    said = verdict(PART.format(start=start, ldb=ldb), "", cell(APPENDIX, "times_part(wide.ravel()"), **names)
    assert told in said and bool(told) == bool(said)


SUM = (
    "def sum_in_fp16(left, right, together):\n"
    "    products = left.astype(np.float32) * right.astype(np.float32)\n"
    "    total = np.zeros(left.shape[1:], np.float16)\n"
    "    for first in range(0, len(products), {}):\n        total = {}\n    return total"
)
STEP = "products[first : first + together].sum(0)"


@pytest.mark.parametrize(
    ("by", "step", "told"),
    [
        ("together", f"(total + {STEP}).astype(np.float16)", ""),
        ("together", f"np.float16(total.astype(np.float64) + {STEP})", ""),
        ("together", f"total + {STEP}", "round the total"),
        ("together", f"total + {STEP}.astype(np.float16)", "only after the addition"),
        ("1", "(total + products[first]).astype(np.float16)", "then round once"),
        ("2", "(total + products[first : first + 2].sum(0)).astype(np.float16)", "every addition rounds"),
    ],
)
def test_the_sum_in_fp16(by, step, told):
    code = cell(APPENDIX, "near_1 =")
    said = verdict(SUM.format(by, step), "", code, errors=lambda terms: (1.0, 2.0, 3.0))
    assert told in said and bool(told) == bool(said)


def of(notebook, begins):
    return cell(notebook, begins, KERNELS)


LIMITER = """def limiter(r):
    shares = {{"issue slots": r["issue"], "L1 and shared memory": r["l1"], "L2 or DRAM": {memory}}}
    largest = max({among}, key=shares.get)
    return largest if shares[largest] {enough} else "latency"
"""


@pytest.mark.parametrize(
    ("memory", "among", "enough", "told"),
    [
        ("max(r['l2'], r['dram'])", "shares", ">= 0.6", ""),
        ("r['l2']", "shares", ">= 0.6", "the DRAM has the largest share"),
        ("r['dram']", "shares", ">= 0.6", "L2 has the largest share"),
        ("max(r['l2'], r['dram'])", "shares", ">= 0.5", "no unit reaches 60 %"),
        ("max(r['l2'], r['dram'])", "shares", "> 0.6", "60 % count"),
        ("max(r['l2'], r['dram'])", "list(shares)[1:]", ">= 0.6", "the issue slots are the busiest"),
    ],
)
def test_the_first_suspect(memory, among, enough, told):
    written = LIMITER.format(memory=memory, among=among, enough=enough)
    said = verdict(written, "", of(PROFILER, "assert limiter(case) =="), sections=sections, card=card)
    assert told in said and bool(told) == bool(said)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("in_flight * SMS / (tb_per_s * 1e3)", ""),
        ("in_flight / (tb_per_s * 1e3)", "on all SMs"),
        ("in_flight * SMS / tb_per_s", "1 TB/s is 1,000 bytes per ns"),
    ],
)
def test_the_latency_of_a_busy_card(result, told):
    def read(threads, loads, width):
        keys = {"threads": threads, "loads": loads, "width": width}
        return recorded.value("loads", "bytes", **keys) / recorded.value("loads", "median_us", **keys) / 1e6

    written = f"def busy_latency_ns(in_flight, tb_per_s): return {result}"
    said = verdict(written, "", of(MULTIPROCESSOR, "assert math.isclose(busy_latency_ns"), SMS=132, read=read)
    assert told in said and bool(told) == bool(said)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("rows * columns / (rows + columns)", ""),
        ("1 / (1 / rows + 1 / columns)", ""),
        ("2 * rows * columns / (rows + columns)", "in how many products a number takes part"),
        ("(rows + columns) / 2", "1 × 1: ½"),
        ("(rows + columns) / (rows * columns)", "1 × 1: ½"),
        ("rows * columns", "1 × 1: ½"),
    ],
)
def test_products_per_loaded_number(result, told):
    written = f"def per_number(rows, columns): return {result}"
    checking = of("5_gemm.ipynb", "got = per_number(").partition("# END SOLUTION")[2]  # one cell: write, then check
    said = verdict(written, "", checking, RUNGS=[], ladder=None)
    assert told in said and bool(told) == bool(said)


def test_a_wrong_answer_gives_no_later_number():
    """The cells that use the answers to two exercises stop at a wrong one, even if its check was not run."""
    names = {"occupancy": occupancy, "draw": mock.Mock()}
    using = of(MULTIPROCESSOR, "assert blocks_per_sm(")
    assert "see its check" in verdict("def blocks_per_sm(*_): return 99", "", using, **names)
    assert verdict("def blocks_per_sm(*_): return 6", "", using, **names) == ""
    using = of(PROFILER, "assert spilling_lines(case)")
    names = dict.fromkeys(("kernels", "cuda", "bench"), mock.Mock())
    assert "see its check" in verdict("def spilling_lines(lines): return [(1, 5184)]", "", using, **names)


# Chapter 05

COLUMNS = (
    "def columns_bytes(layer, arrays):\n    weight, shape = arrays[layer.output]['weight'].shape, layer.shape\n"
    "    return {result}"
)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (None, ""),
        ("4 * shape[0] * prod(weight[1:]) * prod(shape[2:])", ""),
        ("4 * prod(weight[1:]) * prod(shape[2:])", "x (2, 16, 18, 14), stride 2: expected 72,576 bytes, got 36,288"),
        ("4 * shape[0] * prod(weight[1:]) * shape[2] ** 2", "x (2, 16, 18, 14), stride 2: expected 72,576"),
        ("9 * 4 * prod(shape)", "x (2, 16, 18, 14), stride 2: expected 72,576 bytes, got 145,152"),
        ("4 * prod(weight) * prod(shape[2:])", "x (2, 16, 18, 14), stride 2: expected 72,576"),
        ("shape[0] * prod(weight[1:]) * prod(shape[2:])", "expected 72,576 bytes, got 18,144"),
        ("589_824", "expected 72,576 bytes, got 589,824"),
    ],
)
def test_the_bytes_of_columns(result, told):
    def read(model):
        net = graph.read(model)
        return own_weights.fold(net, own_weights.extract(model, net))

    shown = mock.Mock(spec=check)
    names = {"read": read, "weights": weights, "topology": topology, "drawn": drawn, "kernels": kernels, "cuda": cuda}
    written = result and COLUMNS.format(result=result)
    notebook, chapter = "2_memory.ipynb", REPOSITORY / "05_network"
    cells = cell(notebook, "def columns_bytes", chapter), cell(notebook, "halved = ", chapter)
    said = verdict(written, *cells, **names, prod=math.prod, check=shown)
    assert told in said and bool(told) == bool(said)
    assert shown.reveal.called != bool(told), "a wrong answer is not revealed as the right one"
