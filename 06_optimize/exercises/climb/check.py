from common.check import expect, require
from common.check.trials import python_random


def wanted(starts, near, us, budget):
    known = []  # in the order of the questions

    def asked(tiles):
        for tile in tiles:
            if tile not in known:
                if len(known) == budget:
                    return False
                known.append(tile)
        return True

    for here in starts:
        if not asked([here]):
            break
        while asked(near[here]):
            step = min(near[here], key=us.get, default=here)
            if us[step] >= us[here]:
                break
            here = step
    best = min(known, key=us.get)
    return best, us[best], set(known)


def check(climb):
    def compare(starts, near, us, budget, hint):
        asked = []

        def ask(tile):
            if tile not in us:
                require(False, what=f"ask({tile!r}): there is no such tile", hint="ask for starts and tiles near them")
            if tile not in asked:
                asked.append(tile)
            return us[tile]

        what = f"climb({list(starts)}, near, ask, {budget}) with near = {near} and µs = {us}"
        got = climb(list(starts), lambda tile: list(near[tile]), ask, budget)
        tile, best, known = wanted(starts, near, us, budget)
        require(
            len(asked) <= budget,
            what=f"{what} asked for {len(asked)} tiles",
            hint="before each question: is it a new tile, and have you asked `budget` times?",
        )
        expect(got, (tile, best), what=what, hint=hint)
        require(
            set(asked) == known,
            what=f"{what} asked for {sorted(asked)}, and was to ask for {sorted(known)}",
            hint="each step asks for all tiles near this one; a climb ends where none of them is faster",
        )

    line = {tile: [n for n in (tile - 1, tile + 1) if 0 <= n < 9] for tile in range(9)}
    valley = dict(enumerate([9.0, 8.0, 5.0, 7.0, 8.5, 6.0, 4.0, 3.0, 3.5]))
    compare([4], line, valley, 99, "go to the fastest of the tiles near you, as long as it is faster")
    compare([1], line, valley, 99, "a climb ends where no tile near it is faster")
    compare([1, 8], line, valley, 99, "at the end of a climb the next start has its turn")
    compare([1, 8], line, valley, 5, "of all tiles that were asked for the fastest counts, from whichever start")
    compare([0], line, valley, 2, "the budget may end in the middle of a step: what was asked for still counts")
    compare([5, 5, 5], line, valley, 99, "a tile asked for twice is one question")
    flat = {tile: 2.0 for tile in range(9)}
    compare([4, 0], line, flat, 99, "a step to a tile that is as fast is no step: a climb would never end")
    compare([3], {3: []}, {3: 1.0}, 5, "a tile with none near it is the end of its climb")
    compare([2], line, valley, 1, "one question: the start")

    draw = python_random()
    for _ in range(60):
        size = draw.choice([4, 12, 40])
        near = {tile: sorted(draw.sample(range(size), min(size - 1, 4)), key=lambda n: n) for tile in range(size)}
        times = [float(n) for n in range(1, size + 1)]  # all different
        draw.shuffle(times)
        starts = draw.sample(range(size), 3)
        hint = "to the fastest tile near you if it is faster, else to the next start; the budget ends all"
        compare(starts, near, dict(enumerate(times)), draw.choice([1, 3, 8, 1000]), hint)
