"""The cells of chapter 01 that test a part of graph.py: silent for the reference, and each slip gets its message."""

import json
import re

import pytest

from common import check, topology
from common.lab import engine
from common.report import generated, results

NOTEBOOKS = {2: "2_read_an_onnx_graph", 3: "3_list_any_network"}
FIRST = {2: ["cell-01", "export", "small-graph"], 3: ["cell-01", "cell-11"]}  # what the tested cells build on
SLIPS = {
    (2, "cell-19"): [
        ('elif node.op_type == "Identity" and node.input[0] in known:', "elif False:", "'w']: u and v repeat w"),
        (
            'and node.input[0] in known:\n            known[node.output[0]] = known[node.input[0]]',
            'or 0:\n            known[node.output[0]] = known.get(node.input[0])',
            "y is listed, but the tensor x",
        ),
    ],
    (2, "cell-30"): [
        ("axis % 4 for axis in axes", "axis for axis in axes", "{'axes': [-1, -2]}: 'ValueError', expected 'Global"),
        ("sorted(axis % 4 for axis in axes)", "list(axes)", "{'axes': [-1, -2]}: 'ValueError', expected 'Global"),
        ("if sorted(axis % 4 for axis in axes) == [2, 3]:", "if True:", "'GlobalAveragePool', expected 'ValueError'"),
        ('op == "Add" and any(', 'op == "Add" and all(', "'ResidualAdd', expected 'bias'"),
        ("any(name in known for name in node.input)", "True", "Add of ['x', 'z']: 'bias', expected 'ResidualAdd'"),
    ],
    (2, "test-walk"): [
        ("inputs = [same.get(name, name) for", "inputs = [name for", "inputs ['d'], expected ['c']"),
        ('.weights["bias"] = names[0]', '.weights["bias"] = known[names[0]]', "weights holds names, not arrays"),
        ('if op in ("", "bias") and inputs:', 'if op in ("", "bias"):', "reads no tensor: step 2"),
    ],
    (2, "cell-40"): [
        ("inputs = [same.get(name, name) for", "inputs = [name for", "reads layers ['no layer'], expected [97]"),
        ('if op in ("", "bias") and inputs:', 'if op in ("", "bias"):', "IndexError"),
    ],
    (3, "cell-33"): [
        ("same_padding(size[i], extent[i],", "same_padding(size[i], kernel[i],", "dilated: the padding is ((1, 1)"),
        ('upper = auto == b"SAME_UPPER"', "upper = True", "SAME_LOWER: the padding is ((0, 1), (1, 1))"),
        ("sum(padding[i]) - extent[i]", "sum(padding[i]) - kernel[i]", "dilated: count is"),
        ("(size[i] + sum(padding[i])", "(size[0] + sum(padding[0])", "the stem: count is (112, 112)"),
        ("        padding = tuple(same", "        padding = list(same", "the padding is [("),
    ],
    (3, "test-describe"): [
        ('a.get("group", 1)', 'a["group"]', "'group' is missing, so its default counts"),
        ("1 if transposed else 0", "0", "shape (2, 3), expected (2, 7)"),
    ],
    (3, "test-cost"): [('// layer.shape[1])', "// 1)", "multiply-adds, expected")],
    (3, "cell-40"): [
        ("        cost(layer, shapes, known)\n", "", "stem: 0 multiply-adds: does read call cost?"),
        ("        shapes[layer.output] = layer.shape\n", "", "is asked for before read notes it"),
    ],
}  # fmt: skip


def cells(number: int) -> dict[str, str]:
    path = results.course() / "01_topology" / f"{NOTEBOOKS[number]}.ipynb"
    return {cell["id"]: generated.source(cell) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}


@pytest.fixture(scope="module")
def model():
    return topology.export_onnx(topology.MobileNetV2(batch_norm=False))


@pytest.fixture
def run(tmp_path, monkeypatch, model):
    """A function that runs a cell of a notebook with an engine whose text has one change."""
    pytest.importorskip("torch")
    monkeypatch.setattr(check, "reveal", lambda *_, **__: None)
    monkeypatch.setattr(topology, "export_onnx", lambda module, path: path.write_bytes(model.SerializeToString()))

    def run(number: int, cell: str, old: str = "", new: str = "") -> None:
        text = engine.reference_text("graph.py").replace(" (reference)", "")
        assert not old or old in text, old
        (tmp_path / "engine").mkdir()
        (tmp_path / "engine" / "graph.py").write_text(text.replace(old, new) if old else text)
        (tmp_path / "engine" / "__init__.py").write_text("")
        engine.open_engine(lambda: tmp_path / "engine")
        names: dict = {}
        sources = cells(number)
        try:
            for one in [*FIRST[number], cell]:
                source = re.sub(r"^%.*$|^draw\..*$", "", sources[one], flags=re.MULTILINE)
                exec("from engine import graph\n" + source, names)
        finally:
            engine.open_engine()
            if "scratch" in names:
                names["scratch"].cleanup()

    return run


@pytest.mark.parametrize(("number", "cell"), SLIPS)
def test_the_reference_is_right(run, number, cell):
    run(number, cell)


@pytest.mark.parametrize(
    ("number", "cell", "old", "new", "said"), [(*where, *slip) for where in SLIPS for slip in SLIPS[where]]
)
def test_a_slip_gets_its_message(run, number, cell, old, new, said):
    with pytest.raises((AssertionError, IndexError)) as caught:
        run(number, cell, old, new)
    assert said in f"{type(caught.value).__name__}: {caught.value}"
