import numpy as np


def mse_range(counts, top):
    """The upper end of the range 0 … end with the smallest squared error: a float.

    counts: of a histogram whose bins have equal width, from 0 to top; each number counts as
    the middle of its bin. Ends to try: 99 from top down to 0.02 · top, that is
    np.linspace(1.0, 0.02, 99) · top. A range has 256 codes, so 255 steps. A number is stored
    as the nearest code's number, one beyond the end as the end.
    """
    centres = top * (np.arange(len(counts)) + 0.5) / len(counts)
    best, least = top, np.inf
    # BEGIN SOLUTION
    # write: the error of each end, and the best end
    for share in np.linspace(1.0, 0.02, 99):
        end = share * top
        step = end / 255
        stored = np.rint(np.minimum(centres, end) / step) * step
        error = (counts * (centres - stored) ** 2).sum()
        if error < least:
            best, least = end, error
    # END SOLUTION
    return float(best)
