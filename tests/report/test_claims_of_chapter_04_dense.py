"""What notebooks 9 and 10 of chapter 04 say of the records and of the launches, kept true."""

from importlib import import_module

import numpy as np
import pytest

from common import cuda, kernels
from common.draw import card
from common.measure.roofline import ARITHMETIC
from common.report import ladders, machine, multiprocessor, results, slots, tables

CASE = "conv 3×3 56×56 64>64"
LATE_CONV = "conv 3×3 7×7 512>512"
STEM = "stem 224×224 3>32 stride 2"
WIDE = "expand 112×112 16>96"
LATE = "project 7×7 960>160 +residual"


def us(case, rung, batch, precision="fp32", layout=None):
    time = ladders.us(case, rung, batch, precision, layout)
    assert time is not None, (case, rung, batch)
    return time


@pytest.mark.parametrize(
    ("case", "rung", "batch", "precision", "steps", "apart"),
    [
        (CASE, "conv2d/naive", 32, "fp32", 32 * 64 * (3 * 56 - 2) ** 2 * 64 // 32, 2304),
        ("project 7×7 960>320", "naive", 256, "fp32", 256 * 49 * 960 * 320 // 32, 3840),
        ("expand 56×56 24>144", "naive", 256, "fp32", 256 * 56**2 * 24 * 144 // 32, 96),
        (WIDE, "naive", 256, "fp32", 256 * 112**2 * 16 * 96 // 32, 64),
        (WIDE, "naive", 256, "fp16", 256 * 112**2 * 16 * 96 // 32, 32),
        (STEM, "naive", 256, "fp32", 256 * 112**2 * 27, 108),
    ],
)
def test_clocks_of_the_naive_rung_in_nhwc_are_those_of_l1(case, rung, batch, precision, steps, apart):
    expected = multiprocessor.l1_clocks(range(0, 32 * apart, apart)) + 1  # and one for x
    assert expected <= clocks(us(case, rung, batch, precision, "NHWC"), steps) < 1.1 * expected


def clocks(time, steps):
    h200 = card.measured()
    return time / 1e6 * h200.clock_hz * h200.sms / steps


def test_l1_does_not_explain_the_naive_rung_in_nchw():
    nchw, nhwc = (us(STEM, "naive", 256, layout=x) for x in ("NCHW", "NHWC"))
    assert nhwc < nchw and clocks(nchw, 256 * 112**2 * 27) > 3 * (1 + multiprocessor.l1_clocks(range(0, 256, 8)))
    example = clocks(us(CASE, "conv2d/naive", 32, layout="NCHW"), 32 * 64 * (3 * 56 - 2) ** 2 * 64 // 32)
    assert example > 1.8 * 2
    wide = clocks(us(WIDE, "naive", 256, layout="NCHW"), 256 * 112**2 * 96 * 16 // 32)
    assert wide > 2 * (1 + multiprocessor.l1_clocks(range(0, 128, 4)))


def test_the_naive_pointwise_rung_takes_four_times_as_long_in_nhwc():
    times = [us(WIDE, "naive", 256, layout=x) for x in ("NHWC", "NCHW")]
    assert times[0] / times[1] == pytest.approx(4.2, abs=0.1)


def test_fp16_gains_the_naive_pointwise_rung_nothing_in_nchw_and_half_the_time_in_nhwc():
    for layout, low, high in (("NCHW", 1, 1.5), ("NHWC", 0.45, 0.6)):
        assert low < us(WIDE, "naive", 256, "fp16", layout) / us(WIDE, "naive", 256, "fp32", layout) < high
    kinds = kernels.inspect("pointwise", "naive", dtype="float16", layout="NCHW").instructions
    assert kinds["HADD2.F32"] == kinds["LDG.16"] >= 2 * kinds["FFMA"]  # each factor is converted


def test_dense_rungs_in_the_order_that_the_text_says():
    times = [us(CASE, f"conv2d/{r}", 32) for r in ("tensor_cores", "implicit_gemm", "direct", "naive")]
    assert times == sorted(times)
    assert times[0] < us(CASE, "conv2d/halo", 32) < times[1]
    direct, columns = (us(CASE, f"conv2d/{r}", 32) for r in ("direct", "im2col_gemm"))
    assert direct < columns
    for case in (CASE, LATE_CONV):
        columns = us(case, "conv2d/im2col_gemm", 1)
        assert all(2 * columns < us(case, f"conv2d/{r}", 1) for r in ("direct", "implicit_gemm"))
    assert us(LATE_CONV, "conv2d/implicit_gemm", 1) > 13 * us(LATE_CONV, "conv2d/im2col_gemm", 1)


def test_halo_is_faster_in_one_layer_of_four():
    cases = [f"conv 3×3 {shape}" for shape in ("56×56 64>64", "28×28 128>128", "14×14 256>256", "7×7 512>512")]
    pairs = [[us(c, f"conv2d/{r}", 32, "fp16", "NHWC") for r in ("halo", "tensor_cores")] for c in cases]
    assert sum(halo < windows for halo, windows in pairs) == 1


def test_occupancy_is_not_why_halo_is_slower():
    warps = {}
    for shape in ("56×56 64>64", "28×28 128>128", "14×14 256>256", "7×7 512>512"):
        keys = {"case": f"conv 3×3 {shape}", "batch": 32, "precision": "fp16", "layout": "NHWC"}
        warps[shape] = tuple(
            machine.inspection(
                results.one(results.load(tables.CARD), suite="kernels", implementation=f"conv2d/{rung}", **keys)
            )
            .occupancy("H200")
            .warps
            for rung in ("tensor_cores", "halo")
        )
    assert list(warps.values()) == [(12, 8), (12, 12), (12, 16), (16, 20)]


def test_direct_and_implicit_gemm_as_profiled():
    found = slots.table(CASE, ["direct", "implicit_gemm"], 32)
    direct, implicit = found["direct"], found["implicit_gemm"]
    for one in found.values():
        assert one["peak"] == pytest.approx(one["useful"] * one["issue"] * one["busy"])
    assert direct["peak"] == pytest.approx(0.21, abs=0.01) and implicit["peak"] == pytest.approx(0.39, abs=0.01)
    assert direct["useful"] == pytest.approx(0.5, abs=0.05) == direct["issue"]
    assert direct["busy"] == pytest.approx(0.8, abs=0.01) and direct["waves"] == pytest.approx(1.5, abs=0.02)
    assert implicit["busy"] > 0.97 and 1.95 < implicit["waves"] <= 2
    assert direct["global_wait"] > 10 * implicit["global_wait"]
    assert implicit["requests"] + implicit["wavefronts"] > direct["requests"] + direct["wavefronts"]
    with pytest.raises(LookupError):
        slots.table("conv 3×3 28×28 128>128", ["direct"], 32)


def test_launches_are_a_small_part_of_im2col_gemm():
    adds = results.find(results.load(tables.CARD), suite="kernels", operator="add", batch=1)
    launches, time = 64 * min(r["median_us"] for r in adds), us(CASE, "conv2d/im2col_gemm", 32, layout="NCHW")
    assert launches < 0.13 * time
    assert time / 32 == pytest.approx(us(CASE, "conv2d/im2col_gemm", 1, layout="NCHW"), rel=0.1)


def test_multiply_adds_are_a_fifth_of_the_late_layers_time_on_tensor_cores(monkeypatch):
    conv2d = import_module("common.kernels.conv2d")
    monkeypatch.setattr(conv2d.cuda, "multiprocessors", lambda: 132)
    shapes = (1, 512, 7, 7), (512, 512, 3, 3), (1, 512, 7, 7)
    x, weight, out = (cuda.to_layout(cuda.zeros(shape), "NHWC") for shape in shapes)
    ones, bounds = (1, 1), (np.float32(-np.inf), np.float32(np.inf))
    call = conv2d.Convolution(x, weight, None, None, out, "NHWC", ones, (ones, ones), ones, 1, bounds)
    implicit, split = conv2d.implicit_gemm(call), conv2d.tensor_cores(call)
    assert (implicit.switches["BO"], implicit.switches["BP"], implicit.blocks) == (64, 128, 8)
    assert (split.switches["BO"], split.switches["BP"], split.blocks, split.parts) == (64, 64, 8, 16)
    peaks = tables.roofs_of(results.load(tables.CARD))
    block_us = 1e6 * 2 * 64 * 64 * 9 * 512 / 16 * 132 / peaks.flops_per_s("3xtf32")
    pair = [us(LATE_CONV, f"conv2d/{rung}", 1, layout="NHWC") for rung in ("implicit_gemm", "tensor_cores")]
    assert block_us / pair[1] == pytest.approx(1 / 5, rel=0.1)
    assert pair[0] > us(LATE_CONV, "conv2d/naive", 1, layout="NCHW")


def test_the_stem_is_faster_in_nchw_with_implicit_gemm():
    assert us(STEM, "implicit_gemm", 32, layout="NCHW") < 0.8 * us(STEM, "implicit_gemm", 32, layout="NHWC")
    assert us(STEM, "im2col_gemm", 1) == pytest.approx(us(STEM, "naive", 1, layout="NCHW"), rel=0.1)


def test_products_of_im2col_gemm_are_recorded_with_their_own_arithmetic():
    found = results.find(results.load(tables.CARD), suite="kernels", precision="fp32")
    said = {r["arithmetic"] for r in found if r["implementation"].split("/")[-1] == "im2col_gemm"}
    assert said == {ARITHMETIC["3xtf32"]}


def test_streaming_is_the_fastest_on_many_pixels_and_warpgroups_the_second():
    rungs = ("naive", "tiled", "channels_last", "tensor_cores", "split_k", "streaming", "warpgroups", "cudnn")
    order = sorted(rungs, key=lambda rung: us(WIDE, rung, 256, "fp16"))
    assert order[:3] == ["streaming", "warpgroups", "cudnn"]


def test_launches_that_notebook_10_names(monkeypatch):
    pointwise = import_module("common.kernels.pointwise")
    monkeypatch.setattr(pointwise.cuda, "multiprocessors", lambda: 132)
    monkeypatch.setattr(pointwise.cuda, "shared_memory", lambda: 227 * 1024)

    def launched(rung, product):
        tile = pointwise.ladder.tile(rung) | pointwise.TILES[rung](product)
        launch = pointwise.GEOMETRY[rung](tile, product)
        x, y, z = launch.grid
        return tile, x * y * z, launch.threads // 32

    late, wide = pointwise.Product(49, 960, 160, 2), pointwise.Product(256 * 112**2, 16, 96, 2)
    tile, blocks, warps = launched("tensor_cores", late)
    assert (tile["BM"], tile["BN"], blocks, warps) == (64, 32, 5, 4)
    tile, blocks, warps = launched("split_k", late)
    assert (16 * tile["TM"], 8 * tile["TN"], blocks, warps) == (16, 16, 40, 15)
    assert tile["UNROLL"] * 64 // 2 // 16 == 4  # mma of a warp's share: 64-byte pieces of halves, 16 products each
    tile, blocks, _ = launched("tensor_cores", wide)
    assert (tile["BM"], tile["BN"], blocks) == (64, 32, 150_528)
    assert launched("warpgroups", wide)[0]["BN"] == 96
    assert us(LATE, "split_k", 1, "fp16") < us(LATE, "tensor_cores", 1, "fp16") / 2
