# expect: for any number of parts
def amdahl(shares, speedups):
    rest = 1 - sum(shares)
    return 1 / (rest + sum(share / speedup for share, speedup in zip(shares[:8], speedups[:8], strict=True)))
