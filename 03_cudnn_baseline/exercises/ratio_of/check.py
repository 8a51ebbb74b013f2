import numpy as np

from common.check import expect, expect_error


def check(ratio_of):
    random = np.random.default_rng()

    def taken(rounds, names, alternate):
        """The samples of rounds that hold a time for each name; if they alternate, every other one is backwards."""
        samples = []
        for i, times in enumerate(rounds):
            pairs = list(zip(names, times, strict=True))
            samples += pairs[::-1] if alternate and i % 2 else pairs
        return samples

    def compare(rounds, hint, what, names="ab", alternate=True):
        want = float(np.median([times[0] / times[1] for times in rounds]))
        got = ratio_of(taken(rounds, names, alternate), "a", "b")
        expect(got, want, what=f"ratio_of({what})", hint=hint, rtol=1e-9)

    compare([(20.0, 10.0)] * 5, "time(a) over time(b): below 1, a is faster", "a takes 20, b takes 10", alternate=False)
    hint = "the order within a round changes: go by the names, not by the places"
    compare([(20.0, 10.0)] * 6, hint, "a takes 20, b takes 10, every other round begins with b")
    hint = "other subjects take their turn as well: leave their samples out"
    compare([(20.0, 10.0, 1.0)] * 6, hint, "three subjects", "abc")
    hint = "one disturbed round moves a mean, not a median"
    compare([(20.0, 10.0)] * 8 + [(900.0, 10.0)], hint, "one of nine rounds disturbed")
    hint = "divide within a round, then take the median: a round that is slow is slow for both"
    drift = [(20.0, 10.0), (40.0, 20.0), (100.0, 50.0), (5.0, 88.0), (24.0, 96.0), (30.0, 14.0), (60.0, 29.0)]
    compare(drift, hint, "rounds of different speed")
    for samples in ([("a", 1.0), ("b", 2.0), ("a", 1.0)], [("a", 1.0)]):
        what, hint = f"ratio_of({samples}, 'a', 'b')", "a round is broken: one of the two is missing in it"
        expect_error(ValueError, lambda s=samples: ratio_of(s, "a", "b"), what=what, hint=hint)
    for _ in range(10):
        rounds = [tuple(random.uniform(5, 20, 3)) for _ in range(int(random.integers(3, 20)))]
        compare(rounds, "any samples", f"{len(rounds)} rounds of three subjects", "abc")
