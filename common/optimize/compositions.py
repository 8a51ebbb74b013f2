"""Compositions: which layers of a network are fused into one kernel, and how the kernels are launched.

    Network(model, optimize="latency")          least time for one image
    Network(model, optimize="throughput")       most images per second
    Network(model, optimize=Composition("mine", fuse=my_choice))

Both fuse the blocks for which `chosen` returns a tile, and use programmatic dependent launch (PDL), which shortens the
gap between kernels. Both fuse the last 1×1 convolution and its pool for 8 to 64 images, with Hopper's matrix product,
which saves a launch; "latency" also for other numbers, with a kernel whose product is slower for large batches.
Features that the card lacks are not used: see `features`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..network.passes import matches
from ..network.registry import Fusion
from ..topology.graph import Graph
from .features import missing
from .fusions import Choice, FewRows, InvertedResidual, PersistentPool, PointwisePool, WholeNetwork
from .fusions_int8 import Int8Choice, IntegerBlock, IntegerFewRows, IntegerHead, IntegerStage, StageChoice
from .generate import Block, Tile
from .stage_int8 import chosen_stage
from .tiles import chosen, rule
from .tiles_int8 import chosen_int8


def always(block: Block, batch: int, dtype: str) -> Tile | None:
    """A Choice that fuses every block for which a tile exists: the rule's tile, without a search."""
    return rule(block, batch, np.dtype(dtype).itemsize)


@dataclass(frozen=True)
class Composition:
    """The fusions of a network and its kind of launches.

    name          for plans and messages
    fuse          the Choice of the tile of each block; None: no block is fused
    programmatic  whether to use programmatic dependent launch: a kernel may start before the previous one has ended
    head          whether the last 1×1 convolution and its pool are one kernel, and the linear layer uses the kernel for
                  few rows, see head.py
    persistent    whether to launch the network as one kernel, see persistent.py; ignored unless the network consists of
                  blocks, a head and linear layers, and tiles for them fit
    pooled        without `head`: whether the last 1×1 convolution and its pool are one kernel, and the linear layer
                  uses the kernel for few rows, where these take so many images: see PersistentPool and FewRows
    fuse_int8     the Int8Choice of the tile of each block of a quantized network, if `fuse` is not None
    stage_int8    the StageChoice of consecutive blocks that are one kernel
    """

    name: str
    fuse: Choice | None = chosen
    programmatic: bool = False
    head: bool = True
    persistent: bool = False
    pooled: bool = False
    fuse_int8: Int8Choice = chosen_int8
    stage_int8: StageChoice = chosen_stage

    @property
    def passes(self) -> tuple[Fusion, ...]:
        """The passes after epilogue fusion, for the features of this card."""
        if missing("fused blocks"):
            return ()
        blocks = () if self.fuse is None else (InvertedResidual(self.fuse),)
        if self.head:
            return (*blocks, PersistentPool(), PointwisePool(), FewRows())
        return (*blocks, PersistentPool(), FewRows()) if self.pooled else blocks

    @property
    def integer_passes(self) -> tuple[Fusion, ...]:
        """The passes of a quantized network, after its rules: its blocks, and its head with the mean, as one kernel."""
        if self.fuse is None or missing("fused blocks"):
            return ()
        return IntegerBlock(self.fuse_int8), IntegerStage(self.stage_int8), IntegerHead(), IntegerFewRows()

    @property
    def overlaps(self) -> bool:
        """Whether kernels use programmatic dependent launch on this card."""
        return self.programmatic and not missing("programmatic launches")

    def single_launch(self, run: Any, graph: Graph, buffers: dict[str, Any]) -> Any:
        """The launch of a network as one persistent kernel, or None if it is not wanted or not possible.

        run: the KernelBackend. buffers: arrays by tensor name; the output's is replaced by the kernel's own array.
        """
        single = len(graph.inputs) == len(graph.outputs) == 1
        match = next(matches(graph, WholeNetwork()), None) if self.persistent and single else None
        if match is None or WholeNetwork().condition(match) is not True:
            return None
        from .persistent import Persistent

        try:
            network = Persistent(buffers[graph.input], WholeNetwork.phases(match, run.weights))
        except (ValueError, RuntimeError):  # no tiles fit, or the card cannot launch the kernel
            return None
        if network.output.shape != buffers[graph.output].shape:
            return None
        buffers[graph.output] = network.output
        return network.launch


LATENCY = Composition("latency", programmatic=True)
THROUGHPUT = Composition("throughput", programmatic=True, head=False, pooled=True)
