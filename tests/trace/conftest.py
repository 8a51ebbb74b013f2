"""Traces are the simulator's, on a machine with a GPU as well: these tests run everything there."""

import pytest


@pytest.fixture(autouse=True)
def _on_the_simulator(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
