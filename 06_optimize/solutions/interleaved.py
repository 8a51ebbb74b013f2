import random


def interleaved(names, rounds, seed):
    """Who runs after whom: a list of `rounds` tuples, in each of them every name once.

    Of len(names) rounds, counted from the first one, each name stands in each place once:
    first, second, …; and so in the next len(names) rounds, with an order drawn anew. In what
    is left over no name stands in the same place twice. So, if rounds is a multiple of
    len(names), what drifts evenly adds as much to one name as to any other.

    Who follows whom, and who begins, is drawn: over many seeds every name comes as often
    behind any other. The same seed gives the same orders. `names` and the random numbers of
    the rest of the program stay as they are.
    """
    # BEGIN SOLUTION
    # write: one tuple per round
    draw, orders, n = random.Random(seed), [], len(names)
    while len(orders) < rounds:
        one = draw.sample(names, n)
        orders += [tuple(one[k:] + one[:k]) for k in draw.sample(range(n), n)]
    return orders[:rounds]
    # END SOLUTION
