"""The drawings of the notebook on Hopper, and the model behind them, against the simulator's mbarrier."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest

from common import cuda
from common.draw import hopper
from common.kernels.ladder import header_options
from common.measure.mbarriers import Mbarrier, handshake

simulator_only = pytest.mark.skipif(cuda.backend() == "gpu", reason="a GPU would wait for ever")


def test_the_drawings_say_what_they_show():
    alt = hopper.phases(1, [("expect", 512), ("come", 512)]).alt
    assert "after expect 512: phase 0, 0 arrivals and 512 bytes missing; after come 512: phase 1, 1 arrival and" in alt
    assert "slice 2 is asked for at" in hopper.ring(stages=2, copy=1.0, slices=5).alt
    assert "40 and 232, together 64,512 per block" in hopper.roles(2, 40, 232, 168, 4).alt
    assert "32 KiB per block and slice out of L2, where a block alone reads 48" in hopper.multicast(128, 256).alt
    assert "2 arrivals per phase" in (alt := hopper.phases(2, [("arrive", 0)]).alt) and "1 arrival and" in alt
    assert "KiB" not in hopper.multicast(128, 256, sizes=False).alt
    for wrong in (lambda: hopper.ring(stages=0), lambda: hopper.roles(0, 40, 232, 168, 4)):
        with pytest.raises(ValueError, match="must be a whole number"):
            wrong()


def test_a_ring_waits_for_the_slower_of_copies_and_arithmetic():
    asked, came, work = handshake(stages=2, copy=3.0, slices=6, ask=0.0)
    assert asked[:2] == [0.0, 0.0] and came[0] == work[0] == 3.0
    assert asked[2] == work[0] + 1  # when its stage is empty
    assert handshake(stages=8, copy=3.0, slices=6, ask=0.0)[2] == [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    with pytest.raises(ValueError, match="at least 1"):
        handshake(0, 1.0, 1)


def test_a_phase_has_so_many_arrivals_and_no_more():
    bar = Mbarrier(1)
    bar.expect(16)
    for arrival in (bar.arrive, lambda: bar.expect(16)):
        with pytest.raises(ValueError, match="has all its arrivals"):
            arrival()
    assert (bar.phase, bar.missing, bar.bytes) == (0, 0, 16)
    with pytest.raises(ValueError, match="at least 1"):
        Mbarrier(0)


KERNEL = """#include "bulk.h"
extern "C" __global__ void k(const int* events, int n, int parity, const float* x, float* out) {
    __shared__ __align__(16) float s[64];
    __shared__ Mbarrier bar, copies;
    bar.init(COUNT), copies.init(1), mbarriers_ready();
    for (int i = 0; i < n; ++i)
        if (events[i] > 0) bar.expect(events[i]);
        else if (events[i] < 0) {
            bulk_copy(s, x, -events[i], bar);
            copies.expect(16), bulk_copy(s, x, 16, copies), copies.wait(TURN);
        }
        else bar.arrive();
    bar.wait(parity);
    out[0] = 1;
}"""


@simulator_only
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("events", [[], [16], [16, -16], [16, -16, 0], [0, 0], [0, 16, -16], [32, -16]])
@pytest.mark.parametrize("parity", [0, 1])
def test_the_model_waits_where_the_simulator_does(count, events, parity):
    """At most one copy: the other mbarrier makes it come, because its thread can only go on when copies have come."""
    bar = Mbarrier(count)
    try:
        for event in events:
            bar.arrive() if event == 0 else bar.expect(event) if event > 0 else bar.come(-event)
    except ValueError:
        return
    kernel = cuda.RawKernel(KERNEL, "k", options=(*header_options(), f"-DCOUNT={count}", "-DTURN=0"))
    out = np.zeros(1, np.float32)
    args = (np.array([*events, 0], np.int32), len(events), parity, np.zeros(64, np.float32), out)
    if bar.over(parity):
        kernel((1,), (1,), args)
        assert out[0] == 1
    else:
        with pytest.raises(cuda.KernelError, match=f"end of phase {bar.phase}"):
            kernel((1,), (1,), args)
