"""The third-party backends: the layers on PyTorch, and the ONNX file on ONNX Runtime, which is the reference."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import cuda, topology
from ..topology.graph import Signature, shapes_of, signature_of
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
        self._graphs: dict[Signature, topology.Graph] = {}

    def __call__(self, *inputs: Any) -> Any:
        """The network's output for its inputs (N, C, H, W): a float32 NumPy array; of several outputs a tuple."""
        import torch

        shape = signature_of(tuple(x.shape) for x in inputs)
        if shape not in self._graphs:
            self._graphs[shape] = topology.read_onnx(self._model, shape)
        graph = self._graphs[shape]
        strict = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        try:
            with torch.no_grad():
                arrays = (torch.from_numpy(cuda.asnumpy(x).astype(np.float32)).to(self._device) for x in inputs)
                tensors = dict(zip(graph.inputs, arrays, strict=True))
                for layer in graph.layers:
                    given = [tensors[name] for name in layer.inputs]
                    tensors[layer.output] = run_layer(layer, given, self._parameters)
                results = tuple(tensors[name].cpu().numpy() for name in graph.outputs)
                return results if len(results) > 1 else results[0]
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
    """Runs the ONNX file itself on the CPU, without any code of this course between the file and the result.

    exact: whether sums of products in 8 bits are exact. By default ONNX Runtime adds two of them in 16 bits on x86
    processors without VNNI, which is faster and saturates.
    """

    def __init__(self, model: Any, exact: bool = True) -> None:
        self._model, self._exact = model, exact
        self._sessions: dict[Signature | None, Any] = {}
        self._sessions[None] = self._open(model)
        self._declared = [value.shape for value in self._sessions[None].get_inputs()]

    def _open(self, model: Any) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only, without warnings about unused initializers
        if self._exact:
            options.add_session_config_entry("session.x64quantprecision", "1")
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def __call__(self, *inputs: Any) -> Any:
        """The network's output for its inputs (N, C, H, W): a NumPy array; of several outputs a tuple.

        ValueError if ONNX Runtime cannot run these shapes.
        """
        arrays = [cuda.asnumpy(x).astype(np.float32) for x in inputs]
        session = self._session(signature_of(x.shape for x in arrays))
        names, batch = [value.name for value in session.get_inputs()], session.get_inputs()[0].shape[0]
        # a file exported for a fixed batch size runs the images in chunks of that size
        chunks = [tuple(arrays)]
        if isinstance(batch, int) and batch != len(arrays[0]):
            chunks = list(zip(*(np.split(x, range(batch, len(x), batch)) for x in arrays), strict=True))
        try:
            every = [session.run(None, dict(zip(names, chunk, strict=True))) for chunk in chunks]
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            shapes = ", ".join(str(x.shape) for x in arrays)
            raise ValueError(f"ONNX Runtime cannot run this network on x of shape {shapes}: {error}") from None
        results = tuple(np.concatenate(parts) for parts in zip(*every, strict=True))
        return results if len(results) > 1 else results[0]

    def _session(self, signature: Signature) -> Any:
        """The session of the file, or of the file rewritten for an image size that it does not allow."""
        shapes = shapes_of(signature)
        fits = all(
            not isinstance(allowed, int) or allowed == size
            for declared, shape in zip(self._declared, shapes, strict=True)
            for allowed, size in zip(declared[1:], shape[1:], strict=True)
        )
        batch = self._declared[0][0]
        if fits and (not isinstance(batch, int) or shapes[0][0] % batch == 0):
            return self._sessions[None]
        if signature not in self._sessions:
            graph, parameters = topology.read_onnx_with_parameters(self._model, signature)
            self._sessions[signature] = self._open(topology.write_onnx(graph, parameters))
        return self._sessions[signature]
