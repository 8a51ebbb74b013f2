"""Milestone 4: right kernels of several kinds pass, and each wrong answer to an exercise is told here, too."""

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import answers
import numpy as np
import pytest
from rich.console import Console
from tiers import seldom

from common import check, cuda
from common.check.exercises import find
from common.lab import engine, markup, milestones, progress
from common.lab.cases import CASES
from common.lab.engine_files import FILES
from common.lab.judging import judge
from common.lab.operators import OPERATORS, worded

ROOT = Path(__file__).parents[2]
NAMES = [case.name for case in CASES[4]]
EXERCISES = {name: find(f"engine_{name}") for name in NAMES}
ANSWERS = [
    (name, answer) for name in NAMES for answer in (*answers.right(EXERCISES[name]), *answers.wrong(EXERCISES[name]))
]


def name_of(value: object) -> str:
    return value if isinstance(value, str) else value.name


def judged(name: str, text: str):
    case = next(case for case in CASES[4] if case.name == name)
    return judge(4, case, {case.file: text})


def reference(name: str) -> str:
    return markup.plain(EXERCISES[name].source, cuda=True)


def test_every_kernel_of_the_engine_has_a_case_and_an_exercise():
    files = [file for file in FILES if FILES[file].chapter == 4]
    assert set(files) - {case.file for case in CASES[4]} == {"kernels/im2col.cu"}  # an engine may do without: conv
    for name in NAMES:
        assert len(answers.wrong(EXERCISES[name])) >= 6


HELPER = "__device__ float clamp(float v, float a, float b) { return v < a ? a : v > b ? b : v; }\n"
TAP = "__device__ int tap(int kernel, int i, int j) { return i * kernel + j; }\n"


@pytest.mark.parametrize(
    ("helper", "old", "new"),
    [
        ("", "", ""),
        (HELPER, "sum < low ? low : sum > high ? high : sum", "clamp(sum, low, high)"),
        (TAP, "weight[i * kernel + j]", "weight[tap(kernel, i, j)]"),
    ],
)
def test_notebook_11_counts_any_right_kernel_with_the_size_3(monkeypatch, helper, old, new):
    notebook = json.loads((ROOT / "04_kernels" / "11_depthwise.ipynb").read_text(encoding="utf-8"))
    setup = "".join(next(cell for cell in notebook["cells"] if cell["id"] == "depthwise-01")["source"])
    tree = ast.parse("\n".join(line for line in setup.splitlines() if not line.startswith("%")))
    [function] = [one for one in tree.body if getattr(one, "name", "") == "own_with_size_3"]
    text = helper + reference("depthwise").replace(old, new)
    own = SimpleNamespace(depthwise=SimpleNamespace(kernel=cuda.RawKernel(text, "depthwise")))
    monkeypatch.setitem(sys.modules, "engine", SimpleNamespace(kernels=own))
    names = {"cuda": cuda}
    exec(compile(ast.Module([function], []), "setup", "exec"), names)
    found = names["own_with_size_3"]()
    assert not found.loops and found.instructions["FFMA"] == 9


def test_held_out_shapes_are_not_those_that_exercises_try():
    for name in NAMES:
        operator = OPERATORS[name]
        both = [dims for dims in operator.held_out if dims in operator.tried]
        assert all(max(dims.values()) <= 3 for dims in both), f"{name}: {[worded(dims) for dims in both]}"
        assert any(value % 2 and value > 4 for dims in operator.held_out for value in dims.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_meaning_is_pytorchs(name, rng):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    operator = OPERATORS[name]
    for dims in operator.tried:
        inputs = operator.inputs(dims, rng)
        t = {key: torch.from_numpy(array.astype(np.float64)) for key, array in inputs.items()}
        x = t.get("in")
        how = {key: dims[key] for key in ("stride", "padding") if key in dims}
        match name:
            case "add":
                want = t["a"] + t["b"]
            case "pool":
                want = x.mean(1)
            case "gemm":
                want = functional.linear(t["a"], t["b"], t["bias"])
            case "conv":
                want = functional.conv2d(x, t["weight"], t["bias"], **how).clamp(0, 6)
            case "pointwise":
                want = functional.conv1d(x, t["weight"][:, :, None], t["bias"])
                want = (want + t["residual"] if "residual" in t else want).clamp(0, 6)
            case _:
                groups = dims["channels"]
                want = functional.conv2d(x, t["weight"][:, None], t["bias"], groups=groups, **how).clamp(0, 6)
        np.testing.assert_allclose(operator.expected(inputs, dims, (0.0, 6.0)), want.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "answer"), ANSWERS, ids=name_of)
def test_a_kernel_passes_if_its_results_are_right(name, answer, monkeypatch):
    """Also where its exercise asks for another technique: milestones count what that costs."""
    monkeypatch.setattr(check.runner, "isolated", False)
    right = check.run(f"engine_{name}", answer.text).right
    outcome = judged(name, answer.text)
    assert outcome.passed == right, outcome.flaw
    assert right or any(outcome.flaw.startswith(worded(dims)) for dims in OPERATORS[name].held_out), outcome.flaw


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("add", ("int t", "it t"), "does not compile line"),
        ("add", ("void add", "void sum"), "add"),
        ("conv", (", int padding", ""), ""),
        ("pool", ("in += (size_t)channel", "((float*)in)[0] = 0; in += (size_t)channel"), "race"),
        ("depthwise", ("out[at] =", "if (at != 4) out[at] ="), "is NaN (1 of"),
        ("depthwise", ("sum < low ? low : sum > high ? high : sum", "sum < low ? low : sum"), "the error is"),
        ("depthwise", ("sum < low ? low : sum > high ? high : sum", "fmaxf(fminf(sum, high), low)"), "expected NaN"),
    ],
)
def test_what_is_wrong_is_said(name, edit, said):
    text = reference(name)
    changed = text.replace(*edit)
    if changed == text:
        pytest.skip("the reference is written in another way")
    outcome = judged(name, changed)
    assert not outcome.passed and said in outcome.flaw


def test_rounding_to_half_precision_is_told():
    text = reference("pool").replace(
        "out[channel] = sum / area", "out[channel] = __half2float(__float2half(sum / area))"
    )
    outcome = judged("pool", "#include <cuda_fp16.h>\n" + text)
    assert "the error is" in outcome.flaw


@pytest.fixture
def work(tmp_path, monkeypatch):
    (tmp_path / progress.MARKER).touch()
    (tmp_path / "04_kernels").mkdir()
    monkeypatch.chdir(tmp_path / "04_kernels")
    engine.open_engine()
    yield tmp_path
    engine.open_engine()


@seldom(6)
def test_the_command_runs_all_six_and_records_them(work):
    say = Console(width=95, highlight=False, force_terminal=False, record=True)
    result = milestones.run(4, say)
    assert not result and "04_kernels/2_add.ipynb writes it" in result.flaw
    for name in NAMES:
        engine.save(f"kernels/{name}.cu", "", EXERCISES[name].source)
    (work / "engine" / "kernels" / "pool.cu").unlink()
    engine.use_reference("kernels/pool")
    result = milestones.run(4, say)
    assert result.passed and result.reference_files == ("kernels/pool.cu",)
    text = say.export_text()
    assert "✓ milestone 4: all 6 cases" in text and ("µs" in text) == (cuda.backend() == "gpu")
    assert max(map(len, text.splitlines())) <= 95
    assert progress.load()["milestones"]["4"]["passed"] is True
    assert milestones.following(work) == 1
