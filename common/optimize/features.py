"""The features of the card (or the simulator) that compositions use where they exist."""

import importlib.util
from dataclasses import dataclass

from .. import cuda


@dataclass(frozen=True)
class Feature:
    """A feature that compositions use.

    missing: why this card lacks it; None if it has it. instead: what compositions do without it.
    """

    name: str
    missing: str | None
    instead: str


def features() -> tuple[Feature, ...]:
    """All features, each with the reason if this card, or the simulator, lacks it."""
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
    """Why this card lacks a feature; None if it has it. ValueError for an unknown name."""
    for feature in features():
        if feature.name == name:
            return feature.missing
    raise ValueError(f"feature must be one of {', '.join(f.name for f in features())}, got {name!r}")


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
