import random

from common.check import expect


def wanted(tiles, multiprocessors, blocks):
    at_once = multiprocessors * blocks
    waves = -(-tiles // at_once)
    return waves, max(0, multiprocessors - (tiles - (waves - 1) * at_once)) / multiprocessors


def check(last_wave):
    def compare(*arguments, hint):
        got = last_wave(*arguments)
        want = wanted(*arguments)
        expect(got, want, what=f"last_wave{arguments}", hint=hint, rtol=1e-9)

    arguments = (49, 132, 1)
    hint = "a wave that is not full is a wave: one of 49 blocks, in which 83 of 132 multiprocessors are idle"
    got = last_wave(*arguments)
    if isinstance(got, tuple) and got == (1, 83):
        hint = "idle is a share, a part of all multiprocessors, not their number"
    elif isinstance(got, tuple) and got == (1, 49 / 132):
        hint = "the share that is idle, not busy"
    expect(got, wanted(*arguments), what=f"last_wave{arguments}", hint=hint, rtol=1e-9)
    compare(264, 132, 1, hint="264 blocks fill the waves exactly: there are two, and in the last none is idle")
    hint = "a multiprocessor holds `blocks` thread blocks at the same time, so a wave has multiprocessors · blocks"
    got = last_wave(528, 132, 4)
    if isinstance(got, tuple) and got[1] < 0:
        hint = "with more blocks left than multiprocessors none is idle, which is 0.0 and not less"
    expect(got, wanted(528, 132, 4), what="last_wave(528, 132, 4)", hint=hint, rtol=1e-9)
    hint = (
        "all have a block: a block goes to the multiprocessor that has fewest, and a multiprocessor is idle only if it"
        " gets none at all"
    )
    compare(200, 132, 2, hint=hint)
    compare(364, 132, 2, hint="100 are left for 132 multiprocessors, each to the one that has fewest")

    draw = random.Random()
    for _ in range(30):
        compare(draw.randint(1, 3000), draw.choice([40, 78, 108, 132]), draw.randint(1, 6), hint="any launch, any card")
