"""Programmatic launches: every rung's text waits before it does anything else, and computes what it did before."""

import numpy as np
import pytest

from common import cuda, kernels
from common.cuda.signature import declarations, without_comments
from common.kernels.ladder import waiting

RUNGS = [(path.parent.name, path.stem.split("_", 1)[1]) for path, _ in kernels.sources()]


@pytest.mark.parametrize(("operator", "variant"), sorted(set(RUNGS)))
def test_every_rung_waits_first(operator, variant):
    plain, text = kernels.source(operator, variant), kernels.source(operator, variant, programmatic=True)
    code = without_comments(text)
    head, body = code[: code.index("wait_for_inputs")].rstrip(), code[code.index("wait_for_inputs") :]
    assert head.endswith("{") and body.startswith("wait_for_inputs();") and code.count("wait_for_inputs") == 1
    assert f"{operator}(" in head[head.rindex('extern "C"') :]
    assert text.count('#include "grid.h"') == 1
    assert declarations(text)[operator].parameters == declarations(plain)[operator].parameters
    lines = [line for line in text.splitlines() if "wait_for_inputs" not in line and line != '#include "grid.h"']
    assert lines == plain.splitlines()  # and nothing else is changed


@pytest.mark.parametrize("text", ["", "__global__ void f() {}", 'extern "C" __global__ void f();'])
def test_what_is_no_single_kernel_is_refused(text):
    with pytest.raises(ValueError, match="source must define one"):
        waiting(text)
    two = 'extern "C" __global__ void f() {}\nextern "C" __global__ void g() {}'
    with pytest.raises(ValueError, match="got 2"):
        waiting(two)


def test_recorded_launches_are_programmatic_and_right(rng):
    x = cuda.to_layout(cuda.asarray(rng.standard_normal((2, 8, 7, 6), dtype=np.float32)), "NHWC")
    weight = cuda.asarray(rng.standard_normal((12, 8, 1, 1), dtype=np.float32))
    filters = cuda.asarray(rng.standard_normal((12, 1, 3, 3), dtype=np.float32))
    hidden = kernels.pointwise(x, weight, activation="relu")
    want = kernels.global_avg_pool(kernels.depthwise(hidden, filters, None, 1, 1))
    with kernels.recorded(programmatic=True) as launches:
        first = kernels.pointwise(x, weight, activation="relu")
        second = kernels.depthwise(first, filters, None, 1, 1)
        out = kernels.global_avg_pool(second)
    assert len(launches) == 3 and all(launch.programmatic for launch in launches)
    for _ in range(2):
        for launch in launches:
            launch()
        np.testing.assert_allclose(cuda.asnumpy(out), cuda.asnumpy(want), rtol=1e-5, atol=1e-6)
    with kernels.recorded() as launches:
        kernels.global_avg_pool(second)
    assert not launches[0].programmatic
