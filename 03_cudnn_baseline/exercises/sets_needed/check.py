from common.check import expect
from common.check.trials import MANY, Slips, python_random, whole

MB = 10**6


def wanted(size, l2):
    """As few as are, together, larger than twice the cache; found by halves."""
    low, high = 2, 2
    while high * size <= 2 * l2:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if middle * size > 2 * l2 else (middle + 1, high)
    return low


SLIPS = {
    "together larger than twice the cache, not than the cache": lambda size, l2: max(2, l2 // size + 1),
    "larger than twice the cache: exactly twice is not enough": lambda size, l2: max(2, -(-2 * l2 // size)),
    "larger than twice the cache: this is just less, rounded down": lambda size, l2: max(2, 2 * l2 // size),
    "one set more than are needed": lambda size, l2: max(2, 2 * l2 // size + 2),
    "never fewer than 2: one set would not rotate": lambda size, l2: 2 * l2 // size + 1,
    "a whole number of sets": lambda size, l2: max(2, 2 * l2 / size),
    "the cache's size is given: another card has another one": lambda size, l2: max(2, 2 * 50 * MB // size + 1),
}


def check(sets_needed):
    slips = Slips(SLIPS)

    def compare(size, l2, hint):
        got = sets_needed(size, l2)
        hint = slips.hint(got, (size, l2), hint)
        expect(got, wanted(size, l2), what=f"sets_needed({size}, {l2})", hint=hint)

    hint = "as few as are together larger than twice the cache; a whole number"
    compare(7 * MB, 50 * MB, hint)
    compare(10 * MB, 50 * MB, "larger than twice the cache: exactly twice is not enough")
    compare(900 * MB, 50 * MB, "never fewer than 2, however large a set is")
    compare(100 * MB, 50 * MB, "one set of exactly twice the cache: a second one is needed anyway")
    compare(1, 60, "a set may be small: as many as it takes, there is no upper limit")
    compare(7_000_001, 62_914_560, "the cache's size is given: another card has another one")
    large = "a division of whole numbers, //, is exact, however large they are; one of floats is rounded"
    compare(10**17 + 1, 2 * 10**17 + 1, large)
    draw = python_random()
    hint = "the least whole number, 2 or more, whose product with one set's bytes is larger than 2 · l2_bytes"
    for _ in range(60):
        size, times = whole(draw), draw.choice([1, 2, draw.randint(1, 99), whole(draw, most=MANY)])
        most = size * MANY  # so far an answer may count the sets
        compare(size, draw.choice([min(whole(draw), most), max(1, size * times // 2)]), hint)
