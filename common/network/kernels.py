"""The backend "kernels": every layer on this project's own CUDA C++, on a GPU or on the simulator."""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import cuda, kernels, topology, weights
from ..kernels.checks import bounds
from ..topology import layers as kinds


@dataclass
class Step:
    """One launch: the layers that it computes, the tensors that it reads and the one that it writes."""

    layers: list[topology.Layer]
    inputs: list[str]
    output: str
    residual: str | None = None
    activation: Any = None
    buffer: Any = field(default=None, repr=False)

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


def check(graph: topology.Graph) -> None:
    """UnsupportedModel for a layer that there is no kernel for."""
    for i, layer in enumerate(graph.layers):
        missing = ""
        if type(layer) not in _LAUNCHES:
            able = ", ".join(sorted(kind.__name__ for kind in _LAUNCHES))
            missing = f"runs {able}, not {type(layer).__name__}"
        elif isinstance(layer, kinds.Softmax) and any(size != 1 for size in layer.output_shape[layer.dim + 1 :]):
            missing = f"runs Softmax along the last dimension, not along dimension {layer.dim} of {layer.output_shape}"
        if missing:
            raise topology.UnsupportedModel(
                f"layer {i} ('{layer.name}'): backend 'kernels' {missing}; backends 'torch' and 'onnxruntime' do"
            )


def as_depthwise(layer: kinds.BatchNorm2d, parameters: dict) -> dict[str, np.ndarray]:
    """A batch-norm that no convolution could take in, as the weight and bias of a depthwise 1×1 convolution."""
    gamma, beta, mean, variance = (parameters[name].astype(np.float64) for name in layer.parameter_shapes)
    scale = gamma / np.sqrt(variance + layer.eps)
    shift = beta - mean * scale
    return {
        f"{layer.name}/scale": scale.astype(np.float32).reshape(-1, 1, 1, 1),
        f"{layer.name}/shift": shift.astype(np.float32),
    }


class KernelBackend:
    """Runs a network's steps in order. One set of buffers is kept for each of the last input shapes."""

    KEPT = 4

    def __init__(self, model: Any) -> None:
        self._model = model
        graph, parameters = weights.fold_batch_norm(*topology.read_onnx_with_parameters(model))
        check(graph)
        for layer in graph.layers:
            if isinstance(layer, kinds.BatchNorm2d):
                parameters |= as_depthwise(layer, parameters)
        self._parameters = {name: cuda.asarray(value) for name, value in parameters.items()}
        self._input = graph.input
        self._plans: OrderedDict[tuple[int, ...], list[Step]] = OrderedDict()

    def plan(self, shape: tuple[int, ...]) -> list[Step]:
        """The steps for an input shape, their buffers made. The model is read again: padding may depend on the size."""
        if shape in self._plans:
            self._plans.move_to_end(shape)
            return self._plans[shape]
        graph, _ = weights.fold_batch_norm(*topology.read_onnx_with_parameters(self._model, shape))
        check(graph)
        steps = fuse(graph)
        for step in steps:
            step.buffer = cuda.empty(step.layers[-1].output_shape, np.float32)
        self._plans[shape] = steps
        while len(self._plans) > self.KEPT:
            self._plans.popitem(last=False)
        return steps

    def run(self, x: Any) -> Iterator[tuple[Step, Any]]:
        """Runs step by step: yields each with its output, which the next call with this input shape overwrites."""
        steps = self.plan(tuple(x.shape))
        tensors = {self._input: cuda.asarray(x, np.float32)}
        for step in steps:
            inputs = [tensors[name] for name in step.inputs]
            residual = tensors[step.residual] if step.residual else None
            _LAUNCHES[type(step.layer)](step, inputs, residual, self._parameters)
            tensors[step.output] = step.buffer
            yield step, step.buffer

    def __call__(self, x: Any) -> Any:
        outputs = deque((output for _, output in self.run(x)), maxlen=1)
        # a network without layers gives its input back
        return (outputs[0] if outputs else cuda.asarray(x, np.float32)).copy()


def _conv2d(step: Step, inputs: list, residual: Any, parameters: dict) -> None:
    c = step.layer
    kernels.conv2d(
        inputs[0], parameters[c.weight], parameters[c.bias] if c.bias else None,
        c.stride, c.padding, c.dilation, c.groups,
        residual=residual, activation=step.activation, out=step.buffer,
    )  # fmt: skip


def _batch_norm(step: Step, inputs: list, residual: Any, parameters: dict) -> None:
    name, (n, c, *extent) = step.layer.name, inputs[0].shape
    shape = (n, c, *extent) if len(extent) == 2 else (n, c, int(np.prod(extent)), 1)
    kernels.conv2d(
        inputs[0].reshape(shape), parameters[f"{name}/scale"], parameters[f"{name}/shift"],
        groups=c, out=step.buffer.reshape(shape),
    )  # fmt: skip


def _copy(step: Step, array: Any) -> None:
    step.buffer[...] = array


def _linear(step: Step, inputs: list, residual: Any, parameters: dict) -> None:
    layer = step.layer
    x = inputs[0].reshape(inputs[0].shape[0], -1)
    kernels.linear(x, parameters[layer.weight], parameters[layer.bias] if layer.bias else None, out=step.buffer)


def _clamp(step: Step, inputs: list, residual: Any, parameters: dict) -> None:
    low, high = bounds(activation_of(step.layer))
    kernels.clamp(inputs[0], float(low), float(high), out=step.buffer)


def _softmax(step: Step, inputs: list, residual: Any, parameters: dict) -> None:
    x, dim = inputs[0], step.layer.dim
    if dim != x.ndim - 1:
        # everything behind it has size 1, as after a global pool: `check` saw to that
        kernels.softmax(x.reshape(x.shape[: dim + 1]), out=step.buffer.reshape(x.shape[: dim + 1]))
        return
    kernels.softmax(x, out=step.buffer)


_LAUNCHES = {
    kinds.Conv2d: _conv2d,
    kinds.BatchNorm2d: _batch_norm,
    kinds.Linear: _linear,
    kinds.ReLU: _clamp,
    kinds.ReLU6: _clamp,
    kinds.Clip: _clamp,
    kinds.Softmax: _softmax,
    kinds.ResidualAdd: lambda step, inputs, residual, parameters: kernels.add(*inputs, out=step.buffer),
    kinds.GlobalAveragePool: lambda step, inputs, residual, parameters: kernels.global_avg_pool(
        inputs[0], out=step.buffer
    ),
    # no arithmetic: the array library moves the elements
    kinds.Reshape: lambda step, inputs, residual, parameters: _copy(step, inputs[0].reshape(step.buffer.shape)),
    kinds.Permute: lambda step, inputs, residual, parameters: _copy(step, inputs[0].transpose(step.layer.dims)),
}
