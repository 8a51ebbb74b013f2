"""Which recorded launches are one compilation."""

import numpy as np
import pytest

from common import cuda, kernels
from common.kernels import ladder


def recorded(rng, *calls):
    """The launches of pointwise convolutions, each (channels, filters, variant)."""
    with kernels.recorded() as launches:
        for channels, filters, variant in calls:
            x = cuda.asarray(rng.standard_normal((1, channels, 4, 4), dtype=np.float32))
            kernels.pointwise(x, cuda.asarray(np.ones((filters, channels, 1, 1), np.float32)), variant=variant)
    return launches


def test_launches_of_one_kernel_are_compiled_once(rng):
    first, second, other = recorded(rng, (8, 16, "naive"), (24, 40, "naive"), (8, 16, "tiled"))
    assert ladder._compilation(first) == ladder._compilation(second) != ladder._compilation(other)
    assert first.compiled() is second.compiled() is not other.compiled()


def test_launches_that_are_no_ladders_are_compiled_one_by_one(rng):
    launches = [ladder.Launch("mine", lambda: None, (1,), (1,), (), 0, 0) for _ in range(2)]
    assert ladder._compilation(launches[0]) != ladder._compilation(launches[1])


def test_on_a_gpu_each_kernel_is_asked_for_once(rng, monkeypatch):
    cupy = pytest.importorskip("cupy") if cuda.backend() == "gpu" else None
    launches = recorded(rng, (8, 16, "naive"), (24, 40, "naive"), (8, 16, "tiled"))
    asked = []
    for launch in launches:
        launch.compiled = type(launch.compiled)(asked.append, launch.compiled.args)  # a partial, as before
    if cupy is None:
        kernels.compile_together(launches)
        assert not asked, "on the simulator a kernel is compiled when it is first launched"
    else:
        kernels.compile_together(launches)
        assert len(asked) == 2
