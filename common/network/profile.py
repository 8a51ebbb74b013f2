"""Time and memory of each step: on the GPU with the kernels of this course, on the CPU with PyTorch.

    profile = net.profile(x, runs=1000, placement="gpu")
    print(profile)                          one line per step
    profile.save("profile.csv")

placement selects the steps that run on the GPU: "gpu", all; "cpu", none; a glob pattern of layer names, "*conv1*"; or a
function of a Step that returns a bool. A tensor that is needed on the other device is copied, and the copy is measured.
Without a GPU the simulator replaces it: copies, order and bytes are the same, but the times are those of the CPU, and
the report says so.
"""

import csv
import fnmatch
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from ..files import replacing
from ..measure import environment
from ..text import aligned
from ..topology.graph import Signature, show_shapes, signature_of
from .program import Plan, StepBackend
from .reference import run_layer
from .steps import Step

PLACEMENTS = ("gpu", "cpu")
Placement = str | Callable[[Step], bool]
WARM_UP = 3  # runs that are not measured

NOT_A_GPU = "the simulator: a processor plays the GPU, so its times say nothing about one"


@dataclass(frozen=True)
class Row:
    """One step. Times in ms over all runs, from the launch to its completion, without the copies of its inputs.

    where                     "gpu", "simulator" or "cpu"
    runs_as                   the kernels' names, or "PyTorch"
    mean_ms, …, p95_ms        mean, median, 5th and 95th percentile
    copy_ms, copied           copies of its inputs from the other device: median ms, and bytes
    kernel_us                 on a GPU: µs of the kernel without the cost of the launch; else None
    activations, parameters   bytes of activations read and written, bytes of parameters read
    alive                     bytes of the activations that are live during the step
    macs                      multiply-accumulates
    """

    index: int
    layer: str
    step: str
    where: str
    runs_as: str
    mean_ms: float
    median_ms: float
    p5_ms: float
    p95_ms: float
    copy_ms: float
    copied: int
    kernel_us: float | None
    activations: int
    parameters: int
    alive: int
    macs: int


@dataclass(frozen=True)
class Profile:
    """Times of an inference: one Row per step, and one for the copy of the result to the host, if there is one.

    total_ms: median ms of a complete inference. memory: bytes in use before the first and after the last measured run,
    as memory_in_use returns them.
    """

    network: str
    placement: str
    device: str
    input_shape: Signature
    runs: int
    total_ms: float
    rows: tuple[Row, ...]
    memory: tuple[int, int]

    @property
    def copies_ms(self) -> float:
        """ms of all copies between CPU and GPU in one inference: the sum of the medians."""
        return sum(row.copy_ms for row in self.rows if row.copied)

    @property
    def copied(self) -> int:
        """Bytes copied between CPU and GPU in one inference."""
        return sum(row.copied for row in self.rows)

    def save(self, path: str | Path) -> Path:
        """Write the rows as CSV with a header of the field names; return the path. OSError if it cannot be written."""
        names = [field.name for field in fields(Row)]
        with replacing(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for row in self.rows:
                values = (getattr(row, name) for name in names)
                writer.writerow([f"{v:.6g}" if isinstance(v, float) else "" if v is None else v for v in values])
        return Path(path)

    def __str__(self) -> str:
        kernel = any(row.kernel_us is not None for row in self.rows)
        heads = ("", "step", "where", "runs as", "ms", "p5", "p95", "copies ms", "copied", "bytes", "alive")
        table: list[tuple[str, ...]] = [(*heads, "kernel µs") if kernel else heads]
        for row in self.rows:
            cells = (
                f"{row.index}:" if row.step else "", row.step or row.layer, row.where, row.runs_as,
                *(f"{ms:.3f}" if row.step else "" for ms in (row.median_ms, row.p5_ms, row.p95_ms)),
                f"{row.copy_ms:.3f}" if row.copied else "", f"{row.copied:,}" if row.copied else "",
                f"{row.activations + row.parameters:,}" if row.step else "", f"{row.alive:,}" if row.step else "",
            )  # fmt: skip
            table.append((*cells, f"{row.kernel_us:.2f}" if row.kernel_us is not None else "") if kernel else cells)
        shape = show_shapes(self.input_shape)
        before, after = (size / 1e6 for size in self.memory)
        return "\n".join(
            [
                f"{self.network}, input {shape}, placement {self.placement}, {self.runs} runs on {self.device}",
                "",
                *aligned(table, right=(0, *range(4, len(table[0])))),
                "",
                f"{self.total_ms:.3f} ms an inference, {self.copies_ms:.3f} ms of them copies of {self.copied:,} bytes",
                f"memory: {before:,.1f} MB before the runs, {after:,.1f} MB after",
            ]
        )


# ---- Running


def places(placement: Placement, steps: Sequence[Step]) -> list[bool]:
    """For each step whether it runs on the GPU. A pattern selects a step if it matches the name of one of its layers.

    TypeError for a placement that is neither a str nor callable, ValueError for a pattern that matches no layer.
    """
    if callable(placement):
        return [bool(placement(step)) for step in steps]
    if not isinstance(placement, str):
        raise TypeError(
            f"placement must be 'gpu', 'cpu', a pattern of layers' names or a function of a step, got {placement!r}"
        )
    if placement in PLACEMENTS:
        return [placement == "gpu"] * len(steps)
    chosen = [any(fnmatch.fnmatchcase(layer.name, placement) for layer in step.layers) for step in steps]
    if not any(chosen):
        names = ", ".join(step.layer.name for step in steps[:4])
        raise ValueError(
            f"placement must be 'gpu', 'cpu' or a pattern that a layer's name matches ({names}, …), got {placement!r}"
        )
    return chosen


class Placed:
    """A network whose steps run on the GPU (or simulator) or on the CPU, as `placement` selects."""

    def __init__(self, backend: StepBackend, shape: Signature, placement: Placement) -> None:
        import torch

        self.program = backend.program(shape, arena=True)
        self.plan: Plan = self.program.plan
        self.on_gpu = places(placement, self.program.steps)
        self._parameters = {
            name: torch.from_numpy(np.array(array, np.float32)) for name, array in backend.folded(shape)[1].items()
        }
        last = {name: i for i, step in enumerate(self.program.steps) for name in step.reads}
        self._last_read: list[list[str]] = [[] for _ in self.program.steps]  # by step: tensors not read after it
        for name, i in last.items():
            self._last_read[i].append(name)
        self.graph = self.program.graph
        self.copied = [0] * (len(self.program.steps) + 1)  # bytes copied before each step, and before the result

    def run(self, inputs: Sequence[Any], times: Any) -> tuple[Any, ...]:
        """The network's outputs for its inputs, all NumPy arrays.

        times: (steps + 1, 2), which receives seconds: [:, 0] of the steps, [:, 1] of the copies before them; the last
        row is the copy of the result.
        """
        import torch

        program = self.program
        # tensors on the CPU, by name
        here: dict[str, Any] = dict(zip(self.graph.inputs, map(torch.from_numpy, inputs), strict=True))
        there: set[str] = set()  # names of the tensors in buffers of the GPU
        for i, step in enumerate(program.steps):
            start = time.perf_counter()
            self.copied[i] = sum(self._bring(name, self.on_gpu[i], here, there) for name in step.reads)
            middle = time.perf_counter()
            if self.on_gpu[i]:
                program.launch_step(i)
                cuda.synchronize()
                there.add(step.output)
            else:
                here[step.output] = run_layer(step, [here[name] for name in step.inputs], self._parameters)
            times[i] = time.perf_counter() - middle, middle - start
            for name in self._last_read[i]:
                if name not in self.graph.outputs:
                    here.pop(name, None)
                    there.discard(name)
        start = time.perf_counter()
        self.copied[-1] = sum(self._bring(name, False, here, there) for name in self.graph.outputs)
        times[-1] = 0.0, time.perf_counter() - start
        return tuple(here[name].numpy() for name in self.graph.outputs)

    def _bring(self, name: str, to_gpu: bool, here: dict[str, Any], there: set[str]) -> int:
        """Copy a tensor to the GPU or to the CPU, unless it is there already; return the number of bytes copied."""
        import torch

        if name in (there if to_gpu else here):
            return 0
        buffer = self.program.buffers[name]
        if to_gpu:
            buffer[...] = cuda.asarray(here[name].numpy())
            cuda.synchronize()
            there.add(name)
        else:
            here[name] = torch.from_numpy(np.array(cuda.asnumpy(buffer), order="C"))
        return buffer.nbytes


def profile(
    backend: StepBackend, inputs: Sequence[Any], runs: int, placement: Placement, progress: bool = True
) -> Profile:
    """Run the network `runs` times on its inputs, each step where `placement` puts it. See Network.profile."""
    import torch
    from tqdm import tqdm

    given = [np.ascontiguousarray(cuda.asnumpy(x), np.float32) for x in inputs]
    placed = Placed(backend, signature_of(x.shape for x in given), placement)
    steps, plan = placed.program.steps, placed.plan
    times = np.zeros((runs, len(steps) + 1, 2), np.float32)
    totals = np.zeros(runs)
    with torch.no_grad():
        for _ in range(min(WARM_UP, runs)):
            placed.run(given, times[0])
        before = memory_in_use()
        shown = tqdm(range(runs), desc="inferences", unit="", leave=False, disable=None if progress else True)
        for run in shown:
            start = time.perf_counter()
            placed.run(given, times[run])
            totals[run] = time.perf_counter() - start
        after = memory_in_use()

    gpu = "gpu" if cuda.backend() == "gpu" else "simulator"
    ms = 1e3 * times.astype(np.float64)
    rows = []
    for i, step in enumerate(steps):
        p5, median, p95 = np.percentile(ms[:, i, 0], (5, 50, 95))
        on_gpu = placed.on_gpu[i]
        rows.append(
            Row(
                i, step.layer.name, step.title, gpu if on_gpu else "cpu", plan.told[i] if on_gpu else "PyTorch",
                float(ms[:, i, 0].mean()), float(median), float(p5), float(p95), float(np.median(ms[:, i, 1])),
                placed.copied[i], _kernel_us(placed, i) if on_gpu and gpu == "gpu" else None,
                step.activation_bytes(plan.itemsize), step.parameter_bytes(plan.itemsize),
                plan.arena.needed(i) if plan.arena else 0, step.macs,
            )
        )  # fmt: skip
    if placed.copied[-1]:
        copy_ms = float(np.median(ms[:, -1, 1]))
        end = ("the result, to the host", "", "cpu", "copy", 0.0, 0.0, 0.0, 0.0, copy_ms, placed.copied[-1])
        rows.append(Row(len(steps), *end, None, 0, 0, 0, 0))
    described = placement if isinstance(placement, str) else getattr(placement, "__name__", "a rule")
    total_ms = float(1e3 * np.median(totals))
    device = "the CPU" if not any(placed.on_gpu) else environment.card() if gpu == "gpu" else NOT_A_GPU
    return Profile(plan.name, described, device, plan.input_shape, runs, total_ms, tuple(rows), (before, after))


def _kernel_us(placed: Placed, index: int) -> float | None:
    """Microseconds of a step's kernels on a GPU without the launch overhead; None if it launches nothing."""
    from ..measure import timing

    if placed.plan.told[index] == "no launch":
        return None
    return timing.time(lambda: placed.program.launch_step(index), samples=6).median_us


def memory_in_use() -> int:
    """Bytes in use: of CuPy's memory pool on a GPU, else the resident memory of this process."""
    if cuda.backend() == "gpu":
        import cupy

        return cupy.get_default_memory_pool().total_bytes()
    import psutil

    return psutil.Process().memory_info().rss
