"""Inference of a network: layers, weights and a backend; images in, class scores out (chapter 05).

    net = Network.from_onnx("mobilenetv2.onnx")     on the kernels of this course
    logits = net(x)                                 x (N, C, H, W) of NumPy, CuPy or PyTorch; logits of the same library

    net = Network(model, Kernels(dtype="fp16", optimize="latency"))

What is where:

    network   this file: checks the input and calls the backend's runner
    backends  Kernels, Cudnn, Torch, OnnxRuntime: the backends with their options
    registry  one entry per operator and per fusion, with its implementation on each backend; the steps that they run
    operators the entries of common.topology's layers
    passes    functions from graph to graph that replace patterns of layers by steps
    steps     the default pass: a convolution with its epilogue
    arena     the memory planner: offsets of activations in one allocation
    program   steps as launches over buffers, and the plan of them
    kernels   the steps on common.kernels
    cudnn     the steps on cuDNN and cuBLAS
    reference the layers on PyTorch, and the ONNX file on ONNX Runtime
    compare   every backend against ONNX Runtime: the network's output, and the output of each step
    profile   time and memory of each step, on the CPU or the GPU
"""

import os
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .. import cuda, topology
from . import operators  # noqa: F401 (which registers them)
from .backends import BACKENDS, DTYPES, Backend, Cudnn, Kernels, OnnxRuntime, Torch, backend_of
from .passes import DEFAULT, resolve

if TYPE_CHECKING:
    from .profile import Placement, Profile
    from .program import Captured, Plan, Program

__all__ = [
    "BACKENDS", "DEFAULT", "DTYPES", "Cudnn", "Kernels", "Network", "OnnxRuntime", "Torch", "available",
]  # fmt: skip


def available() -> tuple[str, ...]:
    """Names of the backends that can run on this machine: BACKENDS, without "cudnn" where cuDNN is missing."""
    from ..cudnn import missing

    return tuple(name for name in BACKENDS if name != "cudnn" or missing() is None)


class Network:
    """A network read from an ONNX file, ready to run.

    Thread-safe: calls from several threads run one after the other. The first call with an input shape allocates its
    buffers; later calls reuse them.
    """

    def __init__(
        self, model: Any, backend: str | Backend = "kernels", *, passes: Iterable[Any] | None = None, **options: Any
    ) -> None:
        """Read a model and prepare its backend.

        model     an ONNX ModelProto or a path
        backend   Kernels(…), Cudnn(…), Torch() or OnnxRuntime(); or its name, one of BACKENDS
        passes    the passes to apply to the graph, in order (see passes.resolve); default: the backend's own,
                  `Kernels(…).passes`. For backends "kernels" and "cudnn"
        options   the backend's options, where `backend` is a name: dtype, layout, optimize, variants, operators of
                  "kernels"; dtype, layout, arithmetic, tune of "cudnn"

        Raises what topology.read_onnx raises; ValueError for options that a backend does not support, TypeError for
        unknown options, RuntimeError if cuDNN is missing.
        """
        self.target: Any = backend_of(backend, options)
        self.backend, self.dtype, self.layout = self.target.name, self.target.dtype, self.target.layout
        self.arithmetic = self.target.arithmetic
        self.optimize: str | None = getattr(getattr(self.target, "optimize", None), "name", None)
        own = getattr(self.target, "passes", None)
        if passes is not None and own is None:
            raise ValueError(f"passes: backend {self.backend!r} has no choice of it, leave it out")
        pipeline = [] if own is None else resolve(own if passes is None else passes, self.target)
        self.model = topology.load_model(model)
        self.graph = topology.read_onnx(self.model)
        self._lock = threading.Lock()
        self.runner = self.target.runner(self.model, pipeline)

    def program(self, shape: tuple[int, ...], arena: bool = False) -> "Program":
        """A new program.Program: the network's launches for an input shape (N, C, H, W), over buffers of its own.

        arena: whether activations share one allocation, as in calls of the network; by default each has a buffer of
        its own, so that all can be read after a launch. Calls of the network neither use this program nor wait for it.
        ValueError for backends other than "kernels" and "cudnn", and for a shape that does not fit.
        """
        run = self._stepped("program")
        self._check_shape(tuple(shape))
        with self._lock:
            return run.program(tuple(shape), arena)

    def plan(self, shape: tuple[int, ...] | None = None) -> "Plan":
        """The plan for an input shape (default: the model's own): steps, kernels, memory. `print(net)` shows it.

        Nothing is allocated or launched, so networks larger than the memory can be planned.
        ValueError for backends other than "kernels" and "cudnn", and for a shape that does not fit.
        """
        run = self._stepped("plan")
        shape = tuple(shape or self.input_shape)
        self._check_shape(shape)
        with self._lock:
            return run.plan(shape)

    def stages(self, shape: tuple[int, ...] | None = None) -> Iterator[tuple[str, topology.Graph]]:
        """(name, graph): as read, with batch-norms folded, and after each pass. For printing.

        shape: of the input; default: the model's own. ValueError for backends other than "kernels" and "cudnn".
        """
        run = self._stepped("passes")
        shape = tuple(shape or self.input_shape)
        self._check_shape(shape)
        return run.stages(shape)

    def explain(self, shape: tuple[int, ...] | None = None) -> str:
        """A text with the number of layers after each pass, and the matches that fusions refused, with the reasons.

        shape: of the input; default: the model's own. ValueError for backends other than "kernels" and "cudnn".
        """
        return self._stepped("passes").explain(tuple(shape or self.input_shape))

    def capture(self, batch: int = 1, size: tuple[int, int] | None = None) -> "Captured":
        """Capture the network for `batch` images in a CUDA graph, which later calls with that shape replay.

        size: (height, width); default: the model's own. Returns a program.Captured, the graph with its input and
        output arrays, for callers that need neither checks nor copies.
        ValueError for backends other than "kernels" and "cudnn", and for a batch below 1.
        """
        run = self._stepped("graph")
        if not isinstance(batch, int) or batch < 1:
            raise ValueError(f"batch must be an integer of at least 1, got {batch!r}")
        shape = (batch, self.input_shape[1], *(size or self.input_shape[2:]))
        self._check_shape(shape)
        with self._lock:
            return run.capture(shape)

    def profile(self, x: Any, runs: int = 100, placement: "Placement" = "gpu", *, progress: bool = True) -> "Profile":
        """Run the network `runs` times on x, (N, C, H, W); return time and memory of each step and of the copies.

        placement   the steps that run on the GPU (on the simulator, if there is no GPU): "gpu", "cpu", a glob pattern
                    of layer names, or a function of a Step; the others run on the CPU through PyTorch
        progress    whether to show a progress bar if stderr is a terminal

        ValueError for backends other than "kernels" in "fp32" and for fewer than 1 run. See profile.Profile.
        """
        from .profile import profile

        if self.backend != "kernels" or self.dtype != "fp32":
            raise ValueError(f"profiles are of backend 'kernels' in fp32, got {self.backend!r} in {self.dtype}")
        if not isinstance(runs, int) or runs < 1:
            raise ValueError(f"runs must be an integer of at least 1, got {runs!r}")
        self._check_input(x)
        with self._lock:
            return profile(self.runner, x, runs, placement, progress)

    def _stepped(self, what: str) -> Any:
        if not self._planned:
            raise ValueError(f"backend {self.backend!r} has no {what}, only 'kernels' and 'cudnn' have")
        return self.runner

    @property
    def _planned(self) -> bool:
        """Whether the backend runs steps over planned buffers."""
        return hasattr(self.runner, "plan")

    @classmethod
    def from_onnx(
        cls, path_or_model: str | os.PathLike | Any, backend: str | Backend = "kernels", **options: Any
    ) -> "Network":
        """The network of an ONNX file or ModelProto; arguments and errors as for the class."""
        return cls(path_or_model, backend, **options)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(N, C, H, W) as in the file; calls may use another N, H or W."""
        return self.graph.input_shape

    def __call__(self, x: Any) -> Any:
        """The network's output for x, as an array of the same library and on the same device.

        x: (N, C, H, W) of any memory layout, a floating-point NumPy, CuPy or PyTorch array. Returns (N, classes) for a
        classifier, float32. TypeError for what is not a floating-point array, ValueError for a wrong shape.
        """
        self._check_input(x)
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()  # NumPy has no such type
        with self._lock, cuda.stream_of(x):
            return cuda.give_as(self.runner(x), x)

    def _check_input(self, x: Any) -> None:
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise TypeError(f"x must be an array, got {type(x).__name__}")
        self._check_shape(tuple(x.shape))
        if "float" not in str(x.dtype):
            raise TypeError(f"x must be floating point (a normalised image, not its bytes), got {x.dtype}")

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        channels = self.input_shape[1]
        if len(shape) != 4 or shape[1] != channels or min(shape) < 1:
            raise ValueError(f"x must have shape (N, {channels}, H, W), got {shape}")

    def __str__(self) -> str:
        return str(self.plan() if self._planned else self.graph)

    def __repr__(self) -> str:
        how = f", {self.arithmetic}, {self.layout}" if self._planned else ""
        how += f", optimize={self.optimize!r}" if self.optimize else ""
        return f"Network({self.graph.name!r}, backend={self.backend!r}{how}, input_shape={self.input_shape})"
