"""The backends that others wrote: the layers on PyTorch, and the ONNX file on ONNX Runtime, the reference."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import cuda, topology
from .registry import Fusion, first, operator_of


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
    """One layer, or the layers of a step, on PyTorch: inputs and parameters are tensors, wherever and of whatever type.

    UnsupportedModel for a kind of layer that is not known here.
    """
    entry = operator_of(layer)
    if entry is None or not entry.runs_on("torch"):
        raise topology.UnsupportedModel(f"layer '{layer.name}': backend 'torch' does not run {type(layer).__name__}")
    return entry.torch(layer if isinstance(entry, Fusion) else first(layer), inputs, parameters)


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
