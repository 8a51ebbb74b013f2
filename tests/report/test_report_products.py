"""The gemm ladder counted per warp step: what notebook 04/5 says of counts and of the H200's records."""

import pytest

from common import kernels
from common.kernels.gemm import ladder
from common.measure.roofline import Peaks, arithmetic_us, gemm_work, memory_us
from common.report import ladders, multiprocessor, plots, products, results, sections, tables

pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
RUNGS = kernels.variants("gemm")
RUNGS = RUNGS[: RUNGS.index("double_buffered") + 1]
CLASSIFIER = "linear 1280>1000"


def measured(rung):
    value = products.clocks(rung)
    if value is None:
        pytest.skip("not measured")
    return value


def test_lines_clocks_of_l1_and_wavefronts_as_written():
    lines = [products.lines(products.traced(rung)) for rung in ("naive", "coalesced", "shared_tiles")]
    assert lines[:2] == [33, 2] and lines[2] < 0.1
    clocks = [products.l1_clocks(products.traced(rung)) for rung in ("naive", "coalesced", "shared_tiles")]
    assert clocks[:2] == [33, 2] and clocks[2] < 0.1
    loads = {rung: products.traced(rung).shared_loads.wavefronts / products.STEPS for rung in RUNGS}
    assert loads["naive"] == loads["coalesced"] == 0
    assert loads["shared_tiles"] == 2 and loads["register_column"] == 9 / 8
    assert loads["register_block"] == 48 / 64, "eight columns of a thread are neighbours: lanes lie 8 words apart"
    assert loads["vectorised"] == 20 / 64 and loads["warp_tiles"] == 12 / 64
    assert (
        products.traced("warp_tiles").shared_loads.conflicts == 0 < products.traced("vectorised").shared_loads.conflicts
    )


def test_a_transposed_matrix_costs_clocks_of_l1_without_tiles():
    assert products.l1_clocks(products.traced("coalesced", transposed=True)) == 33
    assert products.lines(products.traced("shared_tiles", transposed=True)) < 0.1


def test_rungs_5_and_6_load_the_same_as_compiled_and_differ_in_occupancy():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    loads = [products.traced(rung, compiled=True).shared_loads for rung in ("register_block", "vectorised")]
    assert loads[0].requests == loads[1].requests and loads[0].wavefronts == loads[1].wavefronts
    blocks = [kernels.inspect("gemm", rung).occupancy("H200").blocks for rung in ("register_block", "vectorised")]
    assert blocks == [1, 2]
    assert measured("register_block") > 1.3 * measured("vectorised")


def test_no_rung_is_faster_than_its_slowest_unit_and_the_worst_has_one_block():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    waiting = {rung: measured(rung) / products.units(rung).clocks for rung in RUNGS}
    assert min(waiting.values()) > 0.97 and max(waiting, key=waiting.get) == "register_block"
    assert waiting["naive"] == pytest.approx(1, rel=0.03), "one word per clock, of one bank"
    assert [products.units(rung).slowest for rung in RUNGS] == (
        ["L1 cache"] * 2 + ["shared wavefronts"] * 4 + ["issue slots"] * 2
    )


def test_clocks_of_l1_predict_the_classifier_whose_weight_is_transposed():
    us = {batch: ladders.us(CLASSIFIER, "coalesced", batch) for batch in (32, 256)}
    if None in us.values():
        pytest.skip("not measured")
    assert 32 * 1280 * 33 / products.clock_hz() * 1e6 == pytest.approx(us[32], rel=0.03)
    assert us[256] / us[32] == pytest.approx(2, rel=0.03)


def test_clocks_are_counted_at_the_measured_peak_s_clock_and_the_card_s_own_was_two_percent_higher():
    own = [sections.of("gemm", rung)["clock_hz"] for rung in RUNGS]
    assert {round(100 * (hz / products.clock_hz() - 1)) for hz in own} <= {1, 2}
    assert round(100 * (sum(own) / len(own) / products.clock_hz() - 1)) == 2


def test_the_last_rung_is_more_than_ninety_times_as_fast_as_the_first():
    us = [ladders.us(products.CASE, rung) for rung in (RUNGS[0], RUNGS[-1])]
    if None in us:
        pytest.skip("not measured")
    assert us[0] > 90 * us[1]


def test_every_rung_gains_on_large_matrices_and_tiles_lose_on_one_row():
    us = [ladders.us(products.CASE, rung) for rung in RUNGS]
    few = {rung: ladders.us(CLASSIFIER, rung, 1) for rung in RUNGS}
    if None in us or None in few.values():
        pytest.skip("not measured")
    assert us == sorted(us, reverse=True)
    assert us[-1] < ladders.us(products.CASE, "cublas") / 0.85
    assert min(few, key=few.get) == "shared_tiles"
    assert {ladder.tile(rung)["BM"] for rung in RUNGS[4:]} == {128}, "eight blocks for 1,000 columns"


def test_without_peaks_there_is_no_clock(monkeypatch):
    monkeypatch.setattr(results, "load", lambda card: results.Results())
    assert tables.roofs_of(results.Results()) is None
    with pytest.raises(ValueError, match="no peaks"):
        products.clock_hz()
    assert products.clocks("naive") is None


def test_the_picture_says_the_slowest_unit(monkeypatch):
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    shown = []
    monkeypatch.setattr(plots, "show", lambda figure, alt: shown.append((figure, alt)))
    products.show(["naive", "warp_tiles"], "title")
    ((figure, alt),) = shown
    assert "naive: L1 cache 33.0" in alt and "warp_tiles: issue slots 0.3" in alt
    assert not figure.axes[0].patches, "a logarithmic axis has dots"


def test_the_profiler_counts_the_same_wavefronts_instructions_and_warps():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    profiled = results.find(results.load(tables.CARD), suite="sections", case=products.CASE)
    of = {r["implementation"]: r for r in profiled}
    if not set(RUNGS) <= set(of):
        pytest.skip("not profiled")
    steps = products.SIZE**3 / 32
    for rung in RUNGS:
        loads = products.traced(rung, compiled=True).shared_loads.wavefronts / products.STEPS
        assert of[rung]["shared_loads"] / steps == pytest.approx(loads, rel=0.04, abs=1e-6), rung
        assert of[rung]["instructions"] / steps / 4 == pytest.approx(products.units(rung).slots, rel=0.02), rung
        occupancy = kernels.inspect("gemm", rung).occupancy("H200")
        assert of[rung]["theoretical"] == pytest.approx(occupancy.share, abs=0.01), rung


def test_l1_alone_does_not_explain_naive_pooling():
    """Its lanes lie 196 bytes apart: it takes 16 clocks per request, L1 with all data in it 9."""
    pooling = ladders.us("pool 7×7 1280", "naive", 256)
    if pooling is None:
        pytest.skip("not measured")
    clocks = pooling * 1e-6 * products.clock_hz() * products.MULTIPROCESSORS / (256 * 1280 // 32 * 49)
    assert clocks == pytest.approx(16, rel=0.1)
    assert 0.5 < multiprocessor.value("strides", "cycles", stride=196) / clocks < 0.65


def test_a_second_block_gains_less_than_rung_6_does():
    one, two = (multiprocessor.value("bounds", "median_us", blocks=blocks) for blocks in (1, 2))
    assert 1.15 < one / two < measured("register_block") / measured("vectorised") - 0.15


def test_a_product_with_32_columns_needs_bytes_as_long_as_multiply_adds():
    peaks = Peaks.recorded(results.load(tables.CARD))
    work = gemm_work(50_176, 32, 192)
    assert round(memory_us(work, peaks), 1) == 10.5 and round(arithmetic_us(work, "fp32", peaks), 1) == 9.4


def test_two_wavefronts_per_clock_would_leave_the_slots_as_the_limit_of_rungs_3_to_6():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    units = [products.units(rung) for rung in RUNGS[2:6]]
    assert all(unit.wavefronts / 2 < unit.slots < unit.wavefronts for unit in units)
    gains = [unit.clocks / unit.slots for unit in units]
    assert gains[0] > 1.9 and 1.2 < gains[1] < 1.3 and max(gains[2:]) < 1.2
