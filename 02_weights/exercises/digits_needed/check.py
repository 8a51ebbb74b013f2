import numpy as np

from common.check import expect
from common.check.trials import Slips, seeded


def reference(values):
    for digits in range(1, 10):
        back = [np.float32(float(f"{value:.{digits}g}")) for value in values.ravel().tolist()]
        if np.array_equal(np.array(back, np.float32), values.ravel()):
            return digits


SLIPS = {
    "one digit may be enough: `digits` counts from 1": lambda values: max(2, reference(values)),
    "all significant digits count, the one before the point as well: `g`, not `e`": lambda values: (
        reference(values) - 1
    ),
    "this is one digit more than is needed": lambda values: reference(values) + 1,
    "nine are always enough; for these numbers fewer may do": lambda values: 9,
}


def check(digits_needed):
    random, seed = seeded()
    slips = Slips(SLIPS)

    def compare(values, hint):
        values = np.asarray(values, np.float32)
        shown = f"{values.tolist()}" if values.size < 5 else f"{values.size} random numbers, {seed}"
        with np.errstate(over="ignore"):  # the largest number, rounded up
            got = digits_needed(values)
            hint = slips.hint(got, (values,), hint)
            expect(got, reference(values), what=f"digits_needed({shown})", hint=hint)

    compare([-0.25], "0.25 has two significant digits; how many of them can be left out?")
    hint = "0.1 as float32 needs one digit: what is read back has to be made float32 before it is compared"
    compare([0.1], hint)
    compare([0.0625], "`g` counts significant digits, `f` counts digits after the point")
    # apart by one unit in the last place: alike to eight digits
    hint = "the same number exactly: nearly the same is not enough"
    compare([8589973504.0], hint)
    compare([np.nextafter(np.float32(1), np.float32(2))], hint)
    compare([[0.5, 0.5], [0.5, 1 / 3]], "every number of the array has to survive, the hardest decides")
    for size in (3, 10, 100, 1000):
        compare(random.normal(size=size), "every number of the array has to survive, the hardest decides")
    compare(random.integers(0, 100, 50), "numbers that are short in decimal need few digits")
    every = 'the fewest digits for which f"{value:.{digits}g}", read back as float32, is each number itself'
    compare([0.0, -0.0, 2.0], every)
    compare([np.inf, -np.inf, 0.3], "inf is written as inf with any number of digits, and read back as such")
    tiny, least, largest = 1e-45, float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
    compare([tiny], "subnormal numbers are written with `g` as all others")
    compare([3 * tiny, -7e-42], every)
    compare([least, -3 * tiny], every)
    compare([largest, -1.0], every)
    compare(np.zeros((2, 3)), every)
    compare(random.standard_normal((3, 4, 5)) * 1e-40, every)
    compare(np.append(np.ones(4_000), 1 / 3), "every number of the array has to survive, the last one as well")
    for digits in range(1, 8):
        step = 10.0 ** random.integers(-30, 30, 40)
        compare(random.integers(1, 10**digits, 40) * step, every)
