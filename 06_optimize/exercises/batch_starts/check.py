from common.check import expect
from common.check.trials import python_random


def wanted(arrivals, window, most, busy):
    batches, first, free = [], 0, 0.0
    while first < len(arrivals):
        start = arrivals[first] + window
        if first + most <= len(arrivals):
            start = min(start, arrivals[first + most - 1])
        start = max(start, free)
        taken = sum(arrival <= start for arrival in arrivals[first : first + most])
        batches.append((start, taken))
        first, free = first + taken, start + busy(taken)
    return batches


def check(batch_starts):
    def compare(arrivals, window, most, base, each, hint):
        def busy(n):
            return base + each * n

        got = batch_starts(list(arrivals), window, most, busy)
        what = f"batch_starts({arrivals}, window={window}, most={most}, busy=lambda n: {base} + {each} * n)"
        expect(got, wanted(arrivals, window, most, busy), what=what, hint=hint, rtol=1e-9, nearly=False)

    compare([100.0], 50.0, 4, 10.0, 1.0, "a picture alone waits for the whole window")
    hint = "the picture at 130 arrives within the window of the one at 100, the picture at 160 after it"
    compare([100.0, 130.0, 160.0], 50.0, 4, 1.0, 1.0, hint)
    hint = "two pictures are the most: the batch starts when the second one is there, and not at the window's end"
    compare([100.0, 110.0, 400.0], 50.0, 2, 1.0, 1.0, hint)
    hint = "the window has ended, but the worker is busy: the batch starts when the worker is free"
    compare([100.0, 200.0], 10.0, 4, 500.0, 0.0, hint)
    hint = "while the worker is busy more pictures arrive: the next batch takes all of them"
    compare([100.0, 200.0, 300.0, 400.0], 10.0, 4, 500.0, 0.0, hint)
    hint = "a batch takes at most `most` pictures; those that are left wait for the next one"
    compare([100.0, 200.0, 300.0, 400.0], 10.0, 2, 500.0, 0.0, hint)
    hint = "busy is asked for the pictures that the batch has, and not for the most that it could have"
    compare([100.0, 105.0, 130.0], 10.0, 8, 0.0, 20.0, hint)
    compare([100.0, 150.0], 50.0, 4, 1.0, 1.0, "a picture that arrives as the window ends is in the batch")
    compare([100.0, 101.0], 0.0, 4, 10.0, 0.0, "with a window of 0 a free worker starts at once")

    draw = python_random()
    hint = "the start: the window's end or the arrival of picture number `most`, and not before the worker is free"
    for _ in range(30):
        moment, arrivals = 0, []
        for _ in range(draw.randint(1, 20)):
            moment += draw.randint(0, 30)
            arrivals.append(float(moment))
        window, base = float(draw.choice([0, 10, 50])), float(draw.choice([0, 40]))
        compare(arrivals, window, draw.choice([1, 2, 5, 32]), base, float(draw.randint(0, 8)), hint)
