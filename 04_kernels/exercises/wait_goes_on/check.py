from common.check import expect
from common.check.trials import seeded
from common.measure.mbarriers import Mbarrier

CASES = (
    (1, [], "phase 0 is in progress: a wait for parity 0 waits, one for parity 1 goes on at once"),
    (1, [("expect", 512)], "the arrival is there, its 512 bytes are not"),
    (1, [("expect", 512), ("come", 512)], "one arrival and all the bytes that it expects: phase 0 is over"),
    (1, [("expect", 512), ("come", 256)], "256 bytes have not come"),
    (1, [("come", 512)], "bytes that nobody expects yet do not end a phase: its arrival is missing"),
    (1, [("come", 512), ("expect", 512)], "bytes may come before they are expected: then the arrival ends the phase"),
    (3, [("arrive", 0)] * 3, "three arrivals and no bytes: the last arrival ends the phase"),
    (3, [("arrive", 0)] * 4, "after a phase the next one needs all its arrivals again"),
    (2, [("expect", 64), ("come", 64), ("arrive", 0)], "all bytes are there: the second arrival ends the phase"),
    (2, [("expect", 64), ("expect", 32), ("come", 96)], "each expect adds to the bytes that are missing"),
    (1, [("arrive", 0)] * 4, "four phases are over, and phase 4 is in progress, of parity 0"),
)


def right(count, events, parity):
    bar = Mbarrier(count)
    for name, n in events:
        if name == "arrive":
            bar.arrive()
        else:
            getattr(bar, name)(n)
    return bar.over(parity)


def drawn(random):
    """(count, events) of a few phases whose bytes come in pieces, each phase's before the next one's arrivals."""
    count, events = int(random.integers(1, 5)), []
    for _ in range(int(random.integers(1, 6))):
        arrivals = [("expect", 16 * int(random.integers(1, 9)))] + [("arrive", 0)] * (count - 1)
        pieces = [("come", n) for name, n in arrivals if name == "expect"]
        cut = int(random.integers(0, len(pieces) + 1))
        events += arrivals[:-1] + pieces[:cut] + arrivals[-1:] + pieces[cut:]
    return count, events[: int(random.integers(1, len(events) + 1))]


def check(wait_goes_on):
    random, _ = seeded()
    every = "a phase is over when none of its arrivals and none of the expected bytes is missing"
    for count, events, hint in (*CASES, *((*drawn(random), every) for _ in range(40))):
        for parity in (0, 1):
            what = f"wait_goes_on({count}, {events}, {parity})"
            got = bool(wait_goes_on(count, list(events), parity))
            expect(got, right(count, events, parity), what=what, hint=hint)
