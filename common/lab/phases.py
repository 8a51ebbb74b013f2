"""A small network as one persistent kernel on the simulator: which launches race, and which phases come out right.

trial = Trial(plan, layers, batch)
trial.source                     the generated kernel
report, right = trial.run()      the trace of one launch, and per phase whether its result is right
trial.without(2)                 the source with its second barrier taken out
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import cuda, kernels
from ..cuda.simulator.module import SimulatedModule
from ..optimize import generate, persistent
from ..optimize.generate import Block
from ..optimize.head import Head
from ..optimize.persistent import Layer, Plan

BARRIER = "BARRIER(counter);"
ALLOWED = 1e-5  # relative error of fp32


class Trial:
    """A plan with random parameters and pictures, in fp32; the separate kernels of common.kernels are the reference."""

    def __init__(self, plan: Plan, layers: Sequence[Layer], batch: int, blocks: int, seed: int = 6) -> None:
        """blocks: thread blocks of the launch."""
        self.plan, self.layers, self.blocks = plan, list(layers), blocks
        self.source = persistent.source(plan)
        random = np.random.default_rng(seed)

        def array(*shape: int) -> np.ndarray:
            return (random.standard_normal(shape) / math.sqrt(max(1, math.prod(shape[1:])))).astype(np.float32)

        first = self.layers[0]
        assert isinstance(first, Block)
        self.pictures = array(batch, *first.input_shape)
        self.parameters = [[array(*shape) for shape in _shapes(layer)] for layer in self.layers]
        self.wanted = self._separate()

    def _separate(self) -> list[np.ndarray]:
        def there(a: np.ndarray) -> Any:
            made = cuda.asarray(a)
            return cuda.to_layout(made, "NHWC") if a.ndim == 4 else made

        x, found = there(self.pictures), []
        for layer, given in zip(self.layers, self.parameters, strict=True):
            w = [there(a) for a in given]
            if isinstance(layer, Block):
                h = kernels.pointwise(x, w[0], w[1], activation="relu6")
                h = kernels.depthwise(h, w[2], w[3], 1, 1, activation="relu6")
                x = kernels.pointwise(h, w[4], w[5], residual=x if layer.residual else None)
            elif isinstance(layer, Head):
                x = kernels.global_avg_pool(kernels.pointwise(x, *w, activation="relu6")).reshape(len(x), -1)
            else:
                x = kernels.linear(x, *w)
            found.append(cuda.asnumpy(x))
        return found

    def without(self, number: int) -> str:
        """The source without its barrier `number`, counted from 1. ValueError if there is none."""
        parts = self.source.split(BARRIER)
        if not 1 <= number < len(parts):
            raise ValueError(f"number must be from 1 to {len(parts) - 1}, got {number}")
        return "".join(part + (BARRIER if i not in (number, len(parts)) else "") for i, part in enumerate(parts, 1))

    def run(self, source: str | None = None) -> tuple[Any, list[bool]]:
        """(the trace of one launch, per phase whether its result is right). source: another one than the plan's."""
        results = [np.full(_stored(a).shape, np.nan, np.float32) for a in self.wanted]
        weights = [_stored(a) for given in self.parameters for a in given]
        module = SimulatedModule(source or self.source, generate.options(), (), True)
        kernel = module.get_function(persistent.KERNEL)
        kernel.max_dynamic_shared_size_bytes = max(48 * 1024, self.plan.shared)
        arguments = (np.zeros(1, np.uint32), _stored(self.pictures), *results, *weights)
        report = cuda.trace(kernel, (self.blocks,), (32 * self.plan.warps,), arguments, self.plan.shared)
        pairs = zip(results, map(_stored, self.wanted), strict=True)
        return report, [bool(np.linalg.norm(got - want) <= ALLOWED * np.linalg.norm(want)) for got, want in pairs]


def _shapes(layer: Layer) -> list[tuple[int, ...]]:
    if isinstance(layer, Block):
        h, c, o = layer.hidden, layer.channels, layer.outputs
        return [(h, c, 1, 1), (h,), (h, 1, 3, 3), (h,), (o, h, 1, 1), (o,)]
    if isinstance(layer, Head):
        return [(layer.outputs, layer.channels, 1, 1), (layer.outputs,)]
    return [(layer.outputs, layer.inputs), (layer.outputs,)]


def _stored(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a.transpose(0, 2, 3, 1)) if a.ndim == 4 else a


def at_work(plan: Plan, multiprocessors: int) -> list[tuple[Layer, int, int]]:
    """Per phase of a plan: (layer, rounds, warps that compute on the whole card in the first round).

    A round is what all resident thread blocks take at once; there is one per multiprocessor, in whole clusters.
    """
    found = []
    for i, phase in enumerate(plan.phases):
        resident = multiprocessors // plan.cluster * plan.cluster
        units = plan.tiles(i) * phase.split
        places = resident * phase.teams
        warps = getattr(phase.tile, "warps", plan.warps)
        found.append((phase.layer, math.ceil(units / places), min(units, places) * warps))
    return found
