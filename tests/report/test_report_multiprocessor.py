"""Figures of the suites "multiprocessor" and "sections", and what the notebooks say of their records."""

import pytest

from common.bench import sections as suite
from common.bench import trace
from common.report import multiprocessor, results, sections, tables


@pytest.mark.parametrize(
    "figure", [multiprocessor.issue, multiprocessor.blocks, lambda: multiprocessor.in_flight(700, 132)]
)
def test_figures_say_what_they_show(figure, capsys):
    figure()
    assert len(capsys.readouterr().out) > 60


def test_one_number_of_a_record():
    assert multiprocessor.value("divergence", "cycles", arms=1, by="lane") > 1000
    with pytest.raises(ValueError, match="no record of divergence with"):
        multiprocessor.value("divergence", "cycles", arms=5)
    with pytest.raises(ValueError, match="name more values"):
        multiprocessor.value("divergence", "cycles", by="lane")


def test_sections_have_the_rungs_side_by_side(capsys):
    sections.show("gemm", ["naive", "register_block"], "occupancy")
    text = capsys.readouterr().out
    assert "Registers Per Thread" in text and "172" in text and "12.5%" in text
    with pytest.raises(ValueError, match="section must be one of speed of light"):
        sections.show("gemm", "naive", "colours")


def test_stalls_name_the_main_reason(capsys):
    sections.stalls("gemm", ["naive", "shared_tiles"])
    assert "most for lg_throttle" in capsys.readouterr().out
    assert set(sections.REASONS) <= set(suite.WAITS)


# What notebooks 3 and 6 of chapter 04 say of the records


def recorded(experiment, key, **keys):
    return multiprocessor.value(experiment, key, **keys)


def test_divergence_costs_within_a_warp_only():
    one = recorded("divergence", "cycles", arms=1, by="lane")
    for arms in (2, 4, 8):
        assert recorded("divergence", "cycles", arms=arms, by="lane") / one == pytest.approx(arms, rel=0.02)
        assert recorded("divergence", "cycles", arms=arms, by="warp") / one == pytest.approx(1, rel=0.02)


def test_independent_multiply_adds_fill_the_issue_slots():
    for r in multiprocessor.records("fma", registers=1):
        assert r["issue"] == pytest.approx(min(1, r["warps"] * r["chains"] / 4), abs=0.1)


def test_bytes_in_flight_decide():
    speed = {
        (r["threads"], r["loads"], r["width"]): r["bytes"] / r["median_us"] for r in multiprocessor.records("loads")
    }
    assert speed[512, 4, 16] > 0.95 * speed[2048, 4, 16]  # a quarter of the warps
    assert speed[256, 4, 16] > 1.2 * speed[2048, 1, 4]


def test_a_block_more_is_a_wave_more():
    us = {(r["per_sm"], r["blocks"]): r["median_us"] for r in multiprocessor.records("waves")}
    assert 1.6 < us[1, 133] / us[1, 132] < 2.1 and us[1, 264] / us[1, 133] < 1.15
    assert us[2, 264] / us[2, 132] < 1.2 and us[2, 265] / us[2, 264] > 1.4


def test_a_time_follows_from_the_number_of_waves():
    us = {r["blocks"]: r["median_us"] for r in multiprocessor.records("waves", per_sm=1)}
    for blocks, measured in us.items():
        waves = -(-blocks // 132)
        assert us[132] + (waves - 1) * (us[264] - us[132]) == pytest.approx(measured, rel=0.03)
    assert recorded("waves", "median_us", blocks=96, per_sm=2) == pytest.approx(us[96], rel=0.01)


def test_warps_beat_loads_per_thread_at_equal_bytes_in_flight():
    speed = {
        (r["threads"], r["loads"], r["width"]): r["bytes"] / r["median_us"] for r in multiprocessor.records("loads")
    }
    for many, few in (((512, 1, 4), (64, 8, 4)), ((2048, 1, 4), (256, 8, 4))):
        assert 1.25 < speed[many] / speed[few] < 1.45
    for threads in (64, 128, 256):
        assert 1.03 < speed[threads, 8, 16] / speed[threads, 4, 16] < 1.07


def test_two_blocks_are_best_for_the_register_block():
    us = {r["blocks"]: r["median_us"] for r in multiprocessor.records("bounds")}
    assert min(us, key=us.get) == 2 and us[3] > 3 * us[2] and us[4] > us[3]


def test_issue_slots_are_warps_over_cycles_per_instruction():
    for r in results.find(results.load(tables.CARD), suite="sections"):
        assert r["active"] / sum(r["waits"].values()) == pytest.approx(r["issue"], rel=0.1)
        # counted in several replays of the kernel; and wgmma's rungs have a stall reason that is not recorded
        assert sum(r["waits"].values()) == pytest.approx(r["cycles_per_instruction"], rel=0.1)


def test_the_largest_shares_count_all_cycles():
    """Those of a unit alone, over its active cycles, are at most a twentieth larger."""
    metrics = suite.METRICS
    assert metrics["l1"].endswith("_active") and metrics["issue"].endswith("_active")
    for name in ("compute_throughput", "memory_throughput", "l2", "dram"):
        assert metrics[name].endswith("_elapsed")
    for rung in ("naive", "shared_tiles", "register_block", "double_buffered"):
        r = sections.of("gemm", rung)
        assert 1 <= r["l1"] / r["memory_throughput"] < 1.05


def test_the_wrong_kernels_are_where_the_record_says():
    text = trace.SOURCE.read_text().splitlines()
    for r in results.find(results.load(tables.CARD), suite="trace", case="wrong: race"):
        assert "line 230: " in r["trace"] and "line 229: " in r["trace"]
    assert "s[threadIdx.x] =" in text[228] and "s[255 -" in text[229] and "out[i] = in[i]" in text[233]


def test_rung_6_makes_a_quarter_of_the_requests_of_rung_5():
    five, six = (sections.of("gemm", rung) for rung in ("register_block", "vectorised"))
    assert six["requests"] * 4 == five["requests"]
    assert six["shared_loads"] == pytest.approx(five["shared_loads"], rel=0.01)


def test_the_rule_of_l1_fits_the_strides_that_were_recorded():
    found = multiprocessor.records("strides")
    apart = {
        r["stride"]: r["cycles"] - multiprocessor.l1_clocks(range(0, 32 * r["stride"], r["stride"])) for r in found
    }
    assert len(apart) == 28 and all(-0.1 < more < 2.1 for more in apart.values())
    assert {stride for stride, more in apart.items() if more > 0.1} == {4, 160, 196, 1028}
