"""Milestones: the reference engine and right ones of other kinds pass, wrong ones are told what is wrong."""

import json
import types
from collections.abc import Sequence
from pathlib import Path

import answers
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tiers import seldom
from typer.testing import CliRunner
from whole_engine import console

from common import topology, weights
from common.__main__ import app
from common.lab import engine, judging, matching, milestones, progress
from common.lab.cases import CASES, Case, two_details
from common.lab.engine_files import FILES
from common.lab.judging import judge

CHAPTER = {"graph": 1, "weights": 2}
WRONG = {  # by file of the engine
    file: answers.read(answers.FOLDER / "engine" / f"{file}.toml", engine.reference_text(f"{file}.py"))[0]
    for file in CHAPTER
}
NETWORKS = (1, 2)  # chapters whose milestone runs networks
EVERY = [(chapter, case) for chapter in NETWORKS for case in CASES[chapter]]
READABLE = [(chapter, case) for chapter, case in EVERY if not case.refused]
REFUSED = [case for _, case in EVERY if case.refused]


def name_of(value: object) -> str | None:
    return value.name if isinstance(value, Case | answers.Answer) else None


def write_engine(place: Path, **files: str) -> Path:
    """An engine of the reference's files, those given by name (without .py) in place of them."""
    place.mkdir(parents=True, exist_ok=True)
    for name in ("graph", "weights"):
        (place / f"{name}.py").write_text(
            files.get(name) or engine.reference_text(f"{name}.py").replace(" (reference)", "")
        )
    (place / "__init__.py").write_text("")
    return place


def wrong(file: str, name: str) -> str:
    """The text of the wrong answer of this name."""
    return next(one.text for one in WRONG[file] if one.name == name)


def judged(place: Path, chapter: int, cases: Sequence[Case] = ()) -> list[judging.Outcome]:
    """The outcomes of these cases, or of all cases of the chapter, in this process."""
    engine.open_engine(lambda: place)
    try:
        return [judge(chapter, case) for case in cases or CASES[chapter]]
    finally:
        engine.open_engine()


def first_failed(place: Path, chapter: int) -> judging.Outcome | None:
    """The outcome of the first case of the chapter that the engine fails; the cases behind it are not judged."""
    engine.open_engine(lambda: place)
    try:
        return next((one for case in CASES[chapter] if not (one := judge(chapter, case)).passed), None)
    finally:
        engine.open_engine()


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """A learner's folder with the reference's engine, own by its marks; the current folder is a chapter in it."""
    (tmp_path / progress.MARKER).touch()
    write_engine(tmp_path / "engine")
    (tmp_path / "01_topology").mkdir()
    monkeypatch.chdir(tmp_path / "01_topology")
    return tmp_path


# The cases


@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_a_refused_case_is_valid_onnx_that_no_layers_of_chapter_01_express(case):
    model = case.model()
    onnx.checker.check_model(model, full_check=True)
    if case.name == "a mean over channels":  # the course's own engine has a layer for it
        assert "Mean" in {type(layer).__name__ for layer in topology.read_onnx(model)}
        return
    with pytest.raises(topology.UnsupportedModel):
        topology.read_onnx(model)


@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_an_engine_that_is_not_written_refuses_nothing(case, tmp_path):
    text = 'def read(model):\n    raise NotImplementedError("write: it")\n'
    [outcome] = judged(write_engine(tmp_path / "engine", graph=text), 1, [case])
    assert not outcome.passed and "NotImplementedError: write: it" in outcome.flaw


@pytest.mark.parametrize(("chapter", "case"), READABLE, ids=name_of)
def test_a_case_is_valid_onnx_and_says_what_its_network_says(chapter, case):
    model = case.model()
    onnx.checker.check_model(model, full_check=True)
    graph, parameters = case.network()
    read, numbers = topology.read_onnx_with_parameters(model)
    assert read.census() == graph.census() and read.macs == graph.macs
    assert sorted(layer.output_shape for layer in read) == sorted(layer.output_shape for layer in graph)
    tolerance = 1e-3 if "fp16" in case.name else 0
    sums = [
        sorted(float(np.abs(arrays[name]).sum()) for layer in layers for name in matching.role_names(layer).values())
        for layers, arrays in ((graph, parameters), (read, numbers))  # an array that layers share counts for each
    ]
    np.testing.assert_allclose(sums[1], sums[0], rtol=tolerance)


@pytest.mark.parametrize(("chapter", "case"), EVERY, ids=name_of)
def test_a_case_is_the_same_every_time(chapter, case):
    assert case.model().SerializeToString(deterministic=True) == case.model().SerializeToString(deterministic=True)


def test_folding_in_float64_is_what_convolution_and_batch_norm_compute(rng):
    for case in CASES[2]:
        wanted, parameters = topology.read_onnx_with_parameters(case.model())
        exact = {name: array.astype(np.float64) for name, array in parameters.items()}
        outputs = []
        x = rng.standard_normal(wanted.input_shape)
        for graph, numbers in ((wanted, exact), weights.fold_batch_norm(wanted, exact)):
            values = {graph.input: x}
            for layer in graph:
                arrays = {role: numbers[name] for role, name in matching.role_names(layer).items()}
                values[layer.output] = matching.compute(layer, [values[name] for name in layer.inputs], arrays)
            outputs.append(values[graph.output])
        assert matching.relative_error(outputs[1], outputs[0]) < 1e-12, case.name


def test_the_judge_computes_what_pytorch_computes(rng):
    torch = pytest.importorskip("torch")
    from common.network.reference import run_layer

    for case in (CASES[1][6], CASES[1][8], CASES[2][5]):
        graph, numbers = topology.read_onnx_with_parameters(case.model())
        values = {graph.input: rng.standard_normal(graph.input_shape)}
        tensors = {name: torch.from_numpy(array.astype(np.float64)) for name, array in numbers.items()}
        for layer in graph:
            inputs = [values[name] for name in layer.inputs]
            arrays = {role: numbers[name].astype(np.float64) for role, name in matching.role_names(layer).items()}
            values[layer.output] = matching.compute(layer, inputs, arrays)
            theirs = run_layer(layer, [torch.from_numpy(x) for x in inputs], tensors).numpy()
            assert matching.relative_error(values[layer.output], theirs) < 1e-12, layer


def test_the_judges_padding_is_never_the_largest_and_parts_have_an_order():
    def one(kind, inputs, **fields):
        return kind(name="a", inputs=inputs, output="y", input_shapes=((1, 1, 2, 2),) * len(inputs), **fields)

    pool = one(topology.MaxPool2d, ("x",), kernel_size=(3, 3), stride=(1, 1), padding=((1, 1), (1, 1)))
    assert (matching.compute(pool, [np.full((1, 1, 2, 2), -3.0)], {}) == -3).all()
    joined = one(topology.Concat, ("x", "z"), dim=1)
    assert matching.same_sources(("x", "z"), joined) and not matching.same_sources(("z", "x"), joined)
    assert matching.same_sources(("z", "x"), one(topology.ResidualAdd, ("x", "z")))


# Right engines


@seldom(4)
@pytest.mark.parametrize("chapter", NETWORKS)
def test_the_reference_passes(chapter, tmp_path):
    for case, outcome in zip(CASES[chapter], judged(write_engine(tmp_path / "engine"), chapter), strict=True):
        assert outcome.passed and not outcome.flaw, outcome
        assert set(outcome.scores) == (set() if case.refused else set(milestones.COLUMNS[chapter]))


OTHER_GRAPH = '''
"""Written in another way: classes of its own, lists for tuples, NumPy's numbers, other tensors' names."""
import numpy as np
from common.lab import judging


class Layer:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Graph(Layer):
    pass


ROLES = {"Conv2d": ("weight", "bias"), "Linear": ("weight", "bias"),
         "BatchNorm2d": ("gamma:weight", "beta:bias", "mean:running_mean", "var:running_var")}


KINDS = ("Conv2d", "BatchNorm2d", "ReLU", "ReLU6", "ResidualAdd", "MaxPool2d", "GlobalAveragePool", "Concat", "Linear")


def read(model):
    graph = judging.expected_layers(model)[0]
    transposed = {node.input[1]: not any(a.name == "transB" and a.i for a in node.attribute)
                  for node in model.graph.node if node.op_type in ("Gemm", "MatMul")}
    renamed = {graph.input: "in"} | {layer.output: f"t{i}" for i, layer in enumerate(graph)}
    layers = []
    for layer in graph:
        kind = type(layer).__name__
        if kind not in KINDS:
            raise ValueError(f"no layer of this engine computes a {kind}")
        roles = [role.partition(":") for role in ROLES.get(kind, ())]
        names = {role: getattr(layer, field or role) for role, _, field in roles}
        inputs = [renamed[name] for name in layer.inputs]
        attributes = {"name": layer.name, "reads": inputs}
        for key in ("stride", "dilation", "groups", "eps", "kernel_size"):
            if hasattr(layer, key):
                attributes[key] = np.array(getattr(layer, key))
        if kind == "Linear":
            attributes["transposed"] = transposed[layer.weight]
        if hasattr(layer, "padding"):
            attributes["padding"] = [list(pair) for pair in layer.padding]
        layers.append(Layer(
            op=kind, inputs=inputs[::-1] if kind == "ResidualAdd" else tuple(inputs), output=renamed[layer.output],
            weights={role: name for role, name in names.items() if name}, attributes=attributes,
            shape=np.array(layer.output_shape), macs=np.int64(layer.macs),
            bytes=layer.activation_bytes() + layer.weight_bytes()))
    return Graph(input="in", input_shape=list(graph.input_shape), output=renamed[graph.output], layers=tuple(layers))
'''
OTHER_WEIGHTS = '''
"""Written in another way: float64 throughout, a bias of zeros everywhere, batch-norm's arrays left where they are."""
import copy
import numpy as np
from common.lab import judging


def extract(model, graph):
    numbers = judging.expected_layers(model)[1]
    arrays = {}
    for layer in graph.layers:
        own = {role: numbers[name].astype(np.float64) for role, name in layer.weights.items()}
        if layer.op in ("Conv2d", "Linear"):
            own.setdefault("bias", np.zeros(len(own["weight"])))
        arrays[layer.output] = own
    return arrays


def fold(graph, arrays):
    graph, arrays = copy.deepcopy(graph), copy.deepcopy(arrays)
    convolved = {layer.output for layer in graph.layers if layer.op == "Conv2d"}
    for norm in [layer for layer in graph.layers if layer.op == "BatchNorm2d"]:
        before = [layer for layer in graph.layers if layer.output == norm.inputs[0] and layer.op == "Conv2d"]
        readers = [name for layer in graph.layers for name in layer.inputs] + [graph.output]
        if norm.inputs[0] not in convolved or readers.count(norm.inputs[0]) > 1:
            continue
        conv, own = arrays[before[0].output], arrays[norm.output]
        scale = own["gamma"] / np.sqrt(own["var"] + norm.attributes["eps"])
        conv["bias"] = own["beta"] + scale * (conv["bias"] - own["mean"])
        conv["weight"] = (conv["weight"].T * scale).T
        arrays[norm.output] = arrays.pop(before[0].output)  # the convolution takes the batch-norm's name
        before[0].output = norm.output
        graph.layers = [layer for layer in graph.layers if layer is not norm]
    return graph, arrays
'''


@seldom(6)
@pytest.mark.parametrize("chapter", NETWORKS)
@pytest.mark.parametrize("files", [{"graph": OTHER_GRAPH}, {"graph": OTHER_GRAPH, "weights": OTHER_WEIGHTS}])
def test_another_right_engine_passes(chapter, files, tmp_path):
    if chapter == 2 and "weights" not in files:
        files = files | {"weights": OTHER_WEIGHTS}
    for outcome in judged(write_engine(tmp_path / "engine", **files), chapter):
        assert outcome.passed, outcome


# Wrong engines


@pytest.mark.parametrize(("file", "answer"), [(file, one) for file in WRONG for one in WRONG[file]], ids=name_of)
def test_a_wrong_engine_is_told_what_is_wrong(file, answer, tmp_path):
    place = write_engine(tmp_path / "engine", **{file: answer.text})
    failed = first_failed(place, CHAPTER[file])
    assert failed, "this wrong engine passes"
    assert answer.expect in f"{failed.case}: {failed.flaw}"


@pytest.mark.parametrize("file", WRONG)
def test_there_are_wrong_engines_for_each_file(file):
    assert len(WRONG[file]) >= 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def read(model):\n    pass\n", "graph.read returns None without `input`"),
        ("def read(model):\n    return [1]\n", "graph.read returns a list without `input`"),
        ("def red(model):\n    pass\n", "the part read of graph.py is not written yet: 01_topology/3"),
        ("def read(model:\n    pass\n", "graph.py, line 1: SyntaxError"),
        ("raise RuntimeError('at once')\n", "graph.py, line 1: `raise RuntimeError('at once')`: RuntimeError: at once"),
        ("def read(model):\n    exit(3)\n", "graph.py, line 2: `exit(3)`: SystemExit: 3"),
        ("def read(model):\n    raise NotImplementedError('write: it')\n", "NotImplementedError: write: it"),
        (OTHER_GRAPH.replace("layers=tuple(layers)", "layers=None"), "Graph.layers is None, expected a list"),
        (OTHER_GRAPH.replace("macs=np.int64(layer.macs)", "macs=None"), "macs is None, expected a number"),
        (OTHER_GRAPH.replace("shape=np.array(layer.output_shape), ", ""), "layer 0 is a Layer without `shape`"),
        (OTHER_GRAPH.replace("graph:\n        k", "graph.layers[:-1]:\n        k"),
         "the Linear that writes 'classifier.1' is missing (1 of 99 layers are)"),
        (OTHER_GRAPH.replace("output=renamed[graph.output]", "output='in'"), "Graph.output is 'in'"),
        (OTHER_GRAPH.replace("list(graph.input_shape)", "[1, 3]"), "input_shape is (1, 3), expected (1, 3, 64, 64)"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_named(text, said, tmp_path):
    [outcome] = judged(write_engine(tmp_path / "engine", graph=text), 1, CASES[1][:1])
    assert not outcome.passed
    assert said in outcome.flaw


@seldom(6)
def test_a_wrong_graph_sends_the_second_milestone_to_the_first(tmp_path):
    place = write_engine(tmp_path / "engine", graph=wrong("graph", "pads_in_pairs"))
    outcomes = judged(place, 2)
    assert any("graph.py: layer 0 (Conv2d, writes 'stem'): padding is" in one.flaw for one in outcomes)


def test_an_answer_that_was_not_kept_is_named_with_its_cell(tmp_path):
    parts = engine.parts(engine.reference_text("weights.py"))
    del parts["fold_conv_bn"]
    place = write_engine(tmp_path / "engine", weights=engine.joined(parts, "weights.py"))
    [outcome] = judged(place, 2, CASES[2][:1])
    assert outcome.flaw.startswith(
        'fold_conv_bn is not in weights.py yet. Run keep("weights.py", fold_conv_bn) under “4 · All 52, in your engine”'
        " in 02_weights/2_fold_the_batch_norm.ipynb."
    )


def test_one_model_can_be_tried_alone(tmp_path):
    model = CASES[2][6].model()
    engine.open_engine(lambda: write_engine(tmp_path / "right"))
    try:
        assert judging.first_flaw(2, model) == ""
        text = wrong("weights", "other_readers_not_asked")
        engine.open_engine(lambda: write_engine(tmp_path / "wrong", weights=text))
        assert "you folded a batch-norm whose input 'right' another layer reads" in judging.first_flaw(2, model)
        engine.open_engine(lambda: write_engine(tmp_path / "none", graph="x = 1\n"))
        assert "the part read of graph.py is not written yet" in judging.first_flaw(2, model)
    finally:
        engine.open_engine()


@pytest.mark.parametrize(
    ("file", "answer", "said"),
    [
        ("weights", None, ""),
        ("weights", "bias_keeps_its_dimensions", "extract: the bias of 'conv.product' (Conv2d) has the shape (1, 4, 1"),
        ("weights", "linear_not_transposed", "(Linear) has the shape (4, 2), expected (2, 4): `transposed` is True"),
    ],
)
def test_extract_alone_is_judged_on_a_small_model(file, answer, said, tmp_path):
    text = {file: wrong(file, answer)} if answer else {}
    engine.open_engine(lambda: write_engine(tmp_path / "engine", **text))
    try:
        flaw = judging.extract_flaw(two_details())
        assert said in flaw and bool(flaw) == bool(said)
    finally:
        engine.open_engine()


KEPT = "        arrays[layer.output] = own\n"


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (f"        if own:\n    {KEPT}", "(GlobalAveragePool) is not there, expected {}: it has no weights"),
        (KEPT.replace("= own", "= own or None"), "(GlobalAveragePool) is None, expected {}: it has no weights"),
        (f"{KEPT}    arrays[graph.input] = {{}}\n", "extract: it has an entry 'input', which is not the output of"),
        (f"{KEPT}    arrays = [*arrays.values()]\n", "extract returns a list, expected a dict"),
        (KEPT.replace("= own", "= {} if layer.op == 'Linear' else own"), "(Linear) is not there"),
    ],
)
def test_extract_has_an_entry_for_each_layer_and_no_other(kept, said, tmp_path):
    text = engine.reference_text("weights.py")
    assert KEPT in text
    engine.open_engine(lambda: write_engine(tmp_path / "engine", weights=text.replace(KEPT, kept)))
    try:
        flaw = judging.extract_flaw(two_details())
        assert said in flaw, flaw
    finally:
        engine.open_engine()


TENSORS = [
    helper.make_tensor("raw", TensorProto.FLOAT, [2, 3], np.arange(6, dtype="<f4").tobytes(), raw=True),
    helper.make_tensor("half", TensorProto.FLOAT16, [3], [1.0, -2.5, 65504.0]),
    helper.make_tensor("brain", TensorProto.BFLOAT16, [2, 1], [1.0, -2.5]),
    helper.make_tensor("integers", TensorProto.INT64, [3], [1, -2, 2**40]),
    helper.make_tensor("bytes", TensorProto.INT8, [2, 2], [1, -2, 3, -128]),
    helper.make_tensor("flags", TensorProto.BOOL, [3], [True, False, True]),
]
PATTERNS = "patterns = tensor.data_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16)"
BYTES = "'bytes': weights.py, line"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", ""),
        # every tensor in int32_data as patterns of 16 bits
        (PATTERNS, "patterns = helper.tensor_dtype_to_field(tensor.data_type) == 'int32_data'", BYTES),
        (PATTERNS, "patterns = tensor.data_type != TensorProto.INT64", BYTES),
        (PATTERNS, "patterns = tensor.data_type == TensorProto.FLOAT16", "'brain': yours is bfloat16, [2, 1], "),
        (PATTERNS, "patterns = False", "'half': yours is float16, [3], [15360.0, 49408.0, "),
        (
            "flat.astype(dtype)\n",
            "flat\n",
            ", [2, 2], [1, -2, 3], expected int8, [2, 2], [1, -2, 3]",
        ),
        ('newbyteorder("<")', 'newbyteorder(">")', "'raw': yours is >f4"),
        ("return flat.reshape(tensor.dims)", "return flat", "'raw': yours is float32, [6]"),
        ("return flat.reshape(tensor.dims)", "return None", "'raw': yours is object, []"),
        (
            "return flat.reshape(tensor.dims)",
            "return onnx.numpy_helper.to_array(tensor)",
            "to_array calls numpy_helper.to_array: read raw_data",
        ),
        (
            "return flat.reshape(tensor.dims)",
            "from onnx.numpy_helper import to_array as done\n    return done(tensor)",
            "to_array calls numpy_helper.to_array: read raw_data",
        ),
    ],
)
def test_to_array_alone_is_judged(old, new, said, tmp_path):
    text = engine.reference_text("weights.py")
    assert old in text
    engine.open_engine(lambda: write_engine(tmp_path / "engine", weights=text.replace(old, new) if old else text))
    try:
        flaw = judging.to_array_flaw(TENSORS)
        assert said in flaw and bool(flaw) == bool(said), flaw
    finally:
        engine.open_engine()


def test_a_missing_weights_file_is_said_with_its_first_cell(tmp_path):
    place = write_engine(tmp_path / "engine")
    (place / "weights.py").unlink()
    engine.open_engine(lambda: place)
    try:
        flaw = judging.to_array_flaw(TENSORS)
        assert flaw.startswith("your engine has no weights.py yet: 02_weights/1_") and "the cell of to_array." in flaw
    finally:
        engine.open_engine()


def test_a_missing_to_array_is_said(tmp_path):
    engine.open_engine(lambda: write_engine(tmp_path / "engine", weights="x = 1\n"))
    try:
        assert "the part to_array of weights.py is not written yet" in judging.to_array_flaw(TENSORS)
    finally:
        engine.open_engine()


def test_extract_alone_is_judged_where_graph_is_wrong_or_missing(tmp_path):
    try:
        engine.open_engine(lambda: write_engine(tmp_path / "wrong", graph=wrong("graph", "pads_in_pairs")))
        assert judging.extract_flaw(CASES[2][6].model()).startswith("graph.py: layer 0 (Conv2d, writes")
        engine.open_engine(lambda: write_engine(tmp_path / "none", graph="x = 1\n"))
        assert "the part read of graph.py is not written yet" in judging.extract_flaw(two_details())
    finally:
        engine.open_engine()


# The command, in a child process


@seldom(6)
def test_passing_is_recorded_and_shown(work):
    say = console()
    result = milestones.run(1, say)
    assert result and result.reference_files == ()
    text = say.export_text()
    assert f"✓ milestone 1: all {len(CASES[1])} cases" in text and "99 / 99" in text
    assert max(map(len, text.splitlines())) <= 95
    kept = json.loads((work / "progress.json").read_text())["milestones"]["1"]
    assert kept["passed"] is True and kept["reference_files"] == []
    assert kept["scores"][CASES[1][0].name]["layers"] == 99
    assert milestones.following(work) == 2


@seldom(6)
def test_the_reference_in_use_is_said(work):
    (work / "engine" / "graph.py").unlink()
    engine.use_reference("graph")
    say = console()
    assert milestones.run(1, say).reference_files == ("graph.py",)
    assert "With the reference's graph.py." in say.export_text()


@seldom(6)
def test_the_parts_that_are_the_references_are_said(work):
    path = work / "engine" / "graph.py"
    these = engine.parts(path.read_text())
    taken = [name for name in these if FILES["graph.py"].notebook_of(name).startswith("01")][-1]
    these[taken] = engine.Part(these[taken].text, reference=True)
    path.write_text(engine.joined(these, "graph.py"))
    say = console()
    assert milestones.run(1, say).reference_files == ("graph.py",)
    assert f"With the reference's graph.py ({taken})." in say.export_text()


def test_a_missing_file_names_its_notebook(work):
    (work / "engine" / "graph.py").unlink()
    say = console()
    assert not milestones.run(1, say)
    text = " ".join(say.export_text().split())
    assert "01_topology/2_read_an_onnx_graph.ipynb writes it" in text and 'use_reference("graph")' in text


@seldom(6)
def test_an_endless_loop_is_ended_and_the_other_cases_go_on(work, monkeypatch):
    monkeypatch.setattr(milestones, "SECONDS", 3.0)
    own = engine.reference_text("graph.py") + "\n\nfound = read\n\n\ndef read(model):\n    graph = found(model)\n"
    own += "    while len(graph.layers) == 151:\n        try:\n            while True:\n                pass\n"
    own += "        except BaseException:\n            pass\n    return graph\n"
    (work / "engine" / "graph.py").write_text(own)
    result = milestones.run(1, console())
    assert "with batch-norms, 96×80: not finished after 3 s" in result.flaw
    assert [bool(scores) for scores in result.scores.values()] == [
        case.name != "with batch-norms, 96×80" and not case.refused for case in CASES[1]
    ]


@seldom(6)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    import os\n    print('the end')\n    os._exit(5)\n", "the engine ended the process (status 5): the end"),
        ("    return bytearray(1 << 40)\n", "graph.py, line 2: `return bytearray(1 << 40)`: MemoryError"),
    ],
)
def test_a_dying_engine_is_an_answer(body, said, work):
    (work / "engine" / "graph.py").write_text("def read(model):\n" + body)
    assert said in milestones.run(1, console()).flaw


def test_a_chapter_without_a_milestone_says_so(work):
    say = console()
    assert not milestones.run(3, say)
    assert "it measures libraries" in say.export_text()
    with pytest.raises(ValueError, match="chapter: must be 1 to 6, got 7"):
        milestones.run(7)


@seldom(4)
def test_the_command(work):
    answer = CliRunner().invoke(app, ["milestone"])
    assert answer.exit_code == 0 and f"✓ milestone 1: all {len(CASES[1])} cases" in answer.output
    (work / "engine" / "weights.py").unlink()
    answer = CliRunner().invoke(app, ["milestone"])  # the first one not passed
    assert answer.exit_code == 1 and "your engine has no weights.py yet" in answer.output
    assert CliRunner().invoke(app, ["milestone", "4"]).exit_code == 1
    assert CliRunner().invoke(app, ["milestone", "9"]).exit_code == 2


def test_the_command_finds_work_below_the_repository(work, monkeypatch, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    (repository / "work").symlink_to(work)
    assert milestones.find_engine(repository) == repository / "work" / "engine"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    answer = CliRunner().invoke(app, ["milestone", "1"])
    assert answer.exit_code == 2 and "make lab" in answer.output


def test_judging_modules_that_are_given(tmp_path):
    graph = types.SimpleNamespace(read=lambda model: None)
    assert "without `input`" in judge(1, CASES[1][0], {"graph": graph}).flaw


def test_the_second_of_two_batch_norms_stays(tmp_path):
    case = next(case for case in CASES[2] if case.name == "two batch-norms in a row")
    (outcome,) = judged(write_engine(tmp_path / "engine"), 2, [case])
    assert outcome.passed, outcome.flaw
    assert outcome.scores["layers"] == 7  # convolution, norm, ReLU6, convolution, norm, pooling, Linear


def test_equal_arrays_are_stored_once():
    case = next(case for case in CASES[2] if case.name == "equal arrays stored once")
    stored = [(tuple(tensor.dims), tensor.raw_data) for tensor in case.model().graph.initializer]
    assert len(set(stored)) == len(stored) < len(case.network()[1]) / 2


def test_bfloat16_in_a_typed_field_is_read_as_bit_patterns():
    from common.lab.reference.engine import weights as reference

    for data_type in (onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT16):
        tensor = onnx.helper.make_tensor("a", data_type, [2, 2], [1.0, -2.5, 0.0, 3.0])
        assert not tensor.raw_data
        expected, got = onnx.numpy_helper.to_array(tensor), reference.to_array(tensor)
        assert got.dtype == expected.dtype and got.tobytes() == expected.tobytes()
