# expect: what is not sped up takes as long
def amdahl(shares, speedups):
    return 1 / sum(share / speedup for share, speedup in zip(shares, speedups, strict=True)) if shares else 1.0
