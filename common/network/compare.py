"""Every backend against ONNX Runtime on the same inputs: error, agreement and time; and the error of each step."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda, topology, weights
from ..topology.graph import Signature, shapes_of, signature_of, with_batch
from . import Network, available
from .backends import ARITHMETICS, choices, is_quantized
from .context import check_inputs
from .program import StepBackend
from .reference import run_layer
from .registry import Step, terms
from .steps import fuse

# Largest allowed ‖out − ref‖ / ‖ref‖ of a network's output, by arithmetic; of a quantized network:
#   int8        exact sums of integers, rounded as the reference rounds them; seldom a number is a step of its scale off
#   fake int8   floats, rounded to the same steps. Of a sum that is nearly half-way between two steps its own rounding
#               decides, and from there on all is rounded differently: two such outputs are as far apart as either is
#               from the network in float, 2 to 6 % for MobileNetV2. Also integers whose multipliers have moved
TOLERANCES = {"fp32": 1e-5, "tf32": 5e-3, "fp16": 5e-3, "int8": 1e-2, "fake int8": 1e-1}
TOLERANCE = TOLERANCES["fp32"]

# The same of one step on the reference's inputs; for fp32 multiplied by the root of the number of terms
STEP_TOLERANCES = {"fp32": 1e-6, "tf32": 2e-3, "fp16": 2e-3}


@dataclass(frozen=True)
class Comparison:
    """One backend against the reference.

    error          the largest relative error of an image's output
    same_top5      number of images, of `images`, with the same top 5 in the same order
    close_top5     the same, where classes that `close_top` calls close may change places
    milliseconds   median time of a call, per image
    """

    backend: str
    arithmetic: str
    error: float
    same_top5: int
    close_top5: int
    images: int
    milliseconds: float

    @property
    def within_contract(self) -> bool:
        """Whether the error is within TOLERANCES and every image has the same top 5.

        In fp32 in the same order; in a shorter type, classes that rounding may exchange (`close_top`) count as equal.
        """
        same = self.same_top5 if self.precision == "fp32" else self.close_top5
        return self.error <= TOLERANCES[self.precision] and same == self.images  # false for NaN

    @property
    def precision(self) -> str:
        """The key of TOLERANCES: "fp32" for each arithmetic that has its accuracy."""
        return precision_of(self.arithmetic)


def precision_of(arithmetic: str) -> str:
    """What an arithmetic of a Network counts as in TOLERANCES: itself, or "fp32" if it has fp32's accuracy."""
    return arithmetic if arithmetic in TOLERANCES else "fp32"


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


def close_top(result: np.ndarray, reference: np.ndarray, tolerance: float, k: int = 5) -> np.ndarray:
    """Whether the top k of each row of (N, classes) are the reference's, but for classes that are close: (N,) bools.

    Two scores are close if the reference's differ by at most twice the allowed error of one score, which is
    `tolerance` times the root mean square of the row.
    """
    allowed = 2 * tolerance * np.sqrt(np.mean(np.square(reference, dtype=np.float64), axis=1, keepdims=True))
    found, expected = (np.take_along_axis(reference, top(scores, k), axis=1) for scores in (result, reference))
    return (np.abs(found.astype(np.float64) - expected) <= allowed).all(axis=1)


def compare(
    model: Any, inputs: int = 10, size: int | None = None, backends: Sequence[str] | None = None,
    seed: int | None = None, pictures: Sequence[np.ndarray] = (), batch: int = 1, **options: Any,
) -> list[Comparison]:  # fmt: skip
    """Run the same images through every backend; one Comparison per backend, the reference (ONNX Runtime) first.

    inputs     number of random images, N(0, 1) in float32; of a model with several inputs, of each
    size       height and width of the random images; None: the model's own, as for several inputs
    backends   names of backends; None: all that this machine can run, without "cudnn" if it does not support a layer
    seed       of the random images; None: different images in every call
    pictures   further inputs (1, C, H, W), photographs for example; for several inputs a tuple of arrays each
    batch      images per call: a kernel may be right only for the first of several
    options    dtype, layout, arithmetic, … of Network, each for the backends that have it

    An image's error is the largest of its outputs' errors, and its top 5 agree if those of all outputs do.
    ValueError for no images at all, a batch below 1, and a size for several inputs; errors of Network.
    """
    reference = Network(model, "onnxruntime")
    random = np.random.default_rng(seed)
    images = [random_inputs(reference.input_shape, random, size) for _ in range(inputs)]
    images += [picture if isinstance(picture, tuple) else (picture,) for picture in pictures]
    if not images:
        raise ValueError(f"inputs must be at least 1 where there are no pictures, got {inputs}")
    if not isinstance(batch, int) or batch < 1:
        raise ValueError(f"batch must be an integer of at least 1, got {batch!r}")
    groups = _batches(images, batch)
    calls = [tuple(map(np.concatenate, zip(*some, strict=True))) for some in groups]
    expected = [
        list(map(np.concatenate, zip(*(_scores(reference, image) for image in some), strict=True))) for some in groups
    ]

    rows = []
    for backend in dict.fromkeys(["onnxruntime", *(available() if backends is None else backends)]):
        mine = {name: value for name, value in options.items() if _takes(backend, name, options)}
        try:
            net = reference if backend == "onnxruntime" else Network(model, backend, **mine)
        except topology.UnsupportedModel:
            if backend != "cudnn" or backends is not None:
                raise
            continue
        arithmetic = net.arithmetic
        if is_quantized(net.graph):
            moved = backend == "kernels" and mine.get("optimize") is not None  # see quantize.rules.in_one_step
            arithmetic = "fake int8" if backend == "torch" or moved else "int8"
        net(*calls[0])  # compiles, allocates the buffers
        errors, same, close, times = [], 0, 0, []
        for call, wanted in zip(calls, expected, strict=True):
            start = time.perf_counter()
            scores = _scores(net, call)
            times.append((time.perf_counter() - start) / len(call[0]))
            alike, near = np.full((2, len(call[0])), True)
            for got, want in zip(scores, wanted, strict=True):
                errors += [relative_error(one, other) for one, other in zip(got, want, strict=True)]
                alike &= (top(got) == top(want)).all(axis=1)
                near &= close_top(got, want, TOLERANCES[precision_of(arithmetic)])
            same, close = same + int(alike.sum()), close + int(near.sum())
        error = float("nan") if np.isnan(errors).any() else max(errors)
        rows.append(Comparison(backend, arithmetic, error, same, close, len(images), 1e3 * float(np.median(times))))
    return rows


def _takes(backend: str, option: str, options: Mapping[str, Any]) -> bool:
    """Whether a backend has an option; an arithmetic that only other backends have is for those."""
    if option not in choices(backend):
        return False
    dtype, wanted = options.get("dtype", "fp32"), options[option]
    able = {name: kinds.get(dtype, ()) for name, kinds in ARITHMETICS.items()}
    return option != "arithmetic" or wanted in able[backend] or not any(wanted in names for names in able.values())


def random_inputs(
    input_shape: Signature, random: np.random.Generator, size: int | None = None, batch: int = 1
) -> tuple[np.ndarray, ...]:
    """An array of N(0, 1) for each input of a network with that input_shape, (batch, C, H, W) float32.

    size: height and width of a single input. ValueError if it is given for several.
    """
    shapes = shapes_of(with_batch(input_shape, batch))
    if size is not None:
        if len(shapes) > 1:
            raise ValueError(f"size must be left out for a network of several inputs, got {size}")
        shapes = ((*shapes[0][:2], size, size),)
    return tuple(random.standard_normal(shape, dtype=np.float32) for shape in shapes)


def _scores(net: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Each output of the network as (N, numbers)."""
    result = net(*inputs)
    every = result if isinstance(result, tuple) else (result,)
    return [cuda.asnumpy(one).reshape(len(inputs[0]), -1) for one in every]


def _batches(images: Sequence[tuple[np.ndarray, ...]], most: int) -> list[list[tuple[np.ndarray, ...]]]:
    """Consecutive images of one shape, in groups of at most `most`."""
    some: list[list[tuple[np.ndarray, ...]]] = []

    def shapes(image: tuple[np.ndarray, ...]) -> list[tuple[int, ...]]:
        return [x.shape for x in image]

    for image in images:
        if some and len(some[-1]) < most and shapes(some[-1][-1]) == shapes(image):
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

    x: (N, C, H, W) float32, of several inputs a tuple; default: one random image of `seed`, size × size if a size is
    given. options: of Network.
    The reference is the network with folded batch-norms as common.topology writes it, with every step's tensor added
    to the outputs. ValueError for the backend "onnxruntime", which is the reference, and for a quantized model.
    """
    if backend == "onnxruntime":
        raise ValueError("backend must be another than 'onnxruntime', which is the reference")
    net = Network(model, backend, **options)
    if is_quantized(net.graph):
        raise ValueError("model must be in float: steps of a quantized one have integers as outputs, got one with them")
    if x is None:
        x = random_inputs(net.input_shape, np.random.default_rng(seed), size)
    inputs = [cuda.asnumpy(one).astype(np.float32) for one in (x if isinstance(x, tuple) else (x,))]
    check_inputs(inputs, net.input_shape)
    signature = signature_of(one.shape for one in inputs)
    graph, parameters = weights.fold_batch_norm(*topology.read_onnx_with_parameters(net.model, signature))
    stepped = isinstance(net.runner, StepBackend)
    run: _ProgramSteps | _TorchSteps = (
        _ProgramSteps(net, signature) if stepped else _TorchSteps(fuse(graph), parameters)
    )
    steps = run.steps
    tensors = dict(zip(graph.inputs, inputs, strict=True))
    wanted = reference_outputs(graph, parameters, steps, tensors)
    rows = []
    for i, step in enumerate(steps):
        tensors[step.output] = run(i, tensors)
        own = run(i, wanted)
        precision = precision_of(net.arithmetic)
        allowed = STEP_TOLERANCES[precision] * (math.sqrt(terms(step)) if precision == "fp32" else 1)
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
    graph: topology.Graph, parameters: dict[str, np.ndarray], steps: Sequence[Step], inputs: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The inputs and the output of every step as ONNX Runtime computes them: float32, by tensor name."""
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
    outputs = session.run(names, inputs)
    return inputs | dict(zip(names, outputs, strict=True))


class _ProgramSteps:
    """The steps of a program without an arena, each run on given inputs."""

    def __init__(self, net: Network, input_shape: Signature) -> None:
        self._program = net.program(input_shape)
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
