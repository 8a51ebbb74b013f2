"""What notebook 8 of chapter 04 says of the records of gemm's rungs 12 to 15 in fp16, kept true."""

import numpy as np
import pytest

from common import kernels
from common.cuda.device import as_if
from common.draw import card
from common.kernels.gemm import ladder, tile_of
from common.measure.roofline import Peaks
from common.report import ladders, rates, results, sections, tables

CLIMB = ("warpgroups", "bulk_copies", "producer", "persistent")
LARGE, ONE_WAVE, SHALLOW, SMALL = ("4096×4096×4096", "2048×2048×2048", "12544×1280×320", "1024×1024×1024")


def us(product, rung):
    time = ladders.us(f"gemm {product}", rung, precision="fp16")
    assert time is not None, (product, rung)
    return time


def saved(product, rung):
    """The share of the time of the rung before that this rung saves."""
    return 1 - us(product, rung) / us(product, CLIMB[CLIMB.index(rung) - 1])


@pytest.mark.parametrize("product", [LARGE, ONE_WAVE, SHALLOW, SMALL])
def test_rung_15_is_within_2_percent_of_cublas(product):
    assert us(product, "persistent") < 1.02 * us(product, "cublas")


def test_bulk_copies_save_most_for_the_large_product():
    gains = [saved(LARGE, rung) for rung in CLIMB[1:]]
    assert 0.1 < gains[0] < 0.13 and 0.01 < gains[2] < gains[1] < 0.04


def test_persistent_blocks_save_most_where_k_is_small_and_nothing_in_one_wave():
    assert abs(saved(ONE_WAVE, "persistent")) < 0.01
    assert saved(SHALLOW, "persistent") > 0.1 > 5 * saved(LARGE, "persistent")
    assert saved(SHALLOW, "producer") > 2 * saved(LARGE, "producer")


def test_l2_reads_stay_below_the_measured_bandwidth_and_rung_13_has_more_than_rung_12():
    read = 4096**3 / (256 * 128) * (256 + 128) * 2
    rates = [read / us(LARGE, rung) * 1e6 for rung in CLIMB]
    limit = Peaks.recorded(results.load(tables.CARD)).l2_read_bytes_per_s
    assert limit is not None and rates == sorted(rates) and rates[1] > 1.1 * rates[0] and rates[-1] < limit


def test_the_small_product_keeps_32_multiprocessors_busy_or_takes_smaller_tiles():
    for rung in ("bulk_copies", "producer"):
        assert us(SMALL, "warpgroups") < us(SMALL, rung)
        share = us(LARGE, rung) / 64 / us(SMALL, rung)  # of its rate for the large product
        assert share == pytest.approx(32 / card.measured().sms, rel=0.15)
    with as_if(90, card.measured().sms, 227 * 1024):
        one = tile_of("persistent", np.float16, 1024, 1024)
    assert (one["BM"], one["BN"]) == (64, 128)
    assert all(ladder.tile(rung)["BM"] * ladder.tile(rung)["BN"] == 256 * 128 for rung in CLIMB)


def profile(rung, precision="fp16"):
    of = {"suite": "sections", "operator": "gemm", "precision": precision, "implementation": rung}
    return results.one(results.load(tables.CARD), **of)


def test_from_rung_13_on_the_tensor_cores_are_active_in_nine_cycles_of_ten():
    active = [profile(rung)["tensor"] for rung in CLIMB]
    assert 0.74 < active[0] < 0.78 and active == sorted(active) and all(0.89 < one < 0.95 for one in active[1:])


def test_tensor_cores_lower_the_clock_below_that_of_the_data_sheet():
    sheet = rates.SHEET["fp16"] / (2 * 2048 * card.measured().sms)
    assert all(profile(rung)["clock_hz"] < 0.9 * sheet for rung in CLIMB)
    assert profile("warp_tiles", "fp32")["clock_hz"] > 1.05 * sheet


def test_rung_12_is_held_back_at_dispatch_and_rung_13_at_the_barrier():
    first, second = (profile(rung) for rung in CLIMB[:2])
    assert first["instructions"] > 1.5 * second["instructions"]
    assert sections.main_stall(first) == "dispatch_stall" and sections.main_stall(second) == "barrier"
    assert first["waits"]["dispatch_stall"] > 2 * second["waits"]["dispatch_stall"]


def test_the_profiled_runs_take_as_long_as_the_timed_ones():
    assert all(profile(rung)["us"] == pytest.approx(us(LARGE, rung), rel=0.02) for rung in CLIMB)


def test_rung_14_stores_c_without_a_barrier_of_the_block():
    after = {rung: kernels.source("gemm", rung).split("wgmma_wait<0>();")[-1] for rung in ("bulk_copies", "producer")}
    assert after["bulk_copies"].count("__syncthreads();") == 2 and "__syncthreads" not in after["producer"]
