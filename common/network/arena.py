"""One piece of memory for all activations: each lives from the step that writes it to the last that reads it.

Activations that are never needed at the same time may lie at the same place. Where each goes is the problem of packing
rectangles, as wide as an activation lives and as high as it is large, into a strip as low as possible; it is NP-hard,
and one simple rule comes close to the bound: the largest first, each as low as it can lie (Pisarchyk and Lee,
"Efficient Memory Management for Deep Neural Net Inference", arXiv:2001.03288, section 5.2).
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

ALIGNMENT = 256  # bytes: more than any vector type and a cache line need; what cudaMalloc gives


@dataclass(frozen=True)
class Lifetime:
    """An activation: its size in bytes, and the first and the last step at which it must be there."""

    name: str
    bytes: int
    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """Whether both must be there at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """Where each activation lies: offsets in bytes, multiples of ALIGNMENT, by name.

    bytes: what all of it takes. bound: the most that any one step needs; no placement takes less. kept: what it would
    take if each had memory of its own.
    """

    lifetimes: tuple[Lifetime, ...]
    offsets: dict[str, int]

    @property
    def bytes(self) -> int:
        return max((self.offsets[one.name] + aligned(one.bytes) for one in self.lifetimes), default=0)

    @property
    def bound(self) -> int:
        change: Counter[int] = Counter()
        for one in self.lifetimes:
            change[one.first] += aligned(one.bytes)
            change[one.last + 1] -= aligned(one.bytes)
        return max(itertools.accumulate(change[step] for step in sorted(change)), default=0)

    @property
    def kept(self) -> int:
        return sum(aligned(one.bytes) for one in self.lifetimes)

    def needed(self, step: int) -> int:
        """Bytes of the activations that must be there at a step."""
        return sum(aligned(one.bytes) for one in self.lifetimes if one.first <= step <= one.last)


def aligned(size: int) -> int:
    """The size rounded up to a multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def place(lifetimes: Iterable[Lifetime]) -> Arena:
    """An arena for activations: the largest first, each at the lowest offset where nothing that it meets lies.

    ValueError for two of one name, for a size below 1 byte, and for a life that ends before it begins.
    """
    every = tuple(lifetimes)
    names: set[str] = set()
    for one in every:
        if one.name in names:
            raise ValueError(f"lifetimes: there are several of {one.name!r}")
        if one.bytes < 1 or one.last < one.first:
            raise ValueError(f"lifetimes: {one} needs at least a byte, and an end that is not before its beginning")
        names.add(one.name)
    offsets: dict[str, int] = {}
    alive: dict[int, list[Lifetime]] = defaultdict(list)  # those with a place, by each step at which they must be there
    begun: dict[int, list[Lifetime]] = defaultdict(list)  # and by the first of them
    for one in sorted(every, key=lambda one: (-one.bytes, one.first)):
        later = (other for step in range(one.first + 1, one.last + 1) for other in begun[step])
        offset = 0
        for other in sorted([*alive[one.first], *later], key=lambda other: offsets[other.name]):
            if offset + aligned(one.bytes) <= offsets[other.name]:
                break  # it fits into the gap below
            offset = max(offset, offsets[other.name] + aligned(other.bytes))
        offsets[one.name] = offset
        begun[one.first].append(one)
        for step in range(one.first, one.last + 1):
            alive[step].append(one)
    return Arena(every, offsets)
