import numpy as np

from common.check import expect


def reference(values):
    for digits in range(1, 10):
        back = [np.float32(float(f"{value:.{digits}g}")) for value in values.ravel().tolist()]
        if np.array_equal(np.array(back, np.float32), values.ravel()):
            return digits


def check(digits_needed):
    random = np.random.default_rng()

    def compare(values, hint):
        values = np.asarray(values, np.float32)
        shown = f"{values.tolist()}" if values.size < 5 else f"{values.size} random numbers"
        expect(digits_needed(values), reference(values), what=f"digits_needed({shown})", hint=hint)

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
