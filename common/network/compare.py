"""Every backend against ONNX Runtime on the same inputs: error, agreement, time; and step by step, where it drifts."""

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

# ‖out − ref‖ / ‖ref‖ of a whole network, by arithmetic
TOLERANCES = {"fp32": 1e-5, "tf32": 5e-3, "fp16": 5e-3}
TOLERANCE = TOLERANCES["fp32"]

# of one step on exact inputs: that of fp32 grows with the root of the number of terms
STEP_TOLERANCES = {"fp32": 1e-6, "tf32": 2e-3, "fp16": 2e-3}


@dataclass(frozen=True)
class Comparison:
    """One backend against the reference: largest relative error, images with the same top 5, median time of a call."""

    backend: str
    arithmetic: str
    error: float
    same_top5: int
    images: int
    milliseconds: float

    @property
    def within_contract(self) -> bool:
        return self.error <= TOLERANCES[self.arithmetic] and self.same_top5 == self.images  # false for NaN


def relative_error(result: Any, reference: Any) -> float:
    """‖result − reference‖ / ‖reference‖ in float64; NaN if either holds one."""
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
    """Runs `inputs` random images (N(0, 1), float32, drawn afresh unless `seed` is given) through every backend.

    pictures: more inputs (1, C, H, W), photographs say, that are compared as well. batch: how many inputs a call gets,
    as a kernel may be right for the first of several alone; the time is that of one.
    size: height and width; None takes the model's own. backends: None takes all that this machine can run, but not
    cuDNN if the network has layers that backend "cudnn" does not run. options: dtype, layout, arithmetic, … of Network,
    for the backends that have a choice of them. The reference, ONNX Runtime, comes first.
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
        net(calls[0])  # compiles, makes the buffers
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
    """Neighbours of one shape together, at most so many."""
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
    """How far a step's output is from the reference, ‖out − ref‖ / ‖ref‖.

    error: as it comes, with what all steps before have added up; own: of this step alone, on the reference's inputs.
    allowed: what `own` may be.
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
        return self.own <= self.allowed  # false for NaN


def compare_steps(
    model: Any, backend: str = "kernels", x: Any = None, seed: int | None = None, size: int | None = None,
    **options: Any,
) -> list[StepError]:  # fmt: skip
    """Every step of a backend against ONNX Runtime: the first whose own error does not fit is the one to look at.

    x: (N, C, H, W) float32; without it one random image, size × size if a size is given. options: as for Network. The
    reference is the network with its batch-norms folded, as common.topology writes it, with every step's output shown
    by ONNX Runtime.
    ValueError for the backend "onnxruntime", which is the reference.
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
    run: _Stepped | _OnTorch = _Stepped(net, x) if stepped else _OnTorch(fuse(graph), parameters)
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
                i, step.layer.name, step.title, run.told(i),
                relative_error(tensors[step.output], want), relative_error(own, want), allowed,
            )
        )  # fmt: skip
    return rows


def first_drift(rows: Sequence[StepError]) -> StepError | None:
    """The first step whose own error does not fit, None if all do."""
    return next((row for row in rows if not row.fits), None)


def reference_outputs(
    graph: topology.Graph, parameters: dict[str, np.ndarray], steps: Sequence[Step], x: np.ndarray
) -> dict[str, np.ndarray]:
    """The input and every step's output by ONNX Runtime, by tensor name, float32."""
    import onnxruntime

    model = topology.write_onnx(graph, parameters)
    names = [step.output for step in steps]
    known = {value.name for value in model.graph.output}
    for name in names:
        if name not in known:
            model.graph.output.add().name = name
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # what is rewritten may lose the tensors between
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = session.run(names, {session.get_inputs()[0].name: x})
    return {graph.input: x} | dict(zip(names, outputs, strict=True))


class _Stepped:
    """The steps of a program whose buffers keep what they hold, one at a time, on given inputs."""

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

    def told(self, index: int) -> str:
        return self._program.told[index]


class _OnTorch:
    """The same steps on PyTorch, on the CPU."""

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

    def told(self, index: int) -> str:
        return "PyTorch"
