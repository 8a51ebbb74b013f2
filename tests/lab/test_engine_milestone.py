"""Milestone 5: the reference engine and right ones of other kinds pass, wrong ones are told what is wrong."""

import importlib
import types
from collections.abc import Iterator
from pathlib import Path

import answers
import numpy as np
import onnx
import pytest
from tiers import seldom
from whole_engine import at_work, console, write

from common import topology, weights
from common.lab import engine, engine_judging, judging, matching, milestones, progress
from common.lab.cases import CASES, OWN_FUSION, Case, KernelCase
from common.lab.engine_files import FILES
from common.lab.engine_kernels import watched
from common.lab.judging import judge

FILE = {"plan": "plan.py", "engine": "engine.py"}
ANSWERS = {
    name: answers.read(answers.FOLDER / "engine" / f"{name}.toml", engine.reference_text(file))
    for name, file in FILE.items()
}
SMALL = [case for case in CASES[5] if not case.digits]  # without the digits, which take seconds
DIGITS = next(case for case in CASES[5] if case.digits)


def name_of(value: object) -> str | None:
    return value.name if isinstance(value, Case | answers.Answer) else None


def write_engine(place: Path, **files: str) -> Path:
    """The reference engine as a learner's own, those files given by name in place of it."""
    return write(place, (*judging.RUN[5], *judging.FUSION), {FILE[name]: text for name, text in files.items()})


@pytest.fixture
def opened(tmp_path):
    """opened(plan=text): the package `engine` with these files in place of the reference's."""

    def open_engine(**files: str) -> Path:
        place = write_engine(tmp_path / "engine", **files)
        engine.open_engine(lambda: place)
        return place

    yield open_engine
    engine.open_engine()


# The cases


@pytest.mark.parametrize("case", CASES[5], ids=name_of)
def test_a_case_is_valid_onnx(case):
    model = case.model()
    onnx.checker.check_model(model, full_check=True)
    assert topology.read_onnx(model).output_shape[0] == topology.read_onnx(model).input_shape[0]


def test_a_case_has_layers_that_nobody_needs():
    model = CASES[5][0].model()
    names = {name for node in model.graph.node for name in node.output}
    assert "dead.act" in names and "dead.act" not in {layer.output for layer in topology.read_onnx(model)}


def test_activations_of_the_cases_reach_both_bounds_of_relu6():
    model = CASES[5][0].model()
    graph, parameters = engine_judging._exact(model)
    values = engine_judging._reference(graph, parameters, engine_judging._images(graph.input_shape))
    bounded = [values[layer.output] for layer in graph if isinstance(layer, topology.ReLU6)]
    assert any((array == 6).any() for array in bounded) and all((array == 0).any() for array in bounded)


def test_all_held_out_digits_are_read():
    assert DIGITS.digits == len(weights.digits_split().test_images)


# Right engines


def test_the_reference_passes(opened):
    opened()
    for case in SMALL:
        outcome = judge(5, case)
        assert outcome.passed, outcome.flaw
        assert set(outcome.scores) == (set() if case.refused else set(milestones.COLUMNS[5]) - {"digits", "µs"})
        assert outcome.scores.get("findings", 0) == 0


def test_the_reference_reads_digits(opened):
    opened()
    own = importlib.import_module("engine.engine")
    bound = own.bind(DIGITS.model())
    assert engine_judging._judge_digits(DIGITS.model(), bound, own, 6) == 6
    assert len(bound.programs[1, 3, 48, 48].launches) == 54
    with pytest.raises(matching.Flaw, match=r"digit 1 is read as 0, ONNX Runtime reads 1"):
        engine_judging._judge_digits(
            DIGITS.model(), bound, types.SimpleNamespace(run=lambda _, x: np.eye(10)[:1].repeat(2, 0)), 2
        )


RIGHT = [(name, one) for name in FILE for one in ANSWERS[name][1]]


@seldom(6)
@pytest.mark.parametrize(("name", "answer"), RIGHT, ids=name_of)
def test_another_right_engine_passes(name, answer, opened):
    opened(**{name: answer.text})
    for case in SMALL:
        outcome = judge(5, case)
        assert outcome.passed, outcome.flaw


@seldom(6)
def test_what_another_engine_costs_is_scored(opened):
    """Each right engine beside the reference: launches, bytes moved, peak memory."""
    case, scores = SMALL[1], {}
    for name, answer in [("reference", None), *((one.name, one) for one in ANSWERS["plan"][1])]:
        opened(**({"plan": answer.text} if answer else {}))
        scores[name] = judge(5, case).scores
    usual = scores["reference"]
    assert scores["nothing_fused"]["launches"] > usual["launches"]
    assert scores["nothing_fused"]["bytes moved"] > usual["bytes moved"]
    assert scores["one_buffer_per_tensor"]["peak memory"] > 2 * usual["peak memory"]
    assert scores["additions_in_place"]["peak memory"] <= usual["peak memory"]
    assert all(one["launches"] == usual["launches"] for name, one in scores.items() if name != "nothing_fused")


# A 3×3 convolution as two launches per image: the columns of one image in a workspace, then their product.
BY_COLUMNS = {
    "plan": [
        ('return "pointwise" if plain else "conv"', 'return "pointwise" if plain else "im2col"'),
        (
            '("ResidualAdd", *ACTIVATIONS),\n}',
            '("ResidualAdd", *ACTIVATIONS),\n    "im2col": ("ResidualAdd", *ACTIVATIONS),\n}',
        ),
        (
            "    ranges = live_ranges(graph, steps)\n    return",
            """
    for step in steps:
        if step.kernel == "im2col":
            rows = prod(arrays[step.layers[0].output]["weight"].shape[1:])
            step.workspace = 4 * rows * prod(step.layers[0].shape[2:])
    ranges = live_ranges(graph, steps)
    return""",
        ),
    ],
    "engine": [
        (
            "        args_of = ARGUMENTS",
            """        if step.kernel == "im2col":
            start = made.offsets[f"workspace of {step.output}"]
            columns = memory[start : start + step.workspace].view(np.float32)
            weight, bias = engine.weights[layer.output]
            launches.append(partial(by_columns, step, shapes, tensors, weight, bias, columns))
            continue
        args_of = ARGUMENTS""",
        ),
        (
            "def prepare(",
            """def by_columns(step, shapes, tensors, weight, bias, columns):
    layer, (first, *others), out = step.layers[0], step.inputs, tensors[step.output]
    (images, *sizes), (_, filters, *out_size) = shapes[first], out.shape
    bounded = [BOUNDS[one.op] for one in step.layers if one.op in BOUNDS]
    bounds = np.array((*bounded, (-inf, inf))[0], np.float32)
    side, rows = weight.shape[3], prod(weight.shape[1:])
    window = side, side, layer.attributes["stride"][0], layer.attributes["padding"][0][0]
    for i in range(images):
        kernels.im2col(tensors[first][i], columns, 1, *sizes, *out_size, *window)
        residual = tensors[others[0]][i] if others else None
        area = prod(out_size)
        kernels.pointwise(columns, weight, bias, residual, out[i], *bounds, 1, rows, filters, area)


def prepare(""",
        ),
    ],
}


def changed(file: str, edits: list[tuple[str, str]]) -> str:
    text = engine.reference_text(file).replace(" (reference)", "")
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@seldom(6)
def test_an_engine_may_run_convolutions_by_its_own_im2col(opened):
    opened()
    usual = judge(5, SMALL[1]).scores
    place = opened(**{name: changed(FILE[name], edits) for name, edits in BY_COLUMNS.items()})
    (place / "kernels" / "im2col.cu").write_text(engine.reference_text("kernels/im2col.cu"))
    assert judge(5, SMALL[0]).passed  # with residuals, and a batch of two images
    with watched() as launches:
        outcome = judge(5, SMALL[1])
    assert outcome.passed, outcome.flaw
    assert {"im2col", "pointwise"} < {one.name for one in launches} and "conv" not in {one.name for one in launches}
    scores = outcome.scores
    assert scores["launches"] > usual["launches"]
    assert scores["bytes moved"] > usual["bytes moved"] and scores["peak memory"] > usual["peak memory"]
    wrong = changed("kernels/im2col.cu", [("oh * stride - pad", "oh * stride")])
    (place / "kernels" / "im2col.cu").write_text(wrong)
    flaw = judge(5, SMALL[1]).flaw
    assert "its output has the error" in flaw and "expected" not in flaw, flaw
    (place / "kernels" / "im2col.cu").unlink()
    assert "your engine has no kernels/im2col.cu yet: 04_kernels/9" in judge(5, SMALL[1]).flaw


# Wrong engines


WRONG = [(name, one) for name in FILE for one in ANSWERS[name][0]]


@pytest.mark.parametrize(("name", "answer"), WRONG, ids=name_of)
def test_a_wrong_engine_is_told_what_is_wrong(name, answer, opened):
    opened(**{name: answer.text})
    outcomes = (judge(5, case) for case in SMALL)
    first = next((one for one in outcomes if not one.passed), None)
    assert first, "this wrong engine passes"
    assert answer.expect in f"{first.case}: {first.flaw}"


def test_an_engine_that_is_not_written_refuses_nothing(opened):
    stub = '    raise NotImplementedError("write: the engine")\n    engine = Engine('
    opened(engine=engine.reference_text("engine.py").replace("    engine = Engine(", stub))
    assert "NotImplementedError: write: the engine" in judge(5, next(case for case in SMALL if case.refused)).flaw


@pytest.mark.parametrize("name", FILE)
def test_there_are_wrong_engines_for_each_file(name):
    assert len(ANSWERS[name][0]) >= 6


def test_a_wrong_kernel_is_named_with_its_step(opened):
    place = opened()
    path = place / "kernels" / "pointwise.cu"
    path.write_text(path.read_text().replace("if (residual) sum += residual[at];", ""))
    flaw = judge(5, SMALL[0]).flaw
    assert flaw.startswith("step 3 (Conv2d + ResidualAdd, writes 'add1')") and "is not added" in flaw
    path.write_text(engine.reference_text("kernels/pointwise.cu").replace("__syncthreads();", "", 1))
    assert "the kernel pointwise: race" in judge(5, SMALL[0]).flaw


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("plan", "def fuse(", "def fused(", "the part fusion of plan.py is not written yet: 05_network/1"),
        ("plan", "def arena(", "def placed(", "the part arena of plan.py is not written yet: 05_network/2"),
        ("plan", "    return steps\n", "    return None\n", "fuse: the result is None, expected a list"),
        ("plan", "    return steps\n", "    return graph.layers\n", "fuse: step 0 is a Layer without `kernel`"),
        ("plan", "    return ranges\n", "    return None\n", "live_ranges returns None, expected a dict"),
        ("plan", "Live(4 * prod(graph.input_shape), 0, end)", "0", "plan.py, line"),
        ("plan", "    return offsets, size\n", "    return offsets\n", "expected ({tensor: offset}, size)"),
        ("plan", "return replace(graph, layers=layers)", "return layers", "dead_code returns a list without `layers`"),
        ("plan", "return replace(graph, layers=layers)", "graph.layers = layers\n    return graph",
         "dead_code changes the graph that it gets"),
        ("engine", "def bind(", "def bound(", "the part bind of engine.py is not written yet: 05_network/3"),
        ("engine", "    launches: list", "    calls: list", "engine.prepare returns a Program without `launches`"),
        ("engine", "return cuda.asnumpy(program.output).copy()", "return None", "the logits have the shape None"),
        ("engine", "launches.append(partial(getattr(kernels, step.kernel), *args))",
         "launches.append(lambda: None)", "its launch launches no kernel of engine.kernels"),
        ("engine", "program.input[...] = cuda.asarray(x)", "program.input[...] = x\n    x[...] = 0", "it changes x"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_named(file, old, new, said, opened):
    text = engine.reference_text(FILE[file])
    assert text.count(old) == 1
    opened(**{file: text.replace(old, new)})
    flaw = judge(5, SMALL[0]).flaw
    assert said in flaw, flaw


def test_wrong_files_of_earlier_chapters_send_to_their_milestones(opened):
    place = opened()
    for file, chapter in (("graph", 1), ("weights", 2)):
        wrong, _ = answers.read(answers.FOLDER / "engine" / f"{file}.toml", engine.reference_text(f"{file}.py"))
        named = {"graph": "pads_in_pairs", "weights": "mean_forgotten"}[file]
        (place / f"{file}.py").write_text(next(one.text for one in wrong if one.name == named))
        engine.open_engine(lambda: place)
        flaw = judge(5, SMALL[0]).flaw
        assert flaw.startswith(f"{file}.py: ") and flaw.endswith(f"(milestone {chapter})"), flaw
        (place / f"{file}.py").write_text(engine.reference_text(f"{file}.py"))


# What an engine does


def test_weights_are_on_the_device_once_for_all_shapes(opened, rng):
    opened()
    own = importlib.import_module("engine.engine")
    model = SMALL[0].model()
    bound = own.bind(model)
    before = {name: id(pair[0]) for name, pair in bound.weights.items()}
    for shape in ((4, 3, 14, 11), (1, 3, 20, 9)):
        own.run(bound, rng.standard_normal(shape).astype(np.float32))
    assert {name: id(pair[0]) for name, pair in bound.weights.items()} == before and len(bound.programs) == 3
    with pytest.raises(ValueError, match=r"x: expected \(N, 3, H, W\), got \(1, 4, 14, 11\)"):
        own.run(bound, np.zeros((1, 4, 14, 11), np.float32))


def test_an_engine_of_a_file_is_that_of_the_model(opened, tmp_path):
    opened()
    own = importlib.import_module("engine.engine")
    onnx.save(SMALL[0].model(), tmp_path / "net.onnx")
    x = np.ones((1, 3, 14, 11), np.float32)
    np.testing.assert_array_equal(own.run(own.bind(tmp_path / "net.onnx"), x), own.run(own.bind(SMALL[0].model()), x))


def test_bytes_moved_are_those_of_arrays_that_are_there(opened):
    opened()
    kernels = importlib.import_module("engine.kernels")
    a = np.ones((1, 4, 6), np.float32)
    weight, bias = np.ones((5, 4), np.float32), np.zeros(5, np.float32)
    out, bounds = np.empty((1, 5, 6), np.float32), (np.float32(0), np.float32(6))
    with engine_judging.watched() as launches:
        kernels.pointwise(a, weight, bias, None, out, *bounds, 1, 4, 5, 6)
        kernels.pointwise(a, weight, bias, out.copy(), out, *bounds, 1, 4, 5, 6)
        kernels.add(out, out.copy(), out, 30)
    assert [engine_judging.bytes_moved(one) for one in launches] == [316, 436, 360]
    kernels.add(out, out.copy(), out, 30)
    assert len(launches) == 3


# The command, in a child process


@pytest.fixture
def work(tmp_path, monkeypatch) -> Iterator[Path]:
    with at_work(tmp_path, "05_network", (*judging.RUN[5], *judging.FUSION), monkeypatch) as folder:
        yield folder


@pytest.mark.long
def test_the_command_runs_all_networks_and_records_them(work):
    say = console()
    result = milestones.run(5, say)
    text = say.export_text()
    assert result.passed and result.reference_files == (), text
    assert f"✓ milestone 5: all {len(judging.cases(5, work / 'engine'))} cases" in text and "376 / 376" in text
    assert max(map(len, text.splitlines())) <= 95
    assert progress.load()["milestones"]["5"]["passed"] is True


def test_the_command_says_what_is_wrong(work, monkeypatch):
    monkeypatch.setattr(milestones, "reference", lambda chapter, *_: {case.name: {} for case in CASES[chapter]})
    (work / "engine" / "plan.py").write_text("x = 1\n")
    say = console()
    assert not milestones.run(5, say)
    assert "the part dead_code of plan.py is not written yet" in " ".join(say.export_text().split())


def test_a_missing_file_names_its_notebook(work):
    (work / "engine" / "engine.py").unlink()
    say = console()
    assert not milestones.run(5, say)
    assert "05_network/3_your_engine_runs.ipynb writes it" in " ".join(say.export_text().split())


def test_a_kernel_is_needed_too(work):
    (work / "engine" / "kernels" / "pool.cu").unlink()
    result = milestones.run(5, console())
    assert not result and "04_kernels/4_global_average_pool.ipynb writes it" in result.flaw


def test_the_files_of_the_milestone():
    assert judging.RUN[5][:4] == ("graph.py", "weights.py", "plan.py", "engine.py")
    assert judging.RUN[5][4:] == tuple(one.file for one in CASES[4] if isinstance(one, KernelCase))
    assert all(file in FILES for file in judging.RUN[5])


# A fusion of the learner's own


def test_a_fusion_of_ones_own_is_judged_and_the_references_is_not(tmp_path):
    place = write_engine(tmp_path / "engine")
    assert judging.cases(5, place) == (*CASES[5], OWN_FUSION)
    assert judging.cases(1, place) == CASES[1]
    (place / "plan.py").write_text(engine.reference_text("plan.py"), encoding="utf-8")
    assert judging.cases(5, place) == CASES[5]
    (place / "plan.py").write_text(own_plan(without="own_fusion"), encoding="utf-8")
    assert judging.cases(5, place) == CASES[5] == judging.cases(5, tmp_path / "nowhere")


def own_plan(without: str) -> str:
    """The reference's plan.py as a learner's own, without a part."""
    text = engine.reference_text("plan.py").replace(" (reference)", "")
    return engine.joined({name: part for name, part in engine.parts(text).items() if name != without}, "plan.py")


@seldom(4)
def test_a_fusion_of_ones_own_saves_launches_and_bytes(opened):
    opened()
    fused = judge(5, OWN_FUSION)
    assert fused.passed, fused.flaw
    opened(plan=own_plan(without="own_fusion"))
    apart = judge(5, OWN_FUSION)
    assert apart.passed, apart.flaw
    assert (fused.scores["launches"], apart.scores["launches"]) == (30, 39)
    assert fused.scores["bytes moved"] < 0.7 * apart.scores["bytes moved"]


def test_a_relu_on_its_own_is_no_convolution(opened):
    plan = own_plan(without="")
    convolution = '[layer.op for layer in before.layers] == ["Conv2d"]'
    assert plan.count(convolution) == 1
    opened(plan=plan.replace(convolution, "len(before.layers) == 1"))
    outcome = judge(5, OWN_FUSION)
    assert not outcome.passed and "(ReLU + HardSwish, writes 'act7')" in outcome.flaw


def test_the_reference_of_a_fusion_has_its_kernels(tmp_path):
    place = tmp_path / "engine"
    milestones._write_reference(place, judging.RUN[5] + judging.FUSION)
    assert judging.cases(5, place)[-1] is OWN_FUSION
    assert {path.name for path in (place / "kernels").iterdir()} >= {"hard_swish.cu", "conv_hard_swish.cu"}
