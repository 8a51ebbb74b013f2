"""Layers, weights and a backend make a network: pictures in, class scores out (chapter 05).

    net = Network.from_onnx("mobilenetv2.onnx")     the project's own kernels
    logits = net(x)                                 x (N, C, H, W); NumPy, CuPy or PyTorch, and so are the logits

What is where:

    network   this file: choosing a backend, checking what comes in
    kernels   the layers on common.kernels, activation and residual fused into the convolutions
    reference the same layers on PyTorch, and the ONNX file on ONNX Runtime
    compare   every backend against ONNX Runtime
"""

import os
import threading
from typing import Any, Protocol

from .. import cuda, topology

BACKENDS = ("kernels", "torch", "onnxruntime")


class Backend(Protocol):
    """Runs the network on one array (N, C, H, W), float32, and returns its output as a NumPy or CuPy array."""

    def __call__(self, x: Any) -> Any: ...


class Network:
    """A network read from an ONNX file, ready to run.

    Calls may come from several threads; they take turns. Buffers are made at the first call with an input shape and
    used again by every later one.
    """

    def __init__(self, model: Any, backend: str = "kernels") -> None:
        """model: an ONNX ModelProto or a path. Raises what topology.read_onnx raises, ValueError for the backend."""
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
        self.backend = backend
        self.model = topology.load_model(model)
        self.graph = topology.read_onnx(self.model)
        self._lock = threading.Lock()
        self._run = self._make()

    def _make(self) -> Backend:
        if self.backend == "kernels":
            from .kernels import KernelBackend

            return KernelBackend(self.model)
        from .reference import OnnxRuntimeBackend, TorchBackend

        return TorchBackend(self.model) if self.backend == "torch" else OnnxRuntimeBackend(self.model)

    @classmethod
    def from_onnx(cls, path_or_model: str | os.PathLike | Any, backend: str = "kernels") -> "Network":
        """The network in an ONNX file or ModelProto, on backend "kernels", "torch" or "onnxruntime"."""
        return cls(path_or_model, backend)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(N, C, H, W) as the file has it; another N, H or W may be given to a call."""
        return self.graph.input_shape

    def __call__(self, x: Any) -> Any:
        """The network's output for x, of the same kind of array as x.

        x: (N, C, H, W) NCHW, a floating-point NumPy, CuPy or PyTorch array, computed in float32. Returns (N, classes)
        for a classifier. TypeError and ValueError name what does not fit.
        """
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise TypeError(f"x must be an array, got {type(x).__name__}")
        shape, channels = tuple(x.shape), self.input_shape[1]
        if len(shape) != 4 or shape[1] != channels or min(shape) < 1:
            raise ValueError(f"x must have shape (N, {channels}, H, W), got {shape}")
        if "float" not in str(x.dtype):
            raise TypeError(f"x must be floating point (a normalised image, not its bytes), got {x.dtype}")
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()  # NumPy has no such type
        with self._lock, cuda.stream_of(x):
            return cuda.give_as(self._run(x), x)

    def __repr__(self) -> str:
        return f"Network({self.graph.name!r}, backend={self.backend!r}, input_shape={self.input_shape})"
