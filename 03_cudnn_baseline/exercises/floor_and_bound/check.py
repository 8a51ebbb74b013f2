from common.check import expect
from common.check.trials import Slips, python_random


def chosen(choose=max, unit=1e6, kinds=("memory", "arithmetic", "launch"), names=None):
    """An answer that chooses among some of the three times, in another unit or under other names."""

    def slip(nbytes, flops, bytes_per_s, flops_per_s, launch_us):
        times = {"memory": unit * nbytes / bytes_per_s, "arithmetic": unit * flops / flops_per_s, "launch": launch_us}
        bound = choose(kinds, key=times.get)
        return times[bound], (names or {}).get(bound, bound)

    return slip


def added(nbytes, flops, bytes_per_s, flops_per_s, launch_us):
    us, bound = chosen(kinds=("memory", "arithmetic"))(nbytes, flops, bytes_per_s, flops_per_s, launch_us)
    return us + launch_us, bound


def all_added(nbytes, flops, bytes_per_s, flops_per_s, launch_us):
    bound = chosen()(nbytes, flops, bytes_per_s, flops_per_s, launch_us)[1]
    return 1e6 * nbytes / bytes_per_s + 1e6 * flops / flops_per_s + launch_us, bound


SLIPS = {
    "the three happen at the same time: the longest counts, not their sum": all_added,
    "flops are FLOPs already, in which a multiply-add counts as two": lambda nbytes, flops, *card: chosen()(
        nbytes, 2 * flops, *card
    ),
    "bytes over bytes a second are seconds, and 1 s is 1,000,000 µs: here launch_us is compared with seconds": chosen(
        unit=1.0
    ),
    "1 s is 1,000,000 µs, not 1,000": chosen(unit=1e3),
    "1 s is 1,000,000 µs, not 10⁹": chosen(unit=1e9),
    "the longest of the three counts, not the shortest": chosen(min),
    "the time is right: what binds is whatever takes longest": chosen(
        names={"memory": "arithmetic", "arithmetic": "memory"}
    ),
    "the launch is not added: it is the least that a kernel takes, work included": added,
    "even a kernel with next to nothing to do takes launch_us": chosen(kinds=("memory", "arithmetic")),
    "the arithmetic may take longer than moving the bytes": chosen(kinds=("memory", "launch")),
    "the time alone is half of the answer: (µs, what binds)": lambda *a: chosen()(*a)[0],
    "give back (µs, what binds), in this order": lambda *a: chosen()(*a)[::-1],
}


def check(floor_and_bound):
    slips = Slips(SLIPS)

    def compare(nbytes, flops, want, hint, card=(4e12, 50e12, 2.0)):
        arguments = nbytes, flops, *card
        got = floor_and_bound(*arguments)
        hint = slips.hint(got, arguments, hint)
        expect(got, want, what=f"floor_and_bound{arguments}", hint=hint, rtol=1e-9)

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

    draw = python_random()
    hint = "the longest of nbytes / bytes_per_s and flops / flops_per_s, both in µs, and launch_us; and its name"
    for _ in range(60):
        card = 10 ** draw.uniform(9, 13), 10 ** draw.uniform(10, 15.5), 10 ** draw.uniform(-4, 4)
        nbytes, flops = int(10 ** draw.uniform(0, 17)), int(10 ** draw.uniform(0, 20))
        times = {"memory": nbytes / card[0] * 1e6, "arithmetic": flops / card[1] * 1e6, "launch": card[2]}
        bound = max(times, key=times.get)
        compare(nbytes, flops, (times[bound], bound), hint, card)
