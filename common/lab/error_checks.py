"""Notebook 4 of chapter 05: the learner's `own_errors` is tried, and a kernel with a changed line is to be found by it.

try_own_errors(own_errors)                    its first flaw, or that there is none
suspect = Suspect(7)                          one of the engine's six kernels, with one line changed
with suspect: errors = own_errors(program, values)
compare_properties(program, values, errors)   what right and wrong steps of a kernel have in common
suspect.accuse("conv", 34)                    whether it is this kernel, and this line
"""

import contextlib
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from .. import topology
from . import engine, matching
from .engine_judging import exact_values
from .engine_kernels import replaced
from .matching import Flaw, errors_located
from .plan_checks import NETWORKS

FINE = 1e-5  # an own error up to this is one of rounding; any mistake of the catalogue is far above


# ---- own_errors


def try_own_errors(own_errors: Callable[..., Any]) -> None:
    """Print the first flaw of a function own_errors(program, values), or that there is none.

    It is tried on two small networks: as they are, and with launches that are spoilt on purpose.
    """
    for name, network in NETWORKS.items():
        try:
            flaw = _flaw(own_errors, *exact_values(topology.write_onnx(*network()), _images()))
        except Flaw as found:
            flaw = str(found)
        if flaw:
            print(f"✗ {name}: {flaw}")
            return
    print(f"✓ own_errors: right on {' and '.join(NETWORKS)}, with and without wrong launches")


def _images() -> np.ndarray:
    return np.random.default_rng(12).standard_normal((2, 3, 19, 14), dtype=np.float32)


def _flaw(own_errors: Callable[..., Any], program: Any, values: Mapping[str, np.ndarray]) -> str:
    steps, before = program.plan.steps, {name: value.copy() for name, value in values.items()}
    doubled, silent = len(steps) // 3, len(steps) // 2
    spoilt = copy.copy(program)
    spoilt.launches = list(program.launches)
    spoilt.launches[doubled] = partial(_launch_and_double, program, doubled, values)
    spoilt.launches[silent] = lambda: None
    wrong: dict[int, tuple[float, str]] = {
        doubled: (1.0, "its launch writes twice the right numbers"),
        silent: (math.nan, "its launch writes nothing"),
    }
    cases: list[tuple[Any, dict[int, tuple[float, str]]]] = [(program, {}), (spoilt, wrong)]
    for one, expected in cases:
        with errors_located():
            errors = matching.as_list(own_errors(one, values), "own_errors: the result")
        if len(errors) != len(steps):
            return f"{len(errors)} errors for {len(steps)} steps, expected one for each"
        for number, (step, error) in enumerate(zip(steps, errors, strict=True)):
            want, why = expected.get(number, (0.0, "its launch is right and gets exact inputs"))
            if not isinstance(error, (float, int, np.floating)):
                return f"the error of step {number} is {error!r}, expected a number"
            if not (math.isnan(error) if math.isnan(want) else abs(float(error) - want) <= FINE):
                layers = " + ".join(layer.op for layer in step.layers)
                return f"step {number} ({layers}) has the own error {error:.1g}, expected {want:.0f}: {why}"
        if not all(np.array_equal(before[name], value) for name, value in values.items()):
            return "own_errors changes values"
    return ""


def _launch_and_double(program: Any, number: int, values: Mapping[str, np.ndarray]) -> None:
    program.launches[number]()
    step = program.plan.steps[number]
    start, size = program.plan.offsets[step.output], 4 * values[step.output].size
    program.memory.reshape(-1).view(np.uint8)[start : start + size].view(np.float32)[...] *= 2


# ---- What steps have in common


def compare_properties(program: Any, values: Mapping[str, np.ndarray], errors: Sequence[float]) -> None:
    """Print the number of right and wrong steps of each kernel; where it has both, the properties in which they differ.

    errors: the own error of each step of the program; wrong is what is not at most FINE.
    """
    steps = list(zip(program.plan.steps, errors, strict=True))
    for kernel in dict.fromkeys(step.kernel for step, _ in steps):
        right, wrong = (
            [_properties(step, values) for step, error in steps if step.kernel == kernel and (error <= FINE) == fine]
            for fine in (True, False)
        )
        print(f"{kernel}: {len(right)} step{'s' * (len(right) != 1)} right, {len(wrong)} wrong")
        for name in wrong[0] if right and wrong else ():
            either = [", ".join(map(str, sorted({one[name] for one in some}))) for some in (right, wrong)]
            if either[0] != either[1]:
                print(f"    {name:<16} right: {either[0]}\n    {'':<16} wrong: {either[1]}")


def _properties(step: Any, values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    x, out = values[step.inputs[0]], values[step.output]
    ops = [layer.op for layer in step.layers]
    return {
        "input channels": x.shape[1],
        "output channels": out.shape[1],
        "output pixels": math.prod(out.shape[2:]),
        "stride": dict(step.layers[0].attributes).get("stride", (1,))[0],
        "residual": "yes" if "ResidualAdd" in ops[1:] else "no",
        "ReLU6": "yes" if "ReLU6" in ops[1:] else "no",
    }


# ---- A kernel with one line changed


@dataclass(frozen=True)
class Mistake:
    """One changed piece of a kernel of the reference.

    kernel    the file, without .cu
    right     the piece, which stands in the file once
    wrong     what it is replaced by, in the same line
    where     the steps that are wrong, and why
    """

    kernel: str
    right: str
    wrong: str
    where: str


MISTAKES = (
    Mistake(
        "depthwise", "y * stride - padding", "y - padding",
        "steps of stride 1 are right: there, y · stride is y",
    ),
    Mistake(
        "pointwise", "sum += residual[at];", "sum += residual[o];",
        "a residual has a number per element of the output, not per channel",
    ),
    Mistake(
        "pointwise", "o = channel0 + i / SLICE", "o = i / SLICE",
        "each tile stages the weights of output channels 0 to 63: up to 64 output channels there is one tile",
    ),
    Mistake(
        "pointwise", "pixel = pixel0 + i % TILE", "pixel = i % TILE",
        "each tile stages pixels 0 to 63 of the input: up to 64 pixels there is one tile",
    ),
    Mistake(
        "pointwise", "k0 < in_channels; k0 += SLICE", "k0 + SLICE <= in_channels; k0 += SLICE",
        "the last slice of channels is left out unless it is full, with a multiple of 16 input channels",
    ),
    Mistake(
        "pool", "i < area; i += 32", "i + 32 <= area; i += 32",
        "the last numbers are left out unless they are as many as the lanes of a warp",
    ),
    Mistake(
        "gemm", "sums[i][j] + bias[col]", "sums[i][j] + bias[row]",
        "there is a bias per column of out, a class, and the rows are images",
    ),
    Mistake(
        "conv", "staged % out_width * stride - padding", "staged % out_width * stride",
        "windows begin in column 0, expected `padding` columns left of it: without padding it is right",
    ),
)  # fmt: skip


class Suspect:
    """One of the engine's kernels with one line changed; inside `with`, the engine launches it in place of its own.

    seed: which of the MISTAKES, from 0 on; the same one again after the last.
    """

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ValueError(f"seed must be a whole number of at least 0, got {seed!r}")
        self._mistake = MISTAKES[(5 * seed + 2) % len(MISTAKES)]
        self._context = contextlib.ExitStack()

    def __enter__(self) -> "Suspect":
        self._context.enter_context(replaced({self._mistake.kernel: self._text(self._mistake.wrong)}))
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._context.close()

    def _text(self, piece: str) -> str:
        _, text = engine.reference_text(f"kernels/{self._mistake.kernel}.cu").split("\n", 1)  # without the part's mark
        return text.replace(self._mistake.right, piece)

    def accuse(self, kernel: str, line: int | None = None) -> None:
        """Print whether it is this kernel, and then its text with numbered lines; or whether it is this line."""
        if kernel != self._mistake.kernel:
            print(f"✗ {kernel}: this kernel is as it was.")
            return
        text = self._text(self._mistake.wrong).rstrip().split("\n")
        changed = next(i for i, one in enumerate(text, 1) if one != self._text(self._mistake.right).split("\n")[i - 1])
        if line is None:
            print(f"✓ {kernel}: a line of it is changed. Which one?")
            print("\n".join(f"{i:>3}  {one}" for i, one in enumerate(text, 1)))
        elif line != changed:
            print(f"✗ line {line} of {kernel}.cu is as it was.")
        else:
            print(f"✓ line {line} of {kernel}.cu: {self._mistake.where}.")
            print(f"  changed   {self._mistake.wrong}\n  right     {self._mistake.right}")
