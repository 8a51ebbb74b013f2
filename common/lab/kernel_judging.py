"""Judge a kernel of the learner's engine on the held-out shapes of its operator: scores, and flaws in words."""

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import cuda
from ..kernels.ladder import header_options
from ..measure import timing
from ..measure.environment import card
from ..measure.roofline import Peaks
from ..report import results
from . import launch_lines
from .operators import NONE, OPERATORS, RELU6, Arrays, Operator, worded

TOLERANCE = 1e-6  # relative error, times the square root of the number of terms of a sum


def judge_kernel(source: str, name: str) -> tuple[dict[str, float], list[str]]:
    """(scores, flaws) of a kernel, as its own first comment launches it. Raises nothing for a wrong kernel.

    source   of the file
    name     of the operator and kernel
    """
    operator = OPERATORS[name]
    try:
        kernel = cuda.RawKernel(source, name, options=header_options())
    except (cuda.CompileError, ValueError) as error:
        return {}, [" ".join(str(error).split())]
    scores = {"error": 0.0, "sectors": 0.0, "bank conflicts": 0.0, "findings": 0.0}
    flaws: list[str] = []
    for number, dims in enumerate(operator.held_out):
        last = number == len(operator.held_out) - 1
        flaw = _try(operator, kernel, source, dims, scores, number, with_nan=last)
        if flaw:
            flaws.append(f"{worded(dims)}: {flaw}")
    if flaws and not scores["error"] > TOLERANCE:  # of the shapes that were right
        scores["error"] = math.inf
    if not flaws and cuda.backend() == "gpu":
        scores |= _timed(operator, kernel, source)
    return scores, flaws


def _try(
    operator: Operator, kernel: Any, source: str, dims: Mapping[str, int], scores: dict[str, float], number: int,
    with_nan: bool,
) -> str:  # fmt: skip
    """Trace one launch and add its counts to the scores. Returns what is wrong with it, "" if nothing is."""
    random = np.random.default_rng(41 + number)
    inputs, bounds = operator.inputs(dims, random), RELU6 if operator.bounded and number % 2 == 0 else NONE
    if with_nan:
        first = next(iter(inputs.values()))
        first.flat[first.size // 2] = np.nan
    before = {key: array.copy() for key, array in inputs.items()}
    out = operator.empty(dims)
    args = operator.arguments(inputs, out, dims, bounds)
    try:
        size = launch_lines.size(source, dims)
        cuda.allow_shared(kernel, size.shared)
        report = cuda.trace(kernel, size.grid, size.block, args, size.shared)
    except (launch_lines.LaunchError, cuda.KernelError, TypeError, ValueError) as error:
        return " ".join(str(error).split())
    scores["sectors"] += report.global_loads.units + report.global_stores.units + report.atomics["global"].units
    scores["bank conflicts"] += report.shared_loads.conflicts + report.shared_stores.conflicts
    scores["findings"] += len(report.findings)
    if report.findings:
        return str(report.findings[0])
    for key, array in inputs.items():
        if not np.array_equal(array, before[key], equal_nan=True):
            return f"the kernel writes to {key}, an input"
    off, flaw = _compared(operator, inputs, dims, bounds, out)
    scores["error"] = max(scores["error"], off)
    return flaw


def _compared(
    operator: Operator, inputs: Arrays, dims: Mapping[str, int], bounds: tuple[float, float], out: np.ndarray
) -> tuple[float, str]:
    """(relative error, what is wrong) of a result; NaN must stand where float64 has it, and nowhere else."""
    want = operator.expected(inputs, dims, bounds)
    lost, gained = np.isnan(want) & ~np.isnan(out), ~np.isnan(want) & np.isnan(out)
    if gained.any():
        return math.inf, f"{operator.output}{_place(gained)} is NaN ({int(gained.sum())} of {out.size} elements)"
    if lost.any():
        return math.inf, f"{operator.output}{_place(lost)} is {out[lost][0]:.6g} where an input is NaN, expected NaN"
    numbers = ~np.isnan(want)
    off, size = np.linalg.norm((out - want)[numbers]), np.linalg.norm(want[numbers])
    error = float(off / (size or 1.0))
    most = TOLERANCE * math.sqrt(operator.terms(dims))
    if error <= most:
        return error, ""
    worst = np.unravel_index(np.nanargmax(np.abs(out - want)), out.shape)
    place = ", ".join(str(int(i)) for i in worst)
    values = f"{operator.output}[{place}] is {out[worst]:.6g}, expected {want[worst]:.6g}"
    return error, f"the error is {error:.0e}, {most:.0e} is allowed: {values}"


def _place(mask: np.ndarray) -> str:
    return "[" + ", ".join(str(int(i)) for i in np.argwhere(mask)[0]) + "]"


def _timed(operator: Operator, kernel: Any, source: str) -> dict[str, float]:
    """The µs of a launch of MobileNetV2's size on the GPU, and the share of the roof if the card's peaks are known."""
    dims, random = operator.timed, np.random.default_rng(41)
    inputs = {key: cuda.asarray(array) for key, array in operator.inputs(dims, random).items()}
    out, size = cuda.asarray(operator.empty(dims)), launch_lines.size(source, dims)
    args = operator.arguments(inputs, out, dims)
    cuda.allow_shared(kernel, size.shared)
    call: Callable[[], Any] = kernel.bound(size.grid, size.block, args, shared_mem=size.shared)
    us = timing.time(call).median_us
    scores = {"µs": us}
    with contextlib.suppress(ValueError, OSError, LookupError):
        peaks = Peaks.recorded(results.load(card()))
        bytes_us = operator.bytes_moved(dims) / peaks.copy_bytes_per_s * 1e6
        flops_us = 2 * operator.multiply_adds(dims) / peaks.fma_fp32 * 1e6
        scores["roof"] = max(bytes_us, flops_us) / us
    return scores
