"""The peers: the same MobileNetV2, with the same weights, on PyTorch, XLA through JAX, ONNX Runtime and TensorRT.

    torch-eager     PyTorch, its kernels launched one by one
    torch-graph     the same calls, captured in a CUDA graph once and replayed
    torch-compile   torch.compile(mode="max-autotune") with frozen parameters, which uses CUDA graphs of its own.
                    Compilation takes 5 to 16 minutes, most of it to time Triton's templates for convolutions. The
                    environment variable TORCHINDUCTOR_MAX_AUTOTUNE_CONV_BACKENDS=ATEN excludes them and halves the
                    time; records note it
    xla             JAX: one jitted function, with command buffers, which are XLA's CUDA graphs. "host": called from
                    Python; "loop": LOOPED calls in one loop on the device, so that Python takes no part
    onnxruntime-cuda  ONNX Runtime's CUDA provider, replaying a CUDA graph where it can; with int8 the quantized network
                    in QDQ form, whose convolutions it computes in fp32: it has none in int8. It needs the wheel
                    onnxruntime-gpu in place of onnxruntime
    tensorrt        NVIDIA's TensorRT, in a CUDA graph, wherever its wheel `tensorrt` is installed. It has never been
                    run by the course's authors: only against a stand-in in the tests

Each library has its own switches for the arithmetic of a precision; they are set to mean the same for all:

    fp32    float32 arrays; products and sums without TF32
    tf32    float32 arrays; factors may be rounded to TF32
    fp16    float16 arrays; sums in float32
    int8    the network quantized after training, calibrated on other pictures (Model.quantized)
"""

import abc
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .. import topology, weights
from ..cuda import graphs
from ..cuda.layout import LAYOUTS
from ..measure import timing
from ..measure.roofline import ARITHMETIC
from ..quantize import quantize
from .pictures import pictures

PRECISIONS = ("fp32", "tf32", "fp16")  # that networks in floating point have
INT8 = "int8"
CALIBRATION = 32  # pictures
LOOPED = 20  # calls in a loop on the device


class Unavailable(RuntimeError):
    """An implementation cannot run here; the message is one line with the reason."""


@dataclass(frozen=True)
class Model:
    """The network that every implementation runs: MobileNetV2's layers, batch-norms folded, and float32 parameters."""

    width: float
    num_classes: int
    graph: topology.Graph
    parameters: weights.Parameters

    @classmethod
    def of(cls, source: str = "seeded", input_size: int | None = None) -> "Model":
        """The model of a source of weights. input_size: by default the source's. ValueError for an unknown source."""
        spec = weights.source(source)
        return cls(spec.width, spec.num_classes, *weights.network(source, input_size))

    @property
    def name(self) -> str:
        """The "case" of its records: "mobilenetv2-1.0-224"."""
        return self.graph.name

    @cached_property
    def onnx(self) -> Any:
        """The network as an ONNX ModelProto with a dynamic batch size."""
        return topology.write_onnx(self.graph, self.parameters, dynamic_batch=True)

    @cached_property
    def quantized(self) -> Any:
        """The network in QDQ form, quantized after training, as an ONNX ModelProto with a dynamic batch size.

        Calibrated on CALIBRATION pictures of another seed than those that are timed, by percentiles.
        """
        x = pictures(CALIBRATION, self.graph.input_shape[1:], seed=1)
        return quantize(self.graph, self.parameters, x, ranges="percentile").model()


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Built:
    """An implementation ready to be timed on one input.

    calls: each enqueues the whole network once on the current stream; if there are several, each has its own buffers.
    launches: the ways to time them, see `benchmark`. wait: as for measure.timing.Benchmark.
    loop: runs the whole network LOOPED times, for the launch "loop".
    feed: sets the input of all calls, (N, C, H, W) float32 on the host, of the same shape as before.
    results: returns the logits that each call computed last, (N, classes) float32 on the host.
    poison: overwrites the logits with NaN, if they are in fixed buffers.
    arithmetic, launched_as: as in records; launched_as: the record's "launch" if it is not that of `launches`.
    note: a remark for readers of the time.
    """

    calls: Sequence[Callable[[], Any]]
    launches: tuple[str, ...]
    feed: Callable[[np.ndarray], None]
    results: Callable[[], list[np.ndarray]]
    arithmetic: str
    poison: Callable[[], None] = _nothing
    wait: Callable[[], Any] | None = None
    launched_as: str | None = None
    note: str | None = None
    loop: Callable[[], Any] | None = None

    def run(self) -> list[np.ndarray]:
        """Run every call and return its logits, (N, classes) float32."""
        self.poison()
        for call in self.calls:
            call()
        return self.results()

    def benchmark(self, launch: str) -> timing.Benchmark:
        """The Benchmark for one of `launches`. "graph": each call is captured in its own CUDA graph, and replayed."""
        if launch == "graph":
            # one call per graph, as for the peers, which cannot capture several
            return timing.Benchmark([graphs.capture(call).launch for call in self.calls], "eager")
        if launch == "loop":
            assert self.loop is not None
            return timing.Benchmark(self.loop, "host", self.wait, times=LOOPED)
        return timing.Benchmark(self.calls, launch, self.wait if launch == "host" else None)


@dataclass(frozen=True)
class Peer(abc.ABC):
    """Another implementation, in one precision and memory layout. ValueError for an unknown precision or layout."""

    precision: str = "fp32"
    layout: str = "NCHW"

    implementation: ClassVar[str]
    precisions: ClassVar[tuple[str, ...]] = PRECISIONS

    def __post_init__(self) -> None:
        if self.precision not in self.precisions:
            raise ValueError(f"precision must be one of {', '.join(self.precisions)}, got {self.precision!r}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {self.layout!r}")

    @abc.abstractmethod
    def build(self, model: Model, x: np.ndarray, device: str = "cuda") -> Built:
        """The implementation, ready to run on x (N, C, H, W) float32; x is converted to the precision and layout once.

        device: "cuda", or "cpu" to check results without a GPU. Unavailable if the library or its requirements are
        missing. `switches(precision)` must be active here and whenever a call runs.
        """


# ---- PyTorch


def _torch(device: str) -> Any:
    try:
        import torch
    except ImportError:
        raise Unavailable("PyTorch is not installed: pip install torch") from None
    if device == "cuda" and not torch.cuda.is_available():
        raise Unavailable(f"PyTorch {torch.__version__} sees no GPU")
    return torch


@contextlib.contextmanager
def switches(precision: str) -> Iterator[None]:
    """Context manager that sets PyTorch's process-wide switches for a precision, and restores them at the end.

    torch.backends.cudnn.benchmark is on: cuDNN searches for the fastest algorithm.
    """
    try:
        import torch
    except ImportError:
        yield  # nothing to set without PyTorch
        return
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32, cudnn.benchmark, torch.get_float32_matmul_precision()
    try:
        cudnn.allow_tf32, cudnn.benchmark = precision == "tf32", True
        # for matrix products, in cuBLAS and in the kernels that torch.compile generates
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        yield
    finally:
        cudnn.allow_tf32, cudnn.benchmark = before[:2]
        torch.set_float32_matmul_precision(before[2])


def torch_module(model: Model) -> Any:
    """The network as chapter 01's PyTorch module, in evaluation mode, with the folded parameters."""
    import torch

    module = topology.MobileNetV2(model.width, model.num_classes, batch_norm=False)
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in model.parameters.items()})
    return module.eval().requires_grad_(False)


class TorchEager(Peer):
    """PyTorch, its kernels launched one by one from Python."""

    implementation = "torch-eager"

    def build(self, model: Model, x: np.ndarray, device: str = "cuda") -> Built:
        """As Peer.build."""
        torch = _torch(device)
        module, given, feed = self._prepared(torch, model, x, device)
        last: list[Any] = [None]

        def call() -> None:
            with torch.inference_mode():
                last[0] = module(given)

        def results() -> list[np.ndarray]:
            return [last[0].float().cpu().numpy()]

        return Built([call], ("eager",), feed, results, ARITHMETIC[self.precision])

    def _prepared(
        self, torch: Any, model: Model, x: np.ndarray, device: str
    ) -> tuple[Any, Any, Callable[[np.ndarray], None]]:
        """(module, input, feed): on the device, in the precision and layout; feed writes pictures to the input."""
        kind = torch.float16 if self.precision == "fp16" else torch.float32
        order = torch.channels_last if self.layout == "NHWC" else torch.contiguous_format
        module = torch_module(model).to(device=device, dtype=kind, memory_format=order)
        given = torch.empty(x.shape, device=device, dtype=kind, memory_format=order)

        def feed(images: np.ndarray) -> None:
            given.copy_(torch.from_numpy(images))

        feed(x)
        return module, given, feed


class TorchGraph(TorchEager):
    """PyTorch in a CUDA graph: one replay launches all kernels, on the same memory."""

    implementation = "torch-graph"

    def build(self, model: Model, x: np.ndarray, device: str = "cuda") -> Built:
        """As Peer.build."""
        torch = _torch(device)
        if device != "cuda":
            raise Unavailable(f"torch-graph needs a GPU, got device {device!r}")
        module, given, feed = self._prepared(torch, model, x, device)
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.inference_mode():
            # warm-up: cuDNN's search and lazy initialisation cannot be captured
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    module(given)
            torch.cuda.current_stream().wait_stream(side)
            # other libraries' threads may call CUDA during the capture
            with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
                output = module(given)

        def call() -> None:
            graph.replay()
            _ = module, given  # keeps them alive: the graph holds only their addresses

        def results() -> list[np.ndarray]:
            return [output.float().cpu().numpy()]

        def poison() -> None:
            with torch.inference_mode():
                output.fill_(float("nan"))

        return Built([call], ("eager",), feed, results, ARITHMETIC[self.precision], poison, launched_as="graph")


NO_TEMPLATES = "its search left out Triton's convolutions; with them it may be faster"


class TorchCompile(TorchEager):
    """torch.compile in the mode that times all its candidate kernels for each layer; parameters are frozen.

    Frozen parameters are constants: they are laid out as the chosen kernels want them, once, when it compiles.
    """

    implementation = "torch-compile"

    def build(self, model: Model, x: np.ndarray, device: str = "cuda", backend: str = "inductor") -> Built:
        """As Peer.build. backend: torch.compile's; others than "inductor" test the module without long compilation."""
        torch = _torch(device)
        module, given, feed = self._prepared(torch, model, x, device)
        mode = "max-autotune" if backend == "inductor" else None
        compiled = torch.compile(module, fullgraph=True, dynamic=False, mode=mode, backend=backend)
        torch._dynamo.mark_static_address(given)  # lets its CUDA graph read the input in place, without a copy
        last: list[Any] = [None]

        def call() -> None:
            with torch.no_grad():
                last[0] = compiled(given)

        def results() -> list[np.ndarray]:
            return [last[0].float().cpu().numpy()]

        with frozen(torch, backend):
            for _ in range(3):  # compiles, then captures, then replays
                call()
        searched = backend != "inductor" or "TRITON" in torch._inductor.config.max_autotune_conv_backends
        note = None if searched else NO_TEMPLATES
        return Built([call], ("eager",), feed, results, ARITHMETIC[self.precision], launched_as="graph", note=note)


@contextlib.contextmanager
def frozen(torch: Any, backend: str) -> Iterator[None]:
    """Context manager in which torch.compile treats parameters as constants; other backends have no such option."""
    if backend != "inductor":
        yield
        return
    config = torch._inductor.config
    before = config.freezing
    config.freezing = True
    try:
        yield
    finally:
        config.freezing = before


# ---- XLA


def _jax(device: str) -> Any:
    # set before the import: by default JAX reserves three quarters of the GPU's memory
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax
    except ImportError:
        raise Unavailable('JAX is not installed: pip install "jax[cuda13]"') from None
    try:
        jax.devices(device)
    except RuntimeError:
        raise Unavailable(f"JAX {jax.__version__} sees no device {device!r}, only {jax.default_backend()!r}") from None
    return jax


def jax_function(jax: Any, model: Model, precision: str, layout: str) -> Callable[[Any], Any]:
    """The function to jit: x in that layout, float16 for fp16 and float32 otherwise → logits (N, classes).

    The parameters are constants in it, so that XLA can choose their memory layout at compile time.
    """
    jnp, lax = jax.numpy, jax.lax
    kind = np.float16 if precision == "fp16" else np.float32
    numbers = ("NHWC", "HWIO", "NHWC") if layout == "NHWC" else ("NCHW", "OIHW", "NCHW")
    rows_and_columns = (1, 2) if layout == "NHWC" else (2, 3)
    # on a GPU, DEFAULT allows TF32 for float32 products, HIGHEST does not
    exact = lax.Precision.HIGHEST if precision == "fp32" else lax.Precision.DEFAULT
    constants = {}
    for name, value in model.parameters.items():
        if value.ndim == 4:
            value = value.transpose(2, 3, 1, 0) if layout == "NHWC" else value  # OIHW → HWIO
        constants[name] = np.ascontiguousarray(value, kind)

    def conv2d(layer: topology.Conv2d, x: Any) -> Any:
        x = lax.conv_general_dilated(
            x, constants[layer.weight], layer.stride, layer.padding, rhs_dilation=layer.dilation,
            dimension_numbers=numbers, feature_group_count=layer.groups, precision=exact,
        )  # fmt: skip
        if layer.bias is None:
            return x
        return x + constants[layer.bias].reshape((-1,) if layout == "NHWC" else (-1, 1, 1))

    def linear(layer: topology.Linear, x: Any) -> Any:
        x = jnp.matmul(x.reshape(x.shape[0], -1), constants[layer.weight].T, precision=exact)
        return x if layer.bias is None else x + constants[layer.bias]

    def logits(x: Any) -> Any:
        tensors = {model.graph.input: x}
        for layer in model.graph:
            inputs = [tensors[name] for name in layer.inputs]
            match layer:
                case topology.Conv2d():
                    result = conv2d(layer, *inputs)
                case topology.ReLU6():
                    result = jax.nn.relu6(*inputs)
                case topology.ResidualAdd():
                    result = inputs[0] + inputs[1]
                case topology.GlobalAveragePool():
                    result = inputs[0].mean(rows_and_columns, keepdims=True)
                case topology.Linear():
                    result = linear(layer, *inputs)
                case _:
                    raise Unavailable(f"layer {layer.name!r}: xla runs MobileNetV2's layers, not {layer}")
            tensors[layer.output] = result
        return tensors[model.graph.output]

    return logits


# options of the compiler, the best first: everything in command buffers, also the loop; the compiler's own choice
_COMMANDS = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,CONDITIONAL,WHILE"
COMMAND_BUFFERS: tuple[dict[str, Any], ...] = (
    {"xla_gpu_enable_command_buffer": _COMMANDS, "xla_gpu_graph_min_graph_size": 1},
    {"xla_gpu_graph_min_graph_size": 1},
    {},
)


def compiled_by_xla(jax: Any, function: Callable[..., Any], x: Any, device: str) -> Any:
    """`function` compiled for x, with the first of COMMAND_BUFFERS that this version of XLA knows."""
    lowered = jax.jit(function).lower(x)
    for options in COMMAND_BUFFERS if device == "cuda" else COMMAND_BUFFERS[-1:]:
        try:
            return lowered.compile(compiler_options=options) if options else lowered.compile()
        except Exception:  # an option that it does not know, or of another type
            if not options:
                raise
    raise AssertionError("unreachable")


class Xla(Peer):
    """XLA through JAX: the whole network compiled as one function, on a stream of its own."""

    implementation = "xla"

    def build(self, model: Model, x: np.ndarray, device: str = "cuda") -> Built:
        """As Peer.build."""
        jax = _jax(device)
        kind = np.float16 if self.precision == "fp16" else np.float32
        given: list[Any] = [None]
        last: list[Any] = [None]

        def feed(images: np.ndarray) -> None:
            ordered = images.transpose(0, 2, 3, 1) if self.layout == "NHWC" else images
            given[0] = jax.device_put(np.ascontiguousarray(ordered, kind), jax.devices(device)[0])

        feed(x)
        logits = jax_function(jax, model, self.precision, self.layout)

        def again(x: Any) -> Any:
            def body(_: Any, before: Any) -> Any:
                # what is computed depends on the logits before it, so that it cannot be moved out of the loop
                return logits(jax.lax.optimization_barrier((x, before))[0])

            shape = jax.eval_shape(logits, x)
            return jax.lax.fori_loop(0, LOOPED, body, jax.numpy.zeros(shape.shape, shape.dtype))

        compiled = compiled_by_xla(jax, logits, given[0], device)
        looped = compiled_by_xla(jax, again, given[0], device)

        def call() -> None:
            last[0] = compiled(given[0])

        def loop() -> None:
            last[0] = looped(given[0])

        def wait() -> None:
            last[0].block_until_ready()

        def results() -> list[np.ndarray]:
            return [np.asarray(last[0], np.float32)]

        return Built(
            [call], ("host", "loop"), feed, results, ARITHMETIC[self.precision], wait=wait, loop=loop
        )  # fmt: skip


# ---- ONNX Runtime


def in_halves(proto: Any) -> Any:
    """A model of float32 as one of float16: weights, input and output; a copy."""
    import onnx
    from onnx import numpy_helper

    halved = onnx.ModelProto()
    halved.CopyFrom(proto)
    graph, single, half = halved.graph, onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
    for tensor in graph.initializer:
        if tensor.data_type == single:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == single:
            value.type.tensor_type.elem_type = half
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type == single:
                value = numpy_helper.to_array(attribute.t).astype(np.float16)
                attribute.t.CopyFrom(numpy_helper.from_array(value, attribute.t.name))
    del graph.value_info[:]
    return halved


def onnx_of(model: Model, precision: str) -> bytes:
    """The network in a precision, as the bytes of an ONNX file."""
    proto = model.quantized if precision == INT8 else model.onnx
    return bytes((in_halves(proto) if precision == "fp16" else proto).SerializeToString())


NO_GRAPH = "without a CUDA graph, which this provider refused"


class OnnxRuntimeCuda(Peer):
    """ONNX Runtime on the GPU, input and output in its memory: the model in fp32 or fp16, or with int8 in QDQ form.

    layout: that of the provider's convolutions; the input is NCHW, as the model's.
    """

    implementation = "onnxruntime-cuda"
    precisions = (*PRECISIONS, INT8)
    PROVIDERS: ClassVar[dict[str, str]] = {"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}

    def build(self, model: Model, x: np.ndarray, device: str = "cuda") -> Built:
        """As Peer.build. In int8 the CUDA provider dequantizes, computes convolutions in floats, and quantizes."""
        try:
            import onnxruntime
        except ImportError:
            raise Unavailable("ONNX Runtime is not installed: pip install onnxruntime-gpu") from None
        if device == "cuda" and hasattr(onnxruntime, "preload_dlls"):
            onnxruntime.preload_dlls()  # CUDA's and cuDNN's libraries, out of NVIDIA's wheels or PyTorch's
        provider = self.PROVIDERS[device]
        if provider not in onnxruntime.get_available_providers():
            raise Unavailable(f"ONNX Runtime {onnxruntime.__version__} has no {provider}: pip install onnxruntime-gpu")
        if device == "cpu":
            return self._built(onnxruntime, model, x, device, graph=False)
        try:
            return self._built(onnxruntime, model, x, device, graph=True)
        except Unavailable:
            raise
        except Exception:  # such as a layer that runs on the CPU; its errors have no common base
            return self._built(onnxruntime, model, x, device, graph=False)

    def _built(self, onnxruntime: Any, model: Model, x: np.ndarray, device: str, graph: bool) -> Built:
        options = onnxruntime.SessionOptions()
        if self.precision == INT8:  # on a CPU without VNNI products of bytes are else summed in 16 bits
            options.add_session_config_entry("session.x64quantprecision", "1")
        options.log_severity_level = 4
        provider: Any = self.PROVIDERS[device]
        how = [provider]
        if device == "cuda":
            how = [(provider, self.options(graph)), "CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(onnx_of(model, self.precision), options, how)
        if provider not in session.get_providers():
            raise Unavailable(f"ONNX Runtime {onnxruntime.__version__} could not start {provider}")
        binding, (result,) = session.io_binding(), session.get_outputs()
        kind = np.float16 if self.precision == "fp16" else np.float32
        given = onnxruntime.OrtValue.ortvalue_from_numpy(np.array(x, kind, order="C"), device, 0)
        # a CUDA graph writes to the place that was bound when it was captured
        empty = np.full((len(x), model.num_classes), np.nan, kind)
        output = onnxruntime.OrtValue.ortvalue_from_shape_and_type(empty.shape, kind, device, 0)
        binding.bind_ortvalue_input(session.get_inputs()[0].name, given)
        binding.bind_ortvalue_output(result.name, output)

        def feed(images: np.ndarray) -> None:
            given.update_inplace(np.ascontiguousarray(images, kind))

        def call() -> None:
            session.run_with_iobinding(binding)

        def results() -> list[np.ndarray]:
            return [output.numpy().astype(np.float32)]

        def poison() -> None:
            output.update_inplace(empty)

        for _ in range(3 if graph else 0):  # searches, then captures, then replays
            call()
        arithmetic = ARITHMETIC["fp32" if self.precision == INT8 and device == "cuda" else self.precision]
        return Built(
            [call], ("host",), feed, results, arithmetic, poison, wait=binding.synchronize_outputs,
            launched_as="graph" if graph else None, note=None if graph or device == "cpu" else NO_GRAPH,
        )  # fmt: skip

    def options(self, graph: bool) -> dict[str, str]:
        """The provider's options: the fastest algorithm of a search, TF32 only where the precision says so."""
        return {
            "use_tf32": "1" if self.precision == "tf32" else "0",
            "prefer_nhwc": "1" if self.layout == "NHWC" else "0",
            "cudnn_conv_algo_search": "EXHAUSTIVE",
            "cudnn_conv_use_max_workspace": "1",
            "enable_cuda_graph": "1" if graph else "0",
        }


# ---- TensorRT


class TensorRt(Peer):
    """NVIDIA's TensorRT: an engine built from the ONNX file for one batch size. It chooses layouts itself."""

    implementation = "tensorrt"
    precisions = (*PRECISIONS, INT8)

    def build(self, model: Model, x: np.ndarray, device: str = "cuda") -> Built:
        """As Peer.build. RuntimeError with TensorRT's own words if it cannot read the file or build an engine."""
        try:
            import tensorrt
        except ImportError:
            raise Unavailable("TensorRT is not installed: pip install tensorrt") from None
        torch = _torch(device)
        logger = tensorrt.Logger(tensorrt.Logger.ERROR)
        builder = tensorrt.Builder(logger)
        flags = tensorrt.NetworkDefinitionCreationFlag
        # strongly typed: every layer in the type that the file says
        network = builder.create_network(1 << int(flags.STRONGLY_TYPED))
        parser = tensorrt.OnnxParser(network, logger)
        if not parser.parse(onnx_of(model, self.precision)):
            why = "; ".join(str(parser.get_error(i)) for i in range(parser.num_errors))
            raise RuntimeError(f"TensorRT cannot read the network: {why}")
        config = builder.create_builder_config()
        if self.precision == "tf32":
            config.set_flag(tensorrt.BuilderFlag.TF32)
        else:
            config.clear_flag(tensorrt.BuilderFlag.TF32)
        profile = builder.create_optimization_profile()
        name = network.get_input(0).name
        profile.set_shape(name, x.shape, x.shape, x.shape)
        config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise RuntimeError("TensorRT built no engine")
        engine = tensorrt.Runtime(logger).deserialize_cuda_engine(plan)
        context = engine.create_execution_context()
        kind = torch.float16 if self.precision == "fp16" else torch.float32
        given = torch.from_numpy(x).to(device=device, dtype=kind, copy=True)
        output = torch.full((len(x), model.num_classes), float("nan"), dtype=kind, device=device)
        context.set_input_shape(name, x.shape)
        context.set_tensor_address(name, given.data_ptr())
        context.set_tensor_address(network.get_output(0).name, output.data_ptr())

        def call() -> None:
            context.execute_async_v3(torch.cuda.current_stream().cuda_stream if device == "cuda" else 0)
            _ = engine, plan  # keeps them alive

        def feed(images: np.ndarray) -> None:
            given.copy_(torch.from_numpy(images))

        def results() -> list[np.ndarray]:
            return [output.float().cpu().numpy()]

        def poison() -> None:
            output.fill_(float("nan"))

        return Built([call], ("graph",), feed, results, ARITHMETIC[self.precision], poison)


PEERS: dict[str, type[Peer]] = {
    peer.implementation: peer  # in the order of tables
    for peer in (TorchEager, TorchGraph, TorchCompile, Xla, OnnxRuntimeCuda, TensorRt)
}
