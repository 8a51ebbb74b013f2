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


@pytest.fixture(autouse=True, scope="module")
def little_optimization(request):
    """Kernels of some thousand shapes, each launched once: -O1 compiles in two thirds of the time.

    Notebooks and all other tests have the simulator's -O3.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name in ("kernels", "optimize"):
            patch.setenv("COURSE_CXXFLAGS", "-O1")
        yield
