"""The backend "cudnn": every layer on NVIDIA's libraries, as fast as they can be asked to run it (chapter 03)."""

from typing import Any

import numpy as np

from .. import cuda
from ..cuda import layout as layouts
from ..cudnn import library, operators, pooling
from .passes import Pipeline
from .program import Captured, Launch, Plan, StepBackend, in_turn

Bound = tuple[operators.Call, Launch | None]  # a call that is given scratch memory, and what comes before it


class CudnnBackend(StepBackend):
    """A network's steps on common.cudnn; target: backends.Cudnn."""

    name = "cudnn"

    def __init__(self, model: Any, target: Any, pipeline: Pipeline) -> None:
        library.require()
        self._tune, self._arithmetic = target.tune, target.arithmetic
        super().__init__(model, target, pipeline)

    def plan(self, shape: tuple[int, ...]) -> Plan:
        """As of every backend: nothing is tuned for it, so before a network has run at a shape and an operator was
        tuned, the engine is shown that cuDNN's heuristics put first.
        """
        kept = self._captured.get(shape) or self._programs.get(shape)
        if kept is not None:
            return kept.program.plan if isinstance(kept, Captured) else kept.plan
        tune, self._tune = self._tune, False
        try:
            return super().plan(shape)
        finally:
            self._tune = tune

    # What operators ask for, with arrays bound

    def convolution(self, *args: Any, **named: Any) -> Bound:
        """conv2d, as in common.cudnn."""
        return operators.convolution(*args, **named, arithmetic=self._arithmetic, tune=self._tune)[0], None

    def product(self, x: Any, weight: Any, bias: Any, out: Any, before: list[Launch]) -> Bound:
        """x · weightᵀ + bias, as a 1×1 convolution."""
        how: dict[str, Any] = {"arithmetic": self._arithmetic, "tune": self._tune}
        call, _ = operators.gemm_as_convolution_call(x, weight, bias, True, None, out=out, **how)
        return call, in_turn(before) if before else None

    def clamp(self, x: Any, low: float, high: float, out: Any) -> Bound:
        """min(max(x, low), high)"""
        node = operators.clamp_node(low, high)
        return operators.elementwise_call(x, [node], {}, out, self._layout, self._tune), None

    def add(self, a: Any, b: Any, out: Any) -> Bound:
        """a + b"""
        chain = [operators.Node("add", "b")]
        return operators.elementwise_call(a, chain, {"b": b}, out, self._layout, self._tune), None

    def average(self, x: Any, out: Any) -> Bound:
        """The mean over height and width."""
        return pooling.pooling_call(x, tuple(x.shape[2:]), out=out)[0], None

    def plain(self, launches: list[Launch], told: str) -> Bound:
        """What needs no scratch memory, and what runs it, in words."""
        together = in_turn(launches)
        return operators.Call(lambda _: together(), told=told), None

    def copied(self, x: Any, out: Any, dims: tuple[int, ...] | None = None) -> Launch:
        """Moves elements: x, its dimensions permuted if `dims` says so, into the elements of out in logical order."""
        source = x if dims is None else x.transpose(dims)
        target = out if out.shape == source.shape else out.reshape(source.shape)

        def launch() -> None:
            target[...] = source

        return launch

    def rows(self, x: Any) -> tuple[Any, list[Launch]]:
        """x as (N, rest), C-contiguous: a view where its layout allows it, else an array and the copy to make first."""
        if layouts.has(x, "NCHW"):
            return x.reshape(x.shape[0], -1), []
        flat = cuda.empty((x.shape[0], int(np.prod(x.shape[1:]))), x.dtype)
        return flat, [self.copied(x, flat)]

    def finish(self, bound: list[Bound]) -> tuple[list[Launch], list[str]]:
        """One piece of scratch memory serves all steps, as they run one after the other."""
        scratch = cuda.empty(max([1, *(call.scratch for call, _ in bound)]), np.uint8)
        address = scratch.data.ptr

        def launch_of(call: operators.Call, before: Launch | None) -> Launch:
            def launch() -> None:
                if before:
                    before()
                call(address)
                _ = scratch  # kept as long as what uses it

            return launch

        return [launch_of(*entry) for entry in bound], [call.told for call, _ in bound]
