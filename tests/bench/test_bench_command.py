"""python -m common bench and generate: the suites there are, and what is said where nothing can be timed."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from common import bench
from common.__main__ import app
from common.bench import Options
from common.check import unfold
from common.measure import figures, generated


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments):
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def one_line(text):
    return len(text.strip().splitlines()) == 1 and "Traceback" not in text


def test_an_unknown_suite_names_the_known_ones(run):
    result = run("bench", "speed")
    assert result.exit_code == 2 and one_line(result.stderr)
    suites = "network, chain, operators, kernels, plans, sparse, profile, peaks, trace"
    assert f"SUITE must be one of {suites}, got 'speed'" in result.stderr


@pytest.mark.parametrize("suite", ["network", "chain", "peaks", "trace"])
def test_without_a_gpu_it_says_where_recorded_results_are(run, suite):
    result = run("bench", suite)
    assert result.exit_code == 2 and one_line(result.stderr) and "06_optimize/results" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--backend", "tensorrt"), "backend must be one of ours, cudnn"),
        (("--precision", "int8"), "precision must be one of fp32, tf32, fp16"),
        (("--layout", "CHWN"), "layout must be one of NCHW, NHWC"),
        (("--mode", "cold"), "mode must be one of hot, rotating, host, got 'cold'"),
        (("--optimize", "fast"), "optimize must be one of none, latency, throughput, got 'fast'"),
    ],
)
def test_wrong_options_are_told_in_one_line(run, arguments, message):
    result = run("bench", "network", *arguments)
    assert result.exit_code == 2 and one_line(result.stderr) and message in result.stderr


@pytest.mark.parametrize("arguments", [("--batch", 0), ("--samples", 5)])
def test_numbers_out_of_range(run, arguments):
    assert run("bench", "network", *arguments).exit_code == 2


def test_options_reach_the_suite(run, monkeypatch):
    given = []
    monkeypatch.setitem(bench.SUITES, "network", lambda options, console: given.append(options) or True)
    assert run("bench", "network").exit_code == 0
    arguments = "--backend cudnn --backend ours --batch 1 --batch 8 --precision fp16 --layout NHWC --mode rotating"
    assert run("bench", "network", *arguments.split(), "--samples", 20, "--no-tune", "--save").exit_code == 0
    assert run("bench", "network", "--optimize", "none").exit_code == 0
    assert given == [
        Options(),
        Options(("cudnn", "ours"), (1, 8), ("fp16",), ("NHWC",), "rotating", 20, tune=False, save=True),
        Options(optimize="none"),
    ]


def test_a_wrong_result_is_exit_status_1(run, monkeypatch):
    monkeypatch.setitem(bench.SUITES, "network", lambda options, console: False)
    result = run("bench", "network")
    assert result.exit_code == 1 and one_line(result.stderr)


def test_options_are_checked():
    with pytest.raises(ValueError, match="mode must be one of hot, rotating, host, got 'cold'"):
        Options(mode="cold")
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        Options(batches=(1, 0))


def test_choosing():
    assert bench.choose("layout", (), ("a", "b"), ("b",)) == ("b",)
    assert bench.choose("layout", ("b", "a", "b"), ("a", "b"), ()) == ("b", "a")
    with pytest.raises(ValueError, match="layout must be one of a, b, got 'c'"):
        bench.choose("layout", ("c",), ("a", "b"), ())


@pytest.mark.parametrize("name", ["network", "peaks"])
def test_a_suite_is_imported_when_it_is_asked_for(name):
    assert callable(bench.suite(name))


def test_importing_the_suites_imports_nothing_heavy():
    code = "import sys, common.bench; print([m for m in ('cupy', 'torch', 'jax', 'numpy', 'onnx') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("check", [False, True])
def test_generate(run, monkeypatch, check):
    modules = (generated, figures, unfold)
    for stale in (None, *modules):
        asked = []
        for module in modules:
            well = module is not stale
            monkeypatch.setattr(module, "run", lambda check, asked=asked, well=well: asked.append(check) or well)
        result = run("generate", *(["--check"] if check else []))
        assert result.exit_code == (0 if stale is None else 1)
        assert stale is None or "python -m common generate" in result.stderr
        assert asked == [check] * 3  # nobody is left out because another is stale
