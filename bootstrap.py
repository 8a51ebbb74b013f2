#!/usr/bin/env python3
"""Set up everything that the course needs, in .venv/ beside this file. Standard library only.

    python3 bootstrap.py            set up, or return at once where that has been done
    python3 bootstrap.py --force    set up anew from nothing

`make demo`, `make test` and `make lab` call it first. What it does, in order:

    1. a virtual environment in .venv/
    2. the exact versions of requirements/py3xx.txt; with an NVIDIA GPU also those of gpu-py3xx.txt there
    3. PyTorch: its CPU build on a machine without a GPU, as the CUDA build is several GB
    4. this package, editable, so that `import common` finds the files that you edit
    5. a Jupyter kernel that has the course's magics, and JupyterLab's settings and extension, inside .venv/

A stamp, .venv/.ready, is written last. It holds a hash of all that the set-up depends on: an interrupted or
outdated set-up has no valid stamp, so the next call goes through the steps again, and pip passes over what is
already installed.

    COURSE_CUPY=cupy-cuda13x    use CuPy for CUDA 13 (also honoured where it is already in .venv/)
    COURSE_GPU=0                leave the GPU packages out, even where there is a GPU

An old Python must get far enough in this file to be told that it is too old: nothing here is newer than 3.6.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
VERSION = "{}.{}".format(*sys.version_info)
SITE = os.path.join(VENV, "lib", f"python{VERSION}", "site-packages")
PYTHON = os.path.join(VENV, "bin", "python")
STAMP = os.path.join(VENV, ".ready")

OLDEST, NEWEST = (3, 11), (3, 13)
TAG = "py" + VERSION.replace(".", "")
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"

KERNEL_TITLE = "MobileNetV2 course"

# What the kernel runs first: `check` and the magics are there after a restart too, before the notebook's first cell has
# run. If the package is broken, that first cell says so; a kernel that does not start would say less.
KERNEL_START = """\
try:
    from common import check
    check.load_ipython_extension(get_ipython())
except Exception:
    pass
"""

LAB_EXTENSION = os.path.join(ROOT, "common", "lab", "labextension")
LAB_SETTINGS = {
    # no question about news from the Jupyter project
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false"},
    # a double click on a README shows the page, not its source
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}},
    # messages name lines by number; the last words of a long comment are part of the task
    "@jupyterlab/notebook-extension:tracker": {"codeCellConfig": {"lineNumbers": True, "lineWrap": True}},
}


class SetupError(Exception):
    """The set-up cannot go on; the message says why and what to do."""


def say(text):
    print("[set-up] " + text, flush=True)


# What is to be installed


def runs(arguments):
    """Whether a command is there and succeeds."""
    try:
        return subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def check_python(version):
    """Raise SetupError unless the version, (major, minor), is one that the course is locked for."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    found = [name for name in names if runs([name, "--version"])]
    if found:
        advice = f"Run:  {found[0]} bootstrap.py   (with make:  make PYTHON={found[0]} demo)"
    else:
        advice = "Install one of them from python.org, your system's packages, conda (environment.yml) or uv."
    raise SetupError(
        f"Python 3.{OLDEST[1]} to 3.{NEWEST[1]} is needed, "
        f"this is Python {version[0]}.{version[1]} ({sys.executable}).\n{advice}"
    )


def has_gpu():
    """Whether nvidia-smi lists an NVIDIA GPU. COURSE_GPU=0 answers no."""
    if os.environ.get("COURSE_GPU") == "0" or shutil.which("nvidia-smi") is None:
        return False
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listing.returncode == 0 and b"GPU 0" in listing.stdout


def installed():
    """The names in the environment's package folder."""
    return os.listdir(SITE) if os.path.isdir(SITE) else []


def cupy_package():
    """The CuPy to install: what COURSE_CUPY says, else what .venv/ has, else the one for CUDA 12."""
    asked = os.environ.get("COURSE_CUPY")
    known = ("cupy-cuda12x", "cupy-cuda13x")
    if asked:
        if asked not in known:
            raise SetupError(f"COURSE_CUPY={asked}: it can be {known[0]} or {known[1]}.")
        return asked
    return known[1] if any(name.startswith("cupy_cuda13x-") for name in installed()) else known[0]


def lock_files(cupy):
    """The files in requirements/ that hold for this Python and this CuPy (None: no GPU)."""
    names = {None: [], "cupy-cuda12x": ["gpu-"], "cupy-cuda13x": ["gpu13-"]}[cupy]
    return [os.path.join(ROOT, "requirements", name + TAG + ".txt") for name in ["", *names]]


def fingerprint():
    """A hash of all that the finished set-up depends on; quick, so nvidia-smi is looked for but not run."""
    machine = [sys.version, ROOT, shutil.which("nvidia-smi")]
    wishes = [os.environ.get(name) for name in ("COURSE_GPU", "COURSE_CUPY")]
    digest = hashlib.sha256(json.dumps(machine + wishes).encode())
    folder = os.path.join(ROOT, "requirements")
    locks = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(TAG + ".txt")]
    sources = [os.path.join(top, name) for top, _, names in os.walk(LAB_EXTENSION) for name in names]
    for path in [os.path.abspath(__file__), os.path.join(ROOT, "pyproject.toml"), *locks, *sorted(sources)]:
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def is_ready(mark):
    try:
        with open(STAMP) as file:
            return file.read() == mark
    except OSError:
        return False


# Installing it


def command(arguments, failure):
    """Run a command with its output kept back; if it fails, SetupError with the text and that output."""
    done = subprocess.run(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        output = done.stdout.decode(errors="replace").strip()
        raise SetupError(f"{failure}\n\n{output}")


def pip(*arguments):
    """The command line of the environment's own pip, without questions and remarks."""
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-warn-script-location"]
    return [PYTHON, "-m", "pip", "install", *quiet, *arguments]


def venv_works():
    """Whether .venv/ holds a whole environment of this very Python, made in this very place."""
    question = "import sys, pip; print(sys.version)"
    try:
        with open(os.path.join(VENV, "pyvenv.cfg")) as file:
            if VENV not in file.read():  # the folder was moved: its scripts point to where it was
                return False
        answer = subprocess.run([PYTHON, "-c", question], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return answer.returncode == 0 and answer.stdout.decode().strip() == sys.version.strip()


def make_venv():
    if venv_works():
        return
    say("a virtual environment in .venv/")
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        import ensurepip  # noqa: F401  Debian and Ubuntu ship Python without it
        import venv  # noqa: F401
    except ImportError:
        raise SetupError(
            "This Python has no venv module with pip in it. On Debian and Ubuntu:\n"
            f"    sudo apt install python{VERSION}-venv"
        ) from None
    python = getattr(sys, "_base_executable", sys.executable)  # not the one in the .venv/ just removed
    command([python, "-m", "venv", VENV], "The virtual environment could not be made.")


def forget_half_installed():
    """Let pip see as missing what was cut off while being installed: RECORD, written last, is not there."""
    for name in installed():
        path = os.path.join(SITE, name)
        if name.endswith(".dist-info") and not os.path.exists(os.path.join(path, "RECORD")):
            shutil.rmtree(path)


def remove_other_cupy(wanted):
    """The two CuPys are files of the same names, so one goes before the other comes."""
    for name in ("cupy-cuda12x", "cupy-cuda13x"):
        if name != wanted:
            uninstall = [PYTHON, "-m", "pip", "uninstall", "--yes", "--quiet", name]
            command(uninstall, f"{name} could not be removed.")


def split_torch(lock):
    """A lock file as (its lines without PyTorch, the version of PyTorch that it names or None)."""
    with open(lock) as file:
        lines = file.read().splitlines()
    torch = [line for line in lines if line.startswith("torch==")]
    others = [line for line in lines if line not in torch]
    return others, torch[0][len("torch==") :] if torch else None


def install_pins(lock):
    """Install exactly what a lock file lists, PyTorch excepted, and nothing that it does not list."""
    pins, _ = split_torch(lock)
    count = sum("==" in line for line in pins)
    say(f"{count} pinned packages of requirements/{os.path.basename(lock)}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pins.txt")
        with open(path, "w") as file:
            file.write("\n".join(pins))
        command(pip("--no-deps", "-r", path), "Packages could not be installed (is there a network?).")


def torch_version():
    """The installed PyTorch's version, as 2.13.0+cpu, or None."""
    question = "from importlib.metadata import version; print(version('torch'))"
    answer = subprocess.run([PYTHON, "-c", question], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return answer.stdout.decode().strip() if answer.returncode == 0 else None


def install_torch(version, gpu):
    """Install PyTorch: with a GPU or on a Mac the usual build, otherwise a CPU build if one can be had.

    The CPU build is looked for where pip is set to look, then in PyTorch's own index. Where neither has it,
    the usual build does the same at several times the size: slower to fetch, never wrong.
    """
    found = torch_version()
    if found is not None and found.split("+")[0] == version and not (gpu and "+cpu" in found):
        return
    say(f"PyTorch {version}")
    failure = f"PyTorch {version} could not be installed."
    if not gpu and sys.platform == "linux":
        cpu_build = pip("--no-deps", "--retries", "0", f"torch=={version}+cpu")
        for extra in ([], ["--timeout", "10", "--index-url", PYTORCH_CPU_INDEX]):
            try:
                return command(cpu_build + extra, failure)
            except SetupError:
                pass
        say("no CPU build of PyTorch within reach: fetching the usual one, several GB")
    command(pip(f"torch=={version}"), failure)


def install_course():
    say("this package and its Jupyter kernel")
    command(pip("--no-deps", "--no-build-isolation", "--editable", ROOT), "The package could not be installed.")
    install_kernel(VENV)
    install_lab(os.path.join(VENV, "share", "jupyter"))


def install_kernel(prefix):
    """The kernel that the notebooks ask for, `python3`, with a name to recognise it by, and the course's magics."""
    command(
        [PYTHON, "-m", "ipykernel", "install", "--prefix", prefix, "--display-name", KERNEL_TITLE],
        "The Jupyter kernel could not be installed.",
    )
    path = os.path.join(prefix, "share", "jupyter", "kernels", "python3", "kernel.json")
    with open(path) as file:
        spec = json.load(file)
    spec["argv"].append("--IPKernelApp.exec_lines=" + KERNEL_START)
    with open(path, "w") as file:
        json.dump(spec, file, indent=1)


def install_lab(folder):
    """JupyterLab's default settings and the course's extension, in a folder like .venv/share/jupyter."""
    settings = os.path.join(folder, "lab", "settings")
    os.makedirs(settings, exist_ok=True)
    with open(os.path.join(settings, "overrides.json"), "w") as file:
        json.dump(LAB_SETTINGS, file, indent=1)
    target = os.path.join(folder, "labextensions", "mobilenetv2-course")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(LAB_EXTENSION, target)


def report_compiler():
    """Say so where the simulator will use ziglang, which is among the pinned packages for that reason."""
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        say("no C++ compiler here: the pinned package ziglang, a clang, will compile the kernels")


def set_up(force=False):
    """Bring .venv/ to the state that the lock files describe, unless the stamp says that it is."""
    check_python(sys.version_info)
    mark = fingerprint()
    if force:
        shutil.rmtree(VENV, ignore_errors=True)
    elif is_ready(mark):
        return
    began = time.time()
    gpu = has_gpu()
    cupy = cupy_package() if gpu else None
    device = "with an NVIDIA GPU" if gpu else "without a GPU"
    say(f"for Python {VERSION} {device}; this takes minutes, once")
    make_venv()
    if os.path.exists(STAMP):
        os.remove(STAMP)
    forget_half_installed()
    if gpu:
        remove_other_cupy(cupy)
    locks = lock_files(cupy)
    for lock in locks:
        install_pins(lock)
    install_torch(split_torch(locks[0])[1], gpu)
    install_course()
    report_compiler()
    with open(STAMP + ".new", "w") as file:
        file.write(mark)
    os.replace(STAMP + ".new", STAMP)
    say(f"done in {time.time() - began:.0f} s")


def main(arguments):
    if set(arguments) - {"--force"}:
        print(__doc__)
        return 0 if set(arguments) <= {"-h", "--help"} else 2
    try:
        set_up(force="--force" in arguments)
    except SetupError as error:
        print("[set-up] " + str(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\n[set-up] interrupted; the next call goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
