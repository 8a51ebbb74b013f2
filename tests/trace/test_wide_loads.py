"""Loads of 16 bytes from shared memory: the trace's wavefronts are those that ncu counts on an H200, by pattern.

wide_loads_h200.csv: one request of a warp per row, measured on 2026-11-23 with
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum; lane i loads the 16 bytes number vectors[i].
"""

import csv
from pathlib import Path

import numpy as np
import pytest

from common import cuda

ROWS = list(csv.DictReader(Path(__file__).with_name("wide_loads_h200.csv").open(encoding="utf-8")))
SOURCE = """extern "C" __global__ void wide(const int* vectors, unsigned active, float4* out) {
    __shared__ float4 s[512];
    for (int i = threadIdx.x; i < 512; i += 32) s[i] = make_float4(i, 0.0f, 0.0f, 0.0f);
    __syncwarp();
    if (active >> threadIdx.x & 1) out[threadIdx.x] = s[vectors[threadIdx.x]];
}
"""

pytestmark = pytest.mark.skipif(cuda.backend() != "simulator", reason="the simulator's trace counts")


@pytest.mark.parametrize("row", ROWS, ids=[row["pattern"] for row in ROWS])
def test_wavefronts_as_measured(row: dict[str, str]) -> None:
    vectors, active = np.array(row["vectors"].split(), np.int32), int(row["active lanes"], 16)
    out = np.full((32, 4), np.nan, np.float32)
    report = cuda.trace(cuda.RawKernel(SOURCE, "wide"), (1,), (32,), (vectors, np.uint32(active), out))
    assert report.shared_loads.wavefronts == int(row["wavefronts"])
    lanes = [lane for lane in range(32) if active >> lane & 1]
    assert (out[lanes, 0] == vectors[lanes]).all()


def test_the_patterns_tell_the_rules_apart() -> None:
    """Some broadcasts take half the wavefronts, some do not, and some that conflict do."""
    by_name = {row["pattern"]: int(row["wavefronts"]) for row in ROWS}
    assert by_name["contiguous"] == by_name["i mod 4"] == 4 and by_name["broadcast"] == by_name["i mod 2"] == 2
    assert by_name["random f(i/2) #0"] == 5
