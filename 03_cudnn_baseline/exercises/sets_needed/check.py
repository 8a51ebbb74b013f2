import random

from common.check import expect

MB = 10**6


def check(sets_needed):
    def compare(size, l2, hint):
        want = max(2, 2 * l2 // size + 1)
        expect(sets_needed(size, l2), want, what=f"sets_needed({size}, {l2})", hint=hint)

    hint = "as few as are together larger than twice the cache; a whole number"
    compare(7 * MB, 50 * MB, hint)
    compare(10 * MB, 50 * MB, "larger than twice the cache: exactly twice is not enough")
    compare(900 * MB, 50 * MB, "never fewer than 2, however large a set is")
    compare(100 * MB, 50 * MB, "one set of exactly twice the cache: a second one is needed anyway")
    compare(1, 60, "a set may be small: as many as it takes, there is no upper limit")
    compare(7_000_001, 62_914_560, "the cache's size is given: another card has another one")
    draw = random.Random()
    for _ in range(30):
        compare(draw.randint(1, 200), draw.randint(1, 2000), "any sizes")
