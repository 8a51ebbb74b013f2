import random
from collections import Counter
from itertools import pairwise

from common.check import expect, require
from common.check.trials import python_random

MANY = 400  # seeds


def unless(holds, what, hint):
    """As require, for what is tried so often that it is counted as one."""
    if not holds:
        require(False, what=what, hint=hint)


def check(interleaved):
    def orders_of(names, rounds, seed):
        given = list(names)
        state = random.getstate()
        orders = interleaved(given, rounds, seed)
        undisturbed = random.getstate() == state
        random.setstate(state)
        what = f"interleaved({names}, {rounds}, seed={seed})"
        if orders is None or orders is ...:
            expect(orders, [], what=what, hint="")  # not started yet
        shaped = isinstance(orders, list) and all(isinstance(order, tuple) for order in orders)
        unless(shaped, f"{what} is no list of tuples", "a tuple of names for each round, in a list")
        shown = next((order for order in orders if sorted(order) != sorted(names)), None)
        unless(shown is None, f"{what} holds the round {shown}", "in each round every name once")
        hint = f"{rounds} rounds were asked for, whether or not that is a multiple of the number of names"
        unless(len(orders) == rounds, f"{what} has {len(orders)} rounds", hint)
        hint = "`names` belongs to the caller: shuffle a list of your own"
        unless(given == names, f"{what} changes names to {given}", hint)
        hint = "random.Random(seed) is a generator of its own; random.seed() changes what all others draw"
        unless(undisturbed, f"{what} changes the random numbers of the rest of the program", hint)
        return orders

    def balanced(names, rounds, seed):
        orders, n = orders_of(names, rounds, seed), len(names)
        what = f"interleaved({names}, {rounds}, seed={seed})"
        for start in range(0, rounds, n):
            block = orders[start : start + n]
            for place in range(n):
                (name, times), *_ = Counter(order[place] for order in block).most_common(1)
                hint = (
                    "each round is drawn without a look at the others; among len(names) rounds each name has to be"
                    " first once, second once, …"
                )
                told = f"in rounds {start + 1} to {start + len(block)} {name!r} is in place {place + 1} {times} times"
                unless(times == 1, f"{what}: {told}", hint)
        return orders

    names = ["ours", "cudnn", "torch"]
    n = len(names)
    fixed = sum(len(set(orders_of(names, n, seed))) == 1 for seed in range(10))
    hint = "the same order in every round: who runs last always runs on the card that others have heated"
    require(fixed < 10, what=f"interleaved({names}, {n}, seed) repeats one order, whatever the seed", hint=hint)
    for seed in range(20):
        one, other = (balanced(names, 2 * n, seed) for _ in range(2))
        hint = "the same seed must give the same orders, or nobody can repeat the measurement: random.Random(seed)"
        unless(one == other, f"interleaved({names}, {2 * n}, seed={seed}) is {one}, and then {other}", hint)
    several = {tuple(balanced(names, n, seed)) for seed in range(20)}
    hint = "the seed decides nothing: the order is to be drawn"
    require(len(several) > 1, what=f"interleaved({names}, {n}, seed) gives the same for 20 seeds", hint=hint)

    slots = Counter()
    for seed in range(10):  # what drifts evenly adds the number of the run
        for number, order in enumerate(balanced(names, 2 * n, seed)):
            slots.update({name: n * number + place for place, name in enumerate(order)})
    hint = "drift adds the number of the run to each; over whole blocks of rounds the sums are to be equal"
    require(len(set(slots.values())) == 1, what=f"sums over the places are {dict(slots)}", hint=hint)
    same = sum(orders[:n] == orders[n:] for orders in (balanced(names, 2 * n, seed) for seed in range(50)))
    hint = "the next len(names) rounds need an order drawn anew: what happens every n rounds must not meet the same one"
    require(same < 25, what=f"for {same} of 50 seeds rounds {n + 1} to {2 * n} repeat rounds 1 to {n}", hint=hint)

    draw = python_random()
    for size, rounds in ((4, 3), (4, 10), (2, 5), (1, 3), (5, 5), (3, 0), (12, 30), (25, 60), (3, 1000)):
        for seed in (0, 7, draw.randint(10**4, 10**6), 2**40 + 1):
            engines = [f"{draw.choice('zyxab')} {i}" for i in range(size)]
            require(balanced(engines, rounds, seed) is not None, what="any number of names and rounds", hint="")

    pairs, begins = Counter(), Counter()
    for seed in range(MANY):
        orders = balanced(names, n, seed)
        begins[orders[0][0]] += 1
        pairs.update(pair for order in orders for pair in pairwise(order))
    (a, b), most = pairs.most_common(1)[0]
    hint = f"{b!r} always comes behind the same other one, or nearly so: draw the order that you rotate as well"
    what = f"over {MANY} seeds {b!r} follows {a!r} {most} times and {a!r} follows {b!r} {pairs[b, a]} times"
    require(most < 1.5 * sum(pairs.values()) / (n * (n - 1)), what=what, hint=hint)
    name, most = begins.most_common(1)[0]
    hint = "who begins is to be drawn as well: the first run meets the coolest card"
    require(most < 0.5 * MANY, what=f"over {MANY} seeds {name!r} begins {most} times", hint=hint)
