"""python -m common quantize: a folder of pictures and a network become a file, or one line says why not."""

import os

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from quantized_models import onnx_runtime
from tiers import seldom

from common import cuda, weights
from common import topology as t
from common.kernels import int8
from common.network import Network
from common.network.compare import TOLERANCES, compare
from common.network.operators import Quantize

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six pictures, one file that is none, and a small network: small.onnx."""
    path = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), np.uint8)).save(path / f"{i}.png")
    (path / "notes.txt").write_text("no picture")
    graph = t.build(0.35, 10, 32)
    parameters = weights.seeded_parameters(t.build(0.35, 10, 32, batch_norm=True))
    folded = weights.fold_batch_norm(t.build(0.35, 10, 32, batch_norm=True), parameters)
    assert folded[0].layers == graph.layers
    onnx.save(t.write_onnx(*folded, dynamic_batch=True), path.parent / "small.onnx")
    return path


@pytest.fixture
def quantized(folder, invoke, tmp_path):
    """quantized(*options): the command on these pictures and this network, with its output tmp_path/out.onnx."""

    def call(*options, out=tmp_path / "out.onnx", calibrate=folder):
        network = folder.parent / "small.onnx"
        return invoke("quantize", "--onnx", network, "--calibrate", calibrate, "-o", out, *options)

    return call


@seldom(6)
def test_a_file_that_both_run(quantized, invoke, tmp_path, rng):
    result = quantized("--ranges", "minmax")
    assert result.exit_code == 0, result.output
    assert "on the 6 calibration pictures" in result.output and "0 layers in float32" in result.output
    assert "notes.txt" in result.stderr
    model = onnx.load(tmp_path / "out.onnx")
    x = rng.standard_normal((3, 3, 32, 32)).astype(np.float32)
    ours, theirs = Network(tmp_path / "out.onnx")(x), onnx_runtime(model, x)
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()
    compared = invoke("compare", "--onnx", tmp_path / "out.onnx", "--inputs", 2, "--no-photo")
    assert compared.exit_code == 0 and compared.output.count(" int8 ") == 3, compared.output
    assert "1e-02 in int8, 1e-01 in fake int8," in compared.output, "the floats of PyTorch are rounded alone"
    assert invoke("compare", "--onnx", tmp_path / "out.onnx", "--layers").exit_code == 2
    refused = quantized()
    assert refused.exit_code == 2 and "exists; --force replaces it" in refused.stderr
    assert (
        quantized("--force", "--pictures", 2, "--per-tensor", "--equalize", "--in-float", "features.0.0").exit_code == 0
    )
    assert all(len(grid.scale) == 1 for name, grid in t.read_onnx(tmp_path / "out.onnx").grids if "weight" in name)


@seldom(6)
def test_floats_may_be_rounded_to_another_step_and_integers_may_not(quantized, tmp_path, monkeypatch):
    """Some sums lie so near the middle of two steps that their own rounding decides; from there on all differs."""
    assert quantized("--ranges", "minmax").exit_code == 0
    right, scaled = Quantize.torch, int8.scaled

    def row(backend):
        return compare(tmp_path / "out.onnx", 3, backends=[backend], seed=0)[1]

    def floats(changed):
        monkeypatch.setattr(Quantize, "torch", lambda self, layer, x, p: right(self, layer, [changed(x[0], layer)], p))
        return row("torch")

    nudged = floats(lambda x, layer: x * (1 + 1e-3))
    assert nudged.error > TOLERANCES["int8"] and nudged.within_contract, nudged
    coarse = floats(lambda x, layer: (x / (32 * layer.grid.scale[0])).round() * 32 * layer.grid.scale[0])
    assert not coarse.within_contract, coarse
    if cuda.backend() == "simulator":  # on a GPU kernels compute
        assert row("kernels").error <= 1e-5
        monkeypatch.setattr(int8, "scaled", lambda acc, *more: scaled(acc, *more) * np.float32(1 + 1e-3))
        assert not row("kernels").within_contract


@seldom(6)
def test_layers_by_sensitivity(folder, tmp_path, rng):
    from common.quantize.files import quantize_file

    graph, parameters = t.read_onnx_with_parameters(folder.parent / "small.onnx")
    x = rng.standard_normal((2, 3, 32, 32)).astype(np.float32)
    report = quantize_file(graph, parameters, x, tmp_path / "out.onnx", ranges="minmax", wanted=0.5)
    assert report.agreement >= 0.5 and len(report.ranking) == 53 and report.pictures == 2
    with pytest.raises(ValueError, match="in_float must be left out"):
        quantize_file(graph, parameters, x, tmp_path / "o.onnx", wanted=0.5, in_float=["features.0.0"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"calibrate": "missing"}, "expected a file or a folder, there is none"),
        ({"calibrate": "empty"}, "expected pictures to calibrate with, none of 0 files is one"),
        ({"calibrate": "texts"}, "expected pictures to calibrate with, none of 1 files is one"),
        ({"out": "network.txt"}, "out must end in .onnx"),
        ({"out": "nowhere/out.onnx"}, "No such file or directory"),
        ({"out": "folder.onnx"}, "expected a regular file, got a folder"),
    ],
)
def test_one_line_says_what_is_wrong_and_nothing_is_written(quantized, tmp_path, options, words):
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "texts" / "a.png").write_text("no picture")
    before = sorted(tmp_path.rglob("*"))
    given = {name: tmp_path / value for name, value in options.items()}
    result = quantized(*(["--force"] if "folder" in str(options) else []), **given)
    assert result.exit_code == 2 and words in result.stderr, result.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("option", [("--ranges", "max"), ("--in-float", "nowhere"), ("--agreement", 98)])
def test_wrong_options_write_nothing(quantized, tmp_path, option):
    result = quantized(*option)
    assert result.exit_code == 2 and len(result.stderr.strip().splitlines()) <= 2
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everywhere")
def test_a_folder_that_may_not_be_read(quantized, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    result = quantized(calibrate=closed)
    assert result.exit_code == 2 and "closed" in result.stderr


@seldom(6)
def test_weights_of_seven_bits(quantized, tmp_path):
    result = quantized("--weight-bits", 7)
    assert result.exit_code == 0 and "by ONNX Runtime on this processor: the same class for" in result.output
    graph, parameters = t.read_onnx_with_parameters(tmp_path / "out.onnx")
    weight = {name: grid for name, grid in graph.grids if grid.dtype == "int8"}
    assert {int(np.abs(grid.codes(parameters[name])).max()) for name, grid in weight.items()} == {63}
    refused = quantized("--force", "--weight-bits", 6)
    assert refused.exit_code == 2 and "weight_bits must be one of 8, 7, got 6" in refused.stderr
