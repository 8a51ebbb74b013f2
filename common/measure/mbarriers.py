"""A model of Hopper's mbarrier: which phase is in progress, and what it lacks.

bar = Mbarrier(count=1)
bar.expect(512)             an arrival, and 512 bytes must come
bar.come(512)               the phase is over
bar.phase                   1: phase 0 is over, phase 1 is in progress
bar.over(parity=0)          True: a wait for the phase of parity 0 goes on at once
"""


class Mbarrier:
    """An mbarrier after `init(count)`. phase: the number of the phase in progress, which is the number of phases over.

    missing: arrivals that the phase in progress lacks. bytes: expected less come, negative if more have come.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}")
        self.count = self.missing = count
        self.bytes = self.phase = 0

    def arrive(self) -> None:
        """An arrival. ValueError if the phase has all of them and is not over."""
        if not self.missing:
            raise ValueError("the phase has all its arrivals, and waits for bytes")
        self.missing -= 1
        self._settle()

    def expect(self, count: int) -> None:
        """An arrival that makes the phase last until `count` more bytes have come. ValueError as of `arrive`."""
        self.bytes += count
        try:
            self.arrive()
        except ValueError:
            self.bytes -= count
            raise

    def come(self, count: int) -> None:
        """A bulk copy has brought `count` bytes."""
        self.bytes -= count
        self._settle()

    def over(self, parity: int) -> bool:
        """Whether a wait for the phase of that parity goes on at once."""
        return self.phase % 2 != parity

    def _settle(self) -> None:
        if not self.missing and not self.bytes:
            self.phase += 1
            self.missing = self.count


def handshake(stages: int, copy: float, slices: int, ask: float = 0.1) -> tuple[list[float], list[float], list[float]]:
    """(when each slice is asked for, when it has come, when its arithmetic begins) of a producer and a consumer.

    The producer asks for slice s as soon as the arithmetic of slice s - stages, which had its stage, is over. Time is
    counted in the arithmetic of one slice. copy: from asking to arrival. ask: what asking takes.
    """
    if stages < 1 or slices < 1 or copy < 0 or ask < 0:
        raise ValueError(f"stages and slices must be at least 1, times 0, got {stages}, {slices}, {copy} and {ask}")
    asked, came, work = list[float](), list[float](), list[float]()
    for s in range(slices):
        free = work[s - stages] + 1 if s >= stages else 0.0
        asked.append(max(free, asked[-1] + ask if asked else 0.0))
        came.append(asked[s] + ask + copy)
        work.append(max(came[s], work[-1] + 1 if work else 0.0))
    return asked, came, work
