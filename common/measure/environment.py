"""The environment of a measurement: card, driver, versions, date and commit; clocks and power during the run."""

import datetime
import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from .. import cuda

PERIOD = 0.05  # s between two samples of the sensors

# NVML's reasons for a clock below the maximum (nvmlClocksThrottleReason…), except the one for an idle GPU
REASONS = {
    0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost", 0x20: "software thermal",
    0x40: "hardware thermal", 0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip


class Sensors:
    """The current GPU's sensors, read through NVML (package nvidia-ml-py). RuntimeError if that is not possible."""

    def __init__(self) -> None:
        if cuda.backend() != "gpu":
            raise RuntimeError("kernels run on the simulator here")
        try:
            import pynvml
        except ImportError:
            raise RuntimeError("pynvml is not installed: pip install nvidia-ml-py") from None
        import cupy

        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            # indices differ: NVML counts all GPUs, CUDA the visible ones. The PCI bus address is the same
            self._card = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.Device().pci_bus_id.encode())
        except pynvml.NVMLError as error:
            raise RuntimeError(f"NVML: {error}") from None

    def _ask(self, function: str, *arguments: Any) -> Any:
        """The result of an NVML function, None if the card or the driver does not support it."""
        try:
            return getattr(self._nvml, function)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None

    @property
    def driver(self) -> str | None:
        """The driver's version, as nvidia-smi shows it."""
        version = self._ask("nvmlSystemGetDriverVersion")
        return version.decode() if isinstance(version, bytes) else version

    def read(self) -> dict[str, float | None]:
        """The present clocks in MHz, power in W, temperature in °C, and NVML's throttle reasons as a bit mask."""
        nvml = self._nvml
        milliwatts = self._ask("nvmlDeviceGetPowerUsage", self._card)
        return {
            "sm_mhz": self._ask("nvmlDeviceGetClockInfo", self._card, nvml.NVML_CLOCK_SM),
            "mem_mhz": self._ask("nvmlDeviceGetClockInfo", self._card, nvml.NVML_CLOCK_MEM),
            "power_w": None if milliwatts is None else milliwatts / 1000,
            "temperature_c": self._ask("nvmlDeviceGetTemperature", self._card, nvml.NVML_TEMPERATURE_GPU),
            "reasons": self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._card),
        }

    @property
    def uuid(self) -> str | None:
        """The beginning of the card's UUID, "GPU-" and eight hexadecimal digits: enough to tell two cards apart."""
        whole = self._ask("nvmlDeviceGetUUID", self._card)
        return None if whole is None else (whole.decode() if isinstance(whole, bytes) else whole)[:12]

    def energy_j(self) -> float | None:
        """Energy of the board in J since the driver was loaded, updated about every 100 ms; None before Volta."""
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption", self._card)
        return None if millijoules is None else millijoules / 1000

    def highest(self) -> dict[str, float | None]:
        """The card's maximum clocks in MHz."""
        nvml = self._nvml
        return {
            "max_sm_mhz": self._ask("nvmlDeviceGetMaxClockInfo", self._card, nvml.NVML_CLOCK_SM),
            "max_mem_mhz": self._ask("nvmlDeviceGetMaxClockInfo", self._card, nvml.NVML_CLOCK_MEM),
        }


class Readable(Protocol):
    """Interface of Sensors as Watch uses it."""

    def read(self) -> dict[str, float | None]:
        """The present readings, as Sensors.read."""


class Watch:
    """Samples clocks, power, temperature and throttling every 50 ms during a `with` block.

    with Watch() as watch: ...
    watch.summary()      {"sm_mhz": [1980, 1980, 1980], "power_w": [...], ..., "throttle": ["power cap"], "looks": n}

    Lists are [minimum, median, maximum]. Without NVML the summary is {"unwatched": reason}; nothing is raised.
    """

    def __init__(self, sensors: Readable | None = None) -> None:
        self._why = ""
        self._sensors = sensors
        if sensors is None:
            try:
                self._sensors = Sensors()
            except RuntimeError as error:
                self._why = str(error)
        self._looks: list[dict[str, float | None]] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Watch":
        self._over.clear()
        if self._sensors is not None:
            self._look()
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._look()

    def _watch(self) -> None:
        while not self._over.wait(PERIOD):
            self._look()

    def _look(self) -> None:
        assert self._sensors is not None
        self._looks.append(self._sensors.read())

    def summary(self) -> dict[str, Any]:
        """The function `summary` of all samples, with their number as "looks"; or {"unwatched": reason}."""
        if self._sensors is None:
            return {"unwatched": self._why}
        looks = list(self._looks)
        return summary(looks) | {"looks": len(looks)}


def summary(looks: Sequence[Mapping[str, float | None]]) -> dict[str, Any]:
    """Minimum, median and maximum of several readings of Sensors, and the names of the throttle reasons.

    Keys: sm_mhz, mem_mhz, power_w, temperature_c, throttle; those that the card does not report are left out.
    """
    seen: dict[str, Any] = {}
    for key in ("sm_mhz", "mem_mhz", "power_w", "temperature_c"):
        values = sorted(value for look in looks if (value := look.get(key)) is not None)
        if values:
            seen[key] = [_rounded(v) for v in (values[0], statistics.median(values), values[-1])]
    reasons = [int(bits) for look in looks if (bits := look.get("reasons")) is not None]
    if reasons:
        seen["throttle"] = [name for bit, name in REASONS.items() if any(bits & bit for bits in reasons)]
    return seen


def _rounded(value: float) -> float:
    return int(value) if value == int(value) else round(value, 1)


def environment(watch: Watch | None = None) -> dict[str, Any]:
    """Card, driver, versions, date and commit of this run, for a results file. Unknown ones are left out.

    watch: its summary is added, as "watch". No library is imported for its version, except CuPy on a GPU.
    """
    found: dict[str, Any] = _card() if cuda.backend() == "gpu" else {"card": "none, the simulator"}
    found |= {
        "torch": _loaded("torch", "__version__") or _installed("torch"),
        "jax": _loaded("jax", "__version__") or _installed("jax"),
        "onnxruntime": _loaded("onnxruntime", "__version__"),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
    }
    if watch is not None:
        found["watch"] = watch.summary()
    return {key: value for key, value in found.items() if value is not None}


def card() -> str:
    """The current GPU's name, such as "NVIDIA H200"."""
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()


def _card() -> dict[str, Any]:
    """What CuPy and NVML report about the current GPU."""
    import cupy

    device = cupy.cuda.Device()
    properties = cupy.cuda.runtime.getDeviceProperties(device.id)
    found: dict[str, Any] = {
        "card": card(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "sms": properties["multiProcessorCount"],
        "l2_bytes": properties["l2CacheSize"],
        "driver": None,
        "cuda": _cuda_version(cupy.cuda.runtime.runtimeGetVersion()),
        "cupy": cupy.__version__,
        "cudnn": _cudnn(),
        "cublas": _cublas(),
    }
    try:
        sensors = Sensors()
    except RuntimeError as error:
        return found | {"driver": _driver_of_nvidia_smi(), "nvml": str(error)}
    now = sensors.read()
    now.pop("reasons")
    return found | {"driver": sensors.driver, "uuid": sensors.uuid} | now | sensors.highest()


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _library_version(number: int) -> str:
    """The version of cuDNN (from 9 on) or cuBLAS as text: 91900 is 9.19.0."""
    return f"{number // 10_000}.{number % 10_000 // 100}.{number % 100}"


def _cudnn() -> str | None:
    """The version of the cuDNN loaded by NVIDIA's front end or by PyTorch, else of the wheel that is installed."""
    torch, frontend = sys.modules.get("torch"), sys.modules.get("cudnn")
    try:
        if frontend is not None:
            return _library_version(frontend.backend_version())
        if torch is not None and torch.backends.cudnn.is_available():
            return _library_version(torch.backends.cudnn.version())
    except (AttributeError, OSError, RuntimeError, AssertionError):
        pass
    return _installed("nvidia-cudnn-cu13", "nvidia-cudnn-cu12")


def _cublas() -> str | None:
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    try:
        return _library_version(cublas.getVersion(device.get_cublas_handle()))
    except RuntimeError:
        return _installed("nvidia-cublas", "nvidia-cublas-cu12")


def _driver_of_nvidia_smi() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return output.splitlines()[0].strip() if output.strip() else None


def _loaded(module: str, attribute: str) -> str | None:
    found = getattr(sys.modules.get(module), attribute, None)
    return None if found is None else str(found)


def _installed(*distributions: str) -> str | None:
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def commit() -> str:
    """The short hash of this checkout's commit, "unknown" without git. COURSE_COMMIT overrides it."""
    if given := os.environ.get("COURSE_COMMIT"):
        return given
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"
