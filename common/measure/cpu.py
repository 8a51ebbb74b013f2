"""The roofs of the computer that this runs on, for one core of its CPU, and the time of a call on it.

    roofs = measure_cpu()                      about three seconds
    roofs.dram_bytes_per_s, roofs.l2_bytes_per_s, roofs.flops_per_s
    roofs.roof_us(work), roofs.roof_us(work, "L2")
    cpu_us(lambda: convolution(x))             the median time of a call, in µs

Everything is measured on one core: a roof for all cores would be about as many times higher in arithmetic and in L2,
but not in DRAM, which the cores share. A program that is compared with these roofs must use one core as well, as
after torch.set_num_threads(1). The functions that are timed are in cpu.cpp.
"""

import ctypes
import functools
import platform
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ..cuda.simulator import compiler
from .roofline import Peaks, Work, conv2d_work

SOURCE = Path(__file__).with_name("cpu.cpp")
L2_UNKNOWN, LAST_UNKNOWN = 2**20, 2**25  # bytes, where the system does not say
DRAM_LEAST, DRAM_MOST = 2**27, 2**30  # bytes, of both arrays of a copy together
CHAINS = (8, 12, 16, 24)
A, B = 0.9999, 0.5
SAMPLES, SAMPLE_S = 9, 0.02
SHORT_S = 0.002


@dataclass(frozen=True)
class CpuRoofs:
    """Measured roofs of one core, and the sizes of the caches that they refer to, in bytes.

    Bandwidths in B/s, of a copy: bytes read + bytes written. "DRAM": arrays of several times the last
    cache; "L2": arrays that fill half of the L2 cache. flops_per_s: fp32 multiply-adds in registers, 2 FLOPs each.
    """

    dram_bytes_per_s: float
    l2_bytes_per_s: float
    flops_per_s: float
    l2_size: int
    last_size: int
    dram_touched: int  # bytes that a copy from DRAM touches
    l2_touched: int

    def bytes_per_s(self, level: str = "DRAM") -> float:
        """The copy bandwidth of a level: "DRAM" or "L2". ValueError for another one."""
        levels = {"DRAM": self.dram_bytes_per_s, "L2": self.l2_bytes_per_s}
        if level not in levels:
            raise ValueError(f"level must be one of {', '.join(levels)}, got {level!r}")
        return levels[level]

    def peaks(self) -> Peaks:
        """The roofs in the form that plots take."""
        return Peaks(self.dram_bytes_per_s, self.flops_per_s, None, None, l2_copy_bytes_per_s=self.l2_bytes_per_s)

    def ridge(self, level: str = "DRAM") -> float:
        """FLOPs per byte at which a level's line meets the arithmetic's."""
        return self.flops_per_s / self.bytes_per_s(level)

    def roof_us(self, work: Work, level: str = "DRAM") -> float:
        """The time at the roof, in µs: the longer of the bytes at a level's copy bandwidth and the FLOPs at peak."""
        return 1e6 * max(work.bytes / self.bytes_per_s(level), work.flops / self.flops_per_s)


# ---- The caches


def cache_sizes(system: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> tuple[int, int]:
    """(L2, last) cache sizes of the first core in bytes, as the system says; else 1 MiB and 32 MiB."""
    levels: dict[int, int] = {}
    for index in sorted(system.glob("index*")):
        try:
            if (index / "type").read_text().strip() != "Instruction":
                number, unit = re.fullmatch(r"(\d+)([KM]?)", (index / "size").read_text().strip()).groups()  # type: ignore[union-attr]
                levels[int((index / "level").read_text())] = int(number) * {"": 1, "K": 2**10, "M": 2**20}[unit]
        except (OSError, ValueError, AttributeError):
            continue
    if platform.system() == "Darwin":
        for level, names in {2: ("hw.perflevel0.l2cachesize", "hw.l2cachesize"), 3: ("hw.l3cachesize",)}.items():
            for size in filter(None, map(_sysctl, reversed(names))):
                levels[level] = size
    l2 = levels.get(2, L2_UNKNOWN)
    return l2, max([l2, *levels.values()]) if levels else LAST_UNKNOWN


def _sysctl(name: str) -> int:
    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
        return int(done.stdout or 0)
    except (OSError, ValueError):
        return 0


# ---- Measuring


@functools.cache
def _library() -> Any:
    library = compiler.load(compiler.build_host(SOURCE.read_text(encoding="utf-8")))
    pointer, long = ctypes.c_void_p, ctypes.c_long
    for name, parameters in {
        "copy_seconds": [pointer, pointer, long, long, ctypes.c_int],
        "fma_seconds": [pointer, long, ctypes.c_int, ctypes.c_float, ctypes.c_float],
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = parameters, ctypes.c_double
    return library


def copy_rate(touched: int, samples: int = SAMPLES) -> float:
    """B/s of a copy, read + written, on one core; touched: bytes of source and destination together, at least 8.

    The faster of a loop and of memcpy, each the best of several samples, as in STREAM. RuntimeError for a wrong copy.
    """
    floats = _positive("touched", touched, 8) // 8
    source = np.random.default_rng(0).standard_normal(floats, np.float32)
    rates = []
    for way in (0, 1):
        out = np.full_like(source, np.nan)

        def call(passes: int, way: int = way, out: np.ndarray = out) -> float:
            return float(_library().copy_seconds(source.ctypes.data, out.ctypes.data, floats, passes, way))

        rates.append(_rate(call, 8 * floats, samples))
        if not np.array_equal(out, source):
            raise RuntimeError("cpu.cpp: the copy is not equal to its source")
    return max(rates)


def fma_rate(samples: int = SAMPLES) -> float:
    """FLOP/s of fp32 multiply-adds in vector registers of one core; the best of several numbers of chains.

    RuntimeError for a wrong result.
    """
    width = int(_library().width())
    best = 0.0
    for count in CHAINS:
        out, steps_done = np.full(count * width, np.nan, np.float32), 0

        def call(steps: int, count: int = count, out: np.ndarray = out) -> float:
            nonlocal steps_done
            steps_done = steps
            return float(_library().fma_seconds(out.ctypes.data, steps, count, A, B))

        best = max(best, _rate(call, 2 * count * width, samples))
        a, b = float(np.float32(A)), float(np.float32(B))
        start = np.add.outer(np.arange(count), np.arange(width)).ravel()
        if not np.allclose(out, a**steps_done * start + b * (1 - a**steps_done) / (1 - a), rtol=1e-2):
            raise RuntimeError(f"cpu.cpp: {count} chains of multiply-adds are wrong")
    return best


def measure_cpu(samples: int = SAMPLES) -> CpuRoofs:
    """Measure the roofs of one core, in a few seconds, the best of `samples` each. RuntimeError for a wrong result.

    Errors of the compiler as of compiler.find_compiler.
    """
    l2, last = cache_sizes()
    far, near = min(max(DRAM_LEAST, 4 * last), DRAM_MOST), l2 // 2
    return CpuRoofs(copy_rate(far, samples), copy_rate(near, samples), fma_rate(samples), l2, last, far, near)


@functools.cache
def reuse_memory() -> bool:
    """Keep freed memory in this process, for arrays of up to 32 MiB. Whether the C library could be told so.

    By default, glibc returns large arrays to the operating system. Each new array then needs new pages, which can take
    longer than the kernel that writes it.
    """
    if platform.system() != "Linux":
        return False
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if set_option is None:
        return False
    m_trim_threshold, m_mmap_threshold = -1, -3
    return bool(set_option(m_mmap_threshold, 2**25) and set_option(m_trim_threshold, 2**28))


def cpu_us(call: Callable[[], Any], samples: int = 15) -> float:
    """The median time of a call in µs, after a warm-up; short calls are repeated within a sample.

    Memory that a call frees is reused by the next call, where the C library can be told so: see reuse_memory.
    """
    _positive("samples", samples, 1)
    reuse_memory()
    call()
    rounds = 1
    while (seconds := _seconds(call, rounds)) < SAMPLE_S / 4 and rounds < 10_000:
        rounds = min(10_000, max(2 * rounds, int(rounds * SAMPLE_S / 2 / max(seconds, 1e-9))))
    return 1e6 * float(np.median([_seconds(call, rounds) / rounds for _ in range(samples)]))


@dataclass(frozen=True)
class Timed:
    """A convolution of a block in one layout, timed."""

    kind: str  # "expand", "depthwise", "project"
    shape: str  # "56×56 24": side and channels of the block's input
    layout: str
    work: Work
    us: float


def time_block(side: int, channels: int, hidden: int, samples: int = 7) -> list[Timed]:
    """The three convolutions of an inverted residual block of stride 1, by PyTorch, each alone, for one picture.

    Two entries per convolution, one per layout: "contiguous" and "channels last".
    """
    import torch

    shapes = {
        "expand": ((channels, side, side), (hidden, channels, 1, 1)),
        "depthwise": ((hidden, side, side), (hidden, 1, 3, 3)),
        "project": ((hidden, side, side), (channels, hidden, 1, 1)),
    }
    timed = []
    with torch.inference_mode():
        for kind, (shape, filters) in shapes.items():
            x, weight, bias = torch.randn(1, *shape), torch.randn(filters), torch.randn(filters[0])
            padding, groups = filters[2] // 2, shape[0] // filters[1]
            work = conv2d_work(x.shape, weight.shape, 1, padding)
            for layout, form in (("contiguous", torch.contiguous_format), ("channels last", torch.channels_last)):
                a, w = x.to(memory_format=form), weight.to(memory_format=form)

                def call(a: Any = a, w: Any = w, bias: Any = bias, padding: int = padding, groups: int = groups) -> Any:
                    return torch.nn.functional.conv2d(a, w, bias, 1, padding, 1, groups)

                timed.append(Timed(kind, f"{side}×{side} {channels}", layout, work, cpu_us(call, samples)))
    return timed


def convolution(
    x: Any, weight: Any, bias: Any = None, padding: int = 0, groups: int = 1, *, relu6: bool = False
) -> Any:
    """A convolution of torch tensors as one kernel of oneDNN, the library that PyTorch's CPU build uses.

    With a bias and with relu6 the same kernel adds the bias and clamps, so that fused and separate are compared within
    one function of oneDNN. x (N, C, H, W), weight (O, C / groups, k, k), bias (O), float32, stride 1. Without oneDNN,
    see has_fused, it is PyTorch's own convolution, and relu6 is a RuntimeError.
    """
    import torch

    if not has_fused():
        if relu6:
            raise RuntimeError("this build of PyTorch has no fused convolution: cpu.has_fused() is False")
        return torch.nn.functional.conv2d(x, weight, bias, 1, padding, 1, groups)
    after = ("hardtanh", [0.0, 6.0]) if relu6 else ("none", [])
    return torch.ops.mkldnn._convolution_pointwise(x, weight, bias, [padding] * 2, [1, 1], [1, 1], groups, *after, "")


def has_fused() -> bool:
    """Whether this build of PyTorch has oneDNN's fused convolutions."""
    import torch

    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_convolution_pointwise")


def _seconds(call: Callable[[], Any], rounds: int) -> float:
    start = perf_counter()
    for _ in range(rounds):
        call()
    return perf_counter() - start


def _rate(call: Callable[[int], float], amount: int, samples: int) -> float:
    """`amount` per pass over the fewest seconds per pass; call(passes) returns seconds.

    Other programs only ever make a sample slower, so the best one is nearest to what the core can do. Short samples
    are taken ten times as often: one of them fits between two interruptions.
    """
    _positive("samples", samples, 1)
    passes = 1
    while (seconds := min(call(passes) for _ in range(3))) < SHORT_S / 2:
        passes = max(2 * passes, int(passes * SHORT_S / max(seconds, 1e-7)))
    return amount * passes / min(call(passes) for _ in range(samples if seconds > 5 * SHORT_S else 10 * samples))


def _positive(name: str, value: int, least: int) -> int:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return value
