def amdahl(shares, speedups):
    """How many times faster the whole becomes when its parts do.

    shares      the part of the time that each of these parts took before: 0.2 is 20 %. They add up to 1 or
                less; the rest of the time stays as it is
    speedups    how many times faster each of these parts becomes; math.inf: it takes no time any more
    """
    ...  # your code
