"""The memory planner: one allocation for all activations, each at an offset during its live range.

An activation's live range goes from the step that writes it to the last step that reads it. A workspace, the scratch
memory of a step's kernels, is live during this step alone. Those whose live ranges do not overlap may use the same
bytes. Choosing offsets means packing rectangles (width: live range, height: size) into a strip of least height, which
is NP-hard. A greedy rule comes close to the bound: largest first, each at the lowest free offset (Pisarchyk and Lee,
"Efficient Memory Management for Deep Neural Net Inference", arXiv:2001.03288, section 5.2).
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

ALIGNMENT = 256  # bytes, as of cudaMalloc; vector types and cache lines need less


@dataclass(frozen=True)
class Lifetime:
    """An activation or a workspace: its bytes, and its live range, from step `first` to step `last` inclusive."""

    name: str
    bytes: int
    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """Whether the two live ranges overlap."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """A placement of activations: offsets in bytes by name. Offsets and sizes are multiples of ALIGNMENT."""

    lifetimes: tuple[Lifetime, ...]
    offsets: dict[str, int]

    @property
    def bytes(self) -> int:
        """Bytes of the arena."""
        return max((self.offsets[one.name] + aligned(one.bytes) for one in self.lifetimes), default=0)

    @property
    def bound(self) -> int:
        """Lower bound of any placement, in bytes: the largest sum of activations that are live at one step."""
        change: Counter[int] = Counter()
        for one in self.lifetimes:
            change[one.first] += aligned(one.bytes)
            change[one.last + 1] -= aligned(one.bytes)
        return max(itertools.accumulate(change[step] for step in sorted(change)), default=0)

    @property
    def kept(self) -> int:
        """Bytes without sharing: the sum of all activations."""
        return sum(aligned(one.bytes) for one in self.lifetimes)

    def part(self, memory: Any, name: str) -> Any:
        """The bytes of an activation in `memory`, a uint8 array as large as the arena; none if it is not placed."""
        start = self.offsets.get(name, 0)
        return memory[start : start + self._sizes.get(name, 0)]

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {one.name: one.bytes for one in self.lifetimes}

    def needed(self, step: int) -> int:
        """Bytes of the activations that are live at a step."""
        return sum(aligned(one.bytes) for one in self.lifetimes if one.first <= step <= one.last)


def aligned(size: int) -> int:
    """The size rounded up to a multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def place(lifetimes: Iterable[Lifetime], beside: Arena | None = None) -> Arena:
    """Place activations in an arena: largest first, each at the lowest offset that no overlapping live range uses.

    beside: a placement that is kept and completed, for example that of the activations by workspaces.
    ValueError for two of one name, for a size below 1 byte, and for a live range that ends before it begins.
    """
    every = tuple(lifetimes)
    kept = beside.lifetimes if beside else ()
    names = {one.name for one in kept}
    for one in every:
        if one.name in names:
            raise ValueError(f"lifetimes: there are several of {one.name!r}")
        if one.bytes < 1 or one.last < one.first:
            raise ValueError(f"lifetimes: {one} needs at least a byte, and an end that is not before its beginning")
        names.add(one.name)
    offsets = dict(beside.offsets) if beside else {}
    alive: dict[int, list[Lifetime]] = defaultdict(list)  # those placed so far, by each step of their live range
    begun: dict[int, list[Lifetime]] = defaultdict(list)  # and by its first step

    def note(one: Lifetime) -> None:
        begun[one.first].append(one)
        for step in range(one.first, one.last + 1):
            alive[step].append(one)

    for one in kept:
        note(one)
    for one in sorted(every, key=lambda one: (-one.bytes, one.first)):
        later = (other for step in range(one.first + 1, one.last + 1) for other in begun[step])
        offset = 0
        for other in sorted([*alive[one.first], *later], key=lambda other: offsets[other.name]):
            if offset + aligned(one.bytes) <= offsets[other.name]:
                break  # it fits into the gap below
            offset = max(offset, offsets[other.name] + aligned(other.bytes))
        offsets[one.name] = offset
        note(one)
    return Arena((*kept, *every), offsets)


def for_batch(offsets: Mapping[str, int], batch: int) -> dict[str, int]:
    """The offsets of activations for a batch of images, from those for one image: `batch` times as large.

    Valid because each activation is `batch` times as large too: the gaps grow as the activations do, and multiples of
    ALIGNMENT stay multiples. The arena takes at most `batch` times that for one image. Not for workspaces, whose sizes
    the kernels choose. ValueError for a batch below 1.
    """
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    return {name: batch * offset for name, offset in offsets.items()}


def placed_at(lifetimes: Iterable[Lifetime], offsets: Mapping[str, int]) -> Arena:
    """A placement that was made before, checked: the Arena of these activations at these offsets in bytes.

    ValueError unless each activation has an offset, a multiple of ALIGNMENT from 0 on, and activations whose live
    ranges overlap have different bytes.
    """
    every = tuple(lifetimes)
    if missing := {one.name for one in every} ^ offsets.keys():
        raise ValueError(f"offsets: must be of the activations, {sorted(missing)[0]!r} is only in one of the two")
    for i, one in enumerate(every):
        start = offsets[one.name]
        if start < 0 or start % ALIGNMENT:
            raise ValueError(f"offsets: {one.name!r} must be at a multiple of {ALIGNMENT} from 0 on, got {start}")
        for other in every[:i]:
            below = offsets[other.name] + aligned(other.bytes) <= start
            above = start + aligned(one.bytes) <= offsets[other.name]
            if one.meets(other) and not (below or above):
                raise ValueError(f"offsets: {other.name!r} and {one.name!r} are live together and share bytes")
    return Arena(every, dict(offsets))
