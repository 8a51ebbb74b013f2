import random
from fractions import Fraction

from common.check import Wrong, expect


def wanted(searched, batch):
    return min(searched, key=lambda n: (max(Fraction(n, batch), Fraction(batch, n)), -n), default=None)


def check(nearest_batch):
    def compare(searched, batch, hint):
        want, what = wanted(searched, batch), f"nearest_batch({searched}, {batch})"
        got = nearest_batch(list(searched), batch)
        if got is None and want is not None:
            raise Wrong(
                f"{what} is None, expected {want}", "a batch that was not searched takes the nearest one's tile"
            )
        expect(got, want, what=what, hint=hint)

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
    draw = random.Random()
    for _ in range(200):
        searched = draw.sample([1, 2, 3, 4, 6, 8, 9, 12, 16, 27, 32, 64, 81, 100, 128, 256], draw.randint(1, 5))
        compare(searched, draw.randint(1, 300), "any batches; of equal ratios the logarithms as floats may differ")
