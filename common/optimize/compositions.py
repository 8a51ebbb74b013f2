"""What a network is put together from: which blocks are one kernel, and how the kernels are launched.

    Network(model, optimize="latency")          the shortest time of one picture
    Network(model, optimize="throughput")       the most pictures in a second
    Network(model, optimize=Composition("mine", fuse=my_choice))

Both fuse the blocks for which `chosen` has a tile, and launch kernels programmatically, which shortens the way from one
to the next. "latency" has the head as one kernel too: that saves a launch, and with many pictures its products take
longer than those of a kernel that does nothing else. What a card lacks is left out: see `features`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..network.passes import matches
from ..network.registry import Fusion
from ..topology.graph import Graph
from .features import missing
from .fusions import Choice, FewRows, InvertedResidual, PointwisePool, WholeNetwork
from .generate import Block, Tile
from .tiles import chosen, rule


def always(block: Block, batch: int, dtype: str) -> Tile | None:
    """A choice that fuses whatever can be fused, and asks no search."""
    return rule(block, batch, np.dtype(dtype).itemsize)


@dataclass(frozen=True)
class Composition:
    """fuse: which blocks are one kernel, None for none. programmatic: a kernel may begin before the one ahead ends.

    head: the last 1×1 convolution and its pool as one kernel, and the linear layer by the kernel for few pictures, see
    head.py. persistent: one kernel for the whole network, see persistent.py, if all of it is blocks, such a head and
    a linear layer, and tiles of them fit; else launches as without it.
    """

    name: str
    fuse: Choice | None = chosen
    programmatic: bool = False
    head: bool = True
    persistent: bool = False

    @property
    def passes(self) -> tuple[Fusion, ...]:
        """What becomes of a graph whose convolutions have their epilogues, on the card at hand."""
        if missing("fused blocks"):
            return ()
        blocks = () if self.fuse is None else (InvertedResidual(self.fuse),)
        return (*blocks, PointwisePool(), FewRows()) if self.head else blocks

    @property
    def overlaps(self) -> bool:
        """Whether kernels are launched programmatically, on the card at hand."""
        return self.programmatic and not missing("programmatic launches")

    def whole(self, run: Any, graph: Graph, buffers: dict[str, Any]) -> Any:
        """What launches a network as one kernel, or None: if it is to be one, all of it is phases, and tiles fit.

        run: the KernelBackend; buffers: by tensor, of which the output becomes the kernel's own.
        """
        match = next(matches(graph, WholeNetwork()), None) if self.persistent else None
        if match is None or WholeNetwork().condition(match) is not True:
            return None
        from .persistent import Persistent

        try:
            network = Persistent(buffers[graph.input], WholeNetwork.phases(match, run.weights))
        except (ValueError, RuntimeError):  # no tiles fit, or the card launches no such kernel
            return None
        if network.output.shape != buffers[graph.output].shape:
            return None
        buffers[graph.output] = network.output
        return network.launch


LATENCY = Composition("latency", programmatic=True)
THROUGHPUT = Composition("throughput", programmatic=True, head=False)
