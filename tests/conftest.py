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
def little_optimization(request):
    """Kernels of some thousand shapes, each launched once: -O1 compiles in two thirds of the time.

    `make test` asks for it everywhere else, too; the simulator's own tests have its -O3.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name in ("kernels", "optimize"):
            patch.setenv("COURSE_CXXFLAGS", "-O1")
        elif request.path.parent.name == "cuda":  # the simulator itself, as its users compile
            patch.delenv("COURSE_CXXFLAGS", raising=False)
        yield
