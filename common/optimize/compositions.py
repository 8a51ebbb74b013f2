"""What a network is put together from: which blocks are one kernel, and how the kernels are launched.

    Network(model, optimize="latency")          the shortest time of one picture
    Network(model, optimize="throughput")       the most pictures in a second
    Network(model, optimize=Composition("mine", fuse=my_choice))

Both fuse the blocks for which `chosen` has a tile, and launch kernels programmatically, which shortens the way from one
to the next. "latency" has the head as one kernel too: that saves a launch, and with many pictures its products take
longer than those of a kernel that does nothing else. What a card lacks is left out: see `features`.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import cuda
from .generate import Block, Tile
from .search import chosen, rule

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


# ---- What the card has


@dataclass(frozen=True)
class Feature:
    """Something that compositions use; missing: why it is not to be had here, None if it is; instead: what is done."""

    name: str
    missing: str | None
    instead: str


def features() -> tuple[Feature, ...]:
    """What the card at hand, or the simulator, has of it."""
    capability = cuda.compute_capability()
    where = "the simulator" if cuda.backend() == "simulator" else f"this card, sm_{capability},"

    def lacks(needed: int) -> str | None:
        return None if capability >= needed else f"needs sm_{needed}, {where} has none"

    programmatic = lacks(90)
    if programmatic is None and not _has("cuda.bindings"):
        programmatic = "needs the package cuda-bindings"
    return (
        Feature("fused blocks", lacks(80), "each layer is a kernel of its own"),
        Feature("clusters", lacks(90), "a tile's hidden channels are one thread block's"),
        Feature("programmatic launches", programmatic, "each kernel begins when the one before it has ended"),
    )


def missing(name: str) -> str | None:
    """Why a feature is not to be had here, None if it is. ValueError for an unknown name."""
    for feature in features():
        if feature.name == name:
            return feature.missing
    raise ValueError(f"feature must be one of {', '.join(f.name for f in features())}, got {name!r}")


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False
