from fractions import Fraction

from common.check import Wrong, expect
from common.check.trials import Slips, python_random


def wanted(searched, batch):
    return min(searched, key=lambda n: (max(Fraction(n, batch), Fraction(batch, n)), -n), default=None)


def nearest(distance, tie=-1):
    return lambda searched, batch: min(searched, key=lambda n: (distance(n, batch), tie * n))


SLIPS = {
    "the ratio counts, not the difference": nearest(lambda n, batch: abs(n - batch)),
    "a smaller one may be nearer: it need not be the next larger one": lambda searched, batch: min(
        [n for n in searched if n >= batch], default=max(searched)
    ),
    "a larger one may be nearer: it need not be the next smaller one": lambda searched, batch: max(
        [n for n in searched if n <= batch], default=min(searched)
    ),
    "equally near, the larger": nearest(lambda n, batch: max(Fraction(n, batch), Fraction(batch, n)), tie=1),
    "the larger of the two numbers over the smaller, whichever is `batch`": nearest(
        lambda n, batch: Fraction(n, batch)
    ),
    "the larger of the two over the smaller, whichever is `batch`": nearest(lambda n, batch: Fraction(batch, n)),
}


def check(nearest_batch):
    slips = Slips(SLIPS)

    def compare(searched, batch, hint):
        want, what = wanted(searched, batch), f"nearest_batch({searched}, {batch})"
        got = nearest_batch(list(searched), batch)
        if got is None and want is not None:
            raise Wrong(
                f"{what} is None, expected {want}", "a batch that was not searched takes the nearest one's tile"
            )
        expect(got, want, what=what, hint=slips.hint(got, (searched, batch), hint))

    compare([1, 32, 256], 32, "a batch that was searched is nearest to itself")
    compare(
        [1, 32], 10, "from 10 it is 3.2 times up to 32 and 10 times down to 1: the ratio counts, not the difference"
    )
    compare([1, 32, 256], 96, "96 is 3 times 32, and 256 is 2.67 times 96: the ratio counts, not the difference")
    compare([1, 32, 256], 4, "a smaller one may be nearer: 4 times down to 1, 8 times up to 32")
    compare([32, 256], 1, "also if all that was searched is larger")
    compare([1, 32], 1000, "also if all that was searched is smaller")
    compare([256, 1, 32], 300, "searched may come in any order")
    hint = "equally near, the larger: with too large a batch's tile all multiprocessors are likely busy"
    compare([1, 4], 2, hint)
    compare([4, 1], 2, hint)
    compare([4, 25], 10, "25/10 = 10/4, equally near; but their logarithms as floats differ in the last digit")
    if nearest_batch([], 8) is not None:
        raise Wrong("nearest_batch([], 8) is not None", "nothing searched, nothing near: None")
    draw = python_random()
    for _ in range(200):
        searched = draw.sample([1, 2, 3, 4, 6, 8, 9, 12, 16, 27, 32, 64, 81, 100, 128, 256], draw.randint(1, 5))
        hint = (
            "the one with the smallest ratio, the larger number over the smaller; of two with equal ratios the larger"
        )
        compare(searched, draw.randint(1, 300), hint)
    for _ in range(100):
        searched = [draw.randint(1, draw.choice([9, 300, 10**6])) for _ in range(draw.choice([1, 3, 20, 60]))]
        searched, batch = list(dict.fromkeys(searched)), draw.randint(1, draw.choice([9, 300, 10**6]))
        if draw.random() < 0.5:  # two that are equally near
            a, b = draw.randint(1, 700), draw.randint(1, 700)
            searched, batch = list(dict.fromkeys([*searched, a * a, b * b])), a * b
        elif draw.random() < 0.5:  # two that are nearly so
            batch = draw.randint(100, 10**5)
            a = draw.randint(batch // 9, batch)
            searched = list(dict.fromkeys([a, batch * batch // a + draw.choice([0, 1])]))
        draw.shuffle(searched)
        compare(searched, batch, hint)
