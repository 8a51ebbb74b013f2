def amdahl(shares, speedups):
    """How many times faster the whole becomes when its parts do.

    shares      the part of the time that each of these parts took before: 0.2 is 20 %. They
                add up to 1 or less; the rest of the time stays as it is
    speedups    how many times faster each of these parts becomes; math.inf: it takes no time
                any more
    """
    # BEGIN SOLUTION
    # write: the speed-up from the parts' shares and speed-ups
    rest = 1 - sum(shares)
    return 1 / (
        rest + sum(share / speedup for share, speedup in zip(shares, speedups, strict=True))
    )
    # END SOLUTION
