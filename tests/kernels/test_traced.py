"""kernels.trace: the launches of a rung as a card's launcher makes them, traced."""

import numpy as np
import pytest

from common import cuda, kernels

RANDOM = np.random.default_rng(4)


def array(*shape):
    return cuda.asarray(RANDOM.standard_normal(shape).astype(np.float32))


def test_the_output_is_written_as_by_the_call():
    x, weight = array(1, 4, 9, 7), array(4, 1, 3, 3)
    want = cuda.asnumpy(kernels.depthwise(x, weight, None, 1, 1))
    out = cuda.full(want.shape, np.nan)
    [report] = kernels.trace("depthwise", "naive", x, weight, None, 1, 1, out=out)
    assert np.allclose(cuda.asnumpy(out), want, atol=1e-6) and not report.findings
    assert report.global_stores.accesses == want.size


def test_each_launch_has_a_report_in_their_order():
    x, weight = array(1, 4, 8, 8), array(8, 4, 3, 3)
    reports = kernels.trace("winograd", "naive", x, weight, None, 1)
    assert [report.kernel for report in reports] == ["winograd_weight", "winograd"]


def test_the_card_decides_the_grid_and_blocks_limit_the_trace():
    x, weight = cuda.zeros((4, 144, 56, 56)), cuda.zeros((144, 1, 3, 3))
    grids = {}
    for card in ("T4", "H200"):
        [report] = kernels.trace("depthwise", "rows", x, weight, None, 1, 1, blocks=range(2), card=card)
        assert report.traced_blocks == 2
        grids[card] = report.grid
    assert kernels.inspect("depthwise", "rows", x, weight, None, 1, 1).block == 128
    assert all(np.prod(grid) > 100 for grid in grids.values())


def test_only_the_chosen_blocks_run_and_count_as_among_all():
    x, weight = array(2, 4, 40, 40), array(4, 1, 3, 3)
    with kernels.recorded() as launches:
        y = kernels.depthwise(x, weight, None, 1, 1, variant="naive")
    [launch] = launches
    given = launch.compiled(), launch.grid, launch.block, launch.args, launch.shared_mem, range(1, 3)
    reports, written = [], []
    for alone in (False, True):
        y[...] = np.nan
        reports.append(cuda.trace(*given, alone=alone))
        written.append(int(np.isfinite(cuda.asnumpy(y)).sum()))
    threads = int(np.prod(launch.block))
    assert written == [y.size, 2 * threads] and y.size > 3 * threads
    assert reports[0].traced_blocks == reports[1].traced_blocks == 2
    assert [(e.kind, e.array, e.counts) for e in reports[0].lines] == [
        (e.kind, e.array, e.counts) for e in reports[1].lines
    ]


def test_an_unknown_operator_or_rung_is_refused():
    with pytest.raises(ValueError, match="operator must be one of"):
        kernels.trace("depth", "naive")
    with pytest.raises(ValueError, match="nothing"):
        kernels.trace("depthwise", "nothing")
