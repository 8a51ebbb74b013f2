def climb(starts, near, ask, budget):
    """(tile, us): the fastest tile that hill climbing found with at most `budget` questions.

    starts: tiles, in the order in which climbs begin. near(tile): a list of similar tiles.
    ask(tile): its µs; remember them in a dictionary, a known tile is no new question. A step
    asks for all tiles near the current one, and goes to the fastest of them if that is faster
    than the current one. If none is faster, the next climb begins at the next start, known or
    not. The search ends when there are no more starts, or when a new question would exceed the
    budget, also within a step; what was asked until then counts. There is at least one start,
    and the budget is at least 1.
    """
    # BEGIN SOLUTION
    # write: climb from each start, count questions, remember all µs
    us = {}

    def asked(tiles):
        for tile in tiles:
            if tile not in us:
                if len(us) == budget:
                    return False
                us[tile] = ask(tile)
        return True

    for here in starts:
        if not asked([here]):
            break
        while asked(near(here)):
            step = min(near(here), key=us.get, default=here)
            if us[step] >= us[here]:
                break
            here = step
    best = min(us, key=us.get)
    return best, us[best]
    # END SOLUTION
