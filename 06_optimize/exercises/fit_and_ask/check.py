import numpy as np

from common.check import expect, require
from common.check.trials import python_random


def wanted(features, us, budget, first):
    known = list(first)
    while len(known) < min(budget, len(features)):
        w = np.linalg.lstsq(features[known], np.log(us[known]), rcond=None)[0]
        predicted = features @ w
        predicted[known] = np.inf
        known.append(int(np.argmin(predicted)))
    best = min(known, key=lambda i: us[i])
    return best, us[best], known


def check(fit_and_ask):
    def compare(features, us, budget, first, hint):
        asked = []

        def ask(i):
            asked.append(int(i))
            return float(us[i])

        what = f"fit_and_ask(features of {len(us)} tiles, ask, {budget}, {list(first)})"
        got = fit_and_ask(features.copy(), ask, budget, list(first))
        best, least, known = wanted(features, us, budget, first)
        require(
            asked[: len(first)] == list(first),
            what=f"{what} asked for {asked[: len(first)]} at the beginning",
            hint="ask for the tiles of `first`, in their order, before anything is fitted",
        )
        require(
            len(asked) == len(set(asked)), what=f"{what} asked for a tile twice", hint="of the tiles not asked for yet"
        )
        require(
            len(asked) == len(known),
            what=f"{what} asked for {len(asked)} tiles and not {len(known)}",
            hint="until `budget` tiles have been asked for, the first ones counted, or there are no more",
        )
        require(asked == known, what=f"{what} asked for {asked} and not {known}", hint=hint)
        expect(got, (best, float(least)), what=what, hint="the fastest of all that were asked for, not the last one")

    draw = np.random.default_rng(python_random().randrange(2**31))
    for size, width, noise in ((12, 2, 0.0), (40, 3, 0.1), (80, 5, 0.5)) * 6:
        features = np.column_stack([np.ones(size), draw.normal(size=(size, width - 1))])
        us = np.exp(features @ draw.normal(size=width) + noise * draw.normal(size=size) + 3)
        first = [int(i) for i in draw.choice(size, width + 2, replace=False)]
        hint = "fit the logarithm of the µs to all tiles asked for so far, after every question anew"
        compare(features, us, len(first) + 6, first, hint)
    compare(features[:9], us[:9], 50, [0, 2, 4, 6, 8, 1], "more budget than tiles: all are asked for")
