"""The doctor: what is installed, what is missing, and the command that fixes it."""

import contextlib
import importlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from . import cuda
from .text import PACKAGE_NAME

BOOTSTRAP = Path(__file__).resolve().parents[1] / "bootstrap.py"  # exists in a clone only, not in an installed package
SET_UP = "python3 bootstrap.py --force"  # without --force, a completed set-up is not checked again


class State(Enum):
    """The result of a finding, with its mark in the report; any MISSING makes the exit status 1."""

    FINE = "[green]✓[/]"
    OPTIONAL = "[yellow]–[/]"
    MISSING = "[red]✗[/]"


@dataclass(frozen=True)
class Finding:
    """One line of the report. mend: the command or advice that fixes the problem, "" if there is none."""

    name: str
    value: str
    state: State = State.FINE
    mend: str = ""


def examine() -> Iterator[Finding]:
    """Yield all findings, in order. It takes some seconds: packages are imported and a kernel is compiled."""
    for check in (
        python, machine, gpu, backend, compiler, trial_launch, kernel_cache, optimizations, cupy, nvrtc, machine_code,
        cudnn, nvml, package_name,
    ):  # fmt: skip
        try:
            yield check()
        except Exception as error:  # a failing check is itself a finding
            what = check.__name__.replace("_", " ")
            yield Finding(what, f"{type(error).__name__}: {_one_line(error)}", State.MISSING, "see the lines above")
    for name, use in NEEDED.items():
        yield package(name, use, State.MISSING)
    for name, use in OPTIONAL.items():
        yield package(name, use, State.OPTIONAL)


def run(console: Console) -> bool:
    """Print the findings as a table. Returns whether nothing required is missing."""
    with console.status("looking around"):
        findings = list(examine())
    table = Table(
        "",
        "what",
        Column("found", overflow="fold"),
        "to mend it",
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    for finding in findings:
        table.add_row(finding.state.value, *map(escape, (finding.name, finding.value, finding.mend)))
    console.print(table)
    missing = [finding.name for finding in findings if finding.state is State.MISSING]
    console.print(f"needed and missing: {', '.join(missing)}" if missing else "all that is needed is here")
    return not missing


# The machine


def python() -> Finding:
    """The running Python; MISSING if its version is not supported."""
    found = f"{platform.python_version()} at {sys.executable}"
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Finding("Python", found)
    return Finding("Python", found, State.MISSING, "Python 3.11, 3.12 or 3.13, then " + SET_UP)


def machine() -> Finding:
    """Processor, number of cores and operating system."""
    system = f"{platform.system()} {platform.machine()}"
    return Finding("machine", f"{_processor_name() or 'processor'}, {os.cpu_count()} cores, {system}")


def _processor_name() -> str:
    """The processor's name from /proc/cpuinfo, else from the platform module; "" if unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def gpu() -> Finding:
    """The first GPU and its driver, from nvidia-smi; OPTIONAL without a GPU, or with one older than Turing."""
    fields = "name,memory.total,compute_cap,driver_version"
    lines = _output(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]).splitlines()
    if not lines:
        if shutil.which("nvidia-smi") is None:
            return Finding("GPU", "none: there is no nvidia-smi here", State.OPTIONAL)
        return Finding("GPU", "nvidia-smi sees none", State.OPTIONAL, "see what nvidia-smi says")
    name, memory, capability, driver = (field.strip() for field in lines[0].split(","))
    others = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    value = f"{name}, {memory}, compute capability {capability}{others}; driver {driver}"
    if tuple(map(int, capability.split("."))) < (7, 5):
        return Finding("GPU", value, State.OPTIONAL, "7.5 (Turing) is needed: COURSE_DEVICE=simulator")
    return Finding("GPU", value)


def _output(command: list[str]) -> str:
    """The standard output of a command; "" if it does not exist, fails, or takes more than 30 s."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


# Running kernels


def backend() -> Finding:
    """Where kernels run, GPU or simulator, and why; MISSING if COURSE_DEVICE cannot be satisfied."""
    wanted = os.environ.get("COURSE_DEVICE")
    reason = f"COURSE_DEVICE={wanted}" if wanted else "COURSE_DEVICE is not set"
    try:
        return Finding("kernels run on", f"the {cuda.backend().replace('gpu', 'GPU')} ({reason})")
    except RuntimeError as error:
        return Finding("kernels run on", _one_line(error), State.MISSING, "unset COURSE_DEVICE")


def compiler() -> Finding:
    """The simulator's C++ compiler; without one, OPTIONAL on a machine that runs kernels on a GPU, else MISSING."""
    from .cuda.simulator import find_compiler

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the fallback to ziglang, which the table shows
            found = find_compiler()
    except RuntimeError as error:
        state = State.OPTIONAL if _runs_on_gpu() else State.MISSING
        return Finding("C++ compiler", _one_line(error), state, "pip install ziglang")
    return Finding("C++ compiler", f"{found.version} ({' '.join(Path(part).name for part in found.command)})")


def trial_launch() -> Finding:
    """Compile and launch a kernel, and check its result."""
    source = """
    extern "C" __global__ void triple(int n, const float* x, float* y) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;  // 0 … n−1, and beyond in the last block
        if (i < n) y[i] = 3.0f * x[i];
    }
    """
    n = 1000
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = cuda.asarray(np.arange(n, dtype=np.float32))
            y = cuda.full(n, np.nan, np.float32)
            cuda.RawKernel(source, "triple")(((n + 127) // 128,), (128,), (np.int32(n), x, y))
            right = bool((cuda.asnumpy(y) == 3 * np.arange(n)).all())
    except Exception as error:  # any failure is a finding
        return Finding("a test kernel", _one_line(error), State.MISSING, "see the lines above")
    if not right:
        return Finding("a test kernel", "gives wrong results", State.MISSING, "COURSE_DEVICE=simulator")
    return Finding("a test kernel", f"compiled, launched, {n} right results")


def kernel_cache() -> Finding:
    """The folder of compiled kernels and its size; MISSING if there can be none."""
    try:
        folder = cuda.cache_dir()
    except RuntimeError as error:
        return Finding("kernel cache", _one_line(error), State.MISSING, "COURSE_CACHE=<another folder>")
    sizes = []
    for place, folders, files in os.walk(folder):  # which passes over folders that other processes delete meanwhile
        folders[:] = [name for name in folders if not name.startswith(cuda.cache.BUILDING)]
        for file in files:
            with contextlib.suppress(OSError):
                sizes.append(os.stat(os.path.join(place, file)).st_size)
    size = sum(sizes) / 1e6
    return Finding("kernel cache", f"{folder}: {len(sizes)} files, {size:.1f} MB; it may be deleted")


def optimizations() -> Finding:
    """The optimizations that Network(optimize=...) can use here, and the substitutes for the others."""
    from .optimize.features import features

    try:
        found = features()
    except Exception as error:  # a GPU that is requested but missing, a driver that does not respond
        return Finding("optimize", _one_line(error), State.OPTIONAL, "see the lines above")
    able = ", ".join(feature.name for feature in found if feature.missing is None) or "nothing of it"
    lacking = [f"without {one.name} ({one.missing}): {one.instead}" for one in found if one.missing is not None]
    installable = [one for one in found if one.missing and "package" in one.missing]
    return Finding("optimize", "; ".join([able, *lacking]), State.OPTIONAL if installable else State.FINE,
                   "pip install cuda-bindings" if installable else "")  # fmt: skip


def _runs_on_gpu() -> bool:
    try:
        return cuda.backend() == "gpu"
    except RuntimeError:
        return False


def _has_gpu() -> bool:
    return "GPU 0" in _output(["nvidia-smi", "-L"])


# Packages: imported, not only looked up, because an installed package may fail to load

NEEDED = {
    "numpy": "arrays",
    "onnx": "models",
    "onnxruntime": "the reference result",
    "torch": "the reference network",
    "onnxscript": "export to ONNX",
    "PIL": "pictures",
    "sklearn": "the handwritten digits",
    "matplotlib": "plots",
}
OPTIONAL = {
    "jupyterlab": "the notebooks: make lab",
    "pytest": "the tests: make test",
    "nbval": "the tests of the notebooks",
}
DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn"}


def package(name: str, use: str, when_missing: State) -> Finding:
    """A package imported as `name`, with its distribution's version; `when_missing` if it cannot be imported.

    use: its purpose, for the report.
    """
    distribution = DISTRIBUTIONS.get(name, name)
    label = f"{distribution} ({use})"
    try:
        importlib.import_module(name)
        return Finding(label, importlib.metadata.version(distribution))
    except ModuleNotFoundError as error:
        if error.name == name:
            return Finding(
                label, "not installed", when_missing, SET_UP if BOOTSTRAP.exists() else f"pip install {distribution}"
            )
        return Finding(label, _one_line(error), when_missing, SET_UP)
    except Exception as error:  # a shared library that does not load, incompatible versions
        mend = f"pip install --force-reinstall {distribution}"
        return Finding(label, f"does not load: {_one_line(error)}", when_missing, mend)


def package_name() -> Finding:
    """Whether the package is provided by this distribution only; others may install files of the same name over it."""
    owners = sorted(set(importlib.metadata.packages_distributions().get(PACKAGE_NAME, [])))
    others = [name for name in owners if name != "mobilenetv2-engine-course"]
    if others:
        return Finding(f"the package {PACKAGE_NAME}", f"also of {', '.join(others)}", State.MISSING,
                       f"pip uninstall {' '.join(others)}, then install the course anew")  # fmt: skip
    return Finding(f"the package {PACKAGE_NAME}", str(Path(__file__).parent))


def cupy() -> Finding:
    """CuPy with its CUDA version and the driver's; if it does not work, as for _missing_on_gpu."""
    versions = _versions("cupy-cuda12x", "cupy-cuda13x", "cupy")
    if len(versions) > 1:
        return Finding("CuPy", ", ".join(versions), State.MISSING, "pip uninstall all but one of them")
    if not versions:
        return _absent("CuPy", "runs the kernels", needed=True)
    try:
        import cupy as cp

        runtime = cp.cuda.runtime.runtimeGetVersion()
        driver = cp.cuda.runtime.driverGetVersion()
    except Exception as error:
        return Finding("CuPy", f"{versions[0]}: {_one_line(error)}", *_missing_on_gpu())
    if driver == 0:
        return Finding("CuPy", f"{versions[0]}, CUDA {_cuda(runtime)}, no driver", *_missing_on_gpu())
    return Finding("CuPy", f"{versions[0]}, CUDA {_cuda(runtime)}; the driver's CUDA is {_cuda(driver)}")


def nvrtc() -> Finding:
    """NVRTC, the compiler of CUDA C++: CuPy's, else the wheel used by the tests."""
    try:
        from cupy.cuda import nvrtc as library

        major, minor = library.getVersion()
        return Finding("NVRTC", f"{major}.{minor} (CuPy's)")
    except Exception:
        versions = _versions("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc")
        if versions:
            return Finding("NVRTC", f"{versions[0]}, for cuda.inspect and the tests")
        return _absent("NVRTC", "compiles the kernels", needed=True)


def machine_code() -> Finding:
    """What cuda.inspect needs, NVRTC and nvdisasm: a small kernel compiled and disassembled; OPTIONAL if it fails."""
    from .cuda.machine_code.inspection import inspect_source

    source = 'extern "C" __global__ void one(float* y) { y[threadIdx.x] = 1.0f; }'
    try:
        found = inspect_source((source, (), ()), "one")
    except Exception as error:  # a missing package, a program that does not start here
        mend = SET_UP if BOOTSTRAP.exists() and sys.platform == "linux" else ""
        return Finding("cuda.inspect", _one_line(error), State.OPTIONAL, mend)
    return Finding("cuda.inspect", f"machine code for {found.arch}, {len(found.code)} instructions of a test kernel")


def cudnn() -> Finding:
    """cuDNN and its front end, the baseline of the measurements; OPTIONAL if it is missing or does not load."""
    versions = _versions("nvidia-cudnn-frontend", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13")
    if not versions or not versions[0].startswith("nvidia-cudnn-frontend"):
        return _absent("cuDNN", "what the kernels are compared with")
    try:
        import cudnn as frontend

        number = frontend.backend_version()  # 92600 is 9.26.0
        return Finding("cuDNN", f"{number // 10000}.{number // 100 % 100}.{number % 100}, {versions[0]}")
    except Exception as error:
        return Finding("cuDNN", f"{', '.join(versions)}: {_one_line(error)}", State.OPTIONAL)


def nvml() -> Finding:
    """The NVML bindings, for power and energy; OPTIONAL if they are missing."""
    versions = _versions("nvidia-ml-py")
    return Finding("NVML", versions[0]) if versions else _absent("NVML", "measures power and energy")


def _absent(name: str, use: str, needed: bool = False) -> Finding:
    """The finding for a package of the extra "gpu" that is not installed; without a GPU it is not needed."""
    state, mend = _missing_on_gpu()
    value = f"not installed ({use})" if mend else f"not installed ({use}, on a GPU)"
    return Finding(name, value, state if needed else State.OPTIONAL, mend)


def _missing_on_gpu() -> tuple[State, str]:
    """(state, mend) if kernels cannot run on a GPU: MISSING if there is one and COURSE_DEVICE does not exclude it."""
    if os.environ.get("COURSE_DEVICE") == "simulator" or not _has_gpu():
        return State.OPTIONAL, ""
    return State.MISSING, SET_UP


def _versions(*distributions: str) -> list[str]:
    """ "name version" of each of the distributions that is installed."""
    found = []
    for name in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return found


def _cuda(number: int) -> str:
    """A CUDA version number as text: 12090 is "12.9"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
