"""What all tests share."""

import gc
import sys

import hypothesis
import numpy as np
import pytest
from hypothesis.internal.conjecture import providers
from tiers import ALL, seed

# how long an example takes says how busy the machine is, and nothing about the example
hypothesis.settings.register_profile("course", deadline=None)
hypothesis.settings.load_profile("course")
if not ALL:  # else numbers of all sources are tried, too, and each worker reads them for five seconds
    providers._get_local_constants = providers.Constants


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers of the seed COURSE_SEED."""
    return np.random.default_rng(seed())


@pytest.fixture
def invoke(monkeypatch):
    """invoke(*arguments): what a command does within this process. An exception that it does not catch is raised."""
    from typer.testing import CliRunner

    from common.__main__ import app

    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments):
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture(autouse=True)
def torch_draws_from_the_seed() -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed())


@pytest.fixture(autouse=True, scope="module")
def optimized(request):
    """The simulator itself, in tests/cuda, is compiled as its users compile; all else as conftest.py says, quickly."""
    gc.collect()
    gc.freeze()  # what earlier files left: a collection would visit all of it, for a quarter of a second
    gc.set_threshold(20_000, 20, 20)  # seldom: results of tests are freed without it
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name == "cuda":
            patch.delenv("COURSE_CXXFLAGS", raising=False)
        yield
