"""The pooling ladder: what notebook 04/4 says of its counts and of the H200's records."""

import pytest

from common import kernels
from common.report import ladders, pools, results

TREES = ("interleaved", "strided_index", "sequential")


def us(rung, batch=256, precision="fp32"):
    value = pools.us(rung, batch, precision)
    if value is None:
        pytest.skip("not measured")
    return value


def test_rung_1_touches_a_sector_per_lane():
    loads = pools.traced("naive", 64, 49, blocks=1, threads=64).global_loads
    assert loads.sectors == 32 * loads.requests == 32 * 2 * 49


def test_the_strided_tree_has_conflicts_and_the_others_none():
    small, large = ({rung: pools.traced(rung, 1, p, 1, t).shared_loads for rung in TREES}
                    for p, t in ((49, 64), (1024, 1024)))  # fmt: skip
    assert [large[rung].conflicts > 0 for rung in TREES] == [False, True, False]
    assert large["sequential"].wavefronts < large["strided_index"].wavefronts / 3
    assert max(counts.wavefronts for counts in small.values()) <= 32, "two warps have little to save"


def test_a_lane_without_a_pixel_touches_no_further_sector():
    six = pools.traced("warp_per_channel", 16, 49, blocks=2, threads=256).global_loads
    seven = pools.traced("channels_per_warp", 16, 49, blocks=1, threads=128).global_loads
    assert seven.accesses > six.accesses and (seven.requests, seven.sectors) == (six.requests, six.sectors)


def test_channels_last_is_coalesced_and_without_conflicts():
    report = pools.traced("channels_last", 256, 49, blocks=2, threads=256, VECTOR=4, WARPS=8, ITEMS=7)
    assert report.global_loads.sectors * 32 < 1.2 * 49 * 256 * 4
    assert report.shared_loads.conflicts == report.shared_stores.conflicts == 0


def test_trees_take_the_time_of_their_blocks():
    trees = [us(rung) for rung in (*TREES, "warp_shuffle")]
    assert max(trees) < 1.05 * min(trees) and us("naive") < 0.5 * min(trees)
    assert 0.5 < 1e3 * us("sequential") / pools.blocks("sequential", 256) < 0.9, "ns per block"
    assert us("interleaved", 1) > us("warp_shuffle", 1), "at batch 1 the inside of a block shows"
    assert pools.blocks("naive", 256) == 5120 and pools.blocks("warp_per_channel", 256) == 40_960


@pytest.mark.parametrize("batch", [1, 32, 256])
def test_the_last_two_rungs_are_the_fastest_and_faster_than_cudnn(batch):
    best = [us(rung, batch) for rung in ("channels_per_warp", "channels_last")]
    others = [us(rung, batch) for rung in ("naive", *TREES, "warp_shuffle", "warp_per_channel")]
    assert max(best) < min(others) and max(best) < ladders.us(pools.CASE, "cudnn", batch)


def test_the_caches_keep_the_sectors_of_rung_1():
    if not results.find(results.load(pools.tables.CARD), suite="sections", operator="global_avg_pool"):
        pytest.skip("not profiled")
    naive = pools.profiled("naive")
    assert naive.requested == 32 * 256 * 1280 * 49 and naive.dram < 1.1 * 4 * 256 * 1280 * 50
    assert 80 < pools.profiled("warp_per_channel").instructions < 120


TREE = """extern "C" __global__ void total(const float* in, float* out) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncwarp();
    for (int step = 16; step > 0; step /= 2) {
        if (t < step) s[t] += s[t + step];
        __syncwarp();
    }
    if (t == 0) out[0] = s[0];
}
"""


def test_a_warp_needs_one_barrier_per_step():
    assert pools.findings(TREE, "total") == ()
    for missing in ("        __syncwarp();\n", "    s[t] = in[t];\n    __syncwarp();\n"):
        without = TREE.replace(missing, "    s[t] = in[t];\n" if "in[t]" in missing else "")
        found = pools.findings(without, "total")
        assert found and found[0].kind == "race"


def test_the_places_of_the_trees_are_not_taken_where_their_blocks_are_short():
    """All four start as many blocks per ns; only interleaved's last long enough to take most of the places."""
    if not results.find(results.load(pools.tables.CARD), suite="inspect"):
        pytest.skip("not profiled")
    short = [pools.taken(rung) for rung in (*TREES[1:], "warp_shuffle")]
    assert max(short) < 0.5 < pools.taken("interleaved")


def test_rung_1_waits_for_the_queue_to_l1_and_rung_6_for_its_loads():
    naive, per_warp = pools.profiled("naive"), pools.profiled("warp_per_channel")
    assert naive.waiting("lg_throttle") > 0.6 > naive.waiting("long_scoreboard")
    assert 0.45 < per_warp.waiting("long_scoreboard") < 0.6 < per_warp.issue < 0.72  # about two thirds of the slots


def test_the_remainder_of_interleaved_is_about_twenty_instructions():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    code = {rung: kernels.inspect("global_avg_pool", rung).code for rung in TREES[:2]}
    kinds = {rung: {i.kind for i in every} for rung, every in code.items()}
    assert "IABS" in kinds["interleaved"] and "IABS" not in kinds["strided_index"]
    assert 15 < len(code["interleaved"]) - len(code["strided_index"]) < 30


def test_what_was_not_profiled_is_named():
    with pytest.raises(ValueError, match="no profile of nothing"):
        pools.profiled("nothing")


def test_a_wrong_rung_is_told(monkeypatch):
    monkeypatch.setattr(pools.np, "allclose", lambda *rest, **more: False)
    with pytest.raises(AssertionError, match="global_avg_pool/naive is wrong"):
        pools.traced("naive", 4, 5, blocks=1, threads=64)


def test_a_small_block_adds_as_much_as_a_large_one():
    """ns beyond the shortest launch: blocks of 64 threads here, of 256 in the addition."""
    small = 1e3 * (us("sequential") - us("sequential", 1)) / pools.blocks("sequential", 256)
    add = [ladders.us("add 28×28 32", "naive", batch, "fp16") for batch in (256, 1)]
    if None in add:
        pytest.skip("not measured")
    assert small == pytest.approx(1e3 * (add[0] - add[1]) / (256 * 32 * 28 * 28 // 256), rel=0.03)


def test_rung_7_loads_before_it_adds_and_rung_6_does_not():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    order = {}
    for rung in ("warp_per_channel", "channels_per_warp"):
        kinds = [i.kind for i in kernels.inspect("global_avg_pool", rung).code]
        order[rung] = [kind for kind in kinds if kind in ("LDG.32", "FADD")]
    assert order["channels_per_warp"][:9] == ["LDG.32"] * 8 + ["FADD"]
    assert "FADD" in order["warp_per_channel"][:4]


def test_a_row_of_49_waits_twice_in_rung_6_and_once_in_rung_7():
    first, *_, both, last = pools.order("warp_per_channel")
    assert first == "(1 load), (1 addition)", "a predicate switches them off in every lane of a row of 49"
    assert (both, last) == ("2 loads, 2 additions", "1 load, 1 addition"), "of lanes 0 to 16, then of 17 to 31"
    assert pools.order("channels_per_warp") == ["8 loads, 8 additions"]


SPLIT = "fall jump split split jump"  # lanes 0 to 16 of a row of 49 pass the part with two loads, 17 to 31 the last one


def test_the_profiler_counted_the_way_of_a_warp_that_splits():
    one = pools.profiled("warp_per_channel")
    per_row = one.requested / 32 / (256 * 1280)
    assert per_row == pools.sectors((0, 17), (32, 49), (17, 32)) == 8.75
    assert per_row != pools.sectors((0, 32), (32, 49)) == 7.875, "two requests"
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    assert pools.issued("warp_per_channel", SPLIT) == round(one.instructions) == 99
    assert pools.issued("warp_per_channel", "fall jump jump fall jump") == 81, "without the part of two loads"


def test_sectors_are_those_of_the_trace():
    traced = pools.traced("warp_per_channel", 8, 49, blocks=1, threads=256).global_loads
    assert traced.sectors == 8 * pools.sectors((0, 32), (32, 49))


@pytest.mark.parametrize("ways", ["fall", SPLIT + " fall", "fall jump leap", "fall split"])
def test_a_way_that_the_machine_code_does_not_have_has_no_count(ways):
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    assert pools.issued("warp_per_channel", ways) is None
