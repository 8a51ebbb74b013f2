"""What all tests share."""

import os

import hypothesis
import numpy as np
import pytest

# how long an example takes says how busy the machine is, and nothing about the example
hypothesis.settings.register_profile("course", deadline=None)
hypothesis.settings.load_profile("course")


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, other ones in every run; a failing test shows the seed, COURSE_SEED=... draws them again."""
    seed = int(os.environ.get("COURSE_SEED") or np.random.SeedSequence().generate_state(1)[0])
    print(f"COURSE_SEED={seed}")
    return np.random.default_rng(seed)
