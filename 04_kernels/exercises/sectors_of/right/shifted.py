import numpy as np


def sectors_of(addresses, size):
    return len(np.unique(np.array(addresses, np.int64) >> 5))
