"""The set-up: what bootstrap.py installs when, with the commands written down and not carried out; the lock files."""

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from jupyter_client.launcher import launch_kernel
from jupyter_client.manager import start_new_kernel
from jupyter_client.provisioning import local_provisioner
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
LOCKS = {path.name: path.read_text() for path in (REPOSITORY / "requirements").glob("*.txt")}


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """The module, in a copy of what it reads: its .venv/ is not this environment. No GPU, no wishes."""
    shutil.copy(REPOSITORY / "bootstrap.py", tmp_path)
    shutil.copytree(REPOSITORY / "requirements", tmp_path / "requirements")
    for name in ("COURSE_GPU", "COURSE_CUPY"):
        monkeypatch.delenv(name, raising=False)
    spec = importlib.util.spec_from_file_location("bootstrap", tmp_path / "bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "has_gpu", lambda: False)
    return module


@pytest.fixture
def calls(bootstrap, monkeypatch):
    """The commands of a set-up; `calls.fails(call)` says which ones fail."""

    class Calls(list):
        fails = staticmethod(lambda call: False)

    calls = Calls()

    def command(arguments, failure):
        calls.append(" ".join(map(str, arguments)))
        if calls.fails(calls[-1]):
            raise bootstrap.SetupError(failure)
        if "venv" in arguments:
            Path(bootstrap.VENV).mkdir()

    monkeypatch.setattr(bootstrap, "command", command)
    monkeypatch.setattr(bootstrap, "install_kernel", lambda prefix: calls.append("kernel"))
    monkeypatch.setattr(bootstrap, "compile_packages", lambda: calls.append("compiled"))
    monkeypatch.setattr(bootstrap, "indexes", lambda: ["--index", "somewhere"])
    return calls


def locks(calls):
    """The names of the lock files that pip is given."""
    (packages,) = [call for call in calls if "-r " in call]
    assert "--no-deps" in packages
    return [Path(word).name for word in packages.split() if word.endswith(".txt")]


def test_old_pythons_read_the_file_that_refuses_them_and_it_needs_no_package():
    tree = ast.parse((REPOSITORY / "bootstrap.py").read_text(), feature_version=(3, 6))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names and names <= sys.stdlib_module_names
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))


@pytest.mark.parametrize("version", [(3, 6), (3, 10), (3, 14), (4, 0)])
def test_other_pythons_are_refused_with_advice(bootstrap, monkeypatch, version):
    monkeypatch.setattr(shutil, "which", lambda name: name == "python3.12")
    with pytest.raises(bootstrap.SetupError, match=rf"this is Python {version[0]}\.{version[1]}") as error:
        bootstrap.check_python(version)
    assert "python3.12 bootstrap.py" in str(error.value)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(bootstrap.SetupError, match="Install one of them"):
        bootstrap.check_python(version)


@pytest.mark.parametrize("failing", [(), ("torch==2.13.0+cpu",), ("torch==2.13.0+cpu", "--index-url")])
def test_the_steps_without_a_gpu(bootstrap, calls, monkeypatch, failing):
    """PyTorch's CPU build comes from where pip looks, else from PyTorch's index, else the usual build is taken."""
    monkeypatch.setattr(sys, "platform", "linux")
    calls.fails = lambda call: call.endswith(failing)
    if len(failing) == 2:
        calls.fails = lambda call: "+cpu" in call
    bootstrap.set_up()
    cpu_builds = ["torch==2.13.0+cpu"] * min(len(failing) + 1, 2)
    usual = ["torch==2.13.0"] if len(failing) == 2 else []
    steps = ["-m venv", *cpu_builds, " uv==", "-m uv pip install", *usual, "--editable", "compiled", "kernel"]
    assert [text in call for text, call in zip(steps, calls, strict=True)] == [True] * len(steps)
    assert locks(calls) == ["base.txt"] and not calls[-4].endswith("+cpu")
    assert Path(bootstrap.STAMP).exists()
    calls.clear()
    bootstrap.set_up()
    assert calls == []  # nothing to do


@pytest.mark.parametrize(
    ("cupy", "lock"), [(None, "gpu.txt"), ("cupy-cuda12x", "gpu.txt"), ("cupy-cuda13x", "gpu13.txt")]
)
def test_with_a_gpu_its_packages_and_the_usual_pytorch_come(bootstrap, calls, monkeypatch, cupy, lock):
    monkeypatch.setattr(bootstrap, "has_gpu", lambda: True)
    if cupy:
        monkeypatch.setenv("COURSE_CUPY", cupy)
    bootstrap.set_up()
    assert not any("+cpu" in call for call in calls)
    assert locks(calls) == ["base.txt", lock]
    calls.clear()
    monkeypatch.delenv("COURSE_CUPY", raising=False)  # the one that .venv/ has is kept
    installed = f"{cupy}-14.2.0.dist-info".replace("-cuda", "_cuda")
    Path(bootstrap.VENV, "lib", "python3.11", "site-packages", installed).mkdir(parents=True)
    bootstrap.set_up()
    assert calls == []


def test_here_installs_into_the_python_that_runs_it(bootstrap, calls):
    """As on Binder: no .venv/, and no stamp."""
    assert bootstrap.main(["--here"]) == 0
    assert locks(calls) == ["base.txt"] and "--editable" in calls[-2] and calls[-1] == "kernel"
    assert all(call.startswith(sys.executable) for call in calls[:-1]) and not Path(bootstrap.VENV).exists()
    assert bootstrap.main(["--here", "--force"]) == 2


def test_an_unknown_cupy_is_refused(bootstrap, monkeypatch):
    monkeypatch.setenv("COURSE_CUPY", "cupy")
    with pytest.raises(bootstrap.SetupError, match="cupy-cuda12x or cupy-cuda13x"):
        bootstrap.set_up()


@pytest.mark.parametrize("wish", ["0", "1"])
def test_a_container_that_gets_a_driver_when_it_runs_is_set_up_already(bootstrap, calls, monkeypatch, wish):
    monkeypatch.setenv("COURSE_GPU", wish)
    monkeypatch.setattr(bootstrap, "has_gpu", lambda: wish == "1")
    bootstrap.set_up()
    calls.clear()
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    bootstrap.set_up()
    assert calls == []


@pytest.mark.parametrize(
    ("script", "wish", "found"),
    [
        ("echo 'GPU 0: A card'", None, True),
        ("echo 'GPU 0: A card'", "0", False),
        ("echo 'No devices were found'", "1", True),
        ("echo 'No devices were found'", None, False),
        ("echo 'GPU 0: A card'; exit 9", None, False),
    ],
)
def test_a_gpu_is_what_nvidia_smi_lists(bootstrap, tmp_path, monkeypatch, script, wish, found):
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if wish is not None:
        monkeypatch.setenv("COURSE_GPU", wish)
    spec = importlib.util.spec_from_file_location("bootstrap", tmp_path / "bootstrap.py")
    spec.loader.exec_module(bootstrap)  # with its own has_gpu
    assert bootstrap.has_gpu() is found


@pytest.mark.parametrize("step", ["-m venv", "-r ", "--editable"])
def test_an_interrupted_set_up_begins_anew(bootstrap, calls, step):
    calls.fails = lambda call: step in call
    with pytest.raises(bootstrap.SetupError):
        bootstrap.set_up()
    assert not Path(bootstrap.STAMP).exists()
    calls.clear()
    calls.fails = lambda call: False
    bootstrap.set_up()
    assert "-m venv" in calls[0] and Path(bootstrap.STAMP).exists()


@pytest.mark.parametrize(
    ("change", "anew"),
    [("requirements/base.txt", False), ("bootstrap.py", False), ("COURSE_CUPY", True), ("the folder", True)],
)
def test_after_a_change_it_is_set_up_again(bootstrap, calls, tmp_path, monkeypatch, change, anew):
    """From nothing, or where only versions have changed on top of what is there, with what a learner added."""
    bootstrap.set_up()
    calls.clear()
    if change.startswith("COURSE"):
        monkeypatch.setenv(change, "cupy-cuda13x")
    elif change == "the folder":
        monkeypatch.setattr(bootstrap, "ROOT", str(shutil.copytree(tmp_path, tmp_path / "moved", symlinks=True)))
    else:
        (tmp_path / change).write_text((tmp_path / change).read_text() + "\n# changed\n")
    bootstrap.set_up()
    assert any("-r " in call for call in calls) and ("-m venv" in calls[0]) == anew


@pytest.mark.parametrize("failing", [" uv==", "-m uv"])
def test_without_uv_pip_installs_the_same(bootstrap, calls, failing):
    calls.fails = lambda call: failing in call
    bootstrap.set_up()
    (by_pip,) = [call for call in calls if "-m pip" in call and "-r " in call]
    assert "--no-deps" in by_pip and by_pip.endswith("base.txt") and "--editable" in calls[-3]


def test_uv_looks_for_packages_where_pip_does(bootstrap, tmp_path, monkeypatch):
    settings = tmp_path / "pip.conf"
    settings.write_text(
        "[global]\nindex-url = https://a.example/simple\nextra-index-url = https://b.example\n    https://c.example\n"
        "timeout = 5\n[install]\nfind-links = /wheels\n"
    )
    monkeypatch.setattr(bootstrap, "PYTHON", sys.executable)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.setenv("PIP_INDEX_URL", "https://d.example/simple")
    found = list(zip(*[iter(bootstrap.indexes())] * 2, strict=True))
    for one in [
        ("--default-index", "https://d.example/simple"), ("--index", "https://b.example"),
        ("--index", "https://c.example"), ("--find-links", "/wheels"),
    ]:  # fmt: skip
        assert one in found
    assert not any("a.example" in value or value == "5" for _, value in found)


def test_what_is_imported_is_compiled_and_what_cannot_be_is_left(bootstrap, tmp_path, monkeypatch):
    for name, text in {"right.py": "x = 1\n", "wrong.py": "class {{ name }}:\n", "other.py": ""}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(bootstrap, "PYTHON", sys.executable)
    monkeypatch.setattr(bootstrap, "IMPORTED", [["wrong", "right"], []])
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    bootstrap.compile_packages()
    compiled = {path.name.partition(".")[0] for path in (tmp_path / "__pycache__").iterdir()}
    assert compiled - {"bootstrap"} == {"right"}
    assert "--no-compile" in bootstrap.pip("anything")


def test_a_failed_step_shows_what_the_command_said(bootstrap):
    with pytest.raises(bootstrap.SetupError, match=r"(?s)It failed\..*the reason"):
        bootstrap.command([sys.executable, "-c", "print('the reason'); raise SystemExit(3)"], "It failed.")


# Jupyter


def test_jupyterlab_gets_the_settings_that_it_knows_and_the_extension(bootstrap, tmp_path):
    bootstrap.install_lab(str(tmp_path))
    bootstrap.install_lab(str(tmp_path))  # once more, after an update
    settings = json.loads((tmp_path / "lab" / "settings" / "overrides.json").read_text())
    schemas = Path(sys.prefix, "share", "jupyter", "lab", "schemas")
    for plugin, values in settings.items():
        package, name = plugin.split(":")
        assert set(values) <= set(json.loads((schemas / package / f"{name}.json").read_text())["properties"]), plugin
    extension = REPOSITORY / "common" / "lab" / "labextension"
    assert (tmp_path / "labextensions" / "mobilenetv2-course").readlink() == tmp_path / extension.relative_to(
        REPOSITORY
    )
    package = json.loads((extension / "package.json").read_text())
    assert package["name"] == "mobilenetv2-course" and (extension / package["jupyterlab"]["_build"]["load"]).exists()


@pytest.fixture
def first_cell(bootstrap, tmp_path, monkeypatch):
    """first_cell(source, packages): what the first cell of a kernel of the course shows, as it is installed."""
    bootstrap.PYTHON = sys.executable
    bootstrap.install_kernel(str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setattr(local_provisioner, "launch_kernel", launch_kernel)  # not those of forked_kernels.py

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
    assert first_cell("print(check.__name__, get_ipython().find_cell_magic('exercise') is None)") == [
        "common.check False\n"
    ]


def test_a_kernel_starts_where_the_package_is_broken(first_cell, tmp_path):
    package = tmp_path / "broken" / "common"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('broken')")
    assert first_cell("print('started')\nimport common", package.parent) == ["started\n", "broken"]


# Lock files


def pins(*names):
    """{package: its lines} of the lock files."""
    found: dict[str, list[Requirement]] = {}
    for name in names:
        for line in LOCKS[name].splitlines():
            if not line.startswith("#"):
                requirement = Requirement(line)
                found.setdefault(requirement.name, []).append(requirement)
    return found


@pytest.mark.parametrize("python", ["3.11.0", "3.11.9", "3.12.4", "3.13.9"])
@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize(
    ("lock", "extras"),
    [(None, ["reference", "notebooks", "compiler", "test", "site"]), ("gpu.txt", ["gpu"]), ("gpu13.txt", ["gpu13"])],
)
def test_every_environment_gets_one_version_of_what_pyproject_asks_for(lock, extras, python, platform):
    environment = {
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "sys_platform": platform,
        "platform_machine": "x86_64" if platform == "linux" else "arm64",
        "os_name": "posix",
    }
    chosen = {}
    for name, lines in pins(*filter(None, ["base.txt", lock])).items():
        for line in lines:
            assert re.fullmatch(r"==[^*,]+", str(line.specifier)), line
            if line.marker is None or line.marker.evaluate(environment):
                version = str(line.specifier)[2:]
                assert chosen.setdefault(name, version) == version
    project = PYPROJECT["project"]
    asked = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    for requirement in map(Requirement, asked):
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name != "cuda-toolkit" and (requirement.marker is None or requirement.marker.evaluate(environment)):
            assert requirement.specifier.contains(chosen[name]), f"{requirement}: make lock"


def test_what_pytorchs_cuda_build_alone_needs_is_not_locked_for_machines_without_a_gpu():
    builds = re.compile(r"nvidia-(?!.*-cu12$|cuda-nvdisasm$)|cuda-|triton")
    assert [name for name in pins("base.txt") if builds.match(name)] == []


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_a_lock_names_no_index(name):
    assert "://" not in LOCKS[name] and "--" not in LOCKS[name]


# The files around it


@pytest.mark.parametrize("target", ["demo", "test", "lab", "site", "doctor"])
def test_make_sets_up_first(target):
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    # Without what an outer make hands down: these tests are run by `make test`.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-n", target]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    commands = done.stdout.splitlines()
    assert commands[0].endswith("bootstrap.py") and ".venv/bin/python" in commands[1]


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
