"""The set-up: from a bare checkout to a working environment, with nothing downloaded here."""

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from jupyter_client.manager import start_new_kernel
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
TAGS = ["py311", "py312", "py313"]
EXTENSION = "common/lab/labextension"
LOCKS = {path.name: path.read_text() for path in (REPOSITORY / "requirements").glob("*.txt")}


@pytest.fixture
def checkout(tmp_path):
    """A copy of what the set-up reads, with its own bootstrap module: its .venv/ is not this environment."""
    for name in ("bootstrap.py", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, tmp_path)
    shutil.copytree(REPOSITORY / "requirements", tmp_path / "requirements")
    shutil.copytree(REPOSITORY / EXTENSION, tmp_path / EXTENSION)
    return tmp_path


def load_bootstrap(folder):
    spec = importlib.util.spec_from_file_location("bootstrap", folder / "bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bootstrap(checkout, monkeypatch):
    for name in ("COURSE_GPU", "COURSE_CUPY"):
        monkeypatch.delenv(name, raising=False)
    return load_bootstrap(checkout)


# Python versions


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_supported_pythons(bootstrap, version):
    bootstrap.check_python(version)


@pytest.mark.parametrize("version", [(3, 6), (3, 10), (3, 14), (4, 0)])
def test_other_pythons_are_refused_with_advice(bootstrap, monkeypatch, version):
    monkeypatch.setattr(bootstrap, "runs", lambda arguments: arguments[0] == "python3.12")
    with pytest.raises(bootstrap.SetupError) as error:
        bootstrap.check_python(version)
    assert f"this is Python {version[0]}.{version[1]}" in str(error.value)
    assert "python3.12 bootstrap.py" in str(error.value)
    monkeypatch.setattr(bootstrap, "runs", lambda arguments: False)
    with pytest.raises(bootstrap.SetupError, match="Install one of them"):
        bootstrap.check_python(version)


def test_old_pythons_understand_the_file_that_refuses_them():
    ast.parse((REPOSITORY / "bootstrap.py").read_text(), feature_version=(3, 6))


def test_only_the_standard_library_is_imported():
    tree = ast.parse((REPOSITORY / "bootstrap.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names <= sys.stdlib_module_names
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))


# Lock files


def pins(name: str) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for line in LOCKS[name].splitlines():
        if not line.startswith("#"):
            requirement = Requirement(line)
            found.setdefault(requirement.name, []).append(requirement)
    return found


def version_of(requirement: Requirement) -> str:
    (specifier,) = requirement.specifier
    assert specifier.operator == "==" and "*" not in specifier.version, requirement
    return specifier.version


def wanted(*extras: str) -> list[Requirement]:
    lines = list(PYPROJECT["project"]["dependencies"])
    for extra in extras:
        lines += PYPROJECT["project"]["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize(
    ("prefix", "extras"),
    [("", ["reference", "notebooks", "compiler", "test"]), ("gpu-", ["gpu"]), ("gpu13-", ["gpu13"])],
)
def test_locks_hold_what_pyproject_asks_for(tag, prefix, extras):
    locked = pins(f"{prefix}{tag}.txt") | (pins(f"{tag}.txt") if prefix else {})
    for requirement in wanted(*extras):
        assert normalized(requirement.name) in locked, f"{requirement}: run requirements/lock.py"
        for pin in locked[normalized(requirement.name)]:
            assert requirement.specifier.contains(version_of(pin)), f"{pin}: run requirements/lock.py"


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_every_line_is_one_version(name):
    for requirements in pins(name).values():
        for requirement in requirements:
            version_of(requirement)
        assert len(requirements) == 1 or all(requirement.marker for requirement in requirements)


@pytest.mark.parametrize("tag", TAGS)
def test_what_comes_with_pytorch_alone_is_not_locked(tag):
    unwanted = [name for name in pins(f"{tag}.txt") if re.match(r"nvidia-(?!.*-cu12$)|cuda-|triton", name)]
    assert unwanted == []


@pytest.mark.parametrize("prefix", ["", "gpu-", "gpu13-"])
@pytest.mark.parametrize("tag", TAGS)
def test_nvidias_libraries_are_for_linux_alone(prefix, tag):
    for name, (requirement, *_) in pins(f"{prefix}{tag}.txt").items():
        if name.startswith("nvidia-") and name not in ("nvidia-ml-py", "nvidia-cudnn-frontend"):
            assert str(requirement.marker) == 'sys_platform == "linux"', requirement


def test_one_pytorch_for_all():
    assert len({version_of(pins(f"{tag}.txt")["torch"][0]) for tag in TAGS}) == 1


# Choosing what to install


def fake_nvidia_smi(folder, monkeypatch, script="echo 'GPU 0: A card'"):
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    path = bin_folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder), prepend=os.pathsep)


def test_a_gpu_is_what_nvidia_smi_lists(bootstrap, checkout, monkeypatch):
    fake_nvidia_smi(checkout, monkeypatch)
    assert bootstrap.has_gpu()
    monkeypatch.setenv("COURSE_GPU", "0")
    assert not bootstrap.has_gpu()
    monkeypatch.delenv("COURSE_GPU")
    fake_nvidia_smi(checkout, monkeypatch, "echo 'No devices were found'")
    assert not bootstrap.has_gpu()
    fake_nvidia_smi(checkout, monkeypatch, "exit 9")
    assert not bootstrap.has_gpu()


def test_cupy_for_cuda_12_unless_the_one_for_13_is_wanted_or_there(bootstrap, checkout, monkeypatch):
    assert bootstrap.cupy_package() == "cupy-cuda12x"
    monkeypatch.setenv("COURSE_CUPY", "cupy-cuda13x")
    assert bootstrap.cupy_package() == "cupy-cuda13x"
    monkeypatch.delenv("COURSE_CUPY")
    Path(bootstrap.SITE, "cupy_cuda13x-14.2.0.dist-info").mkdir(parents=True)
    assert bootstrap.cupy_package() == "cupy-cuda13x"
    monkeypatch.setenv("COURSE_CUPY", "cupy")
    with pytest.raises(bootstrap.SetupError, match="cupy-cuda12x or cupy-cuda13x"):
        bootstrap.cupy_package()


def test_lock_files(bootstrap):
    def names(cupy):
        return [Path(path).name for path in bootstrap.lock_files(cupy)]

    tag = bootstrap.TAG
    assert names(None) == [f"{tag}.txt"]
    assert names("cupy-cuda12x") == [f"{tag}.txt", f"gpu-{tag}.txt"]
    assert names("cupy-cuda13x") == [f"{tag}.txt", f"gpu13-{tag}.txt"]
    for cupy in (None, "cupy-cuda12x", "cupy-cuda13x"):
        assert all(Path(path).exists() for path in bootstrap.lock_files(cupy))


# The steps, with the commands written down instead of carried out


@pytest.fixture
def rehearsal(bootstrap, monkeypatch):
    """bootstrap with a fake environment: `.calls` holds the commands, `.fail(call)` says which ones fail."""
    state = SimpleNamespace(calls=[], fail=lambda call: False, torch=None, module=bootstrap)

    def command(arguments, failure):
        call = " ".join(map(str, arguments))
        state.calls.append(call)
        if state.fail(call):
            raise bootstrap.SetupError(failure)
        if "ipykernel" in call:
            spec = Path(bootstrap.VENV, "share", "jupyter", "kernels", "python3", "kernel.json")
            spec.parent.mkdir(parents=True, exist_ok=True)
            spec.write_text(json.dumps({"argv": ["python", "-m", "ipykernel_launcher"]}))

    def make_venv():
        state.calls.append("venv")
        Path(bootstrap.SITE).mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(bootstrap, "command", command)
    monkeypatch.setattr(bootstrap, "make_venv", make_venv)
    monkeypatch.setattr(bootstrap, "torch_version", lambda: state.torch)
    monkeypatch.setattr(bootstrap, "has_gpu", lambda: False)
    return state


def position(calls, text):
    return next(index for index, call in enumerate(calls) if text in call)


def test_the_steps_and_the_stamp(rehearsal):
    rehearsal.module.set_up()
    calls = rehearsal.calls
    assert calls[0] == "venv"
    order = [position(calls, text) for text in ("-r ", "torch==", "--editable", "ipykernel")]
    assert order == sorted(order)
    assert Path(rehearsal.module.STAMP).exists()

    calls.clear()
    rehearsal.module.set_up()
    assert calls == []  # nothing to do


def test_torch_without_a_gpu_is_a_cpu_build_if_there_is_one(rehearsal, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    install = rehearsal.module.install_torch
    install("2.13.0", gpu=False)
    assert len(rehearsal.calls) == 1 and "torch==2.13.0+cpu" in rehearsal.calls[0]

    rehearsal.calls.clear()
    rehearsal.fail = lambda call: "+cpu" in call
    install("2.13.0", gpu=False)
    asked = [call.split("torch==")[1] for call in rehearsal.calls]
    assert [version.split()[0] for version in asked] == ["2.13.0+cpu", "2.13.0+cpu", "2.13.0"]
    assert "download.pytorch.org" in asked[1] and "download.pytorch.org" not in asked[2]

    rehearsal.fail = lambda call: True
    with pytest.raises(rehearsal.module.SetupError, match=r"PyTorch 2\.13\.0"):
        install("2.13.0", gpu=False)


@pytest.mark.parametrize(
    ("installed", "gpu", "again"),
    [
        ("2.13.0+cpu", False, False),
        ("2.13.0", False, False),
        ("2.13.0", True, False),
        ("2.13.0+cpu", True, True),
        ("2.12.0", False, True),
    ],
)
def test_torch_that_is_there_already(rehearsal, installed, gpu, again):
    rehearsal.torch = installed
    rehearsal.module.install_torch("2.13.0", gpu)
    assert bool(rehearsal.calls) == again
    assert not gpu or not any("+cpu" in call for call in rehearsal.calls)


def test_a_mac_has_but_one_build(rehearsal, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    rehearsal.module.install_torch("2.13.0", gpu=False)
    assert len(rehearsal.calls) == 1 and rehearsal.calls[0].endswith("torch==2.13.0")


def test_with_a_gpu_its_packages_come_too_and_the_other_cupy_goes(rehearsal, monkeypatch, capsys):
    monkeypatch.setattr(rehearsal.module, "has_gpu", lambda: True)
    rehearsal.module.set_up()
    said = capsys.readouterr().out
    assert "with an NVIDIA GPU" in said and f"gpu-{rehearsal.module.TAG}.txt" in said
    assert any("uninstall" in call and call.endswith("cupy-cuda13x") for call in rehearsal.calls)
    assert not any("+cpu" in call for call in rehearsal.calls)


def test_interrupted_anywhere_it_leaves_no_stamp_and_the_next_call_completes(rehearsal):
    rehearsal.module.set_up()
    steps = len(rehearsal.calls) - 1  # without the venv
    for step in range(steps):
        Path(rehearsal.module.STAMP).unlink(missing_ok=True)
        countdown = iter([False] * step + [True])
        rehearsal.fail = lambda call, countdown=countdown: next(countdown, True)
        with pytest.raises(rehearsal.module.SetupError):
            rehearsal.module.set_up()
        assert not Path(rehearsal.module.STAMP).exists()
        rehearsal.fail = lambda call: False
        rehearsal.module.set_up()
        assert Path(rehearsal.module.STAMP).exists()


def test_a_half_installed_package_is_forgotten(bootstrap):
    whole, half = (Path(bootstrap.SITE, f"{name}-1.0.dist-info") for name in ("whole", "half"))
    for folder in (whole, half):
        folder.mkdir(parents=True)
        (folder / "METADATA").touch()
    (whole / "RECORD").touch()
    bootstrap.forget_half_installed()
    assert whole.exists() and not half.exists()


@pytest.mark.parametrize(
    "change",
    [
        "pyproject.toml",
        "bootstrap.py",
        "requirements/{tag}.txt",
        f"{EXTENSION}/static/remoteEntry.js",
        "COURSE_CUPY",
    ],
)
def test_a_change_to_what_it_depends_on_sets_up_anew(rehearsal, checkout, monkeypatch, change):
    rehearsal.module.set_up()
    rehearsal.calls.clear()
    if change.startswith("COURSE"):
        monkeypatch.setenv(change, "cupy-cuda13x")
    else:
        path = checkout / change.format(tag=rehearsal.module.TAG)
        path.write_text(path.read_text() + "\n# changed\n")
    rehearsal.module.set_up()
    assert rehearsal.calls


def test_jupyterlab_gets_the_settings_and_the_extension_of_now(rehearsal, checkout):
    jupyter = Path(rehearsal.module.VENV, "share", "jupyter")
    outdated = jupyter / "labextensions" / "mobilenetv2-course" / "static" / "old.js"
    outdated.parent.mkdir(parents=True)
    outdated.touch()
    rehearsal.module.set_up()
    settings = json.loads((jupyter / "lab" / "settings" / "overrides.json").read_text())
    assert settings == rehearsal.module.LAB_SETTINGS
    extension = outdated.parents[1]
    assert sorted(path.name for path in extension.rglob("*.*")) == ["package.json", "remoteEntry.js"]
    package = json.loads((extension / "package.json").read_text())
    assert package["name"] == extension.name and (extension / package["jupyterlab"]["_build"]["load"]).exists()


def test_the_settings_name_plugins_and_properties_that_jupyterlab_has(bootstrap):
    schemas = Path(sys.prefix, "share", "jupyter", "lab", "schemas")
    for plugin, settings in bootstrap.LAB_SETTINGS.items():
        package, name = plugin.split(":")
        schema = json.loads((schemas / package / f"{name}.json").read_text())
        assert set(settings) <= set(schema["properties"]), plugin


@pytest.fixture
def first_cell(bootstrap, tmp_path, monkeypatch):
    """first_cell(source, packages): what the first cell of a kernel of the course shows, as it is installed."""
    bootstrap.PYTHON = sys.executable
    bootstrap.install_kernel(str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))

    def run(source, packages=REPOSITORY):
        monkeypatch.setenv("PYTHONPATH", str(packages))
        manager, client = start_new_kernel(kernel_name="python3", startup_timeout=60)
        assert manager.kernel_spec.display_name == bootstrap.KERNEL_TITLE
        shown = []
        try:
            client.execute_interactive(source, timeout=60, output_hook=lambda message: shown.append(message["content"]))
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
        texts = [content.get("text") or content.get("evalue") or content.get("data") for content in shown]
        return [text for text in texts if text]

    return run


def test_a_kernel_has_check_and_its_magics_from_its_start(first_cell):
    assert first_cell("%load_ext common.check\nprint(check.__name__)") == ["common.check\n"]
    assert first_cell("print(get_ipython().find_cell_magic('exercise') is None)") == ["False\n"]


def test_a_kernel_starts_where_the_package_is_broken(first_cell, tmp_path):
    package = tmp_path / "broken" / "common"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('broken')")
    assert first_cell("1 + 1", package.parent) == [{"text/plain": "2"}]
    assert first_cell("import common", package.parent) == ["broken"]


def test_a_lock_of_another_python_does_not_matter(rehearsal, checkout):
    rehearsal.module.set_up()
    rehearsal.calls.clear()
    other = next(tag for tag in TAGS if tag != rehearsal.module.TAG)
    (checkout / "requirements" / f"{other}.txt").write_text("")
    rehearsal.module.set_up()
    assert rehearsal.calls == []


def test_without_a_compiler_ziglang_is_announced_and_locked(rehearsal, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    rehearsal.module.set_up()
    assert "ziglang" in capsys.readouterr().out
    assert all("ziglang" in pins(f"{tag}.txt") for tag in TAGS)


def test_without_ensurepip_it_names_the_package_to_install(bootstrap, monkeypatch):
    monkeypatch.setitem(sys.modules, "ensurepip", None)  # makes the import fail
    with pytest.raises(bootstrap.SetupError, match="apt install python3"):
        bootstrap.make_venv()


def test_a_failed_step_shows_what_the_command_said(bootstrap):
    with pytest.raises(bootstrap.SetupError, match=r"(?s)It failed\..*the reason"):
        bootstrap.command([sys.executable, "-c", "print('the reason'); raise SystemExit(3)"], "It failed.")


def test_the_second_call_takes_well_under_half_a_second(bootstrap, checkout):
    Path(bootstrap.VENV).mkdir()
    Path(bootstrap.STAMP).write_text(bootstrap.fingerprint())

    def seconds():
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "bootstrap.py"], cwd=checkout, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        return time.perf_counter() - began

    assert min(seconds() for _ in range(3)) < 0.5


# The files around it


@pytest.mark.parametrize("target", ["demo", "test", "lab", "doctor"])
def test_make_sets_up_first(target):
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    # Without what an outer make hands down: these tests are run by `make test`.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-n", target]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    commands = done.stdout.splitlines()
    assert commands[0].endswith("bootstrap.py") and ".venv/bin/python" in commands[1]


def test_ci_runs_make_test():
    path = REPOSITORY / ".ci" / "run"
    assert os.access(path, os.X_OK)
    subprocess.run(["bash", "-n", str(path)], check=True)
    text = path.read_text()
    assert "set -euo pipefail" in text and text.rstrip().endswith("make test")
    assert "missing+=(chromium)" in text and "|| true" not in text  # no browser: no test of JupyterLab


def test_the_conda_environment_installs_the_package_with_extras_that_exist():
    environment = yaml.safe_load((REPOSITORY / "environment.yml").read_text())
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    extras = re.fullmatch(r"-e \.\[(.+)\]", pip[0])[1].split(",")
    assert set(extras) <= set(PYPROJECT["project"]["optional-dependencies"])
    assert {"cxx-compiler", "make", "pip"} <= {entry for entry in environment["dependencies"] if isinstance(entry, str)}


def test_the_licence_is_apache_2():
    text = (REPOSITORY / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text


def test_the_wheel_carries_every_file_that_is_not_python(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    shutil.copytree(REPOSITORY / "common", source / "common", ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(source)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("common/")}
    files = {str(path.relative_to(source)) for path in (source / "common").rglob("*") if path.is_file()}
    assert packed == files


def test_no_file_names_a_path_of_one_machine():
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=REPOSITORY, capture_output=True, text=True
    )
    if tracked.returncode != 0:
        pytest.skip("this is not a git checkout")
    private = re.compile(r"/(work/main|root/|opt/wheels|opt/pypi)")
    for name in filter(None, tracked.stdout.split("\0")):
        path = REPOSITORY / name
        if path != Path(__file__) and path.is_file():
            match = private.search(path.read_text(errors="ignore"))
            assert match is None or name == "tests/test_notebooks.py", f"{name}: {match[0]}"
