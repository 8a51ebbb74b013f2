import numpy as np


def same_text(start, digits):
    """The first two neighbouring float32 numbers, from `start` upwards, that have the same
    text: (lower, upper), both np.float32.

    Two float32 numbers are neighbours if no float32 lies between them. The text of a number is
    f"{value:.{digits}g}". start: np.float32, positive. A pair exists within 20,000 numbers,
    and all of these are finite.
    """
    # BEGIN SOLUTION
    # write: the pair (lower, upper)
    lower = np.float32(start)
    while True:
        upper = np.nextafter(lower, np.float32(np.inf))
        if f"{lower:.{digits}g}" == f"{upper:.{digits}g}":
            return lower, upper
        lower = upper
    # END SOLUTION
