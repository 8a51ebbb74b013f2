"""What machines and contributors are told fits together: workflows, Makefile, pages, containers, versions."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

import common
from common.__main__ import app

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("[0-9]*/*.md"), *ROOT.glob(".github/**/*.md")]
FILES = [*PAGES, *WORKFLOWS, *ROOT.glob(".github/ISSUE_TEMPLATE/*.yml"), *ROOT.glob(".devcontainer/**/*.json"),
         ROOT / "Dockerfile", ROOT / "Makefile", ROOT / "environment.yml", ROOT / ".ci" / "run"]  # fmt: skip
COMMANDS = typer.main.get_command(app)
CODE = re.compile(r"```.*?```|`[^`\n]+`|^(?: {4}|\t).*$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_in(path: Path) -> str:
    """The text of a file; of a page what stands in code."""
    text = path.read_text(encoding="utf-8")
    return "\n".join(CODE.findall(text)) if path.suffix == ".md" else text


def targets_of(text: str) -> set[str]:
    """The targets of the calls of make in a text."""
    before = r"(?:^[ \t]*(?:#[ \t]*)?|`|&& |run: |mobilenetv2-course(?::gpu)? )"  # else it is a word like others
    calls = re.findall(before + r"make((?: [A-Z]\w*=\S+)*) ([a-z][\w-]*)", text, re.MULTILINE)
    return {target for _, target in calls}


def complaints(text: str) -> list[str]:
    """What is wrong with the calls of `python -m common` in a text: unknown commands and options."""
    found = []
    for line in re.findall(r"python3? -m common ([^`\n|#\"']*)", text):
        words = [word.rstrip(",.;:)]…").lstrip("[(") for word in line.split()]
        command = COMMANDS
        while words and words[0] in getattr(command, "commands", ()):
            command = command.commands[words.pop(0)]
        if getattr(command, "commands", None) and words and re.fullmatch(r"[a-z]+", words[0]):
            found.append(f"{line.strip()}: there is no command {words[0]}")
        placeholder = words and words[0].isupper() and command is not COMMANDS  # bench SUITE
        below = [*getattr(command, "commands", {}).values()] if placeholder else []
        options = {
            option for each in below or [command] for one in each.params for option in (*one.opts, *one.secondary_opts)
        } | {"--help"}
        found += [
            f"{line.strip()}: there is no option {word}"
            for word in words if word.startswith("--") and word.partition("=")[0] not in options
        ]  # fmt: skip
    return found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_each_make_has_its_target_and_each_command_its_options(path):
    text = code_in(path)
    assert targets_of(text) <= TARGETS, f"the Makefile has {', '.join(sorted(TARGETS))}"
    assert complaints(text) == []


def test_wrong_calls_are_seen():
    text = "    make tests\n`make PYTHON=python3.12 demo` run: make it; sudo apt install git make g++\n"
    assert targets_of(text) == {"tests", "demo", "it"}
    assert complaints("python -m common tset") == ["tset: there is no command tset"]
    assert complaints("python -m common lab --into x --fast") == ["lab --into x --fast: there is no option --fast"]
    assert complaints("python -m common bench peaks --save") == []
    assert "weights mak" in complaints("python -m common weights mak")[0]


def test_the_makefile_says_what_each_target_does():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"^#   make ([\w-]+)", text, re.MULTILINE)) == TARGETS - {"setup"}
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony and set(phony[1].split()) == TARGETS


# ---- Workflows


def steps(path: Path) -> list[dict]:
    return [step for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_a_workflow_is_limited_and_runs_files_that_are_there(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"], "without it, a token may write"
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    for step in steps(path):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w./-]+@(v\d+(\.\d+)*|[0-9a-f]{40})", step["uses"]), step["uses"]
        assert "github.event" not in step.get("run", "") and "inputs." not in step.get("run", ""), "text in a shell"
        for name in re.findall(r"(?<![\w/.-])((?:tests|requirements|docs)/[\w./-]*\w)", step.get("run", "")):
            assert (ROOT / name).exists(), name


def test_the_tests_run_on_every_python_that_the_package_supports():
    """Those of pyproject.toml, which bootstrap.py accepts as well."""
    oldest, newest = (int(minor) for minor in re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == [f"3.{minor}" for minor in range(oldest, newest)]
    assert jobs["macos"]["runs-on"].startswith("macos")
    bootstrap = (ROOT / "bootstrap.py").read_text(encoding="utf-8")
    assert f"OLDEST, NEWEST = (3, {oldest}), (3, {newest - 1})" in bootstrap


def test_only_a_person_starts_the_gpu():
    workflow = yaml.safe_load((ROOT / ".github/workflows/gpu.yml").read_text(encoding="utf-8"))
    assert list(workflow[True]) == ["workflow_dispatch"]  # YAML 1.1 reads `on` as true
    (job,) = workflow["jobs"].values()
    labels = yaml.safe_load((ROOT / ".github/actionlint.yaml").read_text())["self-hosted-runner"]["labels"]
    assert {"self-hosted", "sm_90"} <= set(job["runs-on"]) and set(labels) <= set(job["runs-on"])
    suites = workflow[True]["workflow_dispatch"]["inputs"]["suite"]["options"]
    assert set(suites) - {"none"} <= set(COMMANDS.commands["bench"].commands)


# ---- Containers and conda


def supported(version: str) -> bool:
    low, high = re.findall(r"3\.(\d+)", PROJECT["requires-python"])
    return int(low) <= int(version.partition(".")[2]) < int(high)


def test_containers_and_conda_have_a_supported_python_and_the_packages_extras():
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (version,) = re.findall(r"^FROM python:(3\.\d+)-slim-\w+$", dockerfile, re.MULTILINE)
    assert supported(version)
    for path in ROOT.glob(".devcontainer/**/devcontainer.json"):
        container = json.loads(path.read_text(encoding="utf-8"))
        assert supported(re.search(r"python:\d-(3\.\d+)-", container["image"])[1])
        assert container["containerEnv"]["COURSE_GPU"] == ("1" if path.parent.name == "gpu" else "0")
        assert container["postCreateCommand"].split()[1] == "bootstrap.py"
    packages = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    (python,) = [one.partition("=")[2] for one in packages if isinstance(one, str) and one.startswith("python=")]
    assert supported(python) and "pip" in packages and "cxx-compiler" in packages
    (pip,) = [one["pip"] for one in packages if isinstance(one, dict)]
    (extras,) = re.findall(r"^-e \.\[([\w,]+)\]$", "\n".join(pip))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def test_an_image_is_built_without_what_is_made():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    made = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split("\n") if line}
    assert {line.removeprefix("**/") for line in ignored} >= made
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    tops = {name.partition("/")[0] for name in listing.stdout.splitlines()}
    assert not tops & set(ignored), "what git tracks belongs into the image"


# ---- Versions


def test_a_version_is_the_same_everywhere(invoke):
    version = PROJECT["version"]
    assert common.__version__ == version
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"{version}\n")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == version
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert headings[1] == f"[{version}] - {citation['date-released']}"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
