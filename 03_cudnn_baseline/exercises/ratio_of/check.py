import numpy as np

from common.check import expect, expect_error
from common.check.trials import Slips, seeded


def of(samples, name):
    return np.array([us for subject, us in samples if subject == name])


SLIPS = {
    "time(a) over time(b): below 1, a is faster. This is time(b) over time(a)": lambda samples, a, b: (
        1 / np.median(of(samples, a) / of(samples, b))
    ),
    "the median of the rounds' ratios, not their mean": lambda samples, a, b: np.mean(of(samples, a) / of(samples, b)),
    "divide within a round, then take the median; this is the ratio of two medians": lambda samples, a, b: (
        np.median(of(samples, a)) / np.median(of(samples, b))
    ),
    "divide within a round, then take the median; this is the ratio of the sums": lambda samples, a, b: (
        of(samples, a).sum() / of(samples, b).sum()
    ),
    "divide within a round, then take the median; this is the ratio of the least times": lambda samples, a, b: (
        of(samples, a).min() / of(samples, b).min()
    ),
    "of an even number of ratios the median is the mean of the two in the middle": lambda samples, a, b: sorted(
        of(samples, a) / of(samples, b)
    )[len(of(samples, a)) // 2],
    "of an even number of ratios the median lies between the two in the middle": lambda samples, a, b: sorted(
        of(samples, a) / of(samples, b)
    )[(len(of(samples, a)) - 1) // 2],
    "the median of the rounds' ratios, not the geometric mean": lambda samples, a, b: np.exp(
        np.mean(np.log(of(samples, a) / of(samples, b)))
    ),
}


def check(ratio_of):
    random, seed = seeded()
    slips = Slips(SLIPS)

    def taken(rounds, names, alternate):
        """The samples of rounds that hold a time for each name; if they alternate, every other one is backwards."""
        samples = []
        for i, times in enumerate(rounds):
            pairs = list(zip(names, times, strict=True))
            samples += pairs[::-1] if alternate and i % 2 else pairs
        return samples

    def compare(rounds, hint, what, names="ab", alternate=True):
        want = float(np.median([times[0] / times[1] for times in rounds]))
        samples = taken(rounds, names, alternate)
        got = ratio_of(list(samples), names[0], names[1])
        hint = slips.hint(got, (samples, names[0], names[1]), hint)
        expect(got, want, what=f"ratio_of({what})", hint=hint, rtol=1e-9)

    compare([(20.0, 10.0)] * 5, "time(a) over time(b): below 1, a is faster", "a takes 20, b takes 10", alternate=False)
    hint = "the order within a round changes: go by the names, not by the places"
    compare([(20.0, 10.0)] * 6, hint, "a takes 20, b takes 10, every other round begins with b")
    hint = "other names are sampled as well: leave their samples out"
    compare([(20.0, 10.0, 1.0)] * 6, hint, "three names", "abc")
    hint = "one disturbed round moves a mean, not a median"
    compare([(20.0, 10.0)] * 8 + [(900.0, 10.0)], hint, "one of nine rounds disturbed")
    hint = "divide within a round, then take the median: a round that is slow is slow for both"
    drift = [(20.0, 10.0), (40.0, 20.0), (100.0, 50.0), (5.0, 88.0), (24.0, 96.0), (30.0, 14.0), (60.0, 29.0)]
    compare(drift, hint, "rounds of different speed")
    broken = [[("a", 1.0), ("b", 2.0), ("a", 1.0)], [("a", 1.0)], [("b", 1.0)], [("c", 9.0), ("b", 1.0), ("c", 1.0)]]
    broken += [[("b", 1.0), ("a", 2.0), ("b", 1.0)], [("a", 1.0), ("b", 1.0)] * 40 + [("b", 1.0)]]
    for samples in broken:
        told = str(samples) if len(samples) < 9 else "40 rounds, and one more sample of b"
        what, hint = f"ratio_of({told}, 'a', 'b')", "a round is broken: one of the two is missing in it"
        expect_error(ValueError, lambda s=samples: ratio_of(s, "a", "b"), what=what, hint=hint)
    hint = "the i-th sample of a over the i-th of b, for each i, and the median of these ratios"
    for count in (1, 2, 3, 4, 7, 20, 301) * 3:
        for names in ("ab", ("cudnn", "ours", "a", "b"), ("b", "a", "c")):
            scale = 10.0 ** float(random.integers(-6, 7))
            rounds = [tuple(scale * random.lognormal(1, 1, len(names))) for _ in range(count)]
            compare(rounds, hint, f"{count} rounds of {', '.join(names)}; {seed}", names)
