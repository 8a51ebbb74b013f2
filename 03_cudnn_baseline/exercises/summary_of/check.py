import numpy as np

from common.check import expect, expect_error, require
from common.check.trials import Slips, seeded


def three(times, order=(50, 5, 95), **how):
    return tuple(float(value) for value in np.percentile(times, order, **how))


SLIPS = {
    "the order is median, p5, p95": lambda times, warm_up: three(times[warm_up:], (5, 50, 95)),
    "p5 comes before p95": lambda times, warm_up: three(times[warm_up:], (50, 95, 5)),
    "p5 and p95 are percentiles, not the smallest and the largest sample": lambda times, warm_up: three(
        times[warm_up:], (50, 0, 100)
    ),
    "p5 and p95 are the 5th and the 95th percentile, not the 10th and the 90th": lambda times, warm_up: three(
        times[warm_up:], (50, 10, 90)
    ),
    "p5 and p95 are the 5th and the 95th percentile, not the quartiles": lambda times, warm_up: three(
        times[warm_up:], (50, 25, 75)
    ),
    "`warm_up` samples are left out: here it is one more": lambda times, warm_up: three(times[warm_up + 1 :]),
    "the first samples are the warm-up: leave them out": lambda times, warm_up: three(times),
    "the warm-up are the first samples: leave them out before anything is sorted": lambda times, warm_up: three(
        sorted(times)[warm_up:]
    ),
    "the warm-up are the first samples, not the slowest ones": lambda times, warm_up: three(
        sorted(times)[: len(times) - warm_up]
    ),
    "the warm-up are the first samples, not the last ones": lambda times, warm_up: three(times[: len(times) - warm_up]),
    "percentiles lie between two samples, interpolated linearly: this takes the nearest": lambda times, warm_up: three(
        times[warm_up:], method="nearest"
    ),
    "percentiles lie between two samples, interpolated linearly: this takes the lower one": lambda times, warm_up: (
        three(times[warm_up:], method="lower")
    ),
    "percentiles lie between two samples, interpolated linearly: this takes the higher one": lambda times, warm_up: (
        three(times[warm_up:], method="higher")
    ),
    "a median is asked for, not a mean: the mean moves with one disturbed sample": lambda times, warm_up: (
        (float(np.mean(times[warm_up:])), *three(times[warm_up:])[1:])
    ),
}


def check(summary_of):
    random, seed = seeded()
    slips = Slips(SLIPS)

    def compare(times, warm_up, hint, what=None):
        given = list(times)
        got = summary_of(given, warm_up)
        require(given == list(times), what="summary_of changes the list of samples", hint="sort a copy: sorted(…)")
        p5, median, p95 = (float(v) for v in np.percentile(times[warm_up:], (5, 50, 95)))
        what = what or f"summary_of({list(times)}, {warm_up})"
        hint = slips.hint(got, (list(times), warm_up), hint)
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
    for times, warm_up in (([], 0), ([], 3), ([1.0, 2.0], 2), ([1.0], 5), ([1.0, 2.0], 10**12)):
        what, hint = f"summary_of({times}, {warm_up})", "no sample is left: say so, a median of nothing is none"
        expect_error(ValueError, lambda t=times, w=warm_up: summary_of(t, w), what=what, hint=hint)
    compare([7.0], 0, "a single sample is the median, and p5 and p95")
    compare([9.0, 7.0], 1, "a single sample is left: it is the median, and p5 and p95")
    compare([3, 1, 2], 0, "samples may be whole numbers; the results are floats")
    hint = "leave out the first `warm_up` samples, then the 50th, 5th and 95th percentile of the others"
    for count in (1, 2, 3, 5, 20, 101, 2000) * 2:
        scale = 10.0 ** float(random.integers(-9, 9))
        times = [float(v) for v in scale * random.lognormal(3, 0.5, count)]
        warm_up = int(random.integers(0, min(count, 4)))
        compare(times, warm_up, hint, f"summary_of({count} samples, {warm_up}), {seed}")
    times = [float(v) for v in random.lognormal(3, 0.5, 1500)]
    compare(times, 1200, hint, f"summary_of(1500 samples, 1200), {seed}")
