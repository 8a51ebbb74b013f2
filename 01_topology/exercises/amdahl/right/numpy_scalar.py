import numpy as np


def amdahl(shares, speedups):
    after = 1.0 - np.sum(shares) + np.sum(np.array(shares) / np.array(speedups))
    return float(1 / after)
