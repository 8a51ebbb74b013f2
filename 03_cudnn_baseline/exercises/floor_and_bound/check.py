import random

from common.check import expect


def check(floor_and_bound):
    def compare(nbytes, flops, want, hint, card=(4e12, 50e12, 2.0)):
        call = f"floor_and_bound({nbytes:g}, {flops:g}, {card[0]:g}, {card[1]:g}, {card[2]:g})"
        expect(floor_and_bound(nbytes, flops, *card), want, what=call, hint=hint, rtol=1e-9)

    hint = "bytes over bytes a second are seconds, and 1 s is 1,000,000 µs; give back (µs, what binds)"
    compare(80_000_000, 1_000, (20.0, "memory"), hint)
    hint = "FLOPs over FLOPs a second: here the arithmetic takes longer than moving the bytes"
    compare(4_000, 5_000_000_000, (100.0, "arithmetic"), hint)
    hint = "bytes move while the card computes: the longer of the two counts, not the sum"
    compare(80_000_000, 750_000_000, (20.0, "memory"), hint)
    compare(40_000_000, 750_000_000, (15.0, "arithmetic"), hint)
    hint = "even a kernel with next to nothing to do takes launch_us, and that is then what binds"
    compare(4_000, 5_000, (2.0, "launch"), hint)
    hint = "the launch is not added: it is the least that a kernel takes, work included"
    compare(12_000_000, 1_000, (3.0, "memory"), hint)
    hint = "the card's rates and its launch are given: another card has others"
    compare(80_000_000, 1_000, (80.0, "memory"), hint, (1e12, 50e12, 5.0))
    compare(4_000, 5_000, (5.0, "launch"), hint, (1e12, 50e12, 5.0))

    draw = random.Random()
    for _ in range(20):
        card = draw.uniform(1e11, 5e12), draw.uniform(5e12, 5e14), draw.uniform(1, 6)
        nbytes, flops = draw.randint(10**4, 10**9), draw.randint(10**5, 10**11)
        times = {"memory": nbytes / card[0] * 1e6, "arithmetic": flops / card[1] * 1e6, "launch": card[2]}
        bound = max(times, key=times.get)
        compare(nbytes, flops, (times[bound], bound), "any step on any card", card)
