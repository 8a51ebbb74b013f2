# expect: the new times of all parts add up
def amdahl(shares, speedups):
    if not shares:
        return 1.0
    return 1 / (1 - shares[0] + shares[0] / speedups[0])
