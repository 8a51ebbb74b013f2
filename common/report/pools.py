"""The ladder of global average pooling in a notebook: traces of single rungs, and what a block costs.

    traced("naive", 64, 49, blocks=1, threads=64)
    findings(source, "total")                            of one warp
    profiled("warp_per_channel").instructions            of a warp per channel, counted by the profiler at batch 256
    taken("sequential")                                  share of an SM's places for warps that have one, at batch 32
    order("warp_per_channel")                            loads and additions of the machine code, between branches
    sectors((0, 32), (32, 49))                           of a row's requests for these pixels, mean over the row's place
    issued("warp_per_channel", "fall jump split")        instructions of a warp on one way through the branches
    us("sequential", 256), blocks("sequential", 256)     of 1,280 channels of 7 × 7 pixels per image

Times and counts of the profiler are records of the H200.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from unittest.mock import patch

import numpy as np

from .. import cuda, kernels
from ..kernels.global_avg_pool import ladder
from . import ladders, results, tables

CASE, CHANNELS, PIXELS = "pool 7×7 1280", 1280, 49
PER_BLOCK = {"naive": 64, "warp_per_channel": 8, "channels_per_warp": 16}  # channels; one where a block has a channel


def traced(rung: str, channels: int, pixels: int, blocks: int, threads: int, **tile: int) -> Any:
    """The trace of one image's channels, on the simulator; the result is checked. tile: -D options."""
    layout = "NHWC" if rung in kernels.variants("global_avg_pool", layout="NHWC") else "NCHW"
    x = np.random.default_rng(3).standard_normal((1, channels, pixels)).astype(np.float32)
    memory = np.ascontiguousarray(x.transpose(0, 2, 1)) if layout == "NHWC" else x
    out = np.full((1, channels), np.nan, np.float32)
    with patch.dict(os.environ, COURSE_DEVICE="simulator"):
        kernel = ladder.kernel(rung, np.dtype(np.float32), **tile)
        report = cuda.trace(kernel, (blocks,), (threads,), (memory, out, 1, channels, pixels))
    if report.findings or not np.allclose(out, x.mean(2), atol=1e-5):
        raise AssertionError(f"global_avg_pool/{rung} is wrong: {report.findings}")
    return report


def findings(source: str, name: str) -> tuple[Any, ...]:
    """What the trace finds in one warp of a kernel (const float* in, float* out) with 32 numbers."""
    with patch.dict(os.environ, COURSE_DEVICE="simulator"):
        arguments = np.ones(32, np.float32), np.zeros(1, np.float32)
        return tuple(cuda.trace(cuda.RawKernel(source, name), (1,), (32,), arguments).findings)


def order(rung: str) -> list[str]:
    """Loads from global memory and the additions of what they load, in the machine code's order, part by part.

    A part ends where the machine code may branch, with how often a kind stands there in a row: "4 loads, 4 additions".
    In parentheses stands what a predicate may switch off.
    """
    code = kernels.inspect("global_avg_pool", rung).code
    line = next(i.line for i in code if i.kind == "FADD")  # the shuffles' additions are on another one
    parts: list[list[tuple[bool, str]]] = [[]]
    for i in code:
        if i.kind == "BRA":
            parts.append([])
        elif i.kind == "LDG.32":
            parts[-1].append((i.text.startswith("@"), "load"))
        elif i.kind == "FADD" and i.line == line:
            parts[-1].append((i.text.startswith("@"), "addition"))
    rows = ([(*what, len(list(run))) for what, run in groupby(part)] for part in parts if part)
    return [", ".join(_counted(*one) for one in row) for row in rows]


def _counted(switched: bool, kind: str, n: int) -> str:
    """ "4 loads"; in parentheses if a predicate may switch them off."""
    words = f"{n} {kind}{'s' * (n > 1)}"
    return f"({words})" if switched else words


def sectors(*requests: tuple[int, int]) -> float:
    """Sectors per row that requests for the pixels from `first` up to `end` touch, in fp32.

    The mean over the 8 places of a sector where a row of 49 may begin, which 8 neighbouring rows take in turn.
    """
    return sum((start + end - 1) // 8 - (start + first) // 8 + 1 for start in range(8) for first, end in requests) / 8


def issued(rung: str, ways: str) -> int | None:
    """The instructions that a warp issues on one way through the machine code, from the first to the last EXIT.

    ways: what it does at each conditional branch in turn: "fall" (no lane jumps), "jump" (all lanes do), "split" (some
    do). Lanes that split come to the branch's target apart, so the BSYNC there is issued twice. None if the machine
    code, of another compiler, has no such way: other branches, or no BSYNC where lanes split.
    """
    code = kernels.inspect("global_avg_pool", rung).code
    left = ways.split()
    count, at = 0, 0
    while code[at].text != "EXIT":
        count += 1
        at += 1
        if code[at - 1].kind == "BRA":
            way = left.pop(0) if left else ""
            target = next(n for n, i in enumerate(code) if i.address == code[at - 1].target)
            if way not in ("fall", "jump", "split") or (way == "split" and not code[target].text.startswith("BSYNC")):
                return None
            count += way == "split"
            at = target if way == "jump" else at
    return None if left else count + 1


def us(rung: str, batch: int, precision: str = "fp32") -> float | None:
    """Recorded µs of MobileNetV2's pooling layer; None without a record."""
    return ladders.us(CASE, rung, batch, precision)


def blocks(rung: str, batch: int) -> int:
    """Blocks of a rung for NCHW, for the layer of MobileNetV2."""
    return -(-batch * CHANNELS // PER_BLOCK.get(rung, 1))


@dataclass(frozen=True)
class Profiled:
    """What the profiler counted of a rung at batch 256.

    instructions: of warps, per channel. issue: share of the issue slots used. requested: bytes of the sectors that
    loads requested from L1. dram: bytes that DRAM delivered or took. waits: a warp's cycles per instruction, by what
    it waits for.
    """

    instructions: float
    issue: float
    requested: int
    dram: int
    waits: Mapping[str, float]

    def waiting(self, reason: str) -> float:
        """The share of a warp's cycles that it waits for this: "long_scoreboard" is a load, "lg_throttle" its queue."""
        return self.waits[reason] / sum(self.waits.values())


def profiled(rung: str) -> Profiled:
    """The profiler's record of a rung, for the layer of MobileNetV2. ValueError without one."""
    keys = {"suite": "sections", "operator": "global_avg_pool", "implementation": rung}
    found = results.find(results.load(tables.CARD), **keys)
    if not found:
        raise ValueError(f"the results hold no profile of {rung}")
    record = found[0]
    per_channel = record["instructions"] / (record["batch"] * CHANNELS)
    return Profiled(per_channel, record["issue"], 32 * record["sectors"], record["dram_bytes"], record["waits"])


def taken(rung: str) -> float:
    """The share of the places for warps that had one, averaged over a launch for 32 images, by the profiler."""
    keys = {"suite": "inspect", "case": f"global_avg_pool/{rung} fp32 NCHW"}
    return results.one(results.load(tables.CARD), **keys)["achieved"]
