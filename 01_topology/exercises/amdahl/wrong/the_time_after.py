# expect: time before ÷ time after
def amdahl(shares, speedups):
    return 1 - sum(shares) + sum(share / speedup for share, speedup in zip(shares, speedups, strict=True))
