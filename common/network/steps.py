"""A network as launches: which layers run as one, and the buffers they run over."""

import abc
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import cuda, topology, weights
from ..cuda import layout as layouts
from ..topology import layers as kinds

DTYPES = {"fp32": np.float32, "fp16": np.float16}
Launch = Callable[[], None]


@dataclass
class Step:
    """Layers that are computed as one: the tensors that they read and the one that they write."""

    layers: list[topology.Layer]
    inputs: list[str]
    output: str
    residual: str | None = None
    activation: Any = None

    @property
    def layer(self) -> Any:
        return self.layers[0]


def activation_of(layer: topology.Layer) -> Any:
    """What `activation=` of a convolution stands for a layer, or None if the layer is no such clamp."""
    if isinstance(layer, kinds.ReLU6):
        return "relu6"
    if isinstance(layer, kinds.ReLU):
        return "relu"
    if isinstance(layer, kinds.Clip):
        return (layer.min, layer.max)
    return None


def fuse(graph: topology.Graph) -> list[Step]:
    """The layers as steps: a convolution takes the residual addition and the activation that follow it along.

    Only where nothing else reads the tensor between them, and in the order in which the kernel computes:
    activation(convolution + residual).
    """
    readers = Counter(name for layer in graph.layers for name in layer.inputs)
    readers[graph.output] += 1
    steps: list[Step] = []
    writer: dict[str, Step] = {}  # the step whose convolution wrote a tensor and can still take something along
    for layer in graph.layers:
        step = next((writer[name] for name in layer.inputs if name in writer and readers[name] == 1), None)
        # an addition can only join a step if the other operand is ready by then: join the later of the two
        if isinstance(layer, kinds.ResidualAdd) and layer.inputs[0] != layer.inputs[1]:
            candidates = [writer[name] for name in layer.inputs if name in writer and readers[name] == 1]
            step = max(candidates, key=steps.index, default=None)
            if step is not None and step.residual is None:
                other = next(name for name in layer.inputs if name != step.output)
                if all(other != later.output for later in steps[steps.index(step) + 1 :]):
                    _join(step, layer, writer)
                    step.residual = other
                    continue
        activation = activation_of(layer)
        if activation is not None and step is not None:
            _join(step, layer, writer)
            step.activation = activation
            del writer[layer.output]  # what comes after an activation is another step
            continue
        made = Step([layer], list(layer.inputs), layer.output)
        steps.append(made)
        if isinstance(layer, kinds.Conv2d):
            writer[layer.output] = made
    return steps


def _join(step: Step, layer: topology.Layer, writer: dict[str, Step]) -> None:
    writer.pop(step.output, None)
    step.layers.append(layer)
    step.output = layer.output
    writer[layer.output] = step


def as_depthwise(layer: kinds.BatchNorm2d, parameters: dict) -> dict[str, np.ndarray]:
    """A batch-norm that no convolution could take in, as the weight and bias of a depthwise 1×1 convolution."""
    gamma, beta, mean, variance = (parameters[name].astype(np.float64) for name in layer.parameter_shapes)
    scale = gamma / np.sqrt(variance + layer.eps)
    shift = beta - mean * scale
    return {
        f"{layer.name}/scale": scale.astype(np.float32).reshape(-1, 1, 1, 1),
        f"{layer.name}/shift": shift.astype(np.float32),
    }


class Program:
    """A network's launches for one input shape, over buffers of its own.

    input, output: arrays of the backend, of logical shape (N, C, H, W), in the network's layout and dtype. Write to
    `input`, call `launch()`, read `output`. `launch` enqueues on CuPy's current stream and takes no memory, so it can
    be recorded in a CUDA graph. steps[i] is computed by `launch_step(i)` from buffers[name] and parameters[name] into
    buffers[its output]; told[i] says by what.
    """

    def __init__(
        self, steps: list[Step], buffers: dict[str, Any], parameters: dict[str, Any], ends: tuple[str, str],
        launches: list[Launch], told: list[str],
    ) -> None:  # fmt: skip
        self.steps, self.buffers, self.parameters, self.told = steps, buffers, parameters, told
        self.input, self.output = buffers[ends[0]], buffers[ends[1]]
        self._launches = launches

    def launch(self) -> None:
        """Enqueues all steps."""
        for launch in self._launches:
            launch()

    def launch_step(self, index: int) -> None:
        """Enqueues one step."""
        self._launches[index]()


class StepBackend(abc.ABC):
    """Runs a network's steps in order. The programs of the last few input shapes are kept."""

    KEPT = 4
    name: ClassVar[str]
    layers: ClassVar[frozenset[type]] = frozenset(  # that it can run
        {
            kinds.BatchNorm2d, kinds.Clip, kinds.Conv2d, kinds.GlobalAveragePool, kinds.Linear, kinds.Permute,
            kinds.ReLU, kinds.ReLU6, kinds.Reshape, kinds.ResidualAdd, kinds.Softmax,
        }
    )  # fmt: skip

    def __init__(self, model: Any, dtype: str = "fp32", layout: str = "NCHW") -> None:
        self._model, self._dtype, self._layout = model, DTYPES[dtype], layout
        graph, parameters = weights.fold_batch_norm(*topology.read_onnx_with_parameters(model))
        self.check(graph)
        for layer in graph.layers:
            if isinstance(layer, kinds.BatchNorm2d):
                parameters |= as_depthwise(layer, parameters)
        self.parameters = {name: self._on_device(value) for name, value in parameters.items()}
        self._programs: OrderedDict[tuple[int, ...], Program] = OrderedDict()

    def _on_device(self, value: np.ndarray) -> Any:
        array = cuda.asarray(value, self._dtype)
        return cuda.to_layout(array, self._layout) if array.ndim == 4 else array

    def check(self, graph: topology.Graph) -> None:
        """UnsupportedModel for a layer that this backend cannot run."""
        for i, layer in enumerate(graph.layers):
            missing = ""
            if type(layer) not in self.layers:
                able = ", ".join(sorted(kind.__name__ for kind in self.layers))
                missing = f"runs {able}, not {type(layer).__name__}"
            elif isinstance(layer, kinds.Softmax) and any(size != 1 for size in layer.output_shape[layer.dim + 1 :]):
                missing = (
                    f"runs Softmax along the last dimension, not along dimension {layer.dim} of {layer.output_shape}"
                )
            if missing:
                raise topology.UnsupportedModel(
                    f"layer {i} ('{layer.name}'): backend '{self.name}' {missing}; "
                    "backends 'torch' and 'onnxruntime' do"
                )

    def program(self, shape: tuple[int, ...]) -> Program:
        """A new program for an input shape. The model is read again: padding may depend on the size."""
        graph, _ = weights.fold_batch_norm(*topology.read_onnx_with_parameters(self._model, shape))
        self.check(graph)
        buffers = {graph.input: layouts.empty(shape, self._dtype, self._layout)}
        steps, bound = fuse(graph), []
        for step in steps:
            out = layouts.empty(step.layers[-1].output_shape, self._dtype, self._layout)
            residual = buffers[step.residual] if step.residual else None
            bound.append(self.bind(step, [buffers[name] for name in step.inputs], residual, out))
            buffers[step.output] = out
        return Program(steps, buffers, self.parameters, (graph.input, graph.output), *self.finish(bound))

    @abc.abstractmethod
    def bind(self, step: Step, inputs: list[Any], residual: Any, out: Any) -> Any:
        """What launches a step that reads and writes these arrays."""

    def finish(self, bound: list[Any]) -> tuple[list[Launch], list[str]]:
        """From what `bind` gave for all steps: what launches each, and what runs it, in words."""
        return bound, [f"common.{self.name}"] * len(bound)

    def kept(self, shape: tuple[int, ...]) -> Program:
        """The program for an input shape that calls share."""
        if shape in self._programs:
            self._programs.move_to_end(shape)
            return self._programs[shape]
        self._programs[shape] = self.program(shape)
        while len(self._programs) > self.KEPT:
            self._programs.popitem(last=False)
        return self._programs[shape]

    def __call__(self, x: Any) -> Any:
        program = self.kept(tuple(x.shape))
        program.input[...] = cuda.asarray(x, np.float32)
        program.launch()
        return program.output.astype(np.float32)


def in_turn(launches: Iterable[Launch]) -> Launch:
    """Several launches as one."""
    every = list(launches)

    def launch() -> None:
        for one in every:
            one()

    return launch


def copied(x: Any, out: Any, dims: tuple[int, ...] | None = None) -> Launch:
    """Moves elements, without arithmetic: x, its dimensions permuted if `dims` says so, into the elements of out."""
    source = x if dims is None else x.transpose(dims)
    target = out if out.shape == source.shape else out.reshape(source.shape)

    def launch() -> None:
        target[...] = source

    return launch


def as_pictures(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a batch-norm's array, which may have any number of dimensions, as (N, C, H, W)."""
    n, c, *extent = shape
    return (n, c, *extent) if len(extent) == 2 else (n, c, math.prod(extent), 1)


def rows(x: Any) -> tuple[Any, list[Launch]]:
    """x as (N, rest), C-contiguous: a view where its layout allows it, else an array and the copy to make first."""
    if layouts.has(x, "NCHW"):
        return x.reshape(x.shape[0], -1), []
    flat = cuda.empty((x.shape[0], int(np.prod(x.shape[1:]))), x.dtype)
    return flat, [copied(x, flat)]
