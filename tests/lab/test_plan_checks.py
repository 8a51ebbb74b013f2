"""What notebooks show about a learner's planner and engine: right ones, wrong ones, and ones that are not written."""

import re

import answers
import pytest
from tiers import seldom

from common.lab import engine, engine_judging
from common.lab.plan_checks import try_engine, try_fusion, try_plan

FUNCTION = re.compile("^(inputs|kernel_of|joins|fuse)")  # that an answer's message begins with


@pytest.fixture
def opened(tmp_path):
    def open_engine(**files: str) -> None:
        place = tmp_path / "engine"
        for file in engine.FILES:
            if engine.reference_parts(file):
                (place / file).parent.mkdir(parents=True, exist_ok=True)
                (place / file).write_text(files.get(file[: -len(".py")]) or engine.reference_text(file))
        (place / "__init__.py").write_text("")
        engine.open_engine(lambda: place)

    yield open_engine
    engine.open_engine()


def wrong(file: str, name: str) -> str:
    found, _ = answers.read(answers.FOLDER / "engine" / f"{file}.toml", engine.reference_text(f"{file}.py"))
    return next(one.text for one in found if one.name == name)


def test_the_reference_is_right(opened, capsys):
    opened()
    for function in ("inputs", "dead_code", "kernel_of", "joins", "fuse", "live_ranges", "arena"):
        try_plan(function)
    try_engine()
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == [
        "✓ inputs", "✓ dead_code", "✓ kernel_of", "✓ joins", "✓ fuse", "✓ live_ranges", "✓ arena", "✓ engine",
    ]  # fmt: skip
    assert said[:4] == [
        "✓ inputs: right on 6 steps",
        "✓ dead_code: right on a network with many shortcuts and a small ResNet",
        "✓ kernel_of: right on 21 convolutions",
        "✓ joins: right on 19 pairs of a step and a layer",
    ]


WRONG, RIGHT = answers.read(answers.FOLDER / "engine" / "plan_functions.toml", engine.reference_text("plan.py"))


@pytest.mark.parametrize("answer", WRONG, ids=lambda one: one.name)
def test_a_wrong_function_is_told_what_is_wrong(answer, opened, capsys):
    opened(plan=answer.text)
    function = FUNCTION.search(answer.expect)
    try_plan(function[0] if function else "kernel_of")
    said = capsys.readouterr().out
    print(said)
    assert said.startswith("✗ ") and answer.expect in said


@pytest.mark.parametrize("function", ["inputs", "kernel_of", "joins"])
@pytest.mark.parametrize("answer", RIGHT, ids=lambda one: one.name)
def test_another_right_function_is_accepted(answer, function, opened, capsys):
    opened(plan=answer.text)
    try_plan(function)
    assert capsys.readouterr().out.startswith(f"✓ {function}: ")


def test_fuse_is_judged_after_the_functions_that_it_calls(opened, capsys):
    opened(plan=next(one.text for one in WRONG if one.name == "two_additions"))
    try_plan("fuse")
    try_plan("live_ranges")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("✗ plan.py: joins returns True") and second.startswith("✓ live_ranges: ")


@pytest.mark.parametrize(
    ("name", "function", "before"),
    [
        ("other_readers_not_asked", "fuse", "dead_code"),
        ("live_range_too_short", "live_ranges", "fuse"),
        ("ends_do_not_meet", "arena", "live_ranges"),
    ],
)
def test_a_function_is_judged_with_those_before_it(name, function, before, opened, capsys):
    opened(plan=wrong("plan", name))
    try_plan(before)
    try_plan(function)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"✓ {before}: ") and second.startswith(f"✗ a network with many shortcuts: {function}: ")


LOWEST = "right, and not yet what was asked: the arena has"
PUT = "offset = max(offset, -(-end // alignment) * alignment)"
MEETS = "[o for o in offsets if ranges[o][1] <= last and first <= ranges[o][2]]"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (PUT, "offset = -(-end // alignment) * alignment", "arena, on live ranges drawn at random: 't6'"),
        (MEETS, "list(offsets)", f"MobileNetV2: {LOWEST} 27,324,064 bytes. Largest first"),
        ("if offset + bytes <= offsets[other]:", "if False:", "could lie at offset 0"),
        ("if offset + bytes <= offsets[other]:", "if offset + bytes < offsets[other]:", f"at random: {LOWEST}"),
        (PUT, "offset = max(offset, (end // alignment + 1) * alignment)", f"MobileNetV2: {LOWEST} 6,623,744"),
        ("key=lambda name: -ranges[name][0]", "key=lambda name: ranges[name][1]", f"MobileNetV2: {LOWEST} 7,426,048"),
    ],
    ids=["no highest end", "memory of its own", "no gap", "no exact gap", "one further", "in order of time"],
)
def test_an_arena_above_that_of_largest_first_is_told_so(old, new, said, opened, capsys):
    text = engine.reference_text("plan.py")
    assert text.count(old) == 1
    opened(plan=text.replace(old, new))
    try_plan("arena")
    out = capsys.readouterr().out
    print(out)
    assert out.startswith("✗ ") and said in out and len(out.splitlines()) == 1


def test_an_arena_may_break_ties_in_another_way_and_may_be_smaller(opened, capsys):
    largest = "key=lambda name: -ranges[name][0]"
    text = engine.reference_text("plan.py")
    assert text.count(largest) == 1
    opened(plan=text.replace(largest, "key=lambda name: (-ranges[name][0], -ranges[name][1])"))
    try_plan("arena")
    expected = "a network with many shortcuts, a small ResNet, MobileNetV2 and 40 networks drawn at random"
    assert capsys.readouterr().out == f"✓ arena: right on {expected}\n"
    ranges = {"a": (512, 1, 2), "b": (768, 1, 2), "c": (1024, 3, 3), "d": (768, 1, 3)}
    best = {"b": 0, "a": 768, "c": 0, "d": 1280}
    assert engine_judging.arena_flaw(ranges, lambda _: (best, 2048), 2304) == ""


def test_what_is_not_written_is_said(opened, capsys):
    opened(plan="x = 1\n", engine="import nothing_of_this_name\n")
    try_plan("dead_code")
    try_engine()
    first, second = capsys.readouterr().out.splitlines()
    assert "the part dead_code of plan.py is not written yet: 05_network/1" in first
    assert second.startswith("✗ engine.py: ") and "ModuleNotFoundError" in second
    with pytest.raises(
        ValueError,
        match="function: must be one of inputs, kernel_of, joins, dead_code, fuse, live_ranges, arena, got 'plan'",
    ):
        try_plan("plan")


@seldom(6)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("residual_forgotten", "is not added"),
        ("a_new_program_each_time", "it prepares a program, expected that of the call before"),
        ("model_of_the_caller_changed", "engine.resized changes the model that it gets"),
        ("any_number_of_channels", "engine.resized raises no error, expected a ValueError for 4 channels"),
    ],
)
def test_an_engine_is_tried(name, said, opened, capsys):
    opened(engine=wrong("engine", name))
    try_engine()
    out = capsys.readouterr().out
    assert out.startswith("✗ ") and said in out


@pytest.mark.parametrize(
    ("function", "name", "said"),
    [
        ("parameters", "epsilon_forgotten", "the weight of a BatchNorm2d is not gamma / sqrt(var + eps)"),
        ("parameters", "mean_forgotten", "the bias of a BatchNorm2d is not beta − mean · gamma / sqrt(var + eps)"),
        ("parameters", "bias_forgotten", "the bias of a Conv2d is not the file's"),
        ("arguments", "wrong_residual", "residual is the tensor 'x', expected the tensor 'r'"),
        ("arguments", "residual_forgotten", "residual is None, expected the tensor 'r'"),
        ("arguments", "batch_ignored_by_pointwise", "images is 1, expected 2"),
        ("arguments", "activation_ignored", "low is "),
        ("arguments", "output_in_the_input", "out is the tensor 'x', expected the tensor 'sum'"),
        ("resized", "model_of_the_caller_changed", "resized changes the model that it gets"),
        ("resized", "any_number_of_channels", "resized raises no error, expected a ValueError for 4 channels"),
    ],
)
def test_a_part_of_an_engine_is_tried(function, name, said, opened, capsys):
    opened(engine=wrong("engine", name))
    try_engine(function)
    out = capsys.readouterr().out
    assert out.startswith("✗ engine.py: ") and said in out


def test_parts_are_tried_before_the_rest_is_written(opened, capsys):
    before, rest, _ = engine.reference_text("engine.py").partition("# -- part: program")
    assert rest
    opened(engine=before)
    for function in ("parameters", "arguments", "resized"):
        try_engine(function)
    assert capsys.readouterr().out.splitlines() == [
        "✓ parameters: right on 4 layers",
        "✓ arguments: right on 5 steps",
        "✓ resized: right on a network with many shortcuts",
    ]
    with pytest.raises(ValueError, match="function: must be one of parameters, arguments, resized, got 'run'"):
        try_engine("run")


# A fusion of the learner's own


def fusion(old: str, new: str) -> str:
    """The reference's plan.py with a change in its part own_fusion."""
    before, _, part = engine.reference_text("plan.py").partition("# -- part: own_fusion")
    assert part.count(old) == 1
    return before + "# -- part: own_fusion" + part.replace(old, new)


@seldom(6)
def test_a_right_fusion_says_what_it_saves(opened, capsys):
    opened()
    try_fusion()
    assert capsys.readouterr().out == ("✓ own fusion: right, 30 launches in place of 39, 129 kB in place of 191\n")


CONVOLUTION = '[layer.op for layer in before.layers] == ["Conv2d"]'


@seldom(6)
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (" and readers[before.output] == 1", "", "does not store 'twice', which the ResidualAdd that writes"),
        (CONVOLUTION, "True", "the ResidualAdd of its epilogue is not added"),
        (CONVOLUTION, "len(before.layers) == 1",
         "step 20 (ReLU + HardSwish, writes 'act7'): its output has the error 9e-01, 1e-06 is allowed: its ReLU is"),
        (CONVOLUTION, 'len(before.layers) == 1 and before.layers[0].op != "ReLU"',
         "allowed: its ReLU6 is not applied"),
        (CONVOLUTION, 'before.layers[0].op == "Conv2d"',
         "the ResidualAdd of its epilogue is not added"),
        (', "pointwise": "conv_hard_swish"', "", "right, and not yet what was asked: step"),
        ("PASSES.append(fuse_hard_swish)", "", "not yet what was asked: step 1 (HardSwish, writes 'stem.act')"),
        ("[*made[at].layers, *step.layers]", "made[at].layers", "the HardSwish that writes 'stem.act' is in no step"),
        ('if step.kernel == "hard_swish" else None', "", "step 18 (Conv2d + ResidualAdd, writes 'add7')"),
        ("made[at] = Step(FUSED[made[at].kernel], [*made[at].layers, *step.layers])",
         "made[at].kernel, _ = FUSED[made[at].kernel], made[at].layers.extend(step.layers)", "changes the steps that"),
    ],
    ids=["read twice", "any convolution", "a ReLU alone", "a ReLU6 alone", "several layers", "no 1×1", "no pass",
         "layer lost", "any step", "in place"],
)  # fmt: skip
def test_a_wrong_fusion_is_told_what_is_wrong(opened, capsys, old, new, said):
    opened(plan=fusion(old, new))
    try_fusion()
    out = capsys.readouterr().out
    print(out)
    assert out.startswith("✗ own fusion: ") and said in out


@seldom(6)
def test_the_passes_are_what_they_were(opened):
    opened()
    from engine import plan

    passes = list(plan.PASSES)
    try_fusion()
    assert plan.PASSES == passes != []
