import numpy as np


def digits_needed(values):
    """The fewest significant digits with which every number of a float32 array survives as
    text.

    A number is written as f"{value:.{digits}g}", read back as float32, and survives if that
    gives the same number exactly. `digits` counts from 1.
    """
    # BEGIN SOLUTION
    # write: the fewest digits that survive the way there and back
    for digits in range(1, 18):
        back = np.array([f"{value:.{digits}g}" for value in values.ravel()], dtype=np.float64)
        if np.array_equal(back.astype(np.float32), values.ravel()):
            return digits
    # END SOLUTION
