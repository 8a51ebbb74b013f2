"""Layers, weights and a backend make a network: pictures in, class scores out (chapter 05).

    net = Network.from_onnx("mobilenetv2.onnx")     the project's own kernels
    logits = net(x)                                 x (N, C, H, W); NumPy, CuPy or PyTorch, and so are the logits

What is where:

    network   this file: choosing a backend, checking what comes in
    steps     which layers run as one, and over which buffers
    kernels   the steps on common.kernels
    cudnn     the steps on cuDNN and cuBLAS
    reference the layers on PyTorch, and the ONNX file on ONNX Runtime
    compare   every backend against ONNX Runtime
"""

import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

from .. import cuda, topology

if TYPE_CHECKING:
    from .steps import Program

BACKENDS = ("kernels", "cudnn", "torch", "onnxruntime")
DTYPES = ("fp32", "fp16")


def available() -> tuple[str, ...]:
    """The backends that can run on this machine: all, or all but cuDNN."""
    from ..cudnn import missing

    return tuple(name for name in BACKENDS if name != "cudnn" or missing() is None)


class Backend(Protocol):
    """Runs the network on one array (N, C, H, W), float32, and returns its output as a NumPy or CuPy array."""

    def __call__(self, x: Any) -> Any: ...


class Network:
    """A network read from an ONNX file, ready to run.

    Calls may come from several threads; they take turns. Buffers are made at the first call with an input shape and
    used again by every later one.
    """

    def __init__(
        self, model: Any, backend: str = "kernels", *, dtype: str = "fp32", layout: str = "NCHW",
        arithmetic: str | None = None, tune: bool | int = False,
    ) -> None:  # fmt: skip
        """model: an ONNX ModelProto or a path; backend: one of BACKENDS.

        dtype: "fp32" or "fp16", of weights and activations in memory. layout, arithmetic, tune: of backend "cudnn", as
        in common.cudnn. Raises what topology.read_onnx raises, ValueError for what a backend cannot do, RuntimeError
        where there is no cuDNN.
        """
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
        self.backend, self.dtype, self.layout, self.arithmetic = backend, dtype, layout, arithmetic or dtype
        self._check_options(tune)
        self.model = topology.load_model(model)
        self.graph = topology.read_onnx(self.model)
        self._lock = threading.Lock()
        self._run = self._make(tune)

    def _check_options(self, tune: bool | int) -> None:
        """ValueError for what the backend cannot do."""
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if self.layout not in cuda.LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(cuda.LAYOUTS)}, got {self.layout!r}")
        able = {"fp32": ("fp32", "tf32"), "fp16": ("fp16",)}[self.dtype] if self.backend == "cudnn" else (self.dtype,)
        if self.arithmetic not in able:
            raise ValueError(
                f"arithmetic of backend {self.backend!r} with dtype {self.dtype!r} must be {' or '.join(able)}, "
                f"got {self.arithmetic!r}"
            )
        wrong = {"layout": self.layout != "NCHW", "tune": tune is not False} if self.backend != "cudnn" else {}
        wrong["dtype"] = self.dtype != "fp32" and self.backend in ("torch", "onnxruntime")
        for name in (name for name, given in wrong.items() if given):
            raise ValueError(f"{name}: backend {self.backend!r} has no choice of it, leave it out")

    def _make(self, tune: bool | int) -> Backend:
        if self.backend == "kernels":
            from .kernels import KernelBackend

            return KernelBackend(self.model, self.dtype)
        if self.backend == "cudnn":
            from .cudnn import CudnnBackend

            return CudnnBackend(self.model, self.dtype, self.layout, self.arithmetic, tune)
        from .reference import OnnxRuntimeBackend, TorchBackend

        return TorchBackend(self.model) if self.backend == "torch" else OnnxRuntimeBackend(self.model)

    def program(self, shape: tuple[int, ...]) -> "Program":
        """The network's launches for an input shape (N, C, H, W), over new buffers: see steps.Program.

        For backends "kernels" and "cudnn"; ValueError for the others. It is the caller's own: calls of the network
        neither use it nor wait for it.
        """
        if not hasattr(self._run, "program"):
            raise ValueError(f"backend {self.backend!r} has no program, only 'kernels' and 'cudnn' have")
        self._check_shape(tuple(shape))
        with self._lock:
            return self._run.program(tuple(shape))

    @classmethod
    def from_onnx(cls, path_or_model: str | os.PathLike | Any, backend: str = "kernels", **options: Any) -> "Network":
        """The network in an ONNX file or ModelProto; arguments as those of the class."""
        return cls(path_or_model, backend, **options)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(N, C, H, W) as the file has it; another N, H or W may be given to a call."""
        return self.graph.input_shape

    def __call__(self, x: Any) -> Any:
        """The network's output for x, of the same kind of array as x.

        x: (N, C, H, W) of any layout, a floating-point NumPy, CuPy or PyTorch array. Returns (N, classes) for a
        classifier, float32. TypeError and ValueError name what does not fit.
        """
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise TypeError(f"x must be an array, got {type(x).__name__}")
        self._check_shape(tuple(x.shape))
        if "float" not in str(x.dtype):
            raise TypeError(f"x must be floating point (a normalised image, not its bytes), got {x.dtype}")
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()  # NumPy has no such type
        with self._lock, cuda.stream_of(x):
            return cuda.give_as(self._run(x), x)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        channels = self.input_shape[1]
        if len(shape) != 4 or shape[1] != channels or min(shape) < 1:
            raise ValueError(f"x must have shape (N, {channels}, H, W), got {shape}")

    def __repr__(self) -> str:
        how = f", {self.arithmetic}, {self.layout}" if self.backend == "cudnn" else ""
        return f"Network({self.graph.name!r}, backend={self.backend!r}{how}, input_shape={self.input_shape})"
