"""What all of pytest shares: pictures in HTML outputs of notebooks are not compared byte by byte.

nbval leaves image/png out of its comparison. The same picture within an <img> of text/html differs as well between
machines and releases of Matplotlib, so its bytes are replaced on both sides. Left out as well is how many cases a
check of an exercise has tried. Everything else is compared.

What tests draw at random is the same in every run, or what COURSE_SEED=... says. Tests that are marked `long` run
with --all only.
"""

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests that are marked `long` as well")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--all"):
        os.environ["COURSE_TESTS"] = "all"  # read by tests/tiers.py, in the workers too
    os.environ.setdefault("COURSE_SEED", "1")  # for the workers and for the notebooks' kernels as well
    if getattr(config.option, "nbval_sanitize_with", "no nbval") is None:
        config.option.nbval_sanitize_with = str(Path(__file__).parent / "tests" / "nbval_sanitize.cfg")


def pytest_report_header() -> str:
    return f"COURSE_SEED={os.environ['COURSE_SEED']}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("COURSE_TESTS") == "all":
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
