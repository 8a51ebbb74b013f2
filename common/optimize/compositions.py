"""What a network is put together from: which blocks are one kernel, and how the kernels are launched.

    Network(model, optimize="latency")          the shortest time of one picture
    Network(model, optimize="throughput")       the most pictures in a second
    Network(model, optimize=Composition("mine", fuse=my_choice))

Both fuse the blocks for which `chosen` has a tile, and launch kernels programmatically, which shortens the way from one
to the next. "latency" has the head as one kernel too: that saves a launch, and with many pictures its products take
longer than those of a kernel that does nothing else. What a card lacks is left out: see `features`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .generate import Block, Tile
from .tiles import chosen, rule

# (block, batch, "float32" or "float16") → the tile to compute it with in one kernel, or None for separate kernels
Choice = Callable[[Block, int, str], Tile | None]


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


COMPOSITIONS = {
    "latency": Composition("latency", programmatic=True),
    "throughput": Composition("throughput", programmatic=True, head=False),
}


def composition(optimize: "str | Composition | None") -> Composition | None:
    """The composition of a name, or the one given. ValueError for an unknown name, TypeError for anything else."""
    if optimize is None or isinstance(optimize, Composition):
        return optimize
    if not isinstance(optimize, str):
        raise TypeError(f"optimize must be a name, a Composition or None, got {type(optimize).__name__}")
    if optimize not in COMPOSITIONS:
        raise ValueError(f"optimize must be one of {', '.join(COMPOSITIONS)} or None, got {optimize!r}")
    return COMPOSITIONS[optimize]
