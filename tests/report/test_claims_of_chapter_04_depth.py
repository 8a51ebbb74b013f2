"""What notebooks 11 to 13 of chapter 04 say of the records and of the machine code, kept true."""

import math

import pytest

from common import cuda, kernels
from common.draw import card
from common.kernels.winograd import TILE, ladder
from common.measure.roofline import Peaks
from common.report import convolutions, ladders, products, results, sections, tables

WEIGHT = "depthwise backward weight"
LAYERS = [(112, 32), (56, 144), (28, 192), (14, 384), (14, 576), (7, 960)]


def us(case, rung, batch, precision="fp32", layout=None):
    time = ladders.us(case, rung, batch, precision, layout)
    assert time is not None, (case, rung, batch)
    return time


def test_depthwise_rungs_in_the_order_that_the_text_says():
    naive, rows, tile = (us("depthwise 56×56 144", r, 32, layout="NCHW") for r in ("naive", "rows", "tile"))
    assert rows < tile < naive
    assert naive / tile < tile / rows  # closer to naive than to rows
    assert naive < us("depthwise 56×56 144", "naive", 32, layout="NHWC") < 1.1 * naive  # 32 sectors, but 3 clocks
    for case in ("depthwise 56×56 144", "depthwise 112×112 32"):
        best, register, vectorised = (us(case, r, 256) for r in ("async_tile", "register_tile", "vectorised"))
        assert best < register < vectorised
    fp16, fp32 = (us("depthwise 56×56 144", "async_tile", 256, p) for p in ("fp16", "fp32"))
    assert fp32 / 2 < fp16 < 0.75 * fp32


def test_what_limits_the_rungs_of_depthwise_is_what_the_profiler_counted():
    ncu = {r: sections.of("depthwise", r) for r in ("naive", "rows", "tile", "register_tile", "async_tile")}
    assert ncu["naive"]["issue"] > 0.8 and ncu["tile"]["issue"] > 0.8 and 0.5 < ncu["rows"]["issue"] < 0.6
    assert ncu["rows"]["waits"]["long_scoreboard"] > ncu["rows"]["cycles_per_instruction"] / 2
    assert 32 * ncu["naive"]["sectors"] > 3 * ncu["naive"]["l2_bytes"]  # L1 serves most of the loads
    for rung in ("register_tile", "async_tile"):
        r = ncu[rung]
        assert r["issue"] < 0.4 and r["l2"] == max(r[unit] for unit in ("issue", "l1", "l2", "dram"))
        assert sections.main_stall(r) == "long_scoreboard"


def test_at_batch_1_a_launch_is_most_of_the_time():
    best = min(us("depthwise 14×14 384", r, 1) for r in kernels.variants("depthwise"))
    tiny = min(us("add 7×7 160", r, 1) for r in kernels.variants("add", layout="NCHW"))
    assert best / 2 < tiny < best < us("depthwise 14×14 384", "cudnn", 1)


def test_fp16_needs_most_of_the_issue_slots():
    peaks = Peaks.recorded(results.load(tables.CARD))
    shares = {}
    for dtype, size in (("float32", 8), ("float16", 4)):
        found = kernels.inspect("depthwise", "async_tile", dtype=dtype, layout="NHWC").instructions
        outputs = peaks.copy_bytes_per_s / size
        shares[dtype] = 9 * sum(found.values()) / found["FFMA"] * outputs / (peaks.flops_per_s("fp32") / 2)
    assert shares["float32"] < 0.4 and 0.5 < shares["float16"] < 0.8
    registers = {r: kernels.inspect("depthwise", r, layout=layout).occupancy("H200").warps
                 for r, layout in (("rows", "NCHW"), ("register_tile", "NHWC"))}  # fmt: skip
    assert registers["register_tile"] * 3 == registers["rows"]


def test_phases_make_the_same_loads_and_are_faster():
    case = "depthwise backward input 56×56 144"
    assert us(case, "naive", 32, layout="NCHW") > 3 * us(case, "phases", 32, layout="NCHW")
    naive, phases = (kernels.inspect("depthwise_backward_input", r) for r in ("naive", "phases"))
    assert sum(naive.instructions.values()) > 2 * sum(phases.instructions.values())


def test_the_pair_of_14_by_14_layers_tells_the_two_first_rungs_of_the_weight_apart():
    few, many = ({r: us(f"{WEIGHT} 14×14 {c}", r, 32, layout="NCHW") for r in ("naive", "atomics")} for c in (384, 576))
    assert many["naive"] < 1.02 * few["naive"] and many["atomics"] > 1.45 * few["atomics"]


def test_the_length_of_a_chain_decides_in_both_first_rungs_of_the_weight():
    per_product = [
        1000 * us(f"{WEIGHT} {hw}×{hw} {c}", rung, 32, layout="NCHW") / (32 * hw * hw)
        for hw, c in LAYERS for rung in ("naive", "atomics")
    ]  # fmt: skip
    times = [us(f"{WEIGHT} {hw}×{hw} {c}", "atomics", 32, layout="NCHW") for hw, c in LAYERS]
    assert max(per_product) < 3 * min(per_product) and max(times) > 100 * min(times)
    chains = [round(1000 * one / (32 * hw * hw)) for one, (hw, _) in zip(times, LAYERS, strict=True)]
    assert (min(chains), max(chains)) == (105, 192)  # ns per product of a sum, as the text says
    each = [1000 * one / (32 * hw * hw * c * 9) for one, (hw, c) in zip(times, LAYERS, strict=True)]
    assert (round(min(each), 3), round(max(each), 3)) == (0.020, 0.363)
    case = f"{WEIGHT} 56×56 144"
    rungs = {r: us(case, r, 32, layout="NCHW") for r in ("naive", "atomics", "block_reduction", "tiles")}
    assert rungs["atomics"] > rungs["naive"] > rungs["block_reduction"] > rungs["tiles"]
    assert rungs["naive"] / rungs["block_reduction"] > rungs["block_reduction"] / rungs["tiles"]
    assert us(case, "atomics", 32, layout="NHWC") < 0.6 * rungs["atomics"]


@pytest.mark.parametrize(("rung", "low", "high"), [("block_reduction", 0.5, 0.7), ("tiles", 0.3, 0.36)])
def test_instructions_of_the_two_last_steps_of_the_weight(rung, low, high):
    grad, h200 = cuda.zeros((32, 144, 56, 56)), card.measured()
    found = kernels.inspect("depthwise_backward_weight", rung, grad, grad, 3, 1, 1)
    loop = max((one.instructions for one in found.loops), key=lambda one: one.total())
    assert loop["FFMA"] == {"block_reduction": 1, "tiles": 126}[rung]
    slots = loop.total() / loop["FFMA"] * 9 * grad.size / 32 / (4 * h200.sms * h200.clock_hz)
    assert low < 1e6 * slots / us(f"{WEIGHT} 56×56 144", rung, 32, layout="NCHW") < high


@pytest.mark.parametrize("which", ["input", "weight"])
def test_gradients_beside_cudnn(which):
    shapes = [(112, 32, 1), (112, 96, 2), (56, 144, 1), (56, 144, 2), (28, 192, 1),
              (28, 192, 2), (14, 384, 1), (14, 576, 1), (14, 576, 2), (7, 960, 1)]  # fmt: skip
    means = {}
    for precision in ("fp32", "fp16"):
        for stride in (1, 2):
            ratios = []
            for hw, c, s in shapes:
                case = f"depthwise backward {which} {hw}×{hw} {c}{' stride 2' * (s == 2)}"
                rungs = [ladders.us(case, r, 32, precision) for r in kernels.variants(f"depthwise_backward_{which}")]
                if s == stride:
                    ratios.append(us(case, "cudnn", 32, precision) / min(filter(None, rungs)))
            means[precision, stride] = math.exp(sum(map(math.log, ratios)) / len(ratios))
    assert min(means.values()) > 1
    assert means["fp32", 2] > means["fp32", 1] and means["fp16", 2] > means["fp16", 1]
    if which == "weight":
        assert means["fp16", 1] < means["fp32", 1] and means["fp16", 2] < means["fp32", 2]


def test_naive_winograd_is_faster_than_the_naive_convolution_in_seven_of_eight():
    cases = [f"conv 3×3 {shape}" for shape in ("56×56 64>64", "28×28 128>128", "14×14 256>256", "7×7 512>512")]
    ratios = [us(c, "conv2d/naive", b, layout="NCHW") / us(c, "naive", b) for c in cases for b in (1, 32)]
    assert sum(ratio > 1 for ratio in ratios) == 7
    x, w = cuda.zeros((1, 16, 32, 32)), cuda.zeros((16, 16, 3, 3))
    each = 32 * 32 * 16 * 16
    loads = {
        operator: kernels.trace(operator, "naive", x, w, None, *more)[-1].global_loads.accesses / each
        for operator, more in (("conv2d", (1, 1)), ("winograd", (1,)))
    }
    assert 17 < loads["conv2d"] < 18 and 7.5 < loads["winograd"] < 8


def test_winograd_beside_cudnn():
    cases = [f"conv 3×3 {shape}" for shape in ("56×56 64>64", "28×28 128>128", "14×14 256>256", "7×7 512>512")]
    for batch, wins in ((1, False), (32, True)):
        for case in cases:
            best = min(us(case, rung, batch) for rung in ("fused_f2x2", "fused_f4x4"))
            assert (us(case, "cudnn", batch) / best > 0.99) is wins
    assert us(cases[3], "fused_f4x4", 32) > 1.5 * us(cases[3], "fused_f2x2", 32)


SIDES = {"56×56 64>64": (56, 64), "28×28 128>128": (28, 128), "14×14 256>256": (14, 256), "7×7 512>512": (7, 512)}


def test_a_wave_of_f4x4_takes_about_twice_as_long_and_waves_decide():
    waves = {}
    for shape, (size, channels) in SIDES.items():
        for rung in ("fused_f2x2", "fused_f4x4"):
            tile, across = ladder.tile(rung), -(-size // TILE[rung])
            blocks = -(-32 * across**2 // tile["BP"]) * -(-channels // tile["BO"])
            waves[shape, rung] = -(-blocks // 132)
        two, four = (us(f"conv 3×3 {shape}", r, 32) / waves[shape, r] for r in ("fused_f2x2", "fused_f4x4"))
        assert 1.7 < four / two < 2.15
    assert [waves[shape, "fused_f2x2"] for shape in SIDES] == [6, 3, 2, 1]
    assert [waves[shape, "fused_f4x4"] for shape in SIDES] == [3, 2, 1, 1]


def test_at_batch_1_the_split_sum_wins_and_at_batch_32_winograd():
    for shape in SIDES:
        case = f"conv 3×3 {shape}"
        best, rival = [], []
        for batch in (1, 32):
            best.append(min(us(case, rung, batch) for rung in ("fused_f2x2", "fused_f4x4")))
            rival.append(min(us(case, "conv2d/tensor_cores", batch, layout=layout) for layout in ("NCHW", "NHWC")))
        assert rival[0] < min(best[0], us(case, "cudnn", 1)) and best[1] < rival[1]
    fp16 = {r: us("conv 3×3 56×56 64>64", r, 32, "fp16") for r in ("fused_f4x4", "conv2d/tensor_cores", "cudnn")}
    assert fp16["cudnn"] < fp16["conv2d/tensor_cores"] < 0.5 * fp16["fused_f4x4"]


def test_issue_slots_explain_six_tenths_of_f2x2_and_less_than_half_of_f4x4_and_the_rest_is_waiting():
    layer = cuda.zeros((32, 64, 56, 56)), cuda.zeros((64, 64, 3, 3)), None, 1
    for rung, m, saved, low, high in (("fused_f2x2", 2, 9 / 4, 0.58, 0.66), ("fused_f4x4", 4, 4, 0.42, 0.49)):
        found, ncu = kernels.inspect("winograd", rung, *layer), sections.of("winograd", rung)
        steps = 9 * 64 * 64 * 32 * 56 * 56 / 32 / saved
        slots = ncu["instructions"] / steps / 4
        measured = us("conv 3×3 56×56 64>64", rung, 32) * 1e-6 * products.clock_hz() / (steps / 132)
        assert low < slots / measured < high and abs(slots / measured - ncu["issue"]) < 0.04
        assert slots > sum(found.hot.values()) / (1024 if m == 2 else 768) / 4  # executed: more than the loop's text
        assert found.hot["LDL.32"] + found.hot["LDL.64"] < 0.01 * sum(found.hot.values())
    two, four = (sections.of("winograd", rung) for rung in ("fused_f2x2", "fused_f4x4"))
    assert two["waits"]["barrier"] < 0.03 * two["cycles_per_instruction"]
    order = ("short_scoreboard", "not_selected", "long_scoreboard", "barrier", "wait")
    reasons = [name for name in four["waits"] if name != "selected"]
    assert tuple(sorted(reasons, key=four["waits"].get, reverse=True)[:5]) == order


def test_neither_loads_nor_instructions_alone_explain_the_naive_winograd():
    x, w = cuda.zeros((32, 8, 56, 56)), cuda.zeros((16, 8, 3, 3))
    named = {"transformed": kernels.winograd_weight(w, 2)}
    needs = {}
    for operator, rung, multiply_adds in (("conv2d", "naive", 9), ("winograd", "naive", 4), ("conv2d", "direct", 9)):
        more = (1, 1) if operator == "conv2d" else (1,)
        found = kernels.inspect(operator, rung, x, w, None, *more)
        more_named = named if operator == "winograd" else {}
        report = kernels.trace(operator, rung, x, w, None, *more, blocks=range(1, 50), **more_named)[-1]
        needs[operator, rung] = convolutions.per_output(report, found, multiply_adds)
    # the rung "direct" that is counted is the one that was timed: its tiles depend on the number of pixels
    layer = cuda.zeros((32, 64, 56, 56)), cuda.zeros((64, 64, 3, 3)), None, 1, 1
    assert kernels.inspect("conv2d", "direct", *layer).registers == needs["conv2d", "direct"].registers
    case = "conv 3×3 56×56 64>64"
    conv, direct = (us(case, f"conv2d/{rung}", 32, layout="NCHW") for rung in ("naive", "direct"))
    one, two, three = needs["conv2d", "naive"], needs["winograd", "naive"], needs["conv2d", "direct"]
    assert abs(one.instructions / two.instructions - conv / us(case, "naive", 32)) < 0.05
    assert one.l1_clocks / two.l1_clocks < 1.25 and one.loads / two.loads > 2.1
    assert conv / direct < one.instructions / three.instructions < one.l1_clocks / three.l1_clocks / 2
    assert one.loads / three.loads > 25
    ncu = sections.of("conv2d", "direct")
    assert ncu["issue"] < 0.5 and sections.main_stall(ncu) == "long_scoreboard"
