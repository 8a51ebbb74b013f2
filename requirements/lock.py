"""Write the lock files beside this script: every package with its exact version, one file a Python version.

    .venv/bin/python -m pip install uv
    .venv/bin/python requirements/lock.py            # the newest versions that fit together
    .venv/bin/python requirements/lock.py --keep     # only what a changed pyproject.toml makes necessary

    py311.txt    the course on Python 3.11 (py312, py313 likewise): everything but the GPU's own packages
    gpu-….txt    what a machine with an NVIDIA GPU gets on top, CuPy built for CUDA 12
    gpu13-….txt  the same with CuPy built for CUDA 13

One file serves Linux on x86-64 and aarch64 and macOS on arm64; a line that holds on some of them only ends in
a marker. `bootstrap.py` installs these files; nothing else reads them.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

HERE = Path(__file__).resolve().parent
PYPROJECT = HERE.parent / "pyproject.toml"

PYTHONS = ["3.11", "3.12", "3.13"]
PATCHES = (0, 99)  # a marker is asked about the first and the last release of a Python version
PLATFORMS = {"linux": [("Linux", "x86_64"), ("Linux", "aarch64")], "darwin": [("Darwin", "arm64")]}

# One release of PyTorch for every Python; its CPU build and its CUDA build share the number.
TORCH = "torch==2.13.0"

# What PyTorch's CUDA build alone pulls in. pip brings it along when, and only when, that build is installed
# (the -cu12 packages are ours: NVRTC for the tests).
CUDA_OF_TORCH = re.compile(r"(nvidia-(?!.*-cu12$)|cuda-|triton$)")


def resolve(extras: list[str], python: str, constraints: list[str], before: Path | None) -> list[str]:
    """The lines `name==version ; marker` that uv finds for these extras, for every platform."""
    command = [sys.executable, "-m", "uv", "pip", "compile", str(PYPROJECT), "--quiet", "--universal"]
    command += ["--python-version", python, "--no-header", "--no-annotate", "--constraint", "-"]
    for extra in extras:
        command += ["--extra", extra]
    with TemporaryDirectory() as folder:
        output = Path(folder) / "lock.txt"
        if before is not None and before.exists():
            shutil.copy(before, output)  # uv keeps the versions that it finds in its output file
        subprocess.run([*command, "--output-file", str(output)], input="\n".join(constraints), text=True, check=True)
        return output.read_text().splitlines()


def for_platforms(line: str, python: str) -> str | None:
    """The line with its marker settled for one Python: left out if it always holds; None if it never does."""
    requirement = Requirement(line)
    if requirement.marker is None:
        return line
    holds = {
        sys_platform: {
            requirement.marker.evaluate(
                {
                    "sys_platform": sys_platform,
                    "platform_system": system,
                    "platform_machine": machine,
                    "os_name": "posix",
                    "implementation_name": "cpython",
                    "platform_python_implementation": "CPython",
                    "python_version": python,
                    "python_full_version": f"{python}.{patch}",
                }
            )
            for system, machine in machines
            for patch in PATCHES
        }
        for sys_platform, machines in PLATFORMS.items()
    }
    pin = line.split(";")[0].strip()
    where = [sys_platform for sys_platform, answers in holds.items() if answers == {True}]
    if where == list(PLATFORMS):
        return pin
    if all(answers == {False} for answers in holds.values()):
        return None
    if len(where) == 1 and all(len(answers) == 1 for answers in holds.values()):
        return f"{pin} ; sys_platform == '{where[0]}'"
    return line


def write(name: str, about: str, lines: list[str]) -> None:
    path = HERE / name
    path.write_text(f"# {about}\n# Written by requirements/lock.py.\n" + "\n".join(lines) + "\n")
    print(f"{path.name}: {len(lines)} packages")


def main(keep: bool) -> None:
    for python in PYTHONS:
        tag = "py" + python.replace(".", "")

        def lock(extras: list[str], file: str, constraints: list[str], python: str = python) -> list[str]:
            lines = resolve(extras, python, constraints, HERE / file if keep else None)
            return [settled for line in lines if (settled := for_platforms(line, python))]

        everything = lock(["reference", "notebooks", "test"], f"{tag}.txt", [TORCH])
        base = [line for line in everything if not CUDA_OF_TORCH.match(Requirement(line).name)]
        write(f"{tag}.txt", f"Everything that the course needs on Python {python}.", base)

        # CuPy for CUDA 12 stands beside a PyTorch for CUDA 13, as the wheels of the two differ in name. Only
        # the metapackage `cuda-toolkit`, a list of wheels, would clash: the wheels are named instead of it.
        # CuPy for CUDA 13 shares its wheels with PyTorch, so there PyTorch's versions hold.
        ours = {Requirement(line).name for line in base} | {"cuda-toolkit"}
        for extra, constraints in (("gpu", base), ("gpu13", everything)):
            lines = lock([extra], f"{extra}-{tag}.txt", constraints)
            lines = [line for line in lines if Requirement(line).name not in ours]
            write(f"{extra}-{tag}.txt", f"On top of {tag}.txt where there is an NVIDIA GPU.", lines)


if __name__ == "__main__":
    main(keep="--keep" in sys.argv[1:])
