import random


def interleaved(names, rounds, seed):
    """The order of the runs: a list of `rounds` tuples, each with every name once.

    In the first len(names) rounds each name stands at each place once: first, second, …; so
    also in the next len(names) rounds, with orders drawn anew. In the rounds that are left
    over, no name stands at the same place twice. So a steady drift adds as much to one name as
    to any other, if rounds is a multiple of len(names).

    The orders are random: over many seeds every name follows every other equally often. The
    same seed gives the same orders. Do not change `names`, nor the random numbers of the rest
    of the program.
    """
    # BEGIN SOLUTION
    # write: one tuple per round
    draw, orders, n = random.Random(seed), [], len(names)
    while len(orders) < rounds:
        one = draw.sample(names, n)
        orders += [tuple(one[k:] + one[:k]) for k in draw.sample(range(n), n)]
    return orders[:rounds]
    # END SOLUTION
