from collections.abc import Iterator

from common import topology, weights
from common.check import expect, require
from common.lab.cases import drawn
from common.network.arena import Arena, Lifetime, aligned
from common.network.program import lives
from common.network.steps import fuse

# DenseNets whose arenas are above the bound if the largest tensors are placed first. Of the last three, random orders
# reach it less than once in 4,000: a loop that waits for one does not end in the time of a check.
NETWORKS: dict[str, dict] = {
    "the notebook's DenseNet": {},
    "a DenseNet with growth 8 and blocks of 3, 5, 4 layers": {"growth": 8, "blocks": (3, 5, 4)},
    "a DenseNet with growth 10 and blocks of 5, 5, 5 layers": {"growth": 10, "blocks": (5, 5, 5)},
    "a DenseNet with growth 5 and blocks of 4, 6, 8 layers": {"growth": 5, "blocks": (4, 6, 8)},
    "a DenseNet with growth 8 and blocks of 8, 8, 8 layers": {"growth": 8, "blocks": (8, 8, 8)},
    "a DenseNet with growth 4 and blocks of 24, 24, 24 layers": {"growth": 4, "blocks": (24, 24, 24)},
    "a DenseNet with growth 4 and blocks of 32, 32, 32 layers": {"growth": 4, "blocks": (32, 32, 32)},
    "a DenseNet with growth 4 and blocks of 48, 32 layers": {"growth": 4, "blocks": (48, 32)},
}
Ranges = dict[str, tuple[int, int, int]]


def live_ranges(sizes: dict) -> Ranges:
    graph = topology.densenet(**sizes)
    graph, _ = weights.fold_batch_norm(graph, drawn(graph))
    return {one.name: (one.bytes, one.first, one.last) for one in lives(graph, fuse(graph), 4)}


def placed(ranges: Ranges, order: list) -> dict[str, tuple[int, int]]:
    """{tensor: (offset, end)}: each tensor at the lowest free offset, in this order."""
    done: dict[str, tuple[int, int]] = {}
    for name in order:
        size, first, last = ranges[name]
        offset = 0
        for low, high in sorted(done[one] for one in done if ranges[one][1] <= last and first <= ranges[one][2]):
            if offset + size <= low:
                break
            offset = max(offset, high)
        done[name] = offset, offset + aligned(size)
    return done


def height(ranges: Ranges, order: list) -> int:
    """Bytes of the arena."""
    return max(high for _, high in placed(ranges, order).values())


def what_to_mend(ranges: Ranges, order: list) -> str:
    """The hint for an order whose arena is above the bound: the worst step has gaps, or a tensor lies above it."""
    places = placed(ranges, order)
    steps = range(max(last for _, _, last in ranges.values()) + 1)
    alive = [[name for name, (_, first, last) in ranges.items() if first <= step <= last] for step in steps]
    sums = [sum(aligned(ranges[name][0]) for name in names) for names in alive]
    for step in (step for step in steps if sums[step] == max(sums)):
        if max(places[name][1] for name in alive[step]) > max(sums):
            return f"most bytes are alive at step {step}: the tensors that live there have to lie without a gap"
    top = max(ranges, key=lambda name: places[name][1])
    _, first, last = ranges[top]
    when = f"step {first}" if first == last else f"steps {first} to {last}"
    return (
        f"at step {sums.index(max(sums))}, where most bytes are alive, the tensors lie without a gap. {top!r}, alive at"
        f" {when}, lies highest: place it before tensors that take its room"
    )


def networks() -> Iterator[tuple[str, Ranges]]:
    yield "a single tensor", {"a": (512, 0, 1)}
    yield "two tensors that never live together", {"a": (512, 0, 1), "b": (256, 2, 3)}
    for name, sizes in NETWORKS.items():
        yield name, live_ranges(sizes)


def check(reach_the_bound):
    for name, ranges in networks():
        bound = Arena(tuple(Lifetime(one, *live) for one, live in ranges.items()), {}).bound
        order = reach_the_bound(dict(ranges))
        hint = "return a list of all names, each once"
        expect(None if order is None else sorted(order), sorted(ranges), what=f"sorted(order) of {name}", hint=hint)
        got = height(ranges, order)
        what = f"{name}: the arena of your order takes {got:,} bytes, the bound is {bound:,}"
        require(got <= bound, what=what, hint="" if got <= bound else what_to_mend(ranges, order))
