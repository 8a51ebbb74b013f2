from common.check import expect
from common.check.trials import FEW, MANY, Slips, python_random, whole


def wanted(tiles, multiprocessors, blocks):
    at_once = multiprocessors * blocks
    waves = -(-tiles // at_once)
    return waves, max(0, multiprocessors - (tiles - (waves - 1) * at_once)) / multiprocessors


def of_last(idle):
    """An answer with the right waves; idle(blocks in the last wave, multiprocessors, blocks) is its share."""

    def slip(tiles, multiprocessors, blocks):
        waves, _ = wanted(tiles, multiprocessors, blocks)
        return waves, idle(tiles - (waves - 1) * multiprocessors * blocks, multiprocessors, blocks)

    return slip


SLIPS = {
    "idle is a share, a part of all multiprocessors, not their number": of_last(lambda left, m, b: max(0, m - left)),
    "the share that is idle, not busy": of_last(lambda left, m, b: min(m, left) / m),
    "with more blocks left than multiprocessors none is idle, which is 0.0 and not less": of_last(
        lambda left, m, b: (m - left) / m
    ),
    "a multiprocessor is idle only if it gets no block at all: places for blocks are not counted": of_last(
        lambda left, m, b: (m * b - left) / (m * b)
    ),
    "a block goes to the multiprocessor that has fewest: none is filled before others have one": of_last(
        lambda left, m, b: (m - -(-left // b)) / m
    ),
    "a multiprocessor holds `blocks` thread blocks at the same time": lambda tiles, m, b: wanted(tiles, m, 1),
    "if the blocks fill the waves exactly there is no further one": lambda tiles, m, b: (
        tiles // (m * b) + 1,
        max(0, m - tiles % (m * b)) / m,
    ),
    "a wave that is not full is a wave: round up": lambda tiles, m, b: (tiles // (m * b), wanted(tiles, m, b)[1]),
}


def check(last_wave):
    slips = Slips(SLIPS)

    def compare(*arguments, hint):
        got = last_wave(*arguments)
        hint = slips.hint(got, arguments, hint)
        expect(got, wanted(*arguments), what=f"last_wave{arguments}", hint=hint, rtol=1e-9)

    compare(49, 132, 1, hint="a wave that is not full is a wave: one of 49 blocks, 83 of 132 multiprocessors are idle")
    compare(264, 132, 1, hint="264 blocks fill the waves exactly: there are two, and in the last none is idle")
    hint = "a multiprocessor holds `blocks` thread blocks at the same time, so a wave has multiprocessors · blocks"
    compare(528, 132, 4, hint=hint)
    hint = (
        "all have a block: a block goes to the multiprocessor that has fewest, and a multiprocessor is idle only if it"
        " gets none at all"
    )
    compare(200, 132, 2, hint=hint)
    compare(364, 132, 2, hint="100 are left for 132 multiprocessors, each to the one that has fewest")

    hint = "whole numbers, however large: 132 · 2⁵⁰ blocks run at once, three times, and one is left"
    compare(3 * 132 * 2**50 + 1, 132, 2**50, hint=hint)

    draw = python_random()
    hint = "waves: blocks over those that run at once, rounded up; idle: multiprocessors less blocks left, not below 0"
    for _ in range(60):
        multiprocessors, blocks = (
            draw.choice([1, 40, 78, 108, 132, whole(draw, most=FEW)]),
            draw.choice([1, 2, 6, 32, whole(draw, most=FEW)]),
        )
        tiles = draw.choice([whole(draw, most=MANY), multiprocessors * blocks * draw.randint(1, 9)])
        compare(max(1, tiles + draw.choice([-1, 0, 0, 1])), multiprocessors, blocks, hint=hint)
