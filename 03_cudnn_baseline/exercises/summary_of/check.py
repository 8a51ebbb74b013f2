import numpy as np

from common.check import expect, expect_error, require


def check(summary_of):
    random = np.random.default_rng()

    def compare(times, warm_up, hint, what=None):
        given = list(times)
        got = summary_of(given, warm_up)
        require(given == list(times), what="summary_of changes the list of samples", hint="sort a copy: sorted(…)")
        p5, median, p95 = (float(v) for v in np.percentile(times[warm_up:], (5, 50, 95)))
        what = what or f"summary_of({list(times)}, {warm_up})"
        expect(got, (median, p5, p95), what=what, hint=hint, rtol=1e-9)

    compare([10.0] * 30, 0, "give back (median, p5, p95)", "summary_of(30 samples of 10, 0)")
    hint = "the order is median, p5, p95, not the smallest and the largest; the samples need not come sorted"
    compare([float(v) for v in range(101)][::-1], 0, hint, "summary_of(the numbers 100, 99, …, 0)")
    hint = "one sample in ten was disturbed: a mean moves with it, a median does not"
    compare([10.0] * 27 + [500.0] * 3, 0, hint, "summary_of(27 samples of 10 and 3 of 500)")
    hint = "between two samples: p5 of n sorted samples is at place 0.05 · (n − 1), interpolated linearly"
    compare([1.0, 2.0, 3.0, 4.0], 0, hint)
    hint = "the first samples are the warm-up: leave them out before anything is sorted"
    compare([900.0, 400.0, 11.0, 10.0, 13.0, 12.0], 2, hint)
    hint = "the warm-up are the first samples, not the slowest ones"
    compare([2.0, 3.0, 11.0, 10.0, 13.0, 12.0], 2, hint)  # the clocks were still high, say
    compare([5.0, 1.0], 0, "with warm_up=0 all samples count")
    for times, warm_up in (([], 0), ([1.0, 2.0], 2), ([1.0], 5)):
        what, hint = f"summary_of({times}, {warm_up})", "no sample is left: say so, a median of nothing is none"
        expect_error(ValueError, lambda t=times, w=warm_up: summary_of(t, w), what=what, hint=hint)
    for _ in range(10):
        times = [float(v) for v in random.lognormal(3, 0.5, int(random.integers(5, 40)))]
        compare(times, int(random.integers(0, 4)), "any samples", f"summary_of({len(times)} random samples, …)")
