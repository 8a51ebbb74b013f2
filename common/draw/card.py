"""The numbers of the NVIDIA H200 that drawings and texts use, each with its source.

Measurements come from the results, computed bandwidths name what they are computed from, and all numbers of a data
sheet or NVIDIA's documentation are constants in this file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..measure.roofline import Peaks
from ..report import results, tables
from ..report.results import Results

# CUDA C++ Programming Guide, appendix "Compute Capabilities", column 9.0
WARP = 32  # threads
THREADS_PER_BLOCK = 1024  # at most
THREADS_PER_SM = 2048  # at most
REGISTER_BYTES_PER_SM = 64 * 1024 * 4
SHARED_BYTES_PER_SM = 228 * 1024
SHARED_BYTES_PER_CLOCK = 32 * 4  # per SM: 32 banks of 4 bytes
BLOCKS_PER_SM = 32  # at most
SCHEDULERS_PER_SM = 4
GUIDE = "CUDA programming guide"

# NVIDIA H200 data sheet
MEMORY_BYTES = 141_000_000_000
SHEET = "data sheet"

# measured with chains of dependent loads on an idle H200: chapter 04, notebook 2, section 3
MEMORY_LATENCY_NS = 340
L2_LATENCY_NS = 150


@dataclass(frozen=True)
class Level:
    """One level of the memory hierarchy, summed over the card.

    bytes, bytes_per_s: its size and its bandwidth. size_from, rate_from: the sources of the two numbers.
    """

    name: str
    bytes: float
    size_from: str
    bytes_per_s: float
    rate_from: str


@dataclass(frozen=True)
class Card:
    """A card: name, date of the measurements, number of multiprocessors (sms), and levels of memory, nearest first."""

    name: str
    date: str
    sms: int
    clock_hz: float
    l2_bytes: int
    flops_per_s: float
    copy_bytes_per_s: float
    launch_us: float  # host time per launch from Python
    add: Mapping[str, Any]  # the record of the largest addition of MobileNetV2, one thread per element
    short_add: Mapping[str, Any]  # the record of a smaller one
    levels: tuple[Level, ...]

    @property
    def threads(self) -> int:
        """How many threads can be resident on the card at the same time."""
        return self.sms * THREADS_PER_SM


def measured(recorded: Results | None = None) -> Card:
    """The H200 from records, by default the course's. ValueError if its peaks were not measured."""
    recorded = recorded or results.load(tables.CARD)
    peaks = Peaks.recorded(recorded)
    environment = recorded.runs[results.one(recorded, suite="peaks", case="copy")["run"]]
    sms, clock, l2 = environment["sms"], environment["max_sm_mhz"] * 1e6, environment["l2_bytes"]
    flops, copy = peaks.flops_per_s("fp32"), peaks.copy_bytes_per_s
    # a multiply-add (two FLOPs) reads three registers and writes one
    registers = Level("registers", sms * REGISTER_BYTES_PER_SM, GUIDE, flops / 2 * 16,
                      "computed")  # fmt: skip
    shared = Level("shared memory", sms * SHARED_BYTES_PER_SM, GUIDE,
                   sms * SHARED_BYTES_PER_CLOCK * clock, "computed")  # fmt: skip
    cache = Level("L2 cache", l2, "read from the card", _l2_rate(peaks), "measured")
    memory = Level("global memory", MEMORY_BYTES, SHEET, copy, "measured")
    add, short_add = (
        results.one(recorded, suite="kernels", case=case, implementation="naive", batch=256, precision="fp32")
        for case in ("add 56×56 24", "add 28×28 32")
    )
    return Card(environment["card"], environment["date"], sms, clock, l2, flops, copy, _launch_us(recorded), add,
                short_add, (registers, shared, cache, memory))  # fmt: skip


def _launch_us(recorded: Results) -> float:
    """Host time in µs per launch, from a network of short kernels launched from Python, whose time the host limits."""
    from_python = tables.kernel_per_step(recorded, "eager", "fp16", 1)
    return from_python["median_us"] / from_python["steps"]


def _l2_rate(peaks: Peaks) -> float:
    """B/s of the fastest copy of an array that stays in the L2 cache. ValueError if none was measured."""
    if peaks.l2_copy_bytes_per_s is None:
        raise ValueError("no copy within the L2 cache is recorded: python -m common bench peaks")
    return peaks.l2_copy_bytes_per_s
