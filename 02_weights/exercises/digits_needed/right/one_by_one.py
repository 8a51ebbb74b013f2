import numpy as np


def digits_needed(values):
    needed = 1
    for value in values.flat:
        while np.float32(f"{value:.{needed}g}") != value:
            needed += 1
    return needed
