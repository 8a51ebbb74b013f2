"""What all tests share."""

import sys

import hypothesis
import numpy as np
import pytest
from tiers import seed

# how long an example takes says how busy the machine is, and nothing about the example
hypothesis.settings.register_profile("course", deadline=None)
hypothesis.settings.load_profile("course")


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers of the seed COURSE_SEED."""
    return np.random.default_rng(seed())


@pytest.fixture(autouse=True)
def torch_draws_from_the_seed() -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed())


@pytest.fixture(autouse=True, scope="module")
def optimized(request):
    """The simulator itself, in tests/cuda, is compiled as its users compile; all else as conftest.py says, quickly."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name == "cuda":
            patch.delenv("COURSE_CXXFLAGS", raising=False)
        yield
