from itertools import pairwise

from common.check import expect
from common.check.trials import Slips, python_random


def reference(slices):
    """The time in which nothing ran, from the events of all starts and ends."""
    events = sorted([(start, 0, 1) for start, us in slices] + [(start + us, 1, -1) for start, us in slices])
    idle, running = 0.0, 0
    for (moment, _, change), (following, _, _) in pairwise(events):
        running += change
        idle += following - moment if running == 0 else 0.0
    return idle


def ends(slices):
    return [start + us for start, us in slices]


def span(slices):
    return max(ends(slices)) - min(start for start, _ in slices)


def between_neighbours(slices, least=0.0):
    ordered = sorted(slices)
    pairs = pairwise(ordered)
    return sum(max(least, after[0] - (before[0] + before[1])) for before, after in pairs)


SLIPS = {
    "slices may overlap: what runs at the same time is not busy twice": lambda s: span(s) - sum(us for _, us in s),
    "an early slice may end after a later one: go on from the latest end so far, not from the last slice's": (
        between_neighbours
    ),
    "a slice that starts before the last one ends leaves no gap, not a negative one": lambda s: between_neighbours(
        s, -1e300
    ),
    "slices come in any order: sort a copy by their starts": lambda s: sum(
        max(0.0, after[0] - (before[0] + before[1])) for before, after in pairwise(s)
    ),
    "the time before the first start does not count": lambda s: reference(s) + min(start for start, _ in s),
    "µs in which nothing ran, not µs in which something ran": lambda s: span(s) - reference(s),
    "µs, not a share of the whole time": lambda s: reference(s) / span(s),
    "a slice is (start, duration), not (start, end)": lambda s: reference(
        [(start, max(0.0, end - start)) for start, end in s]
    ),
}


def check(idle_us):
    slips = Slips(SLIPS)

    def compare(slices, hint):
        got = idle_us(list(slices))
        hint = slips.hint(got, (slices,), hint)
        expect(got, reference(slices), what=f"idle_us({slices})", hint=hint, rtol=1e-9, atol=1e-9)

    compare([(0.0, 4.0), (6.0, 3.0)], "the second one starts at 6, the first one ends at 0 + 4")
    compare([(5.0, 1.0)], "a single slice leaves no gap, and the time before it does not count")
    compare([(10.0, 4.0), (16.0, 3.0), (19.0, 1.0)], "a gap from 14 to 16, and none where one ends and the next starts")
    compare([(6.0, 3.0), (0.0, 4.0)], "slices come in any order")
    compare([(0.0, 6.0), (4.0, 4.0), (10.0, 1.0)], "two slices overlap from 4 to 6; nothing runs from 8 to 10")
    compare([(0.0, 10.0), (2.0, 1.0), (12.0, 1.0)], "the first slice runs until 10, past the end of the second one")
    compare([(3.0, 2.0), (3.0, 5.0), (3.0, 1.0), (9.0, 1.0)], "three start together; the longest of them ends at 8")

    draw = python_random()
    hint = "the gaps from the latest end so far to the next start, in the order of the starts"
    for count in (1, 2, 3, 5, 8, 40, 200) * 4:
        scale = 2.0 ** draw.randint(-8, 12)
        room = draw.choice([3, 3 * count, 40 * count])
        compare([(scale * draw.randint(0, room), scale * draw.randint(1, 9)) for _ in range(count)], hint)
