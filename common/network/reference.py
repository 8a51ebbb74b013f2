"""The third-party backends: the layers on PyTorch, and the ONNX file on ONNX Runtime, which is the reference."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import cuda, topology
from .registry import Fusion, first, operator_of


class TorchBackend:
    """Runs the layers one by one through torch.nn.functional in float32 (no TF32), on the GPU if there is one."""

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
        """The network's output for x (N, C, H, W): a float32 NumPy array."""
        import torch

        shape = tuple(x.shape)
        if shape not in self._graphs:
            self._graphs[shape] = topology.read_onnx(self._model, shape)
        graph = self._graphs[shape]
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


def run_layer(layer: topology.Layer, inputs: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
    """The output of one layer, or of a step's layers, computed by PyTorch.

    inputs: tensors, one per input of the layer; parameters: tensors by name; of any device and floating-point dtype.
    UnsupportedModel for a type of layer that PyTorch has no entry for.
    """
    entry = operator_of(layer)
    if entry is None or not entry.runs_on("torch"):
        raise topology.UnsupportedModel(f"layer '{layer.name}': backend 'torch' does not run {type(layer).__name__}")
    return entry.torch(layer if isinstance(entry, Fusion) else first(layer), inputs, parameters)


class OnnxRuntimeBackend:
    """Runs the ONNX file itself on the CPU, without any code of this course between the file and the result."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._sessions: dict[tuple[int, ...] | None, Any] = {}
        self._sessions[None] = self._open(model)
        self._declared = self._sessions[None].get_inputs()[0].shape

    @staticmethod
    def _open(model: Any) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only, without warnings about unused initializers
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def __call__(self, x: Any) -> Any:
        """The network's output for x (N, C, H, W), a NumPy array. ValueError if ONNX Runtime cannot run that shape."""
        x = cuda.asnumpy(x).astype(np.float32)
        session = self._session(x.shape)
        batch = session.get_inputs()[0].shape[0]
        # a file exported for a fixed batch size runs the images in chunks of that size
        chunks = [x] if not isinstance(batch, int) or batch == len(x) else np.split(x, range(batch, len(x), batch))
        name = session.get_inputs()[0].name
        try:
            return np.concatenate([session.run(None, {name: chunk})[0] for chunk in chunks])
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            raise ValueError(f"ONNX Runtime cannot run this network on x of shape {x.shape}: {error}") from None

    def _session(self, shape: tuple[int, ...]) -> Any:
        """The session of the file, or of the file rewritten for an image size that it does not allow."""
        fits = all(not isinstance(d, int) or d == s for d, s in zip(self._declared[2:], shape[2:], strict=True))
        batch = self._declared[0]
        if fits and (not isinstance(batch, int) or shape[0] % batch == 0):
            return self._sessions[None]
        if shape not in self._sessions:
            graph, parameters = topology.read_onnx_with_parameters(self._model, shape)
            self._sessions[shape] = self._open(topology.write_onnx(graph, parameters))
        return self._sessions[shape]
