import random


def interleaved(names, rounds, seed):
    rng = random.Random(seed)
    n, orders = len(names), []
    while len(orders) < rounds:
        row = list(range(n))
        rng.shuffle(row)
        shifts = list(range(n))
        rng.shuffle(shifts)
        for shift in shifts:
            orders.append(tuple(names[row[(place + shift) % n]] for place in range(n)))
    return orders[:rounds]
