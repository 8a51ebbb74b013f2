def last_wave(tiles, multiprocessors, blocks):
    """(waves, idle): waves of thread blocks of a launch, and the share of multiprocessors that
    are idle in the last.

    tiles: thread blocks of the launch, at least 1. blocks: how many of them a multiprocessor
    holds at the same time. All take equally long, so they come in waves. Blocks go to the
    multiprocessor that has fewest: a multiprocessor gets a second one only when all have a
    first. idle: multiprocessors without any block in the last wave, 0.0 to 1.0.
    """
    # BEGIN SOLUTION
    # write: the waves and the idle share of the last one
    at_once = multiprocessors * blocks
    waves = -(-tiles // at_once)
    left = tiles - (waves - 1) * at_once
    return waves, max(0, multiprocessors - left) / multiprocessors
    # END SOLUTION
