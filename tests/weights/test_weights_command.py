"""python -m common weights make|extract|check."""

import io
import os
import zipfile

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from common import weights
from common.__main__ import app
from common.topology import read_onnx
from common.weights import commands


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["weights", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def digits_onnx(tmp_path):
    path = tmp_path / "digits.onnx"
    code, _, _ = run("make", "digits", "--out", path)
    assert code == 0
    return path


def test_make_extract_check(tmp_path, digits_onnx):
    onnx.checker.check_model(digits_onnx)
    assert read_onnx(digits_onnx).input_shape == (1, 3, 48, 48)
    _, expected = weights.network("digits")
    for command in (("make", "digits"), ("extract", digits_onnx)):
        out = tmp_path / f"{command[0]}.npz"
        assert run(*command, "--out", out)[0] == 0
        got = weights.load(out)
        assert list(got) == list(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(got[name], array)
        code, output, _ = run("check", out)
        assert code == 0 and "106 parameters of 401,898 numbers, none out of order" in output
        assert "features.0.0.weight" in output and "16 × 3 × 3 × 3" in output
    assert run("check", digits_onnx)[0] == 0
    assert run("check", tmp_path / "make.npz", "--onnx", digits_onnx)[0] == 0


def test_make_other_sizes(tmp_path):
    assert run("make", "digits", "--out", tmp_path / "x.onnx", "--size", 65)[0] == 0
    assert read_onnx(tmp_path / "x.onnx").input_shape == (1, 3, 65, 65)


def test_raw_extraction_keeps_everything(tmp_path, digits_onnx):
    assert run("extract", digits_onnx, "--out", tmp_path / "raw.npz", "--raw")[0] == 0
    model = onnx.load(digits_onnx)
    assert list(weights.load(tmp_path / "raw.npz")) == [tensor.name for tensor in model.graph.initializer]


def test_check_names_what_is_wrong(tmp_path):
    _, parameters = weights.network("digits")
    parameters["features.0.0.bias"] = np.full(16, np.nan, np.float32)
    parameters["stray"] = np.zeros(3, np.float32)
    del parameters["classifier.1.bias"]
    weights.save(tmp_path / "bad.npz", parameters)
    code, output, error = run("check", tmp_path / "bad.npz")
    assert code == 1 and error.strip().endswith("bad.npz: 3 parameters are out of order")
    assert "16 of 16 numbers are infinite or not a number" in output
    assert "missing, expected (10,)" in output and "no layer reads it" in output


def test_errors_are_one_line_and_write_nothing(tmp_path, digits_onnx):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(digits_onnx.read_bytes()[:1000])
    text = tmp_path / "text.npz"
    text.write_text("hello")
    before = sorted(tmp_path.iterdir())
    for arguments, message in [
        (("make", "coco", "--out", tmp_path / "x.onnx"), "no weights called 'coco'"),
        (("make", "digits", "--out", tmp_path / "x.bin"), "should end in .onnx or .npz"),
        (("make", "digits", "--out", tmp_path / "no" / "x.npz"), "no/x.npz"),
        (("make", "digits", "--out", digits_onnx), "exists; --force replaces it"),
        (("extract", digits_onnx, "--out", text), "exists; --force replaces it"),
        (("extract", broken, "--out", tmp_path / "x.npz"), ""),
        (("extract", tmp_path / "none.onnx", "--out", tmp_path / "x.npz"), "none.onnx"),
        (("check", text), "not a readable .npz"),
        (("check", broken), ""),
        (("check", tmp_path / "none.npz"), "none.npz"),
    ]:
        code, output, error = run(*arguments)
        assert code == 2 and output == "", arguments
        assert message in error and error.count("\n") == 1, error
    assert sorted(tmp_path.iterdir()) == before
    assert run("make", "digits", "--out", digits_onnx, "--force", "--size", 64)[0] == 0
    assert read_onnx(digits_onnx).input_shape == (1, 3, 64, 64)


@pytest.mark.parametrize("width", commands.WIDTHS)
def test_the_width_is_found_from_the_shapes(width):
    from common.topology import build

    for batch_norm in (False, True):
        graph = build(width, 7, batch_norm=batch_norm)
        parameters = {name: np.zeros(shape, np.float32) for name, shape in graph.parameter_shapes.items()}
        assert commands.nearest_mobilenet(parameters) == graph


def test_names_out_of_a_file_do_not_reach_the_terminal_as_they_are(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        content = io.BytesIO()
        np.save(content, np.zeros(3, np.float32))
        archive.writestr("\x1b[2J\x07.npy", content.getvalue())
    code, output, _ = run("check", tmp_path / "x.npz")
    assert code == 1 and r"\x1b[2J\x07" in output and "\x1b" not in output and "\x07" not in output


def test_an_output_that_is_no_regular_file_stays_what_it_is(tmp_path, digits_onnx):
    os.mkfifo(tmp_path / "pipe.npz")
    os.mkfifo(tmp_path / "pipe.onnx")
    for arguments in (
        ("make", "digits", "--out", tmp_path / "pipe.npz", "--force"),
        ("make", "digits", "--out", tmp_path / "pipe.onnx", "--force"),
        ("extract", digits_onnx, "--out", tmp_path / "pipe.npz", "--force"),
    ):
        code, output, error = run(*arguments)
        assert code == 2 and output == "" and "expected a regular file, got a named pipe" in error
    assert sorted(os.listdir(tmp_path)) == ["digits.onnx", "pipe.npz", "pipe.onnx"]
    assert (tmp_path / "pipe.npz").is_fifo() and (tmp_path / "pipe.onnx").is_fifo()
