# expect: the new times of all parts add up
def amdahl(shares, speedups):
    if not shares:
        return 1.0
    share, speedup = max(zip(shares, speedups, strict=True))
    return 1 / (1 - share + share / speedup)
