"""The backend "kernels": every layer on the CUDA C++ of this course, on a GPU or on the simulator."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .. import cuda, kernels, topology
from ..cuda import layout as layouts
from ..kernels.halves import Halves
from ..kernels.ladder import HostStep, prepared
from .operators import kernel_of
from .passes import Pipeline
from .program import Launch, StepBackend, in_turn
from .ranges import Range, ranges
from .registry import Step, layers_of

Operator = Callable[..., Any]

MULTIPLY = ("conv2d", "gemm", "pointwise")  # operators of common.kernels with a choice of arithmetic

# The least of the largest weights of an output, of the largest of all, for which halves lose less than a float does:
# of the largest they lose at most 2^-39
LEAST_ROW = 2.0**-15
LARGEST_WEIGHT = 2.0**60  # for which scale_of has a power of two


def _are_alike(weight: np.ndarray) -> bool:
    """Whether one scale suits the weights (O, …) of all outputs; not if one of them is infinite or no number."""
    rows = np.abs(weight).max((1, 2, 3))
    return bool(rows.max() <= LARGEST_WEIGHT and (rows[rows > 0] >= LEAST_ROW * rows.max()).all())


class Named(Protocol):
    """A launch with a name: "pointwise/split_k"."""

    name: str

    def __call__(self) -> None:
        """Enqueue the launch."""
        ...


class KernelBackend(StepBackend):
    """A network's steps on common.kernels and on the kernels of fusions. target: backends.Kernels."""

    name = "kernels"
    shares = True

    def __init__(self, model: Any, target: Any, pipeline: Pipeline) -> None:
        self.composition = target.optimize
        self.composed = self.composition.name if self.composition else None
        self._programmatic = bool(self.composition and self.composition.overlaps)
        super().__init__(model, target, pipeline)

    def ready(self, graph: topology.Graph) -> None:
        self.ranges: dict[str, Range] = {}
        self.halves: dict[str, Halves] = {}
        if not self.target.by_halves:
            return
        parameters = {name: cuda.asnumpy(array) for name, array in self.parameters.items()}
        self.ranges = ranges(graph, parameters, self.target.input_bound)
        for layer in layers_of(graph):
            if isinstance(layer, topology.Conv2d) and kernel_of(layer) == "pointwise":
                self._split(layer, parameters[layer.weight])

    def _split(self, layer: topology.Conv2d, weight: np.ndarray) -> None:
        """Adds the Halves of a layer whose input has a useful range, and whose rows of weights are alike enough."""
        bound = self.bound(layer.inputs[0])
        if bound is not None and _are_alike(weight):
            self.halves[layer.name] = Halves.of(self.parameters[layer.weight], bound)

    def may_be_halves(self, layer: topology.Conv2d) -> bool:
        """Whether a fused block may multiply by halves for a layer: by their bound, or as a stem, which measures."""
        if kernel_of(layer) == "pointwise":
            return layer.name in self.halves
        return self.target.by_halves and _are_alike(cuda.asnumpy(self.parameters[layer.weight]))

    def bound(self, tensor: str) -> float | None:
        """What no element of a tensor exceeds in magnitude, if products of it may be by halves, else None."""
        found = self.ranges.get(tensor)
        return found.bound if found is not None and found.fits_halves else None

    def products(self, operator: str, layer: Any) -> dict[str, Any]:
        """The argument `arithmetic` of an operator for a layer, {"arithmetic": …}; {} where it has no choice."""
        named = self.target.arithmetic
        if self.target.replaces(operator) or operator not in MULTIPLY:
            return {}
        if self.target.by_halves:
            return {"arithmetic": self.halves[layer.name]} if layer.name in self.halves else {}
        return {"arithmetic": named} if named in ("fma", "tf32x3") else {}

    def run(self, operator: str, *args: Any, **named: Any) -> list[Named]:
        """The launches of an operator of common.kernels, or the call of the function that replaces it.

        args, named: of the operator; the first argument is an array, or a list of arrays.
        """
        if operator in (self.target.operators or ()):
            function = self.target.operators[operator]
            return [_Call(function, args, named)]
        variant = (self.target.variants or {}).get(operator)
        x = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
        layout = "NCHW" if layouts.has(x, "NCHW") else "NHWC"
        if variant is not None and variant in kernels.variants(operator, x.dtype, layout):
            named["variant"] = variant
        with kernels.recorded(self._programmatic) as launches:
            getattr(kernels, operator)(*args, **named)
        return list(launches)

    def fused(self, operator: Operator, *args: Any, **named: Any) -> list[Named]:
        """The launches of a function of common.optimize, called with `programmatic` as this composition has it."""
        with kernels.recorded(self._programmatic) as launches:
            operator(*args, **named, programmatic=self._programmatic)
        return list(launches)

    def launch(
        self, name: str, kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...],
        shared_mem: int = 0,
    ) -> list[Named]:  # fmt: skip
        """The launch of a cuda.RawKernel, `name` in plans. Pass NHWC arrays through layouts.as_stored or flat."""
        with kernels.recorded() as launches:
            prepared(name, lambda: kernel)(grid, block, args, shared_mem=shared_mem)
        return list(launches)

    def rows(self, x: Any) -> tuple[Any, list[Named]]:
        """(x as (N, features) in the logical order, launches to run first): a view if x is NCHW, else a copy."""
        before: list[Named] = []
        if not layouts.has(x, "NCHW"):
            source, x = x, cuda.workspace(x.shape, x.dtype)
            before = self.permute(source, x, (0, 1, 2, 3))
        return x.reshape(len(x), -1), before

    def permute(self, x: Any, out: Any, dims: tuple[int, ...]) -> list[Named]:
        """The launches that write x, its dimensions permuted by `dims`, to out in the logical order of elements."""
        shape = tuple(x.shape[dim] for dim in dims)
        if layouts.has(out, "NCHW"):
            return self.run("permute", x, dims, out=out.reshape(shape))
        if shape != out.shape:  # reshape between layouts: through an array in the logical order
            between = cuda.workspace(shape, x.dtype)
            return [
                *self.run("permute", x, dims, out=between),
                *self.permute(between.reshape(out.shape), out, (0, 1, 2, 3)),
            ]
        stored = tuple(dims[i] for i in (0, 2, 3, 1))
        return self.run("permute", x, stored, out=layouts.as_stored(out))

    def single_launch(self, graph: topology.Graph, buffers: dict[str, Any]) -> Launch | None:
        return self.composition.single_launch(self, graph, buffers) if self.composition else None

    def compile(self, bound: list[list[Named]]) -> None:
        kernels.compile_together(launch for launches in bound for launch in launches)

    def capturable(self, steps: list[Step], bound: list[list[Named]]) -> bool:
        """Whether all are prepared launches; a learner's function may do anything else."""
        return all(isinstance(launch, (kernels.Launch, HostStep)) for launches in bound for launch in launches)

    def finish(self, bound: list[list[Named]]) -> tuple[list[Launch], list[str]]:
        names = [" + ".join(launch.name for launch in launches) or "no launch" for launches in bound]
        return [in_turn(launches) for launches in bound], names


class _Call:
    """A learner's function in place of an operator."""

    def __init__(self, function: Operator, args: tuple, named: dict[str, Any]) -> None:
        self.name = f"{getattr(function, '__name__', 'function')} (yours)"
        self._function, self._args, self._named = function, args, named

    def __call__(self) -> None:
        self._function(*self._args, **self._named)
