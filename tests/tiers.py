"""Two tiers of tests: `make test` runs in minutes, `make test-all` everything with new random numbers.

pytestmark = long                       a test, or a file, of `make test-all` alone
@pytest.mark.parametrize("n", [1, 7] + only_all([13, 129]))    cases of `make test-all` alone
"""

import os

import pytest

ALL = os.environ.get("COURSE_TESTS") == "all"  # set by `pytest --all`, see conftest.py

long = pytest.mark.long


def only_all(cases: list) -> list:
    """The cases in `make test-all`, none of them in `make test`."""
    return list(cases) if ALL else []
