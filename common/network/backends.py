"""Backends as objects, each with the options that it has: what a network runs on, and how.

    Network(model, Kernels(dtype="fp16", optimize="latency"))
    Network(model, "kernels", dtype="fp16", optimize="latency")     the same, in short

An object checks its options when it is made, and makes the runner of a model when a Network is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Protocol

from .. import cuda
from .passes import DEFAULT, Pipeline

DTYPES = ("fp32", "fp16")

# What `optimize` names, "module:object" as in a package's entry points: imported when asked for, so that what makes
# networks fast can build on this package and need not be part of it. An object given in place of a name needs no entry.
COMPOSITIONS = {
    "latency": "common.optimize.compositions:LATENCY",
    "throughput": "common.optimize.compositions:THROUGHPUT",
}


class Runner(Protocol):
    """Runs a network on one array (N, C, H, W), float32, and returns its output as a NumPy or CuPy array."""

    def __call__(self, x: Any) -> Any: ...


class Backend(Protocol):
    """A backend's options. name: what messages and the shorthand call it."""

    name: ClassVar[str]

    def runner(self, model: Any, pipeline: Pipeline) -> Runner:
        """What runs a model, an onnx.ModelProto; pipeline: the passes, with their names."""
        ...


@dataclass(frozen=True)
class Kernels:
    """The kernels of this course, on a GPU or on the simulator.

    dtype: "fp32" or "fp16", of weights and activations in memory. layout: "NCHW" or "NHWC"; None: NHWC on a GPU, where
    most kernels are faster so, and with `optimize`, which needs it, else NCHW.
    optimize: "latency" for the shortest time of one picture, "throughput" for the most pictures in a second, or a
    composition of your own, see common.optimize.compositions.
    variants: the rung to use for an operator, {"pointwise": "naive"}, where it takes the arrays; else the fastest.
    operators: functions to run in the place of an operator of common.kernels, {"global_avg_pool": mine}, with the same
    arguments: arrays of the backend, `out` among them, which they must write. In NHWC their strides say so; a kernel is
    given common.cuda.layout.as_stored(x), which has the order of memory. Of "add", "multiply", "clamp" and "activate"
    `out` may be an input. Convolutions of an operator in `variants` or `operators` stay out of fused blocks.
    """

    dtype: str = "fp32"
    layout: str | None = None
    optimize: Any = None
    variants: Mapping[str, str] | None = None
    operators: Mapping[str, Callable[..., Any]] | None = None
    name: ClassVar[str] = "kernels"

    def __post_init__(self) -> None:
        _one_of("dtype", self.dtype, DTYPES)
        _one_of("layout", self.layout, (None, *cuda.LAYOUTS))
        object.__setattr__(self, "optimize", composition(self.optimize))
        if self.layout is None:
            channels_last = self.optimize is not None or cuda.backend() == "gpu"
            object.__setattr__(self, "layout", "NHWC" if channels_last else "NCHW")
        if self.optimize is not None and self.layout != "NHWC":
            raise ValueError(f"layout must be NHWC with optimize={self.optimize.name!r}, got {self.layout}")
        if self.variants or self.operators:
            self._check_replacements()

    def _check_replacements(self) -> None:
        from .. import kernels

        for operator, variant in (self.variants or {}).items():
            if variant not in kernels.variants(operator):  # which names an unknown operator
                raise ValueError(
                    f"variants: {operator!r} must be one of {', '.join(kernels.variants(operator))}, got {variant!r}"
                )
        for operator, function in (self.operators or {}).items():
            if operator not in kernels.OPERATORS:
                raise ValueError(f"operators: must be of {', '.join(kernels.OPERATORS)}, got {operator!r}")
            if not callable(function):
                raise TypeError(f"operators: {operator!r} must be a function, got {type(function).__name__}")

    @property
    def arithmetic(self) -> str:
        """What products are computed in: that of the dtype."""
        return self.dtype

    def replaces(self, operator: str) -> bool:
        """Whether a rung or a function was given for an operator of common.kernels."""
        return operator in (self.variants or ()) or operator in (self.operators or ())

    @property
    def passes(self) -> tuple[Any, ...]:
        """What is done with a graph where a Network is given no passes."""
        return (*DEFAULT, *(self.optimize.passes if self.optimize else ()))

    def runner(self, model: Any, pipeline: Pipeline) -> Runner:
        from .kernels import KernelBackend

        return KernelBackend(model, self, pipeline)


@dataclass(frozen=True)
class Cudnn:
    """NVIDIA's libraries, cuDNN and cuBLAS, on a GPU.

    dtype, layout: as of Kernels, NCHW without one. arithmetic, tune: as in common.cudnn; arithmetic is that of the
    dtype without one.
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
        """What is done with a graph where a Network is given no passes."""
        return DEFAULT

    def runner(self, model: Any, pipeline: Pipeline) -> Runner:
        from .cudnn import CudnnBackend

        return CudnnBackend(model, self, pipeline)


class _Plain:
    """What backends without options say of themselves."""

    dtype: ClassVar[str] = "fp32"
    layout: ClassVar[str] = "NCHW"
    arithmetic: ClassVar[str] = "fp32"


@dataclass(frozen=True)
class Torch(_Plain):
    """PyTorch, layer by layer in float32, on the CPU, or on a GPU where there is one that it knows."""

    name: ClassVar[str] = "torch"

    def runner(self, model: Any, pipeline: Pipeline) -> Runner:
        from .reference import TorchBackend

        return TorchBackend(model)


@dataclass(frozen=True)
class OnnxRuntime(_Plain):
    """ONNX Runtime on the CPU, in float32: the reference."""

    name: ClassVar[str] = "onnxruntime"

    def runner(self, model: Any, pipeline: Pipeline) -> Runner:
        from .reference import OnnxRuntimeBackend

        return OnnxRuntimeBackend(model)


BACKENDS: dict[str, Any] = {kind.name: kind for kind in (Kernels, Cudnn, Torch, OnnxRuntime)}
_DEFAULTS = {one.name: one.default for kind in BACKENDS.values() for one in fields(kind)}


def choices(backend: str) -> tuple[str, ...]:
    """The options of a backend by name; none of an unknown one."""
    return tuple(one.name for one in fields(BACKENDS[backend])) if backend in BACKENDS else ()


def backend_of(backend: Any, options: Mapping[str, Any]) -> Any:
    """The backend of a name and options, or the object given.

    TypeError for what is neither, for an option that no backend has, and for options beside an object; ValueError for
    an unknown name and for what the backend cannot do.
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
    if "arithmetic" in given and "arithmetic" not in own:  # which other backends have none but that of the dtype
        _check_arithmetic(backend, dtype, given.pop("arithmetic"))
    for name in given:
        if name not in own:
            raise ValueError(f"{name}: backend {backend!r} has no choice of it, leave it out")
    return BACKENDS[backend](**given)


def composition(optimize: Any) -> Any:
    """What `optimize` stands for: a composition of that name, or the one given. None stays None.

    ValueError for an unknown name, TypeError for what is neither a name nor a composition.
    """
    if optimize is None or hasattr(optimize, "passes"):
        return optimize
    if not isinstance(optimize, str):
        raise TypeError(f"optimize must be a name, a Composition or None, got {type(optimize).__name__}")
    if optimize not in COMPOSITIONS:
        raise ValueError(f"optimize must be one of {', '.join(COMPOSITIONS)} or None, got {optimize!r}")
    module, _, name = COMPOSITIONS[optimize].partition(":")
    return getattr(import_module(module), name)


def _one_of(name: str, value: Any, allowed: tuple) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(one for one in allowed if one)}, got {value!r}")


def _check_arithmetic(backend: str, dtype: str, arithmetic: str) -> None:
    able = {"fp32": ("fp32", "tf32"), "fp16": ("fp16",)}[dtype] if backend == "cudnn" else (dtype,)
    if arithmetic not in able:
        raise ValueError(
            f"arithmetic of backend {backend!r} with dtype {dtype!r} must be {' or '.join(able)}, got {arithmetic!r}"
        )
