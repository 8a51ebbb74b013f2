"""What the card at hand, or the simulator, has of what compositions use; what it lacks is left out."""

import importlib.util
from dataclasses import dataclass

from .. import cuda


@dataclass(frozen=True)
class Feature:
    """A feature of the card that compositions use.

    missing: why the card at hand lacks it, None if it has it. instead: what is done without it.
    """

    name: str
    missing: str | None
    instead: str


def features() -> tuple[Feature, ...]:
    """The features, and which of them the card at hand, or the simulator, has."""
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
    """Why the card at hand lacks a feature, None if it has it. ValueError for an unknown name."""
    for feature in features():
        if feature.name == name:
            return feature.missing
    raise ValueError(f"feature must be one of {', '.join(f.name for f in features())}, got {name!r}")


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False
