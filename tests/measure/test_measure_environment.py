"""What is noted of the machine, and the watch over its sensors; NVML and CuPy are stood in for."""

import importlib.metadata
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from common import cuda
from common.measure import environment as env
from common.measure.environment import Sensors, Watch, environment
from common.report.results import course


@pytest.fixture
def simulator(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")


class NVMLError(Exception):
    pass


def nvml(**functions):
    """A pynvml of which every function that is not given fails, as for a card that cannot say."""

    def fail(*_):
        raise NVMLError("Not Supported")

    known = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByPciBusId": lambda bus: {b"0000:19:00.0": "card"}[bus],
        "nvmlSystemGetDriverVersion": lambda: "580.1",
    }
    names = ("PowerUsage", "ClockInfo", "MaxClockInfo", "Temperature", "CurrentClocksThrottleReasons")
    failing = {f"nvmlDeviceGet{name}": fail for name in names}
    constants = {"NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVML_TEMPERATURE_GPU": 0, "NVMLError": NVMLError}
    return SimpleNamespace(**(failing | known | constants | functions))


@pytest.fixture
def gpu(monkeypatch):
    """CuPy and NVML of a machine with a card."""
    runtime = SimpleNamespace(
        getDeviceProperties=lambda i: {
            "name": b"NVIDIA H200", "major": 9, "minor": 0, "multiProcessorCount": 132, "l2CacheSize": 62914560,
        },
        runtimeGetVersion=lambda: 13020,
    )  # fmt: skip
    device = SimpleNamespace(id=0, pci_bus_id="0000:19:00.0")
    module = SimpleNamespace(
        __version__="14.2.0", cuda=SimpleNamespace(runtime=runtime, Device=lambda: device)
    )  # fmt: skip
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(env, "_cublas", lambda: "13.1.0")
    monkeypatch.setitem(sys.modules, "pynvml", nvml(
        nvmlDeviceGetPowerUsage=lambda card: 312_450,
        nvmlDeviceGetClockInfo=lambda card, kind: {1: 1980, 2: 3201}[kind],
        nvmlDeviceGetMaxClockInfo=lambda card, kind: {1: 1981, 2: 3202}[kind],
        nvmlDeviceGetTemperature=lambda card, kind: 41,
        nvmlDeviceGetUUID=lambda card: "GPU-5e1ec7ed-0000-4000-8000-000000000001",
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda card: 0x1 | 0x4,
    ))  # fmt: skip
    return module


# ---- The environment


def test_a_run_on_a_card(gpu, monkeypatch):
    monkeypatch.setenv("COURSE_COMMIT", "abc1234")
    found = environment()
    expected = {
        "card": "NVIDIA H200", "compute_capability": "9.0", "sms": 132, "l2_bytes": 62914560, "driver": "580.1",
        "cuda": "13.2", "cupy": "14.2.0", "cublas": "13.1.0", "sm_mhz": 1980, "mem_mhz": 3201, "max_sm_mhz": 1981,
        "max_mem_mhz": 3202, "power_w": 312.45, "temperature_c": 41, "commit": "abc1234", "uuid": "GPU-5e1ec7ed",
    }  # fmt: skip
    assert {key: found.get(key) for key in expected} == expected
    assert found["date"].count("-") == 2 and found["python"].startswith(f"{sys.version_info[0]}.")
    assert "reasons" not in found and None not in found.values()


def test_a_library_that_ran_is_named_with_its_version(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace(__version__="1.31.1"))
    assert environment()["onnxruntime"] == "1.31.1"
    monkeypatch.delitem(sys.modules, "onnxruntime")
    assert "onnxruntime" not in environment()


def test_a_card_without_nvml(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # an import of it fails
    said = SimpleNamespace(stdout="580.159.04\n")
    monkeypatch.setattr(env.subprocess, "run", lambda command, **_: said if command[0] == "nvidia-smi" else None)
    monkeypatch.setenv("COURSE_COMMIT", "abc1234")
    found = environment()
    assert found["nvml"] == "pynvml is not installed: pip install nvidia-ml-py"
    assert found["driver"] == "580.159.04" and "power_w" not in found


def test_a_machine_without_nvidia_smi(gpu, monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(env.subprocess, "run", missing)
    monkeypatch.delenv("COURSE_COMMIT", raising=False)
    found = environment()
    assert "driver" not in found and found["commit"] == "unknown"


def test_a_card_that_cannot_say(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    found = environment()
    assert found["driver"] == "580.1" and not {"power_w", "sm_mhz", "temperature_c", "nvml"} & set(found)


def test_a_machine_without_a_card(simulator, monkeypatch):
    monkeypatch.delenv("COURSE_COMMIT", raising=False)
    found = environment()
    assert found["card"] == "none, the simulator" and "driver" not in found
    assert found["torch"].split("+")[0] == importlib.metadata.version("torch").split("+")[0]
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=course()
    ).stdout.strip()
    assert found["commit"] == (head or "unknown")


def test_nothing_heavy_is_imported(simulator):
    code = (
        "import sys, common.measure.environment as e; e.environment(); print({'torch', 'jax', 'cupy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=course())
    assert done.stdout.strip() == "set()", done.stderr


def test_versions_of_libraries_that_are_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "cudnn", SimpleNamespace(backend_version=lambda: 91900))
    assert env._cudnn() == "9.19.0"
    monkeypatch.setitem(sys.modules, "cudnn", None)
    backends = SimpleNamespace(cudnn=SimpleNamespace(is_available=lambda: True, version=lambda: 92101))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(backends=backends))
    assert env._cudnn() == "9.21.1"
    assert env._library_version(120901) == "12.9.1" and env._cuda_version(12090) == "12.9"


# ---- The watch


class Scripted:
    """Sensors that give one reading after the other, the last one for ever."""

    def __init__(self, *readings):
        self.readings = list(readings)

    def read(self):
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def reading(sm, power, reasons=0, temperature=40):
    return {"sm_mhz": sm, "mem_mhz": 3201, "power_w": power, "temperature_c": temperature, "reasons": reasons}


def test_least_median_and_most():
    sensors = Scripted(reading(1200, 100.04), reading(1980, 500.26, 0x4), reading(1755, 450.0, 0x24 | 0x1))
    watch = Watch(sensors)
    with watch:
        while len(watch._looks) < 3:
            time.sleep(0.01)
    seen = watch.summary()
    assert seen["sm_mhz"][0] == 1200 and seen["sm_mhz"][2] == 1980 and seen["sm_mhz"][1] == 1755
    assert seen["power_w"][0] == 100 and seen["power_w"][2] == 500.3
    assert seen["mem_mhz"] == [3201, 3201, 3201]
    assert seen["throttle"] == ["power cap", "software thermal"]  # idling is no throttling
    assert seen["looks"] == len(watch._looks) >= 4


def test_a_short_block_is_seen_at_its_ends_and_the_watch_ends():
    with Watch(Scripted(reading(345, 70), reading(1980, 300))) as watch:
        pass
    assert watch.summary()["sm_mhz"] == [345, 1162.5, 1980] and watch.summary()["looks"] == 2
    assert watch.summary()["throttle"] == []
    time.sleep(2.5 * env.PERIOD)
    assert watch.summary()["looks"] == 2


def test_an_error_inside_is_not_hidden():
    watch = Watch(Scripted(reading(345, 70)))
    with pytest.raises(KeyError), watch:
        raise KeyError
    assert watch.summary()["looks"] == 2


def test_what_the_card_cannot_say_is_left_out():
    with Watch(Scripted({"sm_mhz": None, "power_w": 70.0, "reasons": None})) as watch:
        pass
    assert watch.summary() == {"power_w": [70, 70, 70], "looks": 2}


def test_without_nvml_the_watch_says_why(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with Watch() as watch:
        pass
    assert watch.summary() == {"unwatched": "pynvml is not installed: pip install nvidia-ml-py"}
    assert environment(watch)["watch"] == watch.summary()


def test_a_driver_without_nvml(gpu, monkeypatch):
    def fail():
        raise NVMLError("Driver Not Loaded")

    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlInit=fail))
    with Watch() as watch:
        pass
    assert watch.summary() == {"unwatched": "NVML: Driver Not Loaded"}


def test_on_the_simulator_nobody_watches(simulator):
    with Watch() as watch:
        pass
    assert watch.summary() == {"unwatched": "kernels run on the simulator here"}


def test_the_watch_reads_nvml(gpu):
    with Watch() as watch:
        pass
    seen = watch.summary()
    assert seen["sm_mhz"] == [1980] * 3 and seen["power_w"] == [312.4] * 3 and seen["throttle"] == ["power cap"]
    assert Sensors().highest() == {"max_sm_mhz": 1981, "max_mem_mhz": 3202}
