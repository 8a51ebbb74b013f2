"""Milestone 6: the reference and right engines of other kinds pass; engines that do not fuse, or fuse wrongly, do not.

A wrong engine is told the first thing that is wrong. So is one whose fused kernel is there and is not launched, and one
that launches a kernel of the course.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import answers
import numpy as np
import onnx
import pytest
from tiers import seldom
from whole_engine import at_work, console, own, write

from common import topology
from common.check.exercises import REPOSITORY, find
from common.lab import block_judging, engine, engine_judging, judging, milestones, plan_checks, progress
from common.lab.cases import CASES, KernelCase
from common.lab.engine_files import FILES
from common.lab.judging import judge

KERNEL, RESIDUALS, NETWORK, DIGITS = CASES[6]


def changed(file: str, *edits: tuple[str, str]) -> str:
    """The same with (old, new) in it; an old text stands there once."""
    text = own(file)
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def write_engine(place: Path, **files: str) -> Path:
    """The reference engine as a learner's own; files: the texts of blocks.py and kernels/block.cu in their place."""
    names = {"blocks": "blocks.py", "block": "kernels/block.cu"}
    return write(place, judging.RUN[6], {names[name]: text for name, text in files.items()})


@pytest.fixture
def opened(tmp_path):
    """opened(blocks=text): the package `engine` with this file in place of the reference's."""

    def open_engine(**files: str) -> Path:
        place = write_engine(tmp_path / "engine", **files)
        engine.open_engine(lambda: place)
        return place

    yield open_engine
    engine.open_engine()


# The cases


@pytest.mark.parametrize("case", [RESIDUALS, NETWORK], ids=lambda case: case.name)
def test_a_case_is_valid_onnx(case):
    onnx.checker.check_model(case.model(), full_check=True)


def test_the_inverted_residuals_of_the_cases():
    def ends(case):
        return [block[-1].output for block in block_judging.expected_blocks(engine_judging._exact(case.model())[0])]

    assert ends(RESIDUALS) == ["add1", "second.project", "add3", "fourth.project", "doubled.project"]
    assert len(ends(NETWORK)) == len(ends(DIGITS)) == 16
    whole = block_judging.expected_blocks(topology.build())
    assert [len(block) for block in whole].count(6) == 10 and len(whole) == 16  # with their additions


def test_the_files_of_the_milestone():
    assert judging.RUN[6] == (*judging.RUN[5], "kernels/block.cu", "blocks.py")
    assert isinstance(KERNEL, KernelCase) and KERNEL.file in judging.RUN[6]


# Right engines


def test_the_reference_passes(opened):
    opened()
    for case in (KERNEL, RESIDUALS):
        outcome = judge(6, case)
        assert outcome.passed, outcome.flaw
        assert set(outcome.scores) <= set(milestones.COLUMNS[6]) and outcome.scores["findings"] == 0
    assert outcome.kernels["block"] == 5


@seldom(6)
def test_blocks_save_launches_bytes_and_memory(opened):
    opened()
    fused, apart = (judge(chapter, RESIDUALS).scores for chapter in (6, 5))
    assert apart["launches"] - fused["launches"] == 10 and fused["bytes moved"] < 0.6 * apart["bytes moved"]
    assert fused["peak memory"] < apart["peak memory"]


@seldom(6)
def test_mobilenetv2_is_22_launches_and_16_of_them_are_blocks(opened):
    opened()
    outcome = judge(6, NETWORK)
    assert outcome.passed and outcome.scores["launches"] == 22, outcome.flaw
    assert outcome.kernels == {"conv": 1, "depthwise": 1, "pointwise": 2, "block": 16, "pool": 1, "gemm": 1}


@seldom(6)
def test_an_engine_without_engine_py_passes_too(opened):
    """blocks.py needs not be built on engine.prepare: here a step is bound by a function of its own."""
    text = changed(
        "blocks.py",
        ("engine.ARGUMENTS[\"block\"] = of_block", "engine.ARGUMENTS[\"block\"] = lambda *args: of_block(*args)"),
        ("    return engine.run(own, x)  # which finds this program", """    program = own.programs[x.shape]
    program.input[...] = engine.cuda.asarray(x)
    for launch in program.launches:
        launch()
    return engine.cuda.asnumpy(program.output).copy()"""),
    )  # fmt: skip
    opened(blocks=text)
    outcome = judge(6, RESIDUALS)
    assert outcome.passed, outcome.flaw


@seldom(6)
def test_the_engine_of_chapter_05_stays_as_it_is(opened):
    opened()
    blocks, plain = (importlib.import_module(f"engine.{name}") for name in ("blocks", "engine"))
    model, x = RESIDUALS.model(), np.ones((2, 3, 22, 17), np.float32)
    apart = [plain.run(plain.bind(model), x)]
    got = blocks.run(blocks.bind(model), x)
    apart.append(plain.run(plain.bind(model), x))
    np.testing.assert_array_equal(*apart)
    np.testing.assert_allclose(got, apart[0], rtol=1e-4, atol=1e-5)
    assert len(plain.bind(model).programs[x.shape].launches) == 52
    assert blocks.plan.PASSES == importlib.import_module("engine.plan").PASSES == [blocks.plan.fuse_hard_swish]


# Wrong engines


NOT_YET = "right, and not yet what was asked: "
WRONG: dict[str, tuple[Any, ...]] = {
    "nothing_fused": (("plan.PASSES.append(fuse_blocks)", "plan.PASSES.append(plan.fuse_hard_swish)"),
                      ("plan.PASSES.remove(fuse_blocks)", "plan.PASSES.pop()"), NOT_YET + "step 1 (Conv2d + ReLU6"),
    "residuals_left_apart": ((' or residual)', ')'), NOT_YET + "step 1 (Conv2d + ReLU6"),
    "only_stride_1": (("in ((1, 1), (2, 2))", "== (1, 1)"), "are parts of one inverted residual, and 3 steps"),
    "readers_forgotten": (("return fits and alone and", "return fits and"), "does not store 'hidden.act1', which"),
    "any_activation": (("ops[:2] != [wide, wide]", "len(ops[0]) != 2 or len(ops[1]) != 2"), "writes 'relu.project'"),
    "any_window": (("square = window.macs == 9 * prod(window.shape)", "square = prod(window.shape) > 0"),
                   "'four.project'"),
    "any_padding": (('and window.attributes["padding"] == ((1, 1), (1, 1))', ""), "'unpadded.project'"),
    "any_residual": (("and project.inputs[1] == expand.inputs[0]", ""), "they cannot share a step"),
    "bounds_lost": (('plain = ops[2] == ["Conv2d"]', 'plain = ops[2][0] == "Conv2d" and "ResidualAdd" not in ops[2]'),
                    "'bounded.act'"),
    "residual_forgotten": (("len(step.inputs) - 1", "0"), "where residual is 1, in is added to the output"),
    "stride_forgotten": (('window.attributes["stride"][0]', "1"), "'second.project'"),
    "hidden_and_outputs_swapped": (("inside, window.shape[1], outputs", "inside, outputs, window.shape[1]"), "step 1"),
    "biases_forgotten": (("[array for pair in pairs for array in pair]",
                          "[a for w, b in pairs for a in (w, 0 * b)]"), "its biases are not added"),
    "place_of_the_first": (("made = [one for one in made if one is not first and one is not before]",
                            "made = [one for one in made if one is not before]"), "is in steps"),
    "no_passes_in_run": (("own.programs[x.shape] = prepare(own, x.shape)",
                          "own.programs[x.shape] = engine.prepare(own, x.shape)"), "run with x of shape"),
}  # fmt: skip


@seldom(6)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_engine_is_told_what_is_wrong(name, opened):
    *edits, said = WRONG[name]
    opened(blocks=changed("blocks.py", *edits))
    outcome = judge(6, RESIDUALS)
    assert not outcome.passed and said in outcome.flaw, outcome.flaw


@seldom(6)
def test_a_block_of_three_launches_is_no_block(opened):
    """The step is there, and its launch is that of the course's three kernels."""
    launches = """        program = engine.prepare(own, shape)
        for at, step in enumerate(program.plan.steps):
            if step.kernel == "block":
                program.launches[at] = engine.partial(three, *program.launches[at].args)
        return program
    finally:"""
    three = """def three(x, w1, b1, w2, b2, w3, b3, out, n, i, h, o, rows, cols, out_rows, out_cols, stride, residual):
    wide = engine.cuda.empty(n * h * rows * cols, engine.np.float32)
    narrow = engine.cuda.empty(n * h * out_rows * out_cols, engine.np.float32)
    low, high, free = engine.np.float32(0), engine.np.float32(6), engine.np.float32(engine.inf)
    kernels = engine.kernels
    kernels.pointwise(x, w1, b1, None, wide, low, high, n, i, h, rows * cols)
    kernels.depthwise(wide, w2, b2, narrow, low, high, n, h, rows, cols, out_rows, out_cols, 3, stride, 1)
    kernels.pointwise(narrow, w3, b3, x if residual else None, out, -free, free, n, h, o, out_rows * out_cols)


def prepare("""
    edits = (("        return engine.prepare(own, shape)\n    finally:", launches), ("def prepare(", three))
    opened(blocks=changed("blocks.py", *edits))
    flaw = judge(6, RESIDUALS).flaw
    assert "launches pointwise, depthwise, pointwise; expected your kernel block, once" in flaw, flaw


@seldom(6)
def test_a_run_that_does_not_launch_the_block_is_noticed(opened):
    """`prepare` has blocks, and `run` quietly runs the engine of chapter 05."""
    edits = (
        ("        own.programs[x.shape] = prepare(own, x.shape)\n    return engine.run(own, x)  # which finds",
         "        prepare(own, x.shape)\n    plain = engine.bind(own.model)\n    return engine.run(plain, x)  # finds"),
    )  # fmt: skip
    opened(blocks=changed("blocks.py", *edits))
    assert "run launches your kernel block 0 times, expected 5" in judge(6, RESIDUALS).flaw


KERNELS = {
    "border": ("float v = 0.0f;  // outside of the image", "float v = relu6(expand_bias[first + c]);", "padding is 0"),
    "no_relu6": ("dw[c][p] = relu6(v);", "dw[c][p] = v;", "ReLU6 follows the depthwise convolution"),
    "no_bias": ("sums[i] = project_bias[i / PIXELS]", "sums[i] = 0.0f", "image"),
    "race": (
        "        __syncthreads();\n        for (int i = t; i < slice",
        "        for (int i = t; i < slice",
        "race",
    ),
}


@seldom(6)
@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_kernel_is_named(name, opened):
    old, new, said = KERNELS[name]
    text = changed("kernels/block.cu", (old, new))
    opened(block=text)
    alone, network = judge(6, KERNEL), judge(6, RESIDUALS)
    assert not alone.passed and alone.flaw.startswith("images = 1, in_channels = 16"), alone.flaw
    assert not network.passed and "step 1 (Conv2d + ReLU6 + Conv2d + ReLU6 + Conv2d + ResidualAdd" in network.flaw
    assert said in alone.flaw + network.flaw, network.flaw


BLOCK = find("engine_block", REPOSITORY)


@seldom(6)
@pytest.mark.parametrize("answer", [*answers.right(BLOCK), *answers.wrong(BLOCK)], ids=lambda answer: answer.name)
def test_the_milestone_and_the_exercise_agree_on_a_kernel(answer):
    """What the exercise refuses fails on the held-out shapes, too; a slow right kernel passes there."""
    outcome = judge(6, KERNEL, {KERNEL.file: answer.text})
    assert outcome.passed == (not answer.expect or "right, and not yet" in answer.expect), outcome.flaw


@seldom(4)
def test_what_is_not_written_is_named(opened):
    place = opened(blocks=changed("blocks.py", ("def bind(", "def bound(")))
    assert "the part run of blocks.py is not written yet: 06_optimize/5" in judge(6, RESIDUALS).flaw
    (place / "kernels" / "block.cu").unlink()
    engine.open_engine(lambda: place)
    (place / "blocks.py").write_text(own("blocks.py"))
    assert (
        "your engine has no kernels/block.cu yet: 06_optimize/5b_your_fused_block.ipynb writes it"
        in judge(6, RESIDUALS).flaw
    )


# Every kernel the learner's own


def test_kernels_of_the_course_are_named(opened):
    place = opened()
    launched = ["conv", "block", "pool"]
    assert judging.not_own(launched) == []
    for name in ("pool", "block"):
        (place / "kernels" / f"{name}.cu").write_text(engine.reference_text(f"kernels/{name}.cu"))
    (flaw,) = judging.not_own(launched)
    assert flaw.startswith(NOT_YET + "block and pool are the course's")
    assert (
        "06_optimize/5b_your_fused_block.ipynb writes kernels/block.cu" in flaw and 'use_own("kernels/block")' in flaw
    )
    (place / "kernels" / "add.cu").write_text(engine.reference_text("kernels/add.cu"))  # which nothing launches
    assert judging.not_own(["conv", "gemm"]) == []


@pytest.mark.parametrize("taken", ["", "pool"])
def test_the_case_of_the_digits_asks_for_it(taken, opened, monkeypatch):
    place = opened()
    if taken:
        (place / "kernels" / f"{taken}.cu").write_text(engine.reference_text(f"kernels/{taken}.cu"))

    def judged(model, modules, digits, launched):
        launched.update({"block": 16, "pool": 1})
        return {"digits": float(digits)}, []

    monkeypatch.setattr(engine_judging, "judge_engine", judged)
    outcome = judge(6, DIGITS)
    assert outcome.passed is not bool(taken) and outcome.kernels == {"block": 16, "pool": 1}
    assert outcome.scores == {"digits": DIGITS.digits} and ("pool is the course's" in outcome.flaw) is bool(taken)
    assert judge(6, NETWORK).passed  # the other networks run with it


def test_whose_kernels_were_launched_is_said():
    outcome = judging.Outcome("a", True, kernels={"conv": 1, "block": 16})
    assert milestones.launched([outcome], []) == "One inference launches block 16, conv 1; all of them are yours."
    said = milestones.launched([outcome], ["graph.py", "kernels/conv.cu", "kernels/add.cu"])
    assert said == "One inference launches block 16, conv 1; the course's: conv; the others are yours."
    said = milestones.launched([outcome], ["kernels/conv.cu", "kernels/block.cu"])
    assert said == "One inference launches block 16, conv 1; the course's: conv, block."
    assert milestones.launched([judging.Outcome("a", False)], []) == ""


# The command, in a child process


@pytest.fixture
def work(tmp_path, monkeypatch) -> Iterator[Path]:
    with at_work(tmp_path, "06_optimize", judging.RUN[6], monkeypatch) as folder:
        yield folder


@pytest.mark.long
def test_the_command_runs_all_networks_and_records_them(work):
    say = console()
    result = milestones.run(6, say)
    text = say.export_text()
    assert result.passed and result.reference_files == (), text
    assert f"✓ milestone 6: all {len(CASES[6])} cases" in text and "376 / 376" in text
    assert "One inference launches block 16" in text and "all of them are yours." in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 95
    assert progress.load()["milestones"]["6"]["passed"] is True


@pytest.mark.long
def test_the_command_says_what_is_wrong(work, monkeypatch):
    """Here in a child process: an engine whose kernel is there, and whose plan does not use it."""
    monkeypatch.setattr(milestones, "reference", lambda chapter, *_: {case.name: {} for case in CASES[chapter]})
    *edits, _ = WRONG["nothing_fused"]
    (work / "engine" / "blocks.py").write_text(changed("blocks.py", *edits))
    say = console()
    assert not milestones.run(6, say)
    text = " ".join(say.export_text().split())
    assert (
        "✓ block " in text
        and "✗ inverted residuals" in text
        and "✗ milestone 6: inverted residuals: right, and" in text
    )


@pytest.mark.parametrize("file", ["kernels/block.cu", "blocks.py", "kernels/pool.cu"])
def test_a_missing_file_names_its_notebook(work, file):
    (work / "engine" / file).unlink()
    result = milestones.run(6, console())
    assert not result and f"your engine has no {file} yet: {FILES[file].notebook} writes it" in result.flaw


def test_after_the_last_milestone_there_is_none(work):
    entry = {"passed": True, "scores": {}, "reference_files": []}
    progress.update(lambda data: data["milestones"].update({str(c): entry for c in milestones.CHAPTERS}), work)
    say = console()
    assert milestones.run(console=say) and "✓ all milestones are passed" in say.export_text()


# The notebook's check


@seldom(6)
def test_the_notebooks_check_says_what_blocks_save_or_what_is_wrong(opened, capsys):
    opened()
    plan_checks.try_blocks()
    assert capsys.readouterr().out == "✓ blocks: right, 42 launches in place of 52, 163 kB in place of 313\n"
    opened(blocks=changed("blocks.py", *WRONG["readers_forgotten"][:-1]))
    plan_checks.try_blocks()
    assert capsys.readouterr().out.startswith("✗ blocks: ")
