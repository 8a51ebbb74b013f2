"""The pictures that the suites run on: random numbers, the same in every run."""

from collections.abc import Sequence

import numpy as np


def pictures(count: int, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Standard normal pictures (count, C, H, W) float32 for `shape` (C, H, W); on zeros a GPU would run faster.

    The first pictures do not depend on the count.
    """
    made = np.empty((count, *shape), np.float32)
    for i in range(count):
        made[i] = np.random.default_rng((seed, i)).standard_normal(tuple(shape), dtype=np.float32)
    return made
