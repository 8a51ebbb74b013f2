"""Packets between blocks (include/packet.h): what comes, in which order, and which mistakes the simulator tells."""

import numpy as np
import pytest

from common import cuda
from common.kernels.ladder import header_options

on_gpu = cuda.backend() == "gpu"
simulator_only = pytest.mark.skipif(on_gpu, reason="a GPU waits for ever")

# Blocks sit in a ring: each sends its number to the next one TURNS times, and adds up what comes from the one before.
RING = """#include "packet.h"
extern "C" __global__ void k(Packet* packets, unsigned first, int* out) {
    const int me = blockIdx.x, next = (me + 1) % gridDim.x, t = threadIdx.x;
    int sum = 0;
    for (unsigned turn = 0; turn < TURNS; ++turn) {
        Packet* const slots = packets + turn % 2 * gridDim.x * blockDim.x;
        SEND
        const uint2 data = slots[me * blockDim.x + t].receive(first + turn, t < MINE);
        sum += (int)(data.x + data.y);
    }
    out[me * blockDim.x + t] = sum;
}"""
RIGHT = {
    "SEND": "if (t < MINE) slots[next * blockDim.x + t].send(first + turn, make_uint2(10 * me, turn));",
    "MINE": "24",
    "TURNS": "5",
}
BLOCKS, THREADS = 3, 32


def launched(times=1, **changed):
    """What the ring's blocks add up in the last of so many launches, numbers going on."""
    source = RING
    for name, text in (RIGHT | changed).items():
        source = source.replace(name, text)
    kernel = cuda.RawKernel(source, "k", options=header_options(), enable_cooperative_groups=not on_gpu)
    packets = cuda.asarray(np.zeros((2 * BLOCKS * THREADS, 4), np.uint32))
    out = cuda.asarray(np.full((BLOCKS, THREADS), -1, np.int32))
    for i in range(times):
        kernel((BLOCKS,), (THREADS,), (packets, np.uint32(1 + i * int(RIGHT["TURNS"])), out))
    return cuda.asnumpy(out)


@pytest.mark.parametrize("launches", [1, 3])
def test_what_was_sent_comes_in_order(launches):
    """Two slots are enough: who sends a packet again has the answer to the one before."""
    want = np.zeros((BLOCKS, THREADS), np.int32)
    want[:, :24] = (5 * 10 * (np.arange(BLOCKS) - 1) % (5 * 10 * BLOCKS) + sum(range(5)))[:, None]
    np.testing.assert_array_equal(launched(launches), want)


@simulator_only
@pytest.mark.parametrize(
    "changed",
    [
        {"SEND": ""},
        {"SEND": RIGHT["SEND"].replace("first + turn", "first")},
        {"SEND": RIGHT["SEND"].replace("t < MINE", "t < MINE - 1")},
    ],
    ids=["nothing sent", "an old number", "a packet too few"],
)
def test_a_packet_that_does_not_come_is_told(changed, capfd):
    """Where a GPU would wait for ever."""
    with pytest.raises(cuda.KernelError):
        launched(**changed)
    assert "`both.y == number && both.w == number` failed" in capfd.readouterr().out
