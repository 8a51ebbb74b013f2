"""Layers, weights and a backend make a network: pictures in, class scores out (chapter 05).

    net = Network.from_onnx("mobilenetv2.onnx")     the project's own kernels
    logits = net(x)                                 x (N, C, H, W); NumPy, CuPy or PyTorch, and so are the logits

What is where:

    network   this file: choosing a backend, checking what comes in
    steps     which layers run as one
    blocks    which steps run as one: inverted-residual blocks
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
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from .. import cuda, topology

if TYPE_CHECKING:
    from ..optimize.compositions import Composition
    from .profile import Placement, Profile
    from .program import Captured, Plan, Program

BACKENDS = ("kernels", "cudnn", "torch", "onnxruntime")
STEPPED = ("kernels", "cudnn")  # those that run steps over buffers: with a plan, programs, a choice of layout
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
        self, model: Any, backend: str = "kernels", *, dtype: str = "fp32", layout: str | None = None,
        arithmetic: str | None = None, tune: bool | int = False, variants: Mapping[str, str] | None = None,
        operators: Mapping[str, Callable[..., Any]] | None = None, optimize: "str | Composition | None" = None,
    ) -> None:  # fmt: skip
        """model: an ONNX ModelProto or a path; backend: one of BACKENDS.

        dtype: "fp32" or "fp16", of weights and activations in memory. layout: "NCHW" or "NHWC", of backends "kernels"
        and "cudnn"; without it NCHW, and NHWC for the kernels on a GPU, which are faster so. variants, operators: of
        backend "kernels": other rungs, or functions of your own, see KernelBackend. optimize: of backend "kernels",
        "latency" for the shortest time of one picture, "throughput" for the most pictures in a second, or a
        composition of your own, see common.optimize.compositions; always NHWC. arithmetic, tune: of backend "cudnn",
        as in common.cudnn. Raises what topology.read_onnx raises, ValueError for what a backend cannot do,
        RuntimeError where there is no cuDNN.
        """
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
        self.backend, self.dtype, self.arithmetic = backend, dtype, arithmetic or dtype
        own = {"variants": variants, "operators": operators, "optimize": optimize}
        self._check_options(layout, tune, own)
        channels_last = backend == "kernels" and (cuda.backend() == "gpu" or optimize is not None)
        self.layout = layout or ("NHWC" if channels_last else "NCHW")
        self.optimize: str | None = optimize if isinstance(optimize, str) else getattr(optimize, "name", None)
        self.model = topology.load_model(model)
        self.graph = topology.read_onnx(self.model)
        self._lock = threading.Lock()
        self._run = self._make(tune, own)

    def _check_options(self, layout: str | None, tune: bool | int, own: dict[str, Any]) -> None:
        """ValueError for what the backend cannot do."""
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if layout not in (None, *cuda.LAYOUTS):
            raise ValueError(f"layout must be one of {', '.join(cuda.LAYOUTS)}, got {layout!r}")
        able = {"fp32": ("fp32", "tf32"), "fp16": ("fp16",)}[self.dtype] if self.backend == "cudnn" else (self.dtype,)
        if self.arithmetic not in able:
            raise ValueError(
                f"arithmetic of backend {self.backend!r} with dtype {self.dtype!r} must be {' or '.join(able)}, "
                f"got {self.arithmetic!r}"
            )
        wrong = {
            "layout": layout is not None and self.backend not in STEPPED,
            "tune": tune is not False and self.backend != "cudnn",
            "dtype": self.dtype != "fp32" and self.backend not in STEPPED,
            **{name: value is not None and self.backend != "kernels" for name, value in own.items()},
        }
        for name in (name for name, given in wrong.items() if given):
            raise ValueError(f"{name}: backend {self.backend!r} has no choice of it, leave it out")

    def _make(self, tune: bool | int, own: dict[str, Any]) -> Backend:
        if self.backend == "kernels":
            from .kernels import KernelBackend

            return KernelBackend(self.model, self.dtype, self.layout, **own)
        if self.backend == "cudnn":
            from .cudnn import CudnnBackend

            return CudnnBackend(self.model, self.dtype, self.layout, self.arithmetic, tune)
        from .reference import OnnxRuntimeBackend, TorchBackend

        return TorchBackend(self.model) if self.backend == "torch" else OnnxRuntimeBackend(self.model)

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
        """What runs for an input shape, without it the model's own: steps, kernels, memory. Nothing is launched.

        `print(net)` shows it. For backends "kernels" and "cudnn"; ValueError for the others.
        """
        run = self._stepped("plan")
        shape = tuple(shape or self.input_shape)
        self._check_shape(shape)
        with self._lock:
            return run.plan(shape)

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
            return profile(self._run, x, runs, placement, progress)  # type: ignore[arg-type]

    def _stepped(self, what: str) -> Any:
        if self.backend not in STEPPED:
            raise ValueError(f"backend {self.backend!r} has no {what}, only 'kernels' and 'cudnn' have")
        return self._run

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
        self._check_input(x)
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()  # NumPy has no such type
        with self._lock, cuda.stream_of(x):
            return cuda.give_as(self._run(x), x)

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
        return str(self.plan() if self.backend in STEPPED else self.graph)

    def __repr__(self) -> str:
        how = f", {self.arithmetic}, {self.layout}" if self.backend in STEPPED else ""
        how += f", optimize={self.optimize!r}" if self.optimize else ""
        return f"Network({self.graph.name!r}, backend={self.backend!r}{how}, input_shape={self.input_shape})"
