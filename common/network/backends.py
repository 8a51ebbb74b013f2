"""Backends: objects that hold the options of what runs a network.

    Network(model, Kernels(dtype="fp16", optimize="latency"))
    Network(model, "kernels", dtype="fp16", optimize="latency")     the same, by name

A backend checks its options in its constructor; Network calls its `runner` with the model.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Protocol

from .. import cuda
from ..text import PACKAGE_NAME
from ..topology.graph import Graph
from ..topology.layers import Dequantize, Quantize
from .passes import DEFAULT, Pipeline

DTYPES = ("fp32", "fp16")

# Names for `arithmetic`, by backend and dtype; of the other backends only that of the dtype
ARITHMETICS: dict[str, dict[str, tuple[str, ...]]] = {
    "kernels": {"fp32": ("fp32", "tf32x3", "halves", "fma")},
    "cudnn": {"fp32": ("fp32", "tf32")},
}

# Names for `optimize`, as "module:object" like entry points. Imported on use, because common.optimize depends on this
# package. A Composition object can be given instead of a name.
COMPOSITIONS = {
    "latency": f"{PACKAGE_NAME}.optimize.compositions:LATENCY",
    "throughput": f"{PACKAGE_NAME}.optimize.compositions:THROUGHPUT",
}

# the backends of quantized models, likewise: on a CPU, and on the int8 kernels
QUANTIZED = f"{PACKAGE_NAME}.quantize.backend:Integers"
QUANTIZED_KERNELS = f"{PACKAGE_NAME}.quantize.kernels:IntegerKernels"


class Runner(Protocol):
    """What runs a network."""

    def __call__(self, *inputs: Any) -> Any:
        """The output, a float32 NumPy or CuPy array, for an input (N, C, H, W); of several outputs a tuple."""
        ...


class Backend(Protocol):
    """A backend's options. name: as in BACKENDS and in messages."""

    name: ClassVar[str]

    def runner(self, model: Any, pipeline: Pipeline) -> Runner:
        """The runner of a model (an onnx.ModelProto). pipeline: the passes to apply, with their names."""
        ...


@dataclass(frozen=True)
class Kernels:
    """The kernels of this course, on a GPU or on the simulator.

    dtype       "fp32" or "fp16": of weights and activations in memory
    layout      "NCHW" or "NHWC"; None: NHWC on a GPU, where most kernels are faster in it, and with `optimize`, which
                requires it; else NCHW
    optimize    "latency" (least time for one image), "throughput" (most images per second), or a Composition, see
                common.optimize.compositions
    variants    the rung to use for an operator, {"pointwise": "naive"}, where it supports the arrays; else the fastest
    arithmetic  of products in fp32: "fp32", what is fastest with fp32's accuracy: in NHWC on a GPU and with `optimize`
                as "halves", else FMA units or three products of TF32 numbers; "halves", three products of halves for
                1×1 convolutions whose input has a bound that ranges.py finds useful, and elsewhere FMA units or TF32
                numbers; "tf32x3", three products of TF32 numbers; "fma", without tensor cores. Default: that of the
                dtype
    input_bound with products of halves, a bound on the magnitudes of the network's inputs, which its first layers may
                need. Logits of inputs beyond it may be NaN
    operators   functions that replace operators of common.kernels, {"global_avg_pool": mine}, called with the same
                arguments: arrays of the backend, among them `out`, which they must write. NHWC arrays have logical
                shape (N, C, H, W) and NHWC strides; pass common.cuda.layout.as_stored(x) to a kernel. For "add",
                "binary", "multiply", "clamp" and "activate" `out` may alias an input

    Convolutions whose operator is in `variants` or `operators` are not fused into blocks, and have the arithmetic of
    that rung or function. A block that `optimize` fuses multiplies by halves where both its 1×1 convolutions may
    (a stem, which measures its image, always may), else by TF32 numbers; with "fma" none are fused.
    ValueError and TypeError from the constructor for options that do not fit.
    """

    dtype: str = "fp32"
    layout: str | None = None
    optimize: Any = None
    variants: Mapping[str, str] | None = None
    operators: Mapping[str, Callable[..., Any]] | None = None
    arithmetic: str | None = None
    input_bound: float | None = None
    name: ClassVar[str] = "kernels"

    def __post_init__(self) -> None:
        _one_of("dtype", self.dtype, DTYPES)
        _one_of("layout", self.layout, (None, *cuda.LAYOUTS))
        object.__setattr__(self, "optimize", composition(self.optimize))
        object.__setattr__(self, "arithmetic", self.arithmetic or self.dtype)
        _check_arithmetic(self.name, self.dtype, str(self.arithmetic))
        on_tensor_cores = self.arithmetic in ("tf32x3", "halves")
        if on_tensor_cores and cuda.compute_capability() < 80:
            here = cuda.compute_capability()
            raise ValueError(f"arithmetic {self.arithmetic!r} needs a card of sm_80, this one is sm_{here}")
        if self.layout is None:
            channels_last = self.optimize is not None or on_tensor_cores or cuda.backend() == "gpu"
            object.__setattr__(self, "layout", "NHWC" if channels_last else "NCHW")
        if self.optimize is not None and self.layout != "NHWC":
            raise ValueError(f"layout must be NHWC with optimize={self.optimize.name!r}, got {self.layout}")
        if on_tensor_cores and self.layout != "NHWC":
            raise ValueError(f"layout must be NHWC with arithmetic={self.arithmetic!r}, got {self.layout}")
        self._check_input_bound()
        if self.variants or self.operators:
            self._check_replacements()

    def _check_input_bound(self) -> None:
        bound = self.input_bound
        if bound is None:
            return
        if not self.by_halves:
            raise ValueError(
                f"input_bound: only products of halves take it, got it with arithmetic {self.arithmetic!r}"
            )
        if isinstance(bound, bool) or not isinstance(bound, (int, float)):
            raise TypeError(f"input_bound must be a number, got {type(bound).__name__}")
        if not 0 < bound < math.inf:
            raise ValueError(f"input_bound must be a positive magnitude, got {bound}")

    def _check_replacements(self) -> None:
        from .. import kernels

        for operator, variant in (self.variants or {}).items():
            if variant not in kernels.variants(operator):  # raises for an unknown operator
                raise ValueError(
                    f"variants: {operator!r} must be one of {', '.join(kernels.variants(operator))}, got {variant!r}"
                )
        for operator, function in (self.operators or {}).items():
            if operator not in kernels.OPERATORS:
                raise ValueError(f"operators: must be of {', '.join(kernels.OPERATORS)}, got {operator!r}")
            if not callable(function):
                raise TypeError(f"operators: {operator!r} must be a function, got {type(function).__name__}")

    def replaces(self, operator: str) -> bool:
        """Whether `variants` or `operators` has an entry for an operator of common.kernels."""
        return operator in (self.variants or ()) or operator in (self.operators or ())

    @property
    def by_halves(self) -> bool:
        """Whether 1×1 convolutions are three products of halves where a bound allows it."""
        if self.arithmetic != "fp32" or self.layout != "NHWC" or cuda.compute_capability() < 80:
            return self.arithmetic == "halves"
        return self.optimize is not None or cuda.backend() == "gpu"

    @property
    def passes(self) -> tuple[Any, ...]:
        """The default passes of a Network on this backend."""
        return (*DEFAULT, *(self.optimize.passes if self.optimize else ()))

    def runner(self, model: Any, pipeline: Pipeline) -> Runner:
        """The runner of a model, see Backend.runner; or of program.CompiledPlans, with an empty pipeline."""
        from .kernels import KernelBackend

        return KernelBackend(model, self, pipeline)


@dataclass(frozen=True)
class Cudnn:
    """NVIDIA's libraries, cuDNN and cuBLAS, on a GPU.

    dtype, layout: as for Kernels; the default layout is NCHW. arithmetic, tune: as in common.cudnn; the default
    arithmetic is that of the dtype. ValueError from the constructor for options that do not fit.
    """

    dtype: str = "fp32"
    layout: str | None = None
    arithmetic: str | None = None
    tune: bool | int = False
    name: ClassVar[str] = "cudnn"

    def __post_init__(self) -> None:
        _one_of("dtype", self.dtype, DTYPES)
        _one_of("layout", self.layout, (None, *cuda.LAYOUTS))
        object.__setattr__(self, "layout", self.layout or "NCHW")
        object.__setattr__(self, "arithmetic", self.arithmetic or self.dtype)
        _check_arithmetic(self.name, self.dtype, str(self.arithmetic))

    @property
    def passes(self) -> tuple[Any, ...]:
        """The default passes of a Network on this backend."""
        return DEFAULT

    def runner(self, model: Any, pipeline: Pipeline) -> Runner:
        """The runner of a model, see Backend.runner."""
        from .cudnn import CudnnBackend

        return CudnnBackend(model, self, pipeline)


class _Plain:
    """Attributes of the backends without options: float32 in NCHW."""

    dtype: ClassVar[str] = "fp32"
    layout: ClassVar[str] = "NCHW"
    arithmetic: ClassVar[str] = "fp32"


@dataclass(frozen=True)
class Torch(_Plain):
    """PyTorch, layer by layer in float32, on the GPU if PyTorch has one, else on the CPU."""

    name: ClassVar[str] = "torch"

    def runner(self, model: Any, pipeline: Pipeline) -> Runner:
        """The runner of a model, see Backend.runner."""
        from .reference import TorchBackend

        return TorchBackend(model)


@dataclass(frozen=True)
class OnnxRuntime(_Plain):
    """ONNX Runtime on the CPU, in float32: the reference."""

    name: ClassVar[str] = "onnxruntime"

    def runner(self, model: Any, pipeline: Pipeline) -> Runner:
        """The runner of a model, see Backend.runner."""
        from .reference import OnnxRuntimeBackend

        return OnnxRuntimeBackend(model)


BACKENDS: dict[str, Any] = {kind.name: kind for kind in (Kernels, Cudnn, Torch, OnnxRuntime)}
_DEFAULTS = {one.name: one.default for kind in BACKENDS.values() for one in fields(kind)}


def choices(backend: str) -> tuple[str, ...]:
    """The names of a backend's options; empty for an unknown backend."""
    return tuple(one.name for one in fields(BACKENDS[backend])) if backend in BACKENDS else ()


def backend_of(backend: Any, options: Mapping[str, Any]) -> Any:
    """The backend object for a name and its options, or `backend` itself if it is one.

    TypeError if it is neither, for an option that no backend has, and for options together with an object; ValueError
    for an unknown name and for options that the backend does not support.
    """
    if unknown := [name for name in options if name not in _DEFAULTS]:
        raise TypeError(f"{unknown[0]} is no option of a Network: they are {', '.join(_DEFAULTS)}")
    if not isinstance(backend, str):
        if isinstance(backend, type) or not callable(getattr(backend, "runner", None)):
            names = ", ".join(BACKENDS)
            raise TypeError(f"backend must be one of {names}, or an object such as Kernels(), got {backend!r}")
        if options:
            raise TypeError(f"{next(iter(options))}: must be given to {type(backend).__name__}(…), got it beside it")
        return backend
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    own = choices(backend)
    given = {name: value for name, value in options.items() if name in own or value != _DEFAULTS[name]}
    dtype = given.get("dtype", "fp32")
    _one_of("dtype", dtype, DTYPES)
    _one_of("layout", given.get("layout"), (None, *cuda.LAYOUTS))
    if "arithmetic" in given and "arithmetic" not in own:  # elsewhere only that of the dtype is allowed
        _check_arithmetic(backend, dtype, given.pop("arithmetic"))
    for name in given:
        if name not in own:
            raise ValueError(f"{name}: backend {backend!r} has no choice of it, leave it out")
    return BACKENDS[backend](**given)


def backend_for(target: Any, graph: Graph) -> Any:
    """The backend that runs a graph: `target`, or for a graph with quantized layers another one in place of Kernels.

    That is IntegerKernels with `optimize` or `variants`, and on a GPU where every layer has a kernel; else Integers.
    ValueError for options of Kernels that quantized models do not have.
    """
    if not isinstance(target, Kernels) or not is_quantized(graph):
        return target
    if target.operators:
        raise ValueError("operators: a quantized model has no choice of it, leave it out")
    if target.dtype != "fp32":
        raise ValueError(f"dtype: a quantized model runs in int8, leave it out, got {target.dtype!r}")
    on_kernels = _imported(QUANTIZED_KERNELS)
    if target.optimize or target.variants:
        return on_kernels(optimize=target.optimize, variants=target.variants)
    if cuda.backend() == "gpu" and on_kernels.able(graph):
        return on_kernels()
    return _imported(QUANTIZED)()


def is_quantized(graph: Graph) -> bool:
    """Whether a graph has quantized layers."""
    return any(isinstance(layer, Quantize | Dequantize) for layer in graph)


def _imported(place: str) -> Any:
    """The object at "module:object"."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def composition(optimize: Any) -> Any:
    """The Composition for `optimize`: a name of COMPOSITIONS, a Composition, or None, which stays None.

    ValueError for an unknown name, TypeError for anything else.
    """
    if optimize is None or hasattr(optimize, "passes"):
        return optimize
    if not isinstance(optimize, str):
        raise TypeError(f"optimize must be a name, a Composition or None, got {type(optimize).__name__}")
    if optimize not in COMPOSITIONS:
        raise ValueError(f"optimize must be one of {', '.join(COMPOSITIONS)} or None, got {optimize!r}")
    return _imported(COMPOSITIONS[optimize])


def _one_of(name: str, value: Any, allowed: tuple) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(one for one in allowed if one)}, got {value!r}")


def _check_arithmetic(backend: str, dtype: str, arithmetic: str) -> None:
    able = ARITHMETICS.get(backend, {}).get(dtype, (dtype,))
    if arithmetic not in able:
        raise ValueError(
            f"arithmetic of backend {backend!r} with dtype {dtype!r} must be {' or '.join(able)}, got {arithmetic!r}"
        )
