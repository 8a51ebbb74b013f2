"""The doctor finds what is there, and says of what is missing how to mend it."""

import importlib
import io
import os
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from common import doctor
from common.__main__ import app
from common.doctor import State


def text_of(result) -> str:
    return " ".join(result.output.split())


def test_a_healthy_machine():
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    for name in (
        "Python",
        "GPU",
        "NVRTC",
        "cuda.inspect",
        "cuDNN",
        "CuPy",
        "torch",
        "C++ compiler",
        "jupyterlab",
        "kernel cache",
    ):
        assert name in result.output
    assert "all that is needed is here" in text_of(result)


def test_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "gpu")
    monkeypatch.setattr(doctor.cuda, "backend", _no_gpu)
    finding = doctor.backend()
    assert finding.state is State.MISSING and "COURSE_DEVICE" in finding.mend


def _no_gpu():
    raise RuntimeError("COURSE_DEVICE=gpu, but CuPy finds no CUDA device")


def test_missing_packages(monkeypatch):
    needed = doctor.package("no_such_package", "nothing", State.MISSING)
    assert needed.state is State.MISSING and needed.value == "not installed" and "bootstrap" in needed.mend
    assert doctor.package("no_such_package", "nothing", State.OPTIONAL).state is State.OPTIONAL


def test_a_package_that_does_not_load(monkeypatch):
    def broken(name):
        raise ImportError("libcublas.so.12: cannot open\nshared object file")

    monkeypatch.setattr(importlib, "import_module", broken)
    finding = doctor.package("onnx", "models", State.MISSING)
    assert finding.state is State.MISSING
    assert finding.value == "does not load: libcublas.so.12: cannot open shared object file"
    assert "onnx" in finding.mend


def test_something_missing_makes_it_false_and_is_named(monkeypatch):
    findings = [
        doctor.Finding("one", "fine [bold]as it is[/]"),
        doctor.Finding("two", "gone", State.MISSING, "fetch it"),
        doctor.Finding("three", "gone", State.OPTIONAL),
    ]
    monkeypatch.setattr(doctor, "examine", lambda: iter(findings))
    out = io.StringIO()
    assert not doctor.run(Console(file=out, width=100))
    assert "needed and missing: two" in out.getvalue()
    assert "fetch it" in out.getvalue() and "[bold]as it is[/]" in out.getvalue()
    findings.pop(1)
    assert doctor.run(Console(file=out, width=100))


def fake_nvidia_smi(tmp_path, monkeypatch, listing):
    path = tmp_path / "nvidia-smi"
    path.write_text(f"#!/bin/sh\ncase $1 in -L) echo 'GPU 0: A card';; *) echo '{listing}';; esac\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def test_gpus(tmp_path, monkeypatch):
    fake_nvidia_smi(tmp_path, monkeypatch, "NVIDIA T4, 15360 MiB, 7.5, 550.54")
    assert doctor.gpu() == doctor.Finding("GPU", "NVIDIA T4, 15360 MiB, compute capability 7.5; driver 550.54")
    fake_nvidia_smi(tmp_path, monkeypatch, "NVIDIA P100, 16384 MiB, 6.0, 550.54")
    assert "Turing" in doctor.gpu().mend


def test_with_a_gpu_cupy_is_needed_unless_the_simulator_is_asked_for(tmp_path, monkeypatch):
    fake_nvidia_smi(tmp_path, monkeypatch, "NVIDIA T4, 15360 MiB, 7.5, 550.54")
    monkeypatch.setattr(doctor, "_versions", lambda *names: [])
    monkeypatch.delenv("COURSE_DEVICE", raising=False)
    assert doctor.cupy().state is State.MISSING and "bootstrap" in doctor.cupy().mend
    assert doctor.cudnn().state is State.OPTIONAL and doctor.cudnn().mend
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    assert doctor.cupy().state is State.OPTIONAL


def test_no_compiler(monkeypatch):
    from common.cuda import simulator

    def none():
        raise RuntimeError("The simulator needs a C++ compiler")

    monkeypatch.setattr(simulator, "find_compiler", none)
    monkeypatch.setattr(doctor.cuda, "backend", lambda: "simulator")
    assert doctor.compiler().state is State.MISSING and "ziglang" in doctor.compiler().mend
    monkeypatch.setattr(doctor.cuda, "backend", lambda: "gpu")
    assert doctor.compiler().state is State.OPTIONAL


@pytest.mark.parametrize(("number", "version"), [(12090, "12.9"), (13000, "13.0"), (12020, "12.2")])
def test_cuda_versions(number, version):
    assert doctor._cuda(number) == version


def test_what_optimize_can_use(monkeypatch):
    """What a card has, and what is done in the place of the rest; a package that is missing can be had."""
    from common.optimize import features

    monkeypatch.setattr(doctor.cuda, "backend", lambda: "gpu")
    for capability, able, lacking in (
        (75, "nothing of it", ["fused blocks", "clusters", "programmatic launches"]),
        (80, "fused blocks", ["clusters", "programmatic launches"]),
        (90, "fused blocks, clusters, programmatic launches", []),
    ):
        monkeypatch.setattr(doctor.cuda, "compute_capability", lambda capability=capability: capability)
        monkeypatch.setattr(features, "_has", lambda module: True)
        finding = doctor.optimizations()
        assert finding.state is State.FINE and finding.value.split(";")[0] == able
        for feature in lacking:
            assert f"without {feature} (needs sm_" in finding.value and ": " in finding.value
    monkeypatch.setattr(features, "_has", lambda module: False)
    finding = doctor.optimizations()
    assert finding.state is State.OPTIONAL and finding.mend == "pip install cuda-bindings"
    assert "each kernel begins when the one before it has ended" in finding.value


def test_what_optimize_can_use_of_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr(doctor.cuda, "compute_capability", _no_gpu)
    assert doctor.optimizations().state is State.OPTIONAL


def test_what_breaks_while_it_looks_is_a_finding(monkeypatch):
    def broken():
        raise KeyError("no such field")

    monkeypatch.setattr(doctor, "gpu", broken)
    monkeypatch.setattr(doctor, "NEEDED", {})
    monkeypatch.setattr(doctor, "OPTIONAL", {})
    findings = {finding.name: finding for finding in doctor.examine()}
    assert findings["broken"].state is State.MISSING and "KeyError: 'no such field'" in findings["broken"].value
    assert findings["Python"].state is State.FINE and "a test kernel" in findings


def test_another_package_of_the_same_name(monkeypatch):
    def owners(*names):
        monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: {"common": list(names)})
        return doctor.package_name()

    assert owners("mobilenetv2-engine-course").state is State.FINE
    other = owners("mobilenetv2-engine-course", "another")
    assert other.state is State.MISSING and "another" in other.value and "pip uninstall another" in other.mend


def test_a_package_that_pip_installed_has_no_set_up_to_run_again(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "BOOTSTRAP", tmp_path / "bootstrap.py")
    monkeypatch.setattr(doctor, "DISTRIBUTIONS", {"no_such_package": "distribution"})
    assert doctor.package("no_such_package", "nothing", State.MISSING).mend == "pip install distribution"


def test_the_kernel_cache_while_others_compile_and_delete(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    for name in ("kept", "gone", "building-x/inside", "folder/kept"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(500_000))
    (tmp_path / "lost").mkdir()
    listed, looked = os.scandir, os.stat

    def scandir(path):
        if Path(path).name == "lost":
            raise FileNotFoundError(path)
        return listed(path)

    def stat(path, **options):
        if Path(path).name == "gone":
            raise FileNotFoundError(path)
        return looked(path, **options)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "stat", stat)
    found = doctor.kernel_cache()
    assert found.state is doctor.State.FINE and ": 2 files, 1.0 MB" in found.value
