"""Compares with exact arithmetic on fractions, for channels as they occur and for random ones."""

from fractions import Fraction
from math import ceil, floor

from common.check import expect
from common.check.trials import Slips, python_random


def nearest(channels, divisor):
    return floor(Fraction(channels) / divisor + Fraction(1, 2)) * divisor


def rule(channels, divisor=8):
    rounded = max(divisor, nearest(channels, divisor))
    return rounded + divisor if rounded < Fraction(9, 10) * Fraction(channels) else rounded


def half_to_even(channels, divisor=8):
    rounded = max(divisor, round(channels / divisor) * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


SLIPS = {
    "the nearest multiple may lose more than 10 %: then the next larger one": lambda channels, divisor=8: max(
        divisor, nearest(channels, divisor)
    ),
    "the result is never 0, at least divisor": lambda channels, divisor=8: (
        nearest(channels, divisor) + divisor * (nearest(channels, divisor) < 0.9 * channels) * (channels >= divisor)
    ),
    "this is always the next larger multiple; the rule takes the nearest one": lambda channels, divisor=8: max(
        divisor, ceil(channels / divisor) * divisor
    ),
    "this is always the next smaller multiple; the rule takes the nearest one": lambda channels, divisor=8: max(
        divisor, floor(channels / divisor) * divisor
    ),
    "a tie goes up: 12 becomes 16, 52 becomes 56. Python's round() takes the even one of two": half_to_even,
    "the multiples are those of divisor, which may be another number than 8": lambda channels, divisor=8: rule(
        channels, 8
    ),
}


def check(make_divisible):
    slips = Slips(SLIPS)

    def compare(hint, *args):
        got = make_divisible(*args)
        expect(got, rule(*args), what=f"make_divisible({', '.join(map(str, args))})", hint=slips.hint(got, args, hint))

    compare("a multiple of 8 stays", 24)
    compare("24 is the nearest multiple", 21)
    compare("a tie goes up", 12)
    compare("a tie goes up", 52)
    compare("the result is never 0", 3)
    compare("8 loses less than 10 % of 8.4", 8.4)
    compare("8 loses more than 10 % of 11.2", 11.2)
    compare("the multiples are those of divisor", 11, 4)

    draw = python_random()
    left = 60
    while left:
        divisor = draw.choice([8, 8, 4, 16, draw.randint(1, 40)])
        # quarters are exact in binary, and only a multiple of 10 of them can lie at exactly 90 %
        quarters = draw.randint(1, 4 * draw.choice([20, 200, 2000]))
        if 9 * quarters % (40 * divisor):
            compare("the nearest multiple, or the next larger one", quarters / 4, divisor)
            left -= 1
