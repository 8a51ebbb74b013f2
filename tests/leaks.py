"""How much memory this process holds, and by how much it grows: for tests that look for leaks."""

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")


def resident() -> int:
    """Bytes of memory that this process holds, after a garbage collection."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(act: Callable[[], object], rounds: int = 5) -> int:
    """The fewest bytes that this process grew by in one of `rounds` calls of `act`.

    What leaks grows in every round; an allocator that takes a larger piece from the system, or a thread of another test
    that is just ending, does so in one.
    """
    grown = []
    for _ in range(rounds):
        before = resident()
        act()
        grown.append(resident() - before)
    return min(grown)
