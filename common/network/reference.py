"""The backends that others wrote: the layers on PyTorch, and the ONNX file on ONNX Runtime, the reference."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import cuda, topology
from ..topology import layers as kinds


class TorchBackend:
    """Runs the layers one by one through torch.nn.functional, float32, on the CPU or, for the backend "gpu", there."""

    def __init__(self, model: Any) -> None:
        import torch

        self._model = model
        self._device = "cuda" if cuda.backend() == "gpu" and torch.cuda.is_available() else "cpu"
        _, parameters = topology.read_onnx_with_parameters(model)
        self._parameters = {
            name: torch.from_numpy(np.array(value)).to(self._device) for name, value in parameters.items()
        }
        self._graphs: dict[tuple[int, ...], topology.Graph] = {}

    def __call__(self, x: Any) -> Any:
        import torch

        graph = self._graphs.setdefault(tuple(x.shape), topology.read_onnx(self._model, tuple(x.shape)))
        strict = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        try:
            with torch.no_grad():
                tensors = {graph.input: torch.from_numpy(cuda.asnumpy(x).astype(np.float32)).to(self._device)}
                for layer in graph.layers:
                    inputs = [tensors[name] for name in layer.inputs]
                    tensors[layer.output] = run_layer(layer, inputs, self._parameters)
                return tensors[graph.output].cpu().numpy()
        finally:
            torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = strict


def run_layer(layer: Any, inputs: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
    """One layer through torch.nn.functional: its inputs and parameters as tensors, wherever and of whatever type.

    UnsupportedModel for a kind of layer that is not known here.
    """
    import torch
    import torch.nn.functional as F

    x, p = inputs[0], parameters
    match layer:
        case kinds.Conv2d():
            x = F.pad(x, _sides(layer.padding))
            bias = p[layer.bias] if layer.bias else None
            return F.conv2d(x, p[layer.weight], bias, layer.stride, 0, layer.dilation, layer.groups)
        case kinds.Linear():
            return F.linear(x.flatten(1), p[layer.weight], p[layer.bias] if layer.bias else None)
        case kinds.BatchNorm2d():
            # written out, as older versions of F.batch_norm refuse an eps of 0
            per_channel = (1, -1) + (1,) * (x.dim() - 2)
            mean, variance, gamma, beta = (
                p[name].reshape(per_channel)
                for name in (layer.running_mean, layer.running_var, layer.weight, layer.bias)
            )
            return (x - mean) / torch.sqrt(variance + layer.eps) * gamma + beta
        case kinds.ReLU6():
            return F.relu6(x)
        case kinds.ReLU():
            return F.relu(x)
        case kinds.Clip():
            return torch.clamp(x, layer.min, layer.max)
        case kinds.Sigmoid():
            return torch.sigmoid(x)
        case kinds.HardSigmoid():
            return torch.clamp(layer.alpha * x + layer.beta, 0, 1)
        case kinds.HardSwish():
            return F.hardswish(x)
        case kinds.Softmax():
            return torch.softmax(x, layer.dim)
        case kinds.ResidualAdd():
            return inputs[0] + inputs[1]
        case kinds.Mul():
            return inputs[0] * inputs[1]
        case kinds.Concat():
            return torch.cat(list(inputs), layer.dim)
        case kinds.GlobalAveragePool():
            return x.mean((2, 3), keepdim=True)
        case kinds.MaxPool2d() | kinds.AveragePool2d():
            return _pool(layer, x)
        case kinds.Pad():
            return F.pad(x, _sides(layer.padding), value=layer.value)
        case kinds.Reshape():
            return x.reshape(x.shape[0], *layer.shape)
        case kinds.Permute():
            return x.permute(layer.dims)
    raise topology.UnsupportedModel(f"layer '{layer.name}': backend 'torch' does not run {type(layer).__name__}")


def _pool(layer: Any, x: Any) -> Any:
    """Pads by hand up to what the output needs, so that unequal padding and ceil_mode follow the layer's shape."""
    import torch
    import torch.nn.functional as F

    is_max = isinstance(layer, kinds.MaxPool2d)
    dilation = layer.dilation if is_max else (1, 1)
    sides = []
    for size, out, kernel, stride, (before, after), d in zip(
        x.shape[2:], layer.output_shape[2:], layer.kernel_size, layer.stride, layer.padding, dilation, strict=True
    ):
        needed = (out - 1) * stride + d * (kernel - 1) + 1
        sides.append((before, max(after, needed - size - before)))
    padded = F.pad(x, _sides(tuple(sides)), value=float("-inf") if is_max else 0.0)
    rows, columns = layer.output_shape[2:]
    if is_max:
        return F.max_pool2d(padded, layer.kernel_size, layer.stride, 0, dilation)[..., :rows, :columns]
    area = layer.kernel_size[0] * layer.kernel_size[1]
    sums = F.avg_pool2d(padded, layer.kernel_size, layer.stride) * area
    counted = torch.ones_like(x[:1, :1])
    if layer.count_include_pad:
        counted = F.pad(counted, _sides(layer.padding), value=1.0)
        sides = [(0, total - size) for total, size in zip(padded.shape[2:], counted.shape[2:], strict=True)]
    counts = F.avg_pool2d(F.pad(counted, _sides(tuple(sides))), layer.kernel_size, layer.stride) * area
    return (sums / counts)[..., :rows, :columns]


def _sides(padding: Any) -> tuple[int, int, int, int]:
    """((top, bottom), (left, right)) in the order of torch.nn.functional.pad: left, right, top, bottom."""
    (top, bottom), (left, right) = padding
    return left, right, top, bottom


class OnnxRuntimeBackend:
    """Runs the ONNX file itself, on the CPU: none of this project's code is between the file and the result."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._sessions: dict[tuple[int, ...] | None, Any] = {}
        self._sessions[None] = self._open(model)
        self._declared = self._sessions[None].get_inputs()[0].shape

    @staticmethod
    def _open(model: Any) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors; warnings about unused initialisers do not concern a learner
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def __call__(self, x: Any) -> Any:
        x = cuda.asnumpy(x).astype(np.float32)
        session = self._session(x.shape)
        batch = session.get_inputs()[0].shape[0]
        # a file exported for one batch size runs several images in turns of that size
        turns = [x] if not isinstance(batch, int) or batch == len(x) else np.split(x, range(batch, len(x), batch))
        name = session.get_inputs()[0].name
        try:
            return np.concatenate([session.run(None, {name: turn})[0] for turn in turns])
        except Exception as error:  # its exceptions have no common base of their own
            raise ValueError(f"ONNX Runtime cannot run this network on x of shape {x.shape}: {error}") from None

    def _session(self, shape: tuple[int, ...]) -> Any:
        """The file's own session, or, for an image size that the file does not allow, the file rewritten for it."""
        fits = all(not isinstance(d, int) or d == s for d, s in zip(self._declared[2:], shape[2:], strict=True))
        batch = self._declared[0]
        if fits and (not isinstance(batch, int) or shape[0] % batch == 0):
            return self._sessions[None]
        if shape not in self._sessions:
            graph, parameters = topology.read_onnx_with_parameters(self._model, shape)
            self._sessions[shape] = self._open(topology.write_onnx(graph, parameters))
        return self._sessions[shape]
