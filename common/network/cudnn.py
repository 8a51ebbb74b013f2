"""The backend "cudnn": every layer on cuDNN or cuBLAS, by the fastest engines found (chapter 03)."""

from typing import Any

import numpy as np

from .. import cuda, kernels
from ..cuda import layout as layouts
from ..cudnn import library, operators, pooling
from ..kernels import vectors
from ..topology.graph import Signature
from . import registry
from .passes import Pipeline
from .program import Launch, Plan, StepBackend, in_turn
from .registry import Step
from .replay import Captured

Bound = tuple[operators.Call, Launch | None]  # a call that takes the address of scratch memory; a launch before it


class CudnnBackend(StepBackend):
    """A network's steps on common.cudnn; target: backends.Cudnn."""

    name = "cudnn"

    def __init__(self, model: Any, target: Any, pipeline: Pipeline) -> None:
        library.require()
        self._tune, self._arithmetic = target.tune, target.arithmetic
        super().__init__(model, target, pipeline)

    def plan(self, shape: Signature) -> Plan:
        """The plan for an input shape, without tuning.

        Until the network has run at this shape, operators show the engine that cuDNN's heuristics rank first, which
        tuning may replace.
        """
        known = self._captured.get(shape) or self._programs.get(shape)
        if known is not None:
            return known.program.plan if isinstance(known, Captured) else known.plan
        tune, self._tune = self._tune, False
        try:
            return super().plan(shape)
        finally:
            self._tune = tune

    # What operators call: each binds its arrays and returns a Bound

    def convolution(self, *args: Any, **named: Any) -> Bound:
        """A convolution; arguments as of common.cudnn.operators.convolution."""
        return operators.convolution(*args, **named, arithmetic=self._arithmetic, tune=self._tune)[0], None

    def product(self, x: Any, weight: Any, bias: Any, out: Any, before: list[Launch]) -> Bound:
        """out = x · weightᵀ + bias as a 1×1 convolution, after the launches `before`."""
        how: dict[str, Any] = {"arithmetic": self._arithmetic, "tune": self._tune}
        call, _ = operators.gemm_as_convolution_call(x, weight, bias, True, None, out=out, **how)
        return call, in_turn(before) if before else None

    def clamp(self, x: Any, low: float, high: float, out: Any) -> Bound:
        """out = min(max(x, low), high)."""
        node = operators.clamp_node(low, high)
        return operators.elementwise_call(x, [node], {}, out, self._layout, self._tune), None

    def add(self, a: Any, b: Any, out: Any) -> Bound:
        """out = a + b."""
        chain = [operators.Node("add", "b")]
        return operators.elementwise_call(a, chain, {"b": b}, out, self._layout, self._tune), None

    def average(self, x: Any, out: Any) -> Bound:
        """out = the mean of x (N, C, H, W) over height and width."""
        return pooling.pooling_call(x, tuple(x.shape[2:]), out=out)[0], None

    def without_scratch(self, launches: list[Launch], described: str) -> Bound:
        """Launches that need no scratch memory, run in order. described: what runs them, for plans and reports."""
        together = in_turn(launches)
        return operators.Call(lambda _: together(), told=described), None

    def run(self, operator: str, *args: Any, **named: Any) -> Bound:
        """The launches of an operator of common.kernels, for layers that gain nothing from a cuDNN graph.

        args, named: of the operator, as for KernelBackend.run.
        """
        with kernels.recorded() as launches:
            getattr(kernels, operator)(*args, **named)
        return self.without_scratch(list(launches), " + ".join(launch.name for launch in launches))

    def copy(self, x: Any, out: Any, dims: tuple[int, ...] | None = None) -> Launch:
        """A launch that copies x, permuted by `dims` if given, to out, element by element in the logical order."""
        source = x if dims is None else x.transpose(dims)
        target = out if out.shape == source.shape else out.reshape(source.shape)

        def launch() -> None:
            target[...] = source

        return launch

    def rows(self, x: Any) -> tuple[Any, list[Launch]]:
        """(x as C-contiguous (N, rest), launches to run first): a view if x is NCHW, else a new array and its copy."""
        if layouts.has(x, "NCHW"):
            return x.reshape(x.shape[0], -1), []
        flat = cuda.empty((x.shape[0], int(np.prod(x.shape[1:]))), x.dtype)
        return flat, [self.copy(x, flat)]

    def capturable(self, steps: list[Step], bound: list[Bound]) -> bool:
        """Whether all steps are run by operators of this package; a learner's operator may do more than launch."""
        package = __name__.split(".")[0]
        return all(type(registry.operator_of(step)).__module__.split(".")[0] == package for step in steps)

    def finish(self, bound: list[Bound]) -> tuple[list[Launch], list[str]]:
        """The launches of all steps, and what runs each, in words.

        All steps share one scratch allocation, as they run one after the other.
        """
        scratch = cuda.empty(max([1, *(call.scratch for call, _ in bound)]), np.uint8)
        address = vectors.address(scratch)

        def launch_of(call: operators.Call, before: Launch | None) -> Launch:
            def launch() -> None:
                if before:
                    before()
                call(address)
                _ = scratch  # keeps the memory alive as long as its launch

            return launch

        return [launch_of(*entry) for entry in bound], [call.told for call, _ in bound]
