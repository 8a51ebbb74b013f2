"""%%rung: a learner's own rung, checked, traced, inspected, and on a GPU timed beside the rungs of its ladder."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda, kernels
from ..cuda.report import Report
from ..kernels.ladder import Launch, header_options, recorded
from ..lab import launch_lines, rungs
from ..lab.engine import NotWrittenError
from ..lab.operators import NONE, RELU6, worded
from ..report import ladders
from ..text import aligned
from . import feedback
from .exercises import Exercise
from .runner import SECONDS, judged

YOURS = "yours"
_right: dict[str, "Compared"] = {}  # by ladder: the learner's rung that was right last in this session
HEADS = ("rung", "sectors", "wavefronts", "registers", "warps per SM")
DASH = "–"
CAPTION = "Wavefronts: with loads as wide as in the machine code (sm_90). Warps per SM: at most, on an H200."


class OwnRung(Exercise):
    """The check of a learner's own rung."""

    @property
    def is_cuda(self) -> bool:
        """True: the answer is the text of a kernel."""
        return True


def rung(line: str, cell: str) -> "Compared | None":
    """%%rung LADDER: check the cell's kernel as a rung of one's own, and compare it with the rungs of the ladder.

    The kernel has the name and the parameters of the one that the slot holds to begin with.
    """
    try:
        slot = rungs.slot(line.strip())
    except ValueError as error:
        feedback.show(*_words("%%rung", str(error), ""))
        return None
    name, source = f"your rung of {slot.ladder}", f"\n{cell}"
    verdict = judged(OwnRung(Path(__file__).parent / "own_rung"), (source, slot.operator.name), SECONDS)
    if not verdict.passed:
        feedback.show(*_words(name, feedback.errors(verdict.what), verdict.hint))
        if verdict.picture is not None:
            feedback.show_picture(verdict.picture)
        return None
    shapes = f"{len(slot.operator.tried)} shapes, {worded(slot.traced)} traced"
    words = "✓", name, f"right ({shapes})", ""
    feedback.show(feedback.plain(*words), feedback.formatted(*words))
    compared = Compared(slot, source)
    _right[slot.ladder] = compared
    compared.show()
    return compared


def own_rung(ladder: str) -> "Compared":
    """The learner's rung of a ladder that was right last in this session, for the cells below it.

    Raises NotWrittenError, shown as "not started yet", if there is none, and ValueError for an unknown ladder.
    """
    name = rungs.slot(ladder).ladder
    if name not in _right:
        raise NotWrittenError(f"no rung of yours is right yet in this session: run the cell with %%rung {name} first")
    return _right[name]


def _words(name: str, what: str, hint: str) -> tuple[str, str]:
    return feedback.plain("✗", name, what, hint), feedback.formatted("✗", name, what, hint)


class Compared:
    """A right rung of a learner's own beside the ladder's rungs; displayed already.

    report       of the trace of the learner's rung
    inspection   of its machine code, None where NVRTC or nvdisasm is missing
    rows         the table: for each rung its name, sectors, wavefronts, registers, warps per SM
    """

    def __init__(self, slot: rungs.Slot, source: str) -> None:
        self._slot, self._source = slot, source
        inputs, out, bounds = _arrays(slot, slot.traced)
        args = slot.operator.arguments(inputs, out, slot.traced, bounds)
        self._kernel = cuda.RawKernel(source, slot.operator.name, options=header_options())
        size = launch_lines.size(source, slot.traced)
        own = _Measured.of(self._kernel, size.grid, size.block, args, size.shared)
        self.report, self.inspection = own.report, own.inspection
        self.missing = own.missing  # why the machine code cannot be inspected here
        ladder = [(name, *_cells(_of_rung(slot.ladder, name))) for name in _variants(slot.ladder)]
        self.rows = [*ladder, (YOURS, *_cells([own]))]

    def show(self) -> None:
        """Print the table, and on a GPU the times of all rungs at a layer of MobileNetV2."""
        lines = aligned([HEADS, *self.rows], right=range(1, len(HEADS)))
        print("\n".join(lines))
        print(self.missing or CAPTION)
        if cuda.backend() == "gpu":
            self.times()

    def times(self) -> ladders.Live:
        """Time the rungs and the learner's on this machine's GPU, and show the µs."""
        slot, dims = self._slot, self._slot.operator.timed
        inputs, out, bounds = _arrays(slot, dims)
        inputs, out = {key: cuda.asarray(array) for key, array in inputs.items()}, cuda.asarray(out)
        size, args = launch_lines.size(self._source, dims), slot.operator.arguments(inputs, out, dims, bounds)
        calls: dict[str, Callable[[], Any]] = {
            name: functools.partial(slot.call, inputs, dims, name) for name, *_ in self.rows if name != YOURS
        }
        calls[YOURS] = self._kernel.bound(size.grid, size.block, args, shared_mem=size.shared)
        return ladders.live(calls)

    def _ipython_display_(self) -> None:
        """Nothing: the table is printed already."""


def _arrays(slot: rungs.Slot, dims: Mapping[str, int]) -> tuple[dict[str, np.ndarray], np.ndarray, tuple]:
    """(inputs, output, bounds) of a launch."""
    operator = slot.operator
    return operator.inputs(dims, np.random.default_rng(0)), operator.empty(dims), RELU6 if operator.bounded else NONE


@dataclass(frozen=True)
class _Measured:
    """A traced launch: shared accesses as wide as in the machine code, where that can be inspected."""

    report: Report
    inspection: Any
    missing: str = ""
    own: bool = True  # False: of another operator, which the rung launches as well

    @classmethod
    def of(
        cls, kernel: Any, grid: tuple, block: tuple, args: Sequence[Any], shared: int, own: bool = True
    ) -> "_Measured":
        inspection, missing = None, ""
        try:
            inspection = cuda.inspect(kernel, block=block, shared_mem=shared)
        except RuntimeError as error:  # a package is missing
            missing = str(error)
        cuda.allow_shared(kernel, shared)
        return cls(cuda.trace(kernel, grid, block, args, shared, merge=inspection), inspection, missing, own)


def _variants(ladder: str) -> list[str]:
    """The rungs that run here on arrays of fp32 in NCHW."""
    found = kernels.variants(ladder, np.float32, "NCHW")
    return [name for name in found if kernels.requires(ladder, name) <= cuda.compute_capability()]


@functools.cache
def _of_rung(ladder: str, variant: str) -> list[_Measured]:
    """The launches of a rung at the dims that its slot traces."""
    slot = rungs.SLOTS[ladder]
    inputs, _, _ = _arrays(slot, slot.traced)
    with recorded() as launches:
        slot.call({key: cuda.asarray(array) for key, array in inputs.items()}, slot.traced, variant)
    found = []
    for launch in launches:
        if isinstance(launch, Launch):
            kernel = launch.compiled()
            cuda.allow_shared(kernel, launch.shared_limit)
            own = launch.name == f"{ladder}/{variant}"
            found.append(_Measured.of(kernel, launch.grid, launch.block, launch.args, launch.shared_mem, own))
        else:
            launch()
    return found


def _cells(launches: Sequence[_Measured]) -> tuple[str, ...]:
    """Sectors and wavefronts of all launches, registers and warps per SM of the rung's own."""
    reports = [one.report for one in launches]
    sectors = sum(r.global_loads.units + r.global_stores.units + r.atomics["global"].units for r in reports)
    waves = sum(r.shared_loads.units + r.shared_stores.units + r.atomics["shared"].units for r in reports)
    counts = f"{sectors:,}", f"{waves:,}" if waves else DASH
    found = next((one.inspection for one in launches if one.own), None)
    if found is None:
        return *counts, DASH, DASH
    spills = f", {found.spills} B spilled" if found.spills else ""
    return *counts, f"{found.registers}{spills}", str(found.occupancy("H200").warps)
