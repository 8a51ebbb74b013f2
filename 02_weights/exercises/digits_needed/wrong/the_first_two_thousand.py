# expect: the last one as well
import numpy as np


def digits_needed(values):
    values = values.ravel()[:2_000]
    for digits in range(1, 18):
        back = np.array([f"{value:.{digits}g}" for value in values], dtype=np.float64)
        if np.array_equal(back.astype(np.float32), values):
            return digits
