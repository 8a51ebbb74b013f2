"""own_errors of notebook 05/4: right and wrong ones; the suspects: each is wrong somewhere, and found by its line."""

import numpy as np
import pytest
from tiers import seldom

from common import cuda, weights
from common.lab import engine
from common.lab.engine_judging import exact_values
from common.lab.engine_kernels import watched
from common.lab.error_checks import FINE, MISTAKES, Suspect, compare_properties, try_own_errors
from common.network.compare import relative_error


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """The reference engine as the package `engine`."""
    place = tmp_path_factory.mktemp("engine") / "engine"
    for file in engine.FILES:
        if engine.reference_parts(file):
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_text(engine.reference_text(file))
    (place / "__init__.py").write_text("")
    engine.open_engine(lambda: place)
    yield place
    engine.open_engine()


def own_errors(program, values, fill=True, exact=True):
    """As the notebook's. fill, exact: False for the mistakes of the next test."""

    def tensor(name):
        start, size = program.plan.offsets[name], 4 * values[name].size
        return program.memory[start : start + size].view(np.float32).reshape(values[name].shape)

    errors = []
    for number, (step, launch) in enumerate(zip(program.plan.steps, program.launches, strict=True)):
        if fill:
            program.memory[...] = 255
        if exact or number == 0:
            for name in step.inputs:
                tensor(name)[...] = cuda.asarray(values[name].astype(np.float32))
        launch()
        errors.append(relative_error(cuda.asnumpy(tensor(step.output)), values[step.output]))
    return errors


def changes_values(program, values):
    found = own_errors(program, values)
    next(iter(values.values()))[...] = 0
    return found


@seldom(6)
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (own_errors, "✓ own_errors: right on a network with many shortcuts and a small ResNet"),
        (lambda program, values: own_errors(program, values, fill=False), "its launch writes nothing"),
        (
            lambda program, values: own_errors(program, values, fill=False, exact=False),
            "its launch is right and gets exact inputs",
        ),
        (lambda program, values: own_errors(program, values)[1:], "26 errors for 27 steps, expected one for each"),
        (lambda program, values: [0.0] * len(program.launches), "expected 1: its launch writes twice"),
        (lambda program, values: ["0"] * len(program.launches), "the error of step 0 is '0', expected a number"),
        (lambda program, values: None, "own_errors: the result"),
        (changes_values, "own_errors changes values"),
        (lambda program, values: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_own_errors_is_judged(opened, capsys, answer, expected):
    try_own_errors(answer)
    assert expected in capsys.readouterr().out


@pytest.fixture(scope="module")
def digits(opened):
    x = weights.digits_input(weights.digits_split().test_images[:2])
    return exact_values(weights.model("digits"), x)


def test_the_values_are_those_of_the_network(digits):
    program, values = digits
    assert set(values) == {name for step in program.plan.steps for name in (*step.inputs, step.output)}
    assert max(own_errors(program, values)) <= FINE


SEEDS = range(len(MISTAKES))


def test_seeds_give_all_mistakes_and_then_begin_again():
    found = [Suspect(seed)._mistake for seed in SEEDS]
    assert sorted(map(id, found)) == sorted(map(id, MISTAKES)) and Suspect(len(MISTAKES))._mistake is found[0]
    for seed in (-1, 1.0, True):
        with pytest.raises(ValueError, match="seed must be a whole number of at least 0"):
            Suspect(seed)


@seldom(6)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_suspect_is_wrong_by_its_own_error_and_found_by_its_line(digits, capsys, seed):
    program, values = digits
    suspect = Suspect(seed)
    mistake = suspect._mistake
    with suspect:
        errors = own_errors(program, values)
    wrong = {step.kernel for step, error in zip(program.plan.steps, errors, strict=True) if not error <= FINE}
    assert wrong == {mistake.kernel}
    assert min(error for error in errors if not error <= FINE) > 100 * FINE
    assert max(own_errors(program, values)) <= FINE  # outside `with`, the engine is as it was
    text = engine.reference_text(f"kernels/{mistake.kernel}.cu")
    assert text.count(mistake.right) == 1 and "\n" not in mistake.right + mistake.wrong

    others = {one.kernel for one in MISTAKES} - {mistake.kernel}
    capsys.readouterr()
    suspect.accuse(others.pop())
    assert capsys.readouterr().out.endswith("this kernel is as it was.\n")
    suspect.accuse(mistake.kernel)
    first, *listing = capsys.readouterr().out.splitlines()
    assert first == f"✓ {mistake.kernel}: a line of it is changed. Which one?"
    changed = [int(line[:3]) for line in listing if mistake.wrong in line and mistake.right not in line]
    found = []
    for line in range(1, len(listing) + 1):
        suspect.accuse(mistake.kernel, line)
        found += [line] * capsys.readouterr().out.startswith("✓")
    assert len(found) == 1 and found[0] in changed


@seldom(6)
def test_a_trace_finds_nothing_in_a_suspect(digits):
    program, _ = digits
    for seed in SEEDS:
        suspect = Suspect(seed)
        step = next(i for i, one in enumerate(program.plan.steps) if one.kernel == suspect._mistake.kernel)
        with suspect, watched(traced=True) as launches:
            program.launches[step]()
        assert [finding for launch in launches for finding in launch.report.findings] == []


def test_properties_that_separate_right_steps_from_wrong_ones(digits, capsys):
    program, values = digits
    compare_properties(program, values, [0.0] * len(program.plan.steps))
    said = capsys.readouterr().out
    assert "wrong:" not in said and said.startswith("conv: 1 step right, 0 wrong\n")
    wide = [float(step.kernel == "pointwise" and values[step.output].shape[1] > 64) for step in program.plan.steps]
    compare_properties(program, values, wide)
    said = capsys.readouterr().out
    assert "output channels  right: 8, 16, 24, 32, 48, 56\n" in said
    errors = [float("nan") if step.kernel == "conv" else 0.0 for step in program.plan.steps]
    compare_properties(program, values, errors)
    assert "conv: 0 steps right, 1 wrong\n" in capsys.readouterr().out
