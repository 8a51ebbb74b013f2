"""A ring of buffers that are filled by asynchronous copies: when each copy and each piece of arithmetic begins.

    copies, work = schedule(stages=4, copy=2.5, slices=8)
    busy(stages=2, copy=2.5)                     the share of the time in which there is arithmetic, 0 to 1

Time is counted in the arithmetic of one slice.
"""


def schedule(stages: int, copy: float, slices: int) -> tuple[list[float], list[float]]:
    """(when the copy of each slice begins, when its arithmetic begins).

    The copies of the first stages - 1 slices begin at time 0. The copy of slice s + stages - 1 begins together with the
    arithmetic of slice s: its buffer is the one of slice s - 1, whose arithmetic is done.

    stages: buffers, 2 or more. copy: the time from the beginning of a copy to its arrival. Copies overlap.
    """
    if stages < 2 or slices < 1 or copy < 0:
        raise ValueError(f"stages must be at least 2, slices 1 and copy 0, got {stages}, {slices} and {copy}")
    copies, work = [0.0] * (stages - 1), list[float]()
    for s in range(slices):
        begin = max(copies[s] + copy, work[-1] + 1 if work else 0.0)
        work.append(begin)
        copies.append(begin)
    return copies[:slices], work


def busy(stages: int, copy: float, slices: int = 1000) -> float:
    """The share of the time, from the first copy to the last arithmetic, in which a ring does arithmetic."""
    return slices / (schedule(stages, copy, slices)[1][-1] + 1)
