"""Cells of the notebook on Hopper that check what the learner wrote: they accept it, and refuse wrong answers."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from tiers import seldom

from common import cuda, kernels
from common.check.exercises import REPOSITORY
from common.cuda import nvrtc
from common.kernels.gemm import ladder
from common.kernels.ladder import header_options
from common.report import generated

NOTEBOOK = REPOSITORY / "04_kernels" / "8_hopper.ipynb"


def verdict(begins, written, **names):
    """What the cell with a line that begins like this says if its solution is `written`; None: as it is. "" accepts."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    texts = [generated.source(one) for one in cells if one["cell_type"] == "code"]
    (text,) = [text for text in texts if any(line.startswith(begins) for line in text.split("\n"))]
    if written is not None:
        lines = "\n".join("    " + line for line in written.split("\n"))
        text = re.sub(r"    # BEGIN SOLUTION\n.*# END SOLUTION", lambda _: lines, text, flags=re.DOTALL)
    try:
        exec(text, {"np": np, "cuda": cuda, **names})
    except AssertionError as error:
        return str(error)
    return ""


RATE = "rate = 64 * (rows + columns) * 2 / (rows * columns * 64 / per_clock / h200.clock_hz)\n"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (None, ""),
        # the clocks of the tile 256 × 128 for each tile
        (
            "rate = 64 * (rows + columns) * 2 / clocks * h200.clock_hz\nreturn rate, rate * latency_ns * 1e-9",
            "[128, 128]: 32,768 bytes in 512 clocks, got 16,384",
        ),
        (
            RATE + "return rate / 2, rate / 2 * latency_ns * 1e-9",
            "[256, 128]: 49,152 bytes in 1,024 clocks, got 24,576",
        ),
        (RATE + "return rate, rate * latency_ns", "a latency of one slice needs 49,152 bytes in flight"),
        (RATE + "return rate, 64 * (rows + columns)", "in flight, got 24,576"),
    ],
)
def test_bytes_in_flight(written, told):
    names = {"per_clock": 2048, "clocks": 1024.0, "h200": SimpleNamespace(clock_hz=1.98e9, sms=132)}
    said = verdict("def bytes_in_flight", written, **names)
    assert told in said and bool(told) == bool(said)


def launch(box, arguments="described, column, row, out"):
    return f"described = cuda.TensorMap(A, {box})\nreturn cuda.trace(box, (1,), (32,), ({arguments}))"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (None, ""),
        ("return SimpleNamespace(findings=())", "begins at row 8, column 64, with 808; got 0"),
        (launch("(8, 32)"), "with 808; got 0"),  # the findings say that 512 bytes are missing
        (launch("(64, 8)"), "row 9 begins with 909, swizzled"),
        (launch("(8, 64)", "described, row, column, out"), "with 808"),
        ("out[:5] = A[8:, 64:]\nreturn SimpleNamespace(findings=())", "row 9 begins with 909, swizzled; got 908"),
    ],
)
def test_copy_box(written, told):
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    (text,) = [text for one in cells if (text := generated.source(one)).startswith("BOX =")]
    names = {"cuda": cuda, "header_options": header_options}
    exec(text, names)
    said = verdict("def copy_box", written, box=names["box"], SimpleNamespace=SimpleNamespace)
    assert told in said and bool(told) == bool(said)


def told(rung, text):
    return nvrtc.compile_cuda(text, "sm_90a", ladder.options(rung, np.float16, ladder.tile(rung))).log


@seldom(6)
def test_only_rung_14_with_a_for_loop_waits_for_each_product():
    text = kernels.source("gemm", "producer")
    assert text.count("int slice = 0;\n        do {") == text.count("} while (++slice < slices);") == 1
    with_for = text.replace("int slice = 0;\n        do {", "for (int slice = 0; slice < slices; ++slice) {")
    assert "C7515" in told("producer", with_for.replace("} while (++slice < slices);", "}"))
    assert "C7515" not in told("producer", text)
    assert "C7515" not in told("bulk_copies", kernels.source("gemm", "bulk_copies"))


def test_registers_of_rung_14_as_the_notebook_computes_them():
    text = kernels.source("gemm", "producer")
    assert "65536 / ((CONSUMERS + 1) * 128) / 8 * 8, DOWN = 40;" in text
    assert "((CONSUMERS + 1) * START - DOWN) / CONSUMERS / 8 * 8;" in text
    assert (65536 // (3 * 128) // 8 * 8, (3 * 168 - 40) // 2 // 8 * 8) == (168, 232)
