"""MobileNetV2 as a chain of steps with cuDNN's recorded times, for the exercise assign_layouts.

steps, changes = chain(recorded, batch=32)     the arguments of assign_layouts
spent(steps, changes, layouts)                 (µs of the steps, µs of the changes, number of changes)
"""

from collections.abc import Mapping, Sequence
from math import prod

from ..bench.operators import kind_of, shape_of
from ..measure.roofline import Peaks
from ..network.steps import fuse
from ..report import race
from ..report.results import Results
from ..topology import build

LAYOUTS = ("NCHW", "NHWC")
Steps = Sequence[Mapping[str, float]]


def chain(recorded: Results, batch: int, precision: str = "fp32") -> tuple[list[dict[str, float]], list[float]]:
    """({layout: µs} of each step on cuDNN; µs to change the layout of the input and of each step's output).

    A change reads and writes the tensor once, at the card's copy bandwidth; its launch is not counted.
    """
    graph = build(batch=batch)
    steps = fuse(graph)
    times = {one: race.steps(recorded, "cudnn", precision, batch, layout=one) for one in LAYOUTS}
    cases = [f"{kind_of(step)} {shape_of(step)}" for step in steps]
    shapes = [graph.input_shape, *(step.layers[-1].output_shape for step in steps)]
    itemsize = 2 if precision == "fp16" else 4
    bytes_per_us = Peaks.recorded(recorded).copy_bytes_per_s / 1e6
    chained = [{one: float(times[one][case]["median_us"]) for one in LAYOUTS} for case in cases]
    return chained, [2 * itemsize * prod(shape) / bytes_per_us for shape in shapes]


def spent(steps: Steps, changes: Sequence[float], layouts: Sequence[str]) -> tuple[float, float, int]:
    """(µs of the steps in these layouts, µs of the changes between them, number of changes); NCHW at both ends."""
    ends = zip(["NCHW", *layouts], [*layouts, "NCHW"], changes, strict=True)
    paid = [change for before, after, change in ends if before != after]
    return sum(step[one] for step, one in zip(steps, layouts, strict=True)), sum(paid), len(paid)
