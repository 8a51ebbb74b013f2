"""Layers, weights and a backend make a network: pictures in, class scores out (chapter 05).

    net = Network.from_onnx("mobilenetv2.onnx")     the project's own kernels
    logits = net(x)                                 x (N, C, H, W); NumPy, CuPy or PyTorch, and so are the logits

    net = Network(model, Kernels(dtype="fp16", optimize="latency"))

What is where:

    network   this file: what comes in is checked, and run by the backend's runner
    backends  Kernels, Cudnn, Torch, OnnxRuntime: the backends with their options
    registry  what runs a layer: one entry per operator and per fusion, and the steps that they run
    operators the entries of common.topology's layers
    passes    graph in, graph out: patterns of layers become steps
    steps     the pass that every network has: a convolution with its epilogue
    arena     where activations lie that share one piece of memory
    program   steps as launches over buffers: the plan, and what runs it
    kernels   the steps on common.kernels
    cudnn     the steps on cuDNN and cuBLAS
    reference the layers on PyTorch, and the ONNX file on ONNX Runtime
    compare   every backend against ONNX Runtime, as a whole and step by step
    profile   what each step costs, on the CPU or the GPU
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
    """The backends that can run on this machine: all, or all but cuDNN."""
    from ..cudnn import missing

    return tuple(name for name in BACKENDS if name != "cudnn" or missing() is None)


class Network:
    """A network read from an ONNX file, ready to run.

    Calls may come from several threads; they take turns. Buffers are made at the first call with an input shape and
    used again by every later one.
    """

    def __init__(
        self, model: Any, backend: str | Backend = "kernels", *, passes: Iterable[Any] | None = None, **options: Any
    ) -> None:
        """model: an ONNX ModelProto or a path. backend: Kernels(…), Cudnn(…), Torch() or OnnxRuntime(), or in short
        its name, one of BACKENDS, with its options beside it: dtype, layout, optimize, variants, operators of
        "kernels"; dtype, layout, arithmetic, tune of "cudnn".

        passes: what is done with the graph, in order, see passes.resolve; without it what the backend does by
        itself, `Kernels(…).passes`. Of backends "kernels" and "cudnn".
        Raises what topology.read_onnx raises, ValueError for what a backend cannot do, RuntimeError where there is no
        cuDNN.
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
        """The network's launches for an input shape (N, C, H, W), over new buffers: see program.Program.

        arena: activations share one piece of memory, as in calls; else each keeps its own, to be looked at.
        For backends "kernels" and "cudnn"; ValueError for the others. It is the caller's own: calls of the network
        neither use it nor wait for it.
        """
        run = self._stepped("program")
        self._check_shape(tuple(shape))
        with self._lock:
            return run.program(tuple(shape), arena)

    def plan(self, shape: tuple[int, ...] | None = None) -> "Plan":
        """What runs for an input shape, without it the model's own: steps, kernels, memory.

        Nothing is allocated and nothing launched, so a network may be planned that does not fit into memory.
        `print(net)` shows it. For backends "kernels" and "cudnn"; ValueError for the others.
        """
        run = self._stepped("plan")
        shape = tuple(shape or self.input_shape)
        self._check_shape(shape)
        with self._lock:
            return run.plan(shape)

    def stages(self, shape: tuple[int, ...] | None = None) -> Iterator[tuple[str, topology.Graph]]:
        """The graph as it is read, without batch-norms, and after each pass, with what did it: to be printed.

        shape: of the input, without it the model's own. For backends "kernels" and "cudnn"; ValueError for the others.
        """
        run = self._stepped("passes")
        shape = tuple(shape or self.input_shape)
        self._check_shape(shape)
        return run.stages(shape)

    def explain(self, shape: tuple[int, ...] | None = None) -> str:
        """How many layers each pass leaves, what it made of them, and what it found and refused, with the reason."""
        return self._stepped("passes").explain(tuple(shape or self.input_shape))

    def capture(self, batch: int = 1, size: tuple[int, int] | None = None) -> "Captured":
        """Records the network for so many images in a CUDA graph, which later calls of that shape replay.

        size: (height, width), without it the model's own. Returns the graph with its input and output, for callers who
        want neither checks nor copies: see program.Captured. For backends "kernels" and "cudnn"; ValueError for the
        others.
        """
        run = self._stepped("graph")
        if not isinstance(batch, int) or batch < 1:
            raise ValueError(f"batch must be an integer of at least 1, got {batch!r}")
        shape = (batch, self.input_shape[1], *(size or self.input_shape[2:]))
        self._check_shape(shape)
        with self._lock:
            return run.capture(shape)

    def profile(self, x: Any, runs: int = 100, placement: "Placement" = "gpu", *, progress: bool = True) -> "Profile":
        """Runs the network `runs` times on x and says what each step took in time and memory, and what copies took.

        placement: which steps run on the GPU (the simulator, where there is none), "gpu", "cpu", a pattern of layers'
        names, or a function of a Step; the others run on the CPU through PyTorch. progress: a bar, where somebody
        watches. See profile.Profile. For backend "kernels" with dtype "fp32"; ValueError for the others.
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
        """Whether the backend runs steps over buffers, and so has a plan."""
        return hasattr(self.runner, "plan")

    @classmethod
    def from_onnx(
        cls, path_or_model: str | os.PathLike | Any, backend: str | Backend = "kernels", **options: Any
    ) -> "Network":
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
