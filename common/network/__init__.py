"""Inference of a network: layers, weights and a backend; images in, class scores out (chapter 05).

    net = Network("mobilenetv2.onnx")               on the kernels of this course
    logits = net(x)                                 x (N, C, H, W) of NumPy, CuPy or PyTorch; logits of the same library
    a, b = net(x, y)                                several inputs and outputs, in the file's order

    net = Network(model, Kernels(dtype="fp16", optimize="latency"))
    net = Network("quantized.onnx")                 QuantizeLinear and DequantizeLinear: in integers, by common.quantize

What is where:

    network   this file: checks the input and calls the backend's runner
    backends  Kernels, Cudnn, Torch, OnnxRuntime: the backends with their options
    registry  one entry per operator and per fusion, with its implementation on each backend; the steps that they run
    operators the entries of common.topology's layers
    passes    functions from graph to graph that replace patterns of layers by steps
    steps     the default pass: a convolution with its epilogue
    arena     the memory planner: offsets of activations in one allocation
    program   steps as launches over buffers, and the plan of them
    saved     compiled networks in files, with encoding, graphs as JSON values
    ranges    bounds on every tensor, from which the arithmetic "halves" takes its scales
    context   calls over buffers of their own, one context per thread
    replay    calls that replay a CUDA graph
    kernels   the steps on common.kernels
    cudnn     the steps on cuDNN and cuBLAS
    reference the layers on PyTorch, and the ONNX file on ONNX Runtime
    compare   every backend against ONNX Runtime: the network's output, and the output of each step
    profile   time and memory of each step, on the CPU or the GPU
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .. import cuda, topology
from . import operators as _operators  # noqa: F401 (which registers them)
from .backends import BACKENDS, DTYPES, Backend, Cudnn, Kernels, OnnxRuntime, Torch, backend_for, backend_of
from .context import ExecutionContext, check_inputs, check_shape
from .passes import DEFAULT, resolve

if TYPE_CHECKING:
    from ..topology.graph import Signature
    from .profile import Placement, Profile
    from .program import Plan, Program
    from .replay import Captured

__all__ = [
    "BACKENDS", "DEFAULT", "DTYPES", "Cudnn", "ExecutionContext", "Kernels", "Network", "OnnxRuntime", "Torch",
    "available",
]  # fmt: skip


def as_tuple(shape: Any) -> "Signature":
    """An input shape, or one shape per input, as tuples."""
    return tuple(tuple(one) if isinstance(one, (tuple, list)) else one for one in shape)


def available() -> tuple[str, ...]:
    """Names of the backends that can run on this machine: BACKENDS, without "cudnn" where cuDNN is missing."""
    from ..cudnn import missing

    return tuple(name for name in BACKENDS if name != "cudnn" or missing() is None)


class Network:
    """A network read from an ONNX file, ready to run.

    Thread-safe: calls from several threads run one after the other; a `context` per thread lets them run at once. The
    first call with an input shape allocates its buffers; later calls reuse them.
    """

    def __init__(
        self, model: Any, backend: str | Backend = "kernels", *, passes: Iterable[Any] | None = None,
        replay: bool | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Read a model and prepare its backend.

        model     an ONNX ModelProto or a path
        backend   Kernels(…), Cudnn(…), Torch() or OnnxRuntime(); or its name, one of BACKENDS. In place of Kernels()
                  quantize.Integers() runs a model with QuantizeLinear and DequantizeLinear, in integers; on a GPU, and
                  with `optimize` or `variants`, quantize.IntegerKernels(…), if every layer has an int8 kernel
        passes    the passes to apply to the graph, in order (see passes.resolve); default: the backend's own,
                  `Kernels(…).passes`. For backends "kernels" and "cudnn"
        replay    whether calls replay a CUDA graph, from the third call of an input shape on; the graphs of the last
                  four shapes are kept. Default: on a GPU, and not on the simulator. Without effect for functions of
                  yours, which may do more than launch: `operators`, and registered operators that do more. No other
                  thread may synchronize the whole device during the capture, some milliseconds. For backends
                  "kernels" and "cudnn"
        options   the backend's options, where `backend` is a name: dtype, layout, optimize, variants, operators,
                  arithmetic, input_bound of "kernels"; dtype, layout, arithmetic, tune of "cudnn"

        Raises what topology.read_onnx raises; ValueError for options that a backend does not support, TypeError for
        unknown options, RuntimeError if cuDNN is missing.
        """
        target: Any = backend_of(backend, options)
        self._model = topology.load_model(model)
        graph = topology.read_onnx(self._model)
        target = backend_for(target, graph)
        own = getattr(target, "passes", None)
        if passes is not None and own is None:
            raise ValueError(f"passes: backend {target.name!r} has no choice of it, leave it out")
        pipeline = [] if own is None else resolve(own if passes is None else passes, target)
        self._set(target, graph, target.runner(self._model, pipeline), replay)

    def _set(self, target: Any, graph: topology.Graph, runner: Any, replay: bool | None) -> None:
        if replay and not hasattr(runner, "plan"):
            raise ValueError(f"replay: backend {target.name!r} has no choice of it, leave it out")
        self.target, self.graph, self.runner = target, graph, runner
        self.backend, self.dtype, self.layout = target.name, target.dtype, target.layout
        self.arithmetic = target.arithmetic
        self.optimize: str | None = getattr(getattr(target, "optimize", None), "name", None)
        if hasattr(runner, "plan"):
            runner.replay = cuda.backend() == "gpu" if replay is None else replay
        self._context = ExecutionContext(runner, self.input_shape)

    @property
    def model(self) -> Any:
        """The onnx.ModelProto. ValueError for a loaded network, which has none."""
        if self._model is None:
            raise ValueError("a network that was loaded from a saved plan has no ONNX model")
        return self._model

    def save(self, path: str | os.PathLike, shapes: "Iterable[Signature] | None" = None) -> None:
        """Write the compiled network to a file that `load` reads: weights as they lie in memory, plans, options.

        path     a name that ends in ".plan"; an existing file is replaced once the new one is complete
        shapes   the input shapes (N, C, H, W) to plan, which the loaded network runs; default: the model's own. Of
                 several inputs a tuple of shapes each. From a plan for one image it derives those for other batches,
                 unless tiles were chosen (`optimize`)

        A plan has the results of passes (steps, tiles) and of the memory planner. Functions given as `operators` are
        not saved, only which operators they replace; `load` takes them again.
        ValueError for backends other than "kernels", for a shape that does not fit, for a Composition other than
        "latency" and "throughput", and for a step with a field that is no data or a fusion that is not registered;
        OSError if the file cannot be written.
        """
        from . import saved

        if self.backend != "kernels":
            raise ValueError(f"backend {self.backend!r} cannot be saved, only 'kernels' can")
        wanted = [as_tuple(shape) for shape in ([self.input_shape] if shapes is None else shapes)]
        if not wanted:
            raise ValueError("shapes must have at least one input shape, got none")
        for shape in wanted:
            check_shape(shape, self.input_shape)
        with self._context.lock:
            plans = self.runner.compiled_plans(wanted)
        saved.write(path, self.target, plans)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        *,
        operators: Mapping[str, Callable[..., Any]] | None = None,
        replay: bool | None = None,
    ) -> "Network":
        """The network that `save` wrote to a file, ready to run on the input shapes that `save` names.

        operators: the functions that replace operators, as when it was saved, see Kernels. replay: as of Network; it is
        not saved. Needs no ONNX file, runs no passes and no search; `stages` and `explain` are not possible. Runs no
        code from the file. The logits are those of the saved network, bit for bit, on a card of the same name.
        ValueError, with the file's name, what was expected and what came, for a file of another format, of another
        version of the course, or of another device, compute capability or (with tiles) card; for a damaged file; for
        operators or fusions of modules that are not imported, with the module; OSError if it cannot be opened.
        """
        from . import saved

        target, plans = saved.read(path, operators)
        net = cls.__new__(cls)
        try:
            runner: Any = target.runner(plans, [])
            for shape in plans.plans:
                runner.plan(shape)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from None
        net._model = None
        net._set(target, next(iter(plans.plans.values())).graph, runner, replay)
        return net

    def program(self, shape: "Signature", arena: bool = False) -> "Program":
        """A new program.Program: the network's launches for an input shape (N, C, H, W), over buffers of its own.

        arena: whether activations share one allocation, as in calls of the network; by default each has a buffer of
        its own, so that all can be read after a launch. Calls of the network neither use this program nor wait for it.
        ValueError for backends other than "kernels" and "cudnn", and for a shape that does not fit.
        """
        run = self._stepped("program")
        shape = as_tuple(shape)
        check_shape(shape, self.input_shape)
        with self._context.lock:
            return run.program(shape, arena)

    def plan(self, shape: "Signature | None" = None) -> "Plan":
        """The plan for an input shape (default: the model's own): steps, kernels, memory. `print(net)` shows it.

        Nothing is allocated or launched, so networks larger than the memory can be planned.
        ValueError for backends other than "kernels" and "cudnn", and for a shape that does not fit.
        """
        run = self._stepped("plan")
        shape = as_tuple(shape or self.input_shape)
        check_shape(shape, self.input_shape)
        with self._context.lock:
            return run.plan(shape)

    def stages(self, shape: "Signature | None" = None) -> Iterator[tuple[str, topology.Graph]]:
        """(name, graph): as read, with batch-norms folded, and after each pass. For printing.

        shape: of the input; default: the model's own. ValueError for backends "torch" and "onnxruntime".
        """
        run = self._stepped("passes", "stages")
        shape = as_tuple(shape or self.input_shape)
        check_shape(shape, self.input_shape)
        return run.stages(shape)

    def explain(self, shape: "Signature | None" = None) -> str:
        """A text with the number of layers after each pass, and the matches that fusions refused, with the reasons.

        shape: of the input; default: the model's own. ValueError for backends "torch" and "onnxruntime".
        """
        return self._stepped("passes", "explain").explain(as_tuple(shape or self.input_shape))

    def capture(self, batch: int = 1, size: tuple[int, int] | None = None) -> "Captured":
        """Capture the network for `batch` images in a CUDA graph, which later calls with that shape replay.

        size: (height, width); default: the model's own. Returns a replay.Captured, the graph with its input and
        output arrays, for callers that need neither checks nor copies.
        ValueError for backends other than "kernels" and "cudnn", and for a batch below 1.
        """
        self._stepped("graph")
        return self._context.capture(batch, size)

    def context(self) -> ExecutionContext:
        """A new execution context: called as the network is, with buffers of its own over the network's weights.

        One per thread lets threads run at once; see ExecutionContext for what they share.
        ValueError for backends other than "kernels" and "cudnn".
        """
        return ExecutionContext(self._stepped("context").context(), self.input_shape)

    def profile(self, x: Any, runs: int = 100, placement: "Placement" = "gpu", *, progress: bool = True) -> "Profile":
        """Run the network `runs` times on x, (N, C, H, W); return time and memory of each step and of the copies.

        x           the input; of several inputs a tuple of them
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
        inputs = x if isinstance(x, tuple) else (x,)
        check_inputs(inputs, self.input_shape)
        with self._context.lock:
            return profile(self.runner, inputs, runs, placement, progress)

    def _stepped(self, what: str, method: str = "plan") -> Any:
        if not hasattr(self.runner, method):
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
    def input_shape(self) -> "Signature":
        """(N, C, H, W) as in the file; of several inputs a tuple of such. Calls may use another N, H or W."""
        return self.graph.signature

    def __call__(self, *inputs: Any) -> Any:
        """The network's output for x, as an array of the same library and on the same device: net(x).

        x: (N, C, H, W) of any memory layout, a floating-point NumPy, CuPy or PyTorch array. Returns (N, classes) for a
        classifier, float32. A network of several inputs is called with all of them, in the order of `graph.inputs`, and
        one of several outputs returns a tuple, in the order of `graph.outputs`: a, b = net(x, y).
        TypeError for another number of inputs and what is not a floating-point array, ValueError for a wrong shape.
        """
        return self._context(*inputs)

    def __str__(self) -> str:
        return str(self.plan() if self._planned else self.graph)

    def __repr__(self) -> str:
        how = f", {self.arithmetic}, {self.layout}" if self._planned else ""
        how += f", optimize={self.optimize!r}" if self.optimize else ""
        return f"Network({self.graph.name!r}, backend={self.backend!r}{how}, input_shape={self.input_shape})"
