#!/usr/bin/env python3
"""Set up everything that the course needs, in .venv/ beside this file. Standard library only.

    python3 bootstrap.py            set up, or return at once where that has been done
    python3 bootstrap.py --force    set up anew from nothing
    python3 bootstrap.py --here     install into the Python that runs this file, as on Binder: no .venv/, no stamp

`make demo`, `make test` and `make lab` call it first. What it installs, in order:

    1. PyTorch's CPU build on a Linux machine without a GPU, as the CUDA build is several GB
    2. the exact versions of requirements/base.txt; with an NVIDIA GPU those of gpu.txt too: by uv, where it can, as it
       takes a quarter of pip's time
    3. this package, editable, so that `import common` finds the files that you edit
    4. a Jupyter kernel that has the course's magics, and JupyterLab's settings and extension, inside .venv/

.venv/.ready, written last, says for which Python, folder, GPU and versions that was done. After other versions, as a
`git pull` may bring them, what has changed is installed; in every other case, also after an interruption, .venv/ is
made from nothing.

    COURSE_CUPY=cupy-cuda13x    use CuPy for CUDA 13 (also honoured where it is already in .venv/)
    COURSE_GPU=0                leave the GPU packages out, even where there is a GPU; 1 installs them without one, as
                                for a container that gets its GPU when it runs

An old Python must get far enough in this file to be told that it is too old: nothing here is newer than 3.6.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
STAMP = os.path.join(VENV, ".ready")

OLDEST, NEWEST = (3, 11), (3, 13)
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
UV_OPTIONS = {  # uv's option for a setting of pip's
    "index-url": "--default-index", "extra-index-url": "--index", "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}  # fmt: skip
IMPORTED = [
    # (sympy and torch._dynamo: PyTorch imports them late, within the seconds that an exercise's answer has)
    ["torch", "torch.export", "torch._dynamo", "onnx", "onnxruntime", "common.network", "common.check"],
    [
        "sympy",
        "matplotlib.pyplot",
        "pandas",
        "sklearn.datasets",
        "IPython",
        "ipykernel.kernelapp",
        "jupyterlab.labapp",
        "typer",
    ],
]
GPU_LOCKS = {"cupy-cuda12x": "gpu.txt", "cupy-cuda13x": "gpu13.txt"}

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


def check_python(version):
    """Raise SetupError unless the version, (major, minor), is one that the course is locked for."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    found = [name for name in names if shutil.which(name)]
    if found:
        advice = f"Run:  {found[0]} bootstrap.py   (with make:  make PYTHON={found[0]} demo)"
    else:
        advice = "Install one of them from python.org, your system's packages, conda (environment.yml) or uv."
    raise SetupError(
        f"Python 3.{OLDEST[1]} to 3.{NEWEST[1]} is needed, "
        f"this is Python {version[0]}.{version[1]} ({sys.executable}).\n{advice}"
    )


def has_gpu():
    """Whether nvidia-smi lists an NVIDIA GPU. COURSE_GPU=0 answers no, COURSE_GPU=1 yes."""
    if os.environ.get("COURSE_GPU") in ("0", "1"):
        return os.environ["COURSE_GPU"] == "1"
    if shutil.which("nvidia-smi") is None:
        return False
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listing.returncode == 0 and b"GPU 0" in listing.stdout


def cupy_package():
    """The CuPy for a GPU: what COURSE_CUPY says, else what .venv/ has, else the one for CUDA 12."""
    there = glob.glob(os.path.join(VENV, "lib", "python*", "site-packages", "cupy_cuda13x-*"))
    asked = os.environ.get("COURSE_CUPY") or ("cupy-cuda13x" if there else "cupy-cuda12x")
    if asked not in GPU_LOCKS:
        raise SetupError(f"COURSE_CUPY={asked}: it can be {' or '.join(GPU_LOCKS)}.")
    return asked


def state(cupy):
    """What a finished set-up depends on, as two lines: the machine with its wishes, and the versions to install.

    It is quick: nvidia-smi is looked for but not run.
    """
    wish = os.environ.get("COURSE_GPU")
    driver = None if wish in ("0", "1") else shutil.which("nvidia-smi")  # which nobody asks then
    machine = [sys.version, ROOT, driver, wish, cupy]
    versions = hashlib.sha256()
    folder = os.path.join(ROOT, "requirements")
    for path in [os.path.abspath(__file__), *sorted(glob.glob(os.path.join(folder, "*.txt")))]:
        with open(path, "rb") as file:
            versions.update(file.read())
    return [json.dumps(machine), versions.hexdigest()]


def command(arguments, failure):
    """Run a command with its output kept back; if it fails, SetupError with the text and that output."""
    done = subprocess.run(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        output = done.stdout.decode(errors="replace").strip()
        raise SetupError(f"{failure}\n\n{output}")


def pip(*arguments):
    """The command line of the environment's own pip, without questions and remarks; compile_packages() comes later."""
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-warn-script-location", "--no-compile"]
    return [PYTHON, "-m", "pip", "install", *quiet, *arguments]


def pin_of(package, lock):
    """The line of a lock file that names a package's version, torch==2.13.0."""
    with open(lock) as file:
        return re.search("^" + package + r"==\S+", file.read(), re.MULTILINE).group()


def install_torch_for_cpu(pin):
    """Install PyTorch's CPU build from where pip is set to look, else from PyTorch's own index, if one has it.

    Where neither has it, the usual build does the same at several times the size: slower to fetch, never wrong.
    Returns whether it is installed.
    """
    cpu_build = pip("--no-deps", "--retries", "0", f"{pin}+cpu")
    for extra in ([], ["--timeout", "10", "--index-url", PYTORCH_CPU_INDEX]):
        try:
            command(cpu_build + extra, "")
        except SetupError:
            continue
        return True
    say("no CPU build of PyTorch within reach: fetching the usual one, several GB")
    return False


def indexes():
    """uv's options for where pip is set to look for packages: uv does not read pip's settings."""
    listed = subprocess.run([PYTHON, "-m", "pip", "config", "list"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    settings = re.findall(r"^(global|install|:env:)\.([\w-]+)='(.*)'$", listed.stdout.decode(), re.MULTILINE)
    options, found = [], {}
    for section in ("global", "install", ":env:"):  # the last one holds
        found.update((name, value.replace("\\n", " ").split()) for where, name, value in settings if where == section)
    for name, option in UV_OPTIONS.items():
        options += [word for value in found.get(name, []) for word in (option, value)]
    for certificates in found.get("cert", [])[:1]:
        os.environ.setdefault("SSL_CERT_FILE", certificates)
    return options


def install_by_uv(lock, arguments):
    """Install packages by uv. Returns whether that was possible."""
    try:
        command(pip("--no-deps", pin_of("uv", lock)), "")
        uv = [PYTHON, "-m", "uv", "pip", "install", "--python", PYTHON, "--index-strategy", "unsafe-best-match"]
        command([*uv, *indexes(), *arguments], "")
    except SetupError:
        return False
    return True


def install_packages(locks, gpu):
    """Install exactly what the lock files list, and with PyTorch's CUDA build what that alone needs."""
    say(f"the exact versions of {', '.join('requirements/' + os.path.basename(lock) for lock in locks)}")
    pin = pin_of("torch", locks[0])
    for_cpu = not gpu and sys.platform == "linux" and install_torch_for_cpu(pin)
    packages = ["--no-deps", *(argument for lock in locks for argument in ("-r", lock))]
    if not install_by_uv(locks[0], packages):
        command(pip(*packages), "Packages could not be installed (is there a network?).")
    if not for_cpu:
        command(pip(pin), "What PyTorch needs could not be installed.")


def compile_packages():
    """Compile to bytecode what the course imports, by importing it, half in a process of its own.

    All that is installed would take five times as long, most of it modules that nothing here imports.
    """
    running = []
    for modules in IMPORTED:
        code = "import contextlib\n" + "".join(f"with contextlib.suppress(Exception): import {m}\n" for m in modules)
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        running.append(subprocess.Popen([PYTHON, "-c", code], cwd=ROOT, env=environment, **quiet))
    for process in running:
        process.wait()


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
    """JupyterLab's default settings, and a link to the course's extension, in a folder like .venv/share/jupyter."""
    settings = os.path.join(folder, "lab", "settings")
    os.makedirs(settings, exist_ok=True)
    with open(os.path.join(settings, "overrides.json"), "w") as file:
        json.dump(LAB_SETTINGS, file, indent=1)
    link = os.path.join(folder, "labextensions", "mobilenetv2-course")
    os.makedirs(os.path.dirname(link), exist_ok=True)
    if not os.path.lexists(link):
        os.symlink(LAB_EXTENSION, link)


def install(cupy, gpu, prefix):
    """Install the packages, this package, and the Jupyter kernel with JupyterLab's settings, below a prefix."""
    names = ["base.txt", GPU_LOCKS[cupy]] if gpu else ["base.txt"]
    install_packages([os.path.join(ROOT, "requirements", name) for name in names], gpu)
    say("this package and its Jupyter kernel")
    command(pip("--no-deps", "--no-build-isolation", "--editable", ROOT), "The package could not be installed.")
    if prefix == VENV:
        compile_packages()
    install_kernel(prefix)
    install_lab(os.path.join(prefix, "share", "jupyter"))


def set_up_here():
    """Install everything into the Python that runs this file."""
    global PYTHON
    check_python(sys.version_info)
    PYTHON = sys.executable
    install(cupy_package(), has_gpu(), sys.prefix)


def set_up(force=False):
    """Bring .venv/ to the state that the lock files describe, unless the stamp says that it is."""
    check_python(sys.version_info)
    cupy = cupy_package()
    wanted, found = state(cupy), [None, None]
    if os.path.exists(STAMP) and not force:
        with open(STAMP) as file:
            found = file.read().splitlines()
    if found == wanted:
        return
    began = time.time()
    gpu = has_gpu()
    device = "with an NVIDIA GPU" if gpu else "without a GPU"
    say("for Python {}.{} {}; this takes minutes, once".format(*sys.version_info[:2], device))
    if found[:1] == wanted[:1]:
        os.remove(STAMP)
    else:
        shutil.rmtree(VENV, ignore_errors=True)
        python = getattr(sys, "_base_executable", sys.executable)  # not the one in the .venv/ just removed
        command([python, "-m", "venv", VENV], "The virtual environment could not be made.")
    install(cupy, gpu, VENV)
    with open(STAMP, "w") as file:
        file.write("\n".join(wanted))
    say(f"done in {time.time() - began:.0f} s")


def main(arguments):
    if set(arguments) - {"--force"} and arguments != ["--here"]:
        print(__doc__)
        return 0 if set(arguments) <= {"-h", "--help"} else 2
    try:
        if arguments == ["--here"]:
            set_up_here()
        else:
            set_up(force="--force" in arguments)
    except SetupError as error:
        print("[set-up] " + str(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\n[set-up] interrupted; the next call begins anew", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
