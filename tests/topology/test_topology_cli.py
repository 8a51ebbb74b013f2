"""python -m common topology"""

import pytest
from topology_models import mobilenet
from typer.testing import CliRunner

from common.__main__ import app
from common.topology import build


def run(*arguments):
    return CliRunner().invoke(app, ["topology", *map(str, arguments)])


def test_the_listing_of_the_table():
    result = run()
    assert result.exit_code == 0
    assert result.stdout == f"{build()}\n"
    assert "99 layers: 52 Conv2d, 35 ReLU6, 10 ResidualAdd, 1 GlobalAveragePool, 1 Linear" in result.stdout
    assert "300.8 million multiply-accumulates, 3.488 million parameters" in result.stdout


def test_options():
    assert run("--width", 0.35, "--classes", 10, "--size", 96).stdout == f"{build(0.35, 10, 96)}\n"


def test_a_file(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(mobilenet(11, shape=("n", 3, "h", "w")).SerializeToString())
    assert "input 1 × 3 × 224 × 224" in run("--onnx", path).stdout
    assert "input 1 × 3 × 40 × 40" in run("--onnx", path, "--size", 40).stdout


@pytest.mark.parametrize("arguments", [("--width", "-1"), ("--width", "nan"), ("--size", "0"), ("--classes", "0")])
def test_numbers_that_describe_no_network(arguments):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.strip()


@pytest.mark.parametrize("content", [None, b"", b"not a model", mobilenet(11).SerializeToString()[:500]])
def test_a_bad_file_is_one_line_and_exit_status_2(tmp_path, content):
    path = tmp_path / "m.onnx"
    if content is not None:
        path.write_bytes(content)
    result = run("--onnx", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.stderr
