"""python -m common bench and generate: the suites there are, and what is said where nothing can be timed."""

import importlib
import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tiers import seldom

from common.bench import driver, network
from common.check import unfold
from common.report import figures, generated, results


@pytest.fixture
def run(monkeypatch, invoke):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    return invoke


def one_line(text):
    return len(text.strip().splitlines()) == 1 and "Traceback" not in text


def test_an_unknown_suite_names_the_known_ones(run):
    result = run("bench", "speed")
    assert result.exit_code == 2 and one_line(result.stderr)
    suites = "all, network, chain, operators, kernels, late, plans, sparse, profile, timeline, errors, peaks, trace"
    suites += ", multiprocessor, sections, inspect, families, two-of-four, fp8, candidates, pipeline, scaling, load"
    assert f"SUITE must be one of {suites}, got 'speed'" in result.stderr


@pytest.mark.parametrize(
    "suite", ["all", "network", "chain", "late", "peaks", "trace", "inspect", "sections", "multiprocessor"]
)
def test_without_a_gpu_it_says_where_recorded_results_are(run, suite):
    result = run("bench", suite)
    assert result.exit_code == 2 and one_line(result.stderr) and "06_optimize/results" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--backend", "tensorflow"), "backend must be one of ours, ours-fma, ours-steps, cudnn"),
        (("--precision", "bf16"), "precision must be one of fp32, tf32, fp16"),
        (("--layout", "CHWN"), "layout must be one of NCHW, NHWC"),
        (("--mode", "cold"), "mode must be one of hot, rotating, host, call, replay, got 'cold'"),
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
    monkeypatch.setattr(network, "bench", lambda options, console: given.append(options) or True)
    assert run("bench", "network").exit_code == 0
    arguments = "--backend cudnn --backend ours --batch 1 --batch 8 --precision fp16 --layout NHWC --mode rotating"
    more = ("--samples", 20, "--no-tune", "--save", "--results", "elsewhere")
    assert run("bench", "network", *arguments.split(), *more).exit_code == 0
    assert run("bench", "network", "--optimize", "none").exit_code == 0
    assert given == [
        network.Options(),
        network.Options(
            backends=("cudnn", "ours"), batches=(1, 8), precisions=("fp16",), layouts=("NHWC",), mode="rotating",
            samples=20, tune=False, save=True, folder=Path("elsewhere"),
        ),
        network.Options(optimize="none"),
    ]  # fmt: skip


EVERY = {  # options of each suite that README files and notebooks mention, or that are its own
    "network": "--mode host --save",
    "chain": "--backend naive --batch 1 --precision fp16 --save",
    "operators": "--backend ours --layout NHWC --no-tune --save",
    "kernels": "--operator add --batch 1 --precision fp32 --save",
    "late": "--tiles 8 --batch 32 --precision fp32 --no-tune --save",
    "plans": "--precision fp16 --layout NHWC --save",
    "sparse": "--network resnet-50 --limit 12 --pattern tiles --layer *1×1* --no-sweep --csv sparse.csv --save",
    "profile": "--batch 256 --precision fp16 --save",
    "errors": "--network digits --inputs noise --batch 2 --save",
    "peaks": "--case l2-copy --case l2-read --samples 20 --save",
    "trace": "--save",
    "inspect": "--save",
    "sections": "--save",
    "multiprocessor": "--case waves --case loads --samples 8 --save",
}
ANYWHERE = {
    "pipeline": "--batch 8 --repeats 4",
    "scaling": "--gpus 1 --gpus 2 --batch 8 --repeats 4 --seconds 1 --no-ray",
    "load": "--window 0 --window 5 --rate 20 --seconds 2 --port 9000",
}


@pytest.mark.parametrize("suite", EVERY)
def test_every_suite_takes_its_options_and_no_others(run, monkeypatch, suite):
    module = importlib.import_module(f"common.bench.{suite}")
    given = []
    monkeypatch.setattr(module, "bench", lambda options, console: given.append(options) or True)
    assert run("bench", suite, *EVERY[suite].split()).exit_code == 0
    (options,) = given
    assert type(options) is module.Options and options.save
    assert run("bench", suite, "--seconds", 10).exit_code == 2 and len(given) == 1


@pytest.mark.parametrize("suite", ANYWHERE)
def test_suites_that_need_no_gpu_take_their_options_and_save_nothing_of_the_simulator(run, monkeypatch, suite):
    module = importlib.import_module(f"common.bench.{suite}")
    given = []
    monkeypatch.setattr(module, "bench", lambda options, console: given.append(options) or True)
    assert run("bench", suite, *ANYWHERE[suite].split()).exit_code == 0 and type(given[0]) is module.Options
    for arguments, says in (
        (("--save",), "06_optimize/results"),
        (("--precision", "tf32"), "must be one of fp32, fp16"),
    ):
        result = run("bench", suite, *arguments)
        assert result.exit_code == 2 and one_line(result.stderr) and says in result.stderr and len(given) == 1


def test_a_wrong_result_is_exit_status_1(run, monkeypatch):
    monkeypatch.setattr(network, "bench", lambda options, console: False)
    result = run("bench", "network")
    assert result.exit_code == 1 and one_line(result.stderr)


@pytest.mark.parametrize("error", [ValueError, RuntimeError, OSError])
def test_an_error_is_one_line(run, monkeypatch, error):
    def broken(options, console):
        raise error("a disk\nis full")

    monkeypatch.setattr(network, "bench", broken)
    result = run("bench", "network")
    assert result.exit_code == 2 and result.stderr == "a disk is full\n"


def test_outside_of_the_course_nothing_is_measured_that_cannot_be_saved(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "__file__", str(tmp_path / "site-packages" / "common" / "report" / "results.py"))
    monkeypatch.chdir(tmp_path)
    measured = []
    console = Console(file=io.StringIO())
    groups = (measured.append(group) or group for group in [([], True)])
    bench = driver.suite("network", lambda options, console: groups)
    with pytest.raises(FileNotFoundError, match="is not in a folder of the course"):
        bench(driver.Options(save=True), console)
    assert not measured and not list(tmp_path.iterdir())
    bench(driver.Options(save=True, folder=tmp_path / "mine"), console)
    assert measured and not list(tmp_path.iterdir())  # there was nothing to save


def test_options_are_checked():
    with pytest.raises(ValueError, match="mode must be one of hot, rotating, host, call, replay, got 'cold'"):
        network.Options(mode="cold")
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        driver.Options(batches=(1, 0))


def test_choosing():
    assert driver.choose("layout", (), ("a", "b"), ("b",)) == ("b",)
    assert driver.choose("layout", ("b", "a", "b"), ("a", "b"), ()) == ("b", "a")
    with pytest.raises(ValueError, match="layout must be one of a, b, got 'c'"):
        driver.choose("layout", ("c",), ("a", "b"), ())


def test_importing_the_suites_imports_nothing_heavy():
    code = "import sys, common.bench.commands; "
    code += "print([m for m in ('cupy', 'torch', 'jax', 'numpy', 'onnx', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@seldom(6)
@pytest.mark.parametrize("check", [False, True])
def test_generate(run, monkeypatch, check):
    modules = (generated, figures, unfold)
    for stale in (None, *modules):
        asked = []
        for module in modules:
            well = module is not stale
            monkeypatch.setattr(module, "run", lambda check, *_, asked=asked, well=well: asked.append(check) or well)
        result = run("generate", *(["--check"] if check else []))
        assert result.exit_code == (0 if stale is None else 1)
        assert stale is None or "python -m common generate" in result.stderr
        assert asked == [check] * 3  # nobody is left out because another is stale


def test_generate_says_what_is_damaged_in_one_line(run, monkeypatch, tmp_path):
    folder = tmp_path / "nvidia-h200"
    shutil.copytree(results.path_of("NVIDIA H200"), folder)
    table = folder / "network.csv"
    cut = table.read_text(encoding="utf-8")[:-100]
    table.write_text(cut, encoding="utf-8")
    monkeypatch.setattr(results, "path_of", lambda card, folder=None: tmp_path / "nvidia-h200")
    result = run("generate", "--check")
    assert result.exit_code == 2 and one_line(result.stderr) and result.stdout == ""
    assert f"network.csv, line {cut.count(chr(10)) + 1}: expected a whole line" in result.stderr


def test_a_table_on_the_console():
    console = Console(file=io.StringIO(), width=80)
    console.print(driver.table([{"step": "[1×1]", "µs": "2.06"}, {"step": "3×3", "µs": "16,598"}], 1, "batch 1"))
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines == ["batch 1", " step       µs", " [1×1]    2.06", " 3×3    16,598"]
    console.print(driver.table([]))
