"""Every backend against ONNX Runtime on the same inputs: error, agreement and time; and the error of each step."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda, topology, weights
from . import Network, available
from .backends import choices
from .program import StepBackend
from .reference import run_layer
from .registry import Step, terms
from .steps import fuse

# Largest allowed ‖out − ref‖ / ‖ref‖ of a network's output, by arithmetic
TOLERANCES = {"fp32": 1e-5, "tf32": 5e-3, "fp16": 5e-3}
TOLERANCE = TOLERANCES["fp32"]

# The same of one step on the reference's inputs; for fp32 multiplied by the root of the number of terms
STEP_TOLERANCES = {"fp32": 1e-6, "tf32": 2e-3, "fp16": 2e-3}


@dataclass(frozen=True)
class Comparison:
    """One backend against the reference.

    error          the largest relative error of an image's output
    same_top5      number of images, of `images`, with the same top 5 in the same order
    milliseconds   median time of a call, per image
    """

    backend: str
    arithmetic: str
    error: float
    same_top5: int
    images: int
    milliseconds: float

    @property
    def within_contract(self) -> bool:
        """Whether the error is within TOLERANCES and the top 5 of every image agree."""
        return self.error <= TOLERANCES[self.arithmetic] and self.same_top5 == self.images  # false for NaN


def relative_error(result: Any, reference: Any) -> float:
    """‖result − reference‖ / ‖reference‖ in float64; NaN if either holds a NaN. ValueError for different shapes."""
    result, reference = np.asarray(result, np.float64), np.asarray(reference, np.float64)
    if result.shape != reference.shape:
        raise ValueError(f"result has shape {result.shape}, the reference {reference.shape}")
    error, size = float(np.linalg.norm(result - reference)), float(np.linalg.norm(reference))
    return error / max(size, float(np.finfo(np.float64).tiny))


def top(scores: np.ndarray, k: int = 5) -> np.ndarray:
    """The k classes of the highest scores, best first: (N, classes) → (N, min(k, classes))."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def compare(
    model: Any, inputs: int = 10, size: int | None = None, backends: Sequence[str] | None = None,
    seed: int | None = None, pictures: Sequence[np.ndarray] = (), batch: int = 1, **options: Any,
) -> list[Comparison]:  # fmt: skip
    """Run the same images through every backend; one Comparison per backend, the reference (ONNX Runtime) first.

    inputs     number of random images, N(0, 1) in float32
    size       height and width of the random images; None: the model's own
    backends   names of backends; None: all that this machine can run, without "cudnn" if it does not support a layer
    seed       of the random images; None: different images in every call
    pictures   further inputs (1, C, H, W), photographs for example
    batch      images per call: a kernel may be right only for the first of several
    options    dtype, layout, arithmetic, … of Network, each for the backends that have it

    ValueError for no images at all and for a batch below 1; errors of Network.
    """
    reference = Network(model, "onnxruntime")
    _, channels, height, width = reference.input_shape
    shape = (1, channels, size or height, size or width)
    random = np.random.default_rng(seed)
    images = [random.standard_normal(shape, dtype=np.float32) for _ in range(inputs)] + list(pictures)
    if not images:
        raise ValueError(f"inputs must be at least 1 where there are no pictures, got {inputs}")
    if not isinstance(batch, int) or batch < 1:
        raise ValueError(f"batch must be an integer of at least 1, got {batch!r}")
    calls = [np.concatenate(some) for some in _batches(images, batch)]
    expected = [np.concatenate([cuda.asnumpy(reference(x[None])).reshape(1, -1) for x in call]) for call in calls]

    rows = []
    for backend in dict.fromkeys(["onnxruntime", *(available() if backends is None else backends)]):
        mine = {name: value for name, value in options.items() if name in choices(backend)}
        try:
            net = reference if backend == "onnxruntime" else Network(model, backend, **mine)
        except topology.UnsupportedModel:
            if backend != "cudnn" or backends is not None:
                raise
            continue
        net(calls[0])  # compiles, allocates the buffers
        errors, same, times = [], 0, []
        for x, want in zip(calls, expected, strict=True):
            start = time.perf_counter()
            got = cuda.asnumpy(net(x)).reshape(len(x), -1)
            times.append((time.perf_counter() - start) / len(x))
            errors += [relative_error(one, other) for one, other in zip(got, want, strict=True)]
            same += int((top(got) == top(want)).all(axis=1).sum())
        error = float("nan") if np.isnan(errors).any() else max(errors)
        rows.append(Comparison(backend, net.arithmetic, error, same, len(images), 1e3 * float(np.median(times))))
    return rows


def _batches(images: Sequence[np.ndarray], most: int) -> list[list[np.ndarray]]:
    """Consecutive images of one shape, in groups of at most `most`."""
    some: list[list[np.ndarray]] = []
    for image in images:
        if some and len(some[-1]) < most and some[-1][-1].shape == image.shape:
            some[-1].append(image)
        else:
            some.append([image])
    return some


# ---- Step by step


@dataclass(frozen=True)
class StepError:
    """The relative error of a step's output, ‖out − ref‖ / ‖ref‖.

    error     on this backend's own inputs: accumulated over all steps so far
    own       of this step alone, on the reference's inputs
    allowed   the tolerance for `own`
    """

    index: int
    layer: str
    step: str
    runs_as: str
    error: float
    own: float
    allowed: float

    @property
    def fits(self) -> bool:
        """Whether the step's own error is within its tolerance."""
        return self.own <= self.allowed  # false for NaN


def compare_steps(
    model: Any, backend: str = "kernels", x: Any = None, seed: int | None = None, size: int | None = None,
    **options: Any,
) -> list[StepError]:  # fmt: skip
    """The error of every step of a backend against ONNX Runtime, in order; `first_drift` finds the first wrong one.

    x: (N, C, H, W) float32; default: one random image of `seed`, size × size if a size is given. options: of Network.
    The reference is the network with folded batch-norms as common.topology writes it, with every step's tensor added
    to the outputs. ValueError for the backend "onnxruntime", which is the reference.
    """
    if backend == "onnxruntime":
        raise ValueError("backend must be another than 'onnxruntime', which is the reference")
    net = Network(model, backend, **options)
    if x is None:
        _, channels, height, width = net.input_shape
        shape = (1, channels, size or height, size or width)
        x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    x = cuda.asnumpy(x).astype(np.float32)
    net._check_input(x)
    graph, parameters = weights.fold_batch_norm(*topology.read_onnx_with_parameters(net.model, x.shape))
    stepped = isinstance(net.runner, StepBackend)
    run: _ProgramSteps | _TorchSteps = _ProgramSteps(net, x) if stepped else _TorchSteps(fuse(graph), parameters)
    steps = run.steps
    wanted = reference_outputs(graph, parameters, steps, x)
    tensors = {graph.input: x}
    rows = []
    for i, step in enumerate(steps):
        tensors[step.output] = run(i, tensors)
        own = run(i, wanted)
        allowed = STEP_TOLERANCES[net.arithmetic] * (math.sqrt(terms(step)) if net.arithmetic == "fp32" else 1)
        want = wanted[step.output]
        rows.append(
            StepError(
                i, step.layer.name, step.title, run.runs_as(i),
                relative_error(tensors[step.output], want), relative_error(own, want), allowed,
            )
        )  # fmt: skip
    return rows


def first_drift(rows: Sequence[StepError]) -> StepError | None:
    """The first step whose own error exceeds its tolerance; None if there is none."""
    return next((row for row in rows if not row.fits), None)


def reference_outputs(
    graph: topology.Graph, parameters: dict[str, np.ndarray], steps: Sequence[Step], x: np.ndarray
) -> dict[str, np.ndarray]:
    """The input x and the output of every step as ONNX Runtime computes them: float32, by tensor name."""
    import onnxruntime

    model = topology.write_onnx(graph, parameters)
    names = [step.output for step in steps]
    known = {value.name for value in model.graph.output}
    for name in names:
        if name not in known:
            model.graph.output.add().name = name
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # its optimizer may remove intermediate tensors
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = session.run(names, {session.get_inputs()[0].name: x})
    return {graph.input: x} | dict(zip(names, outputs, strict=True))


class _ProgramSteps:
    """The steps of a program without an arena, each run on given inputs."""

    def __init__(self, net: Network, x: np.ndarray) -> None:
        self._program = net.program(x.shape)
        self.steps = self._program.steps

    def __call__(self, index: int, tensors: dict[str, np.ndarray]) -> np.ndarray:
        program = self._program
        step = program.steps[index]
        for name in step.reads:
            program.buffers[name][...] = cuda.asarray(tensors[name], program.buffers[name].dtype)
        if not program.plan.sees(index):
            program.buffers[step.output][...] = np.nan
        program.launch_step(index)
        return np.array(cuda.asnumpy(program.buffers[step.output]), np.float32)

    def runs_as(self, index: int) -> str:
        return self._program.told[index]


class _TorchSteps:
    """The same for steps on PyTorch, on the CPU."""

    def __init__(self, steps: Sequence[Step], parameters: dict[str, np.ndarray]) -> None:
        import torch

        self.steps = steps
        self._parameters = {name: torch.from_numpy(np.array(value)) for name, value in parameters.items()}

    def __call__(self, index: int, tensors: dict[str, np.ndarray]) -> np.ndarray:
        import torch

        step = self.steps[index]
        with torch.no_grad():
            given = {name: torch.from_numpy(np.array(tensors[name])) for name in step.reads}
            return run_layer(step, [given[name] for name in step.inputs], self._parameters).numpy()

    def runs_as(self, index: int) -> str:
        return "PyTorch"
