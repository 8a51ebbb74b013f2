import numpy as np

from common.check import expect
from common.check.trials import Slips, seeded


def neighbours(start, steps):
    """The float32 numbers from `start` upwards, `steps` of them."""
    first = int(np.float32(start).view(np.int32))
    return np.arange(first, first + steps, dtype=np.int32).view(np.float32).tolist()


def pair(start, digits, kind="g"):
    numbers = neighbours(start, 20_000)
    texts = [f"{value:.{digits}{kind}}" for value in numbers]
    at = next(i for i in range(len(texts) - 1) if texts[i] == texts[i + 1])
    return numbers[at], numbers[at + 1]


SLIPS = {
    "the upper number is the next float32: np.nextafter(a, b) gives a float32 if both a and b are"
    " np.float32, else the next float64": lambda start, digits: pair(start, digits)[:1] * 2,
    "the texts of these two numbers differ: go on to the next pair": lambda start, digits: tuple(neighbours(start, 2)),
    "the first pair may begin with `start` itself": lambda start, digits: pair(neighbours(start, 2)[1], digits),
    "`e` counts the digits after the point, `g` all significant digits": lambda start, digits: pair(start, digits, "e"),
    "`f` counts the digits after the point, `g` all significant digits": lambda start, digits: pair(start, digits, "f"),
    "a pair is (lower, upper), in this order": lambda start, digits: pair(start, digits)[::-1],
}


def check(same_text):
    random, seed = seeded()
    slips = Slips(SLIPS)
    hint = "the first two neighbours from `start` upwards whose texts are equal; the lower one may be `start`"

    def compare(start, digits, more=""):
        start = np.float32(start)
        got = same_text(start, digits)
        if isinstance(got, tuple):
            got = tuple(float(value) if isinstance(value, np.floating) else value for value in got)
        why = slips.hint(got, (float(start), digits), hint)
        what = f"same_text(np.float32({start!s}), {digits}){more}"
        expect(got, pair(start, digits), what=what, hint=why, nearly=False)

    compare(0.01, 7)  # where the slips `e` and `f` find a pair, a wrong one here or two lines below
    compare(0.1, 8)
    compare(0.01, 8)
    compare(10, 8)
    compare(1000, 8)
    compare(9.9999, 8)
    compare(9.99, 8)
    compare(1.5, 7)
    compare(8.5, 7)
    compare(1e15, 8)
    compare(1e-30, 8)
    compare(3e38, 7)
    for digits in (1, 2, 3, 4, 5, 6, 7):
        for exponent in random.integers(-36, 37, 5):
            compare(random.uniform(1, 7) * 10.0**exponent, digits, f", {seed}")
