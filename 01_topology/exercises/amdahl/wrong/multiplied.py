# expect: one by one, do not multiply
def amdahl(shares, speedups):
    total = 1.0
    for share, speedup in zip(shares, speedups, strict=True):
        total *= 1 / (1 - share + share / speedup)
    return total
