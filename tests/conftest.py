"""What all tests share."""

import os

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, other ones in every run; a failing test shows the seed, COURSE_SEED=... draws them again."""
    seed = int(os.environ.get("COURSE_SEED") or np.random.SeedSequence().generate_state(1)[0])
    print(f"COURSE_SEED={seed}")
    return np.random.default_rng(seed)
