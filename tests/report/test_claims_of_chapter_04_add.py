"""What notebook 2 of chapter 04 says of the addition's records and machine code, kept true."""

import itertools

import numpy as np
import pytest

from common import cuda, kernels
from common.kernels.add import ladder
from common.measure.roofline import Peaks
from common.report import ladders, results, sections, tables

# case, batch, precision, elements per image: arrays that stay in the L2 cache, and arrays that do not
IN_L2 = [
    ("add 7×7 160", 256, "fp16", 7_840),
    ("add 7×7 160", 256, "fp32", 7_840),
    ("add 56×56 24", 32, "fp16", 75_264),
    ("add 56×56 24", 32, "fp32", 75_264),
    ("add 14×14 96", 256, "fp16", 18_816),
    ("add 28×28 32", 256, "fp16", 25_088),
]
IN_MEMORY = [("add 14×14 96", 256, 18_816), ("add 28×28 32", 256, 25_088), ("add 56×56 24", 256, 75_264)]
LARGEST = "add 56×56 24"


def us(case, rung, batch=256, precision="fp32"):
    time = ladders.us(case, rung, batch, precision)
    assert time is not None, (case, rung, batch)
    return time


def ns_per_block(case, batch, precision, elements):
    return 1e3 * (us(case, "naive", batch, precision) - us("add 7×7 160", "vectorised", 1, "fp16")) / (
        batch * elements / 256
    )  # fmt: skip


def test_a_block_adds_the_same_in_both_precisions_if_the_arrays_stay_in_l2():
    assert all(0.58 < ns_per_block(*case) < 0.65 for case in IN_L2)
    assert all(ns_per_block(case, batch, "fp32", elements) > 0.85 for case, batch, elements in IN_MEMORY)


def test_the_width_alone_changes_nothing_and_fewer_blocks_alone_little():
    naive, grid, unrolled, wide = (us(LARGEST, rung) for rung in kernels.variants("add"))
    assert unrolled == pytest.approx(wide, rel=0.02)
    assert naive - grid < (naive - unrolled) / 3 and 0.18 < 1 - unrolled / naive < 0.22


def test_in_l2_rung_2_is_the_fastest_in_fp32_and_rung_4_in_fp16():
    """39 MB and as many blocks in both; nowhere in fp16 is rung 2 ahead of rung 4."""
    assert us("add 14×14 64", "grid_stride") < us("add 14×14 64", "vectorised")
    for case in ("add 28×28 32", "add 14×14 96", "add 14×14 64", "add 7×7 160"):
        assert us(case, "vectorised", 256, "fp16") < us(case, "grid_stride", 256, "fp16")


def test_rung_3_begins_all_loads_of_a_whole_block_before_it_adds():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    for dtype, loads in ((np.float32, 4), (np.float16, 8)):
        found = cuda.inspect(ladder.kernel("unrolled", dtype, UNROLL=loads), block=256)
        kinds = [one.kind.split(".")[0] for one in found.code if one.kind.startswith(("LDG", "FADD"))]
        runs = [len(list(group)) for kind, group in itertools.groupby(kinds) if kind == "LDG"]
        assert max(runs) == 2 * loads


def test_in_fp16_rung_4_takes_a_tenth_less_time_than_rung_3_in_memory_and_in_l2():
    for case in (LARGEST, "add 28×28 32"):
        assert us(case, "vectorised", 256, "fp16") / us(case, "unrolled", 256, "fp16") == pytest.approx(0.9, abs=0.02)


def test_in_fp16_fewer_threads_of_rung_3_fit_on_a_multiprocessor_and_in_fp32_as_many():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    warps = {}
    for dtype, numbers in ((np.float32, 4), (np.float16, 8)):
        for rung, option in (("unrolled", "UNROLL"), ("vectorised", "VECTOR")):
            found = cuda.inspect(ladder.kernel(rung, dtype, **{option: numbers}), block=256)
            warps[rung, dtype] = found.occupancy("H200").warps
    assert warps["unrolled", np.float32] == warps["vectorised", np.float32] == warps["vectorised", np.float16] == 64
    assert warps["unrolled", np.float16] < 64


def test_notebook_6_tells_from_a_rate_that_l2_is_not_the_limit_although_its_share_is_larger():
    r = sections.of("add", "vectorised")
    assert r["dram"] < r["l2"] and r["l2"] == max(r[name] for name in ("issue", "l1", "l2", "dram"))
    l2_copy = Peaks.recorded(results.load(tables.CARD)).l2_copy_bytes_per_s
    assert 2 < l2_copy / (r["dram_bytes"] / r["us"] * 1e6) < 2.2
