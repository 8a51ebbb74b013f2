"""Sentences of chapter 06 about records that no cell prints beside them."""

import pytest

from common.report import results, tables


@pytest.fixture(scope="module")
def recorded():
    return results.load(tables.CARD)


def cudnn(recorded, launch, precision, batch):
    keys = {"suite": "network", "case": tables.NETWORK, "implementation": "cudnn", "layout": "NHWC", "mode": "hot"}
    (found,) = results.find(recorded, **keys, launch=launch, precision=precision, batch=batch)
    return found["median_us"]


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_launched_one_by_one_small_batches_wait_for_the_cpu_and_large_ones_do_not(recorded, precision):
    """06/3, section 1."""
    times = {batch: [cudnn(recorded, how, precision, batch) for how in ("eager", "graph")] for batch in (1, 8, 256)}
    assert all(times[batch][0] > 2 * times[batch][1] for batch in (1, 8))
    assert times[256][0] < 1.05 * times[256][1]
    if precision == "fp32":
        assert times[1][0] > times[8][0]


def test_with_one_kernel_per_layer_ours_in_fp16_is_faster_than_cudnn_at_two_batches(recorded):
    """06/9, section 3: the second reason. No chain was timed at batch 256."""
    for batch in (1, 32):
        ours = tables.kernel_per_step(recorded, "graph", "fp16", batch)["median_us"]
        assert ours < 0.8 * cudnn(recorded, "graph", "fp16", batch)
    with pytest.raises(ValueError, match="no chain"):
        tables.kernel_per_step(recorded, "graph", "fp16", 256)
