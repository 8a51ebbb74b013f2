"""Rooflines: bytes and FLOPs against sums by hand, floors against a card with round numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_records import peaks

from common.measure.roofline import (
    Peaks,
    Work,
    add_work,
    bound,
    conv2d_work,
    floor_us,
    gemm_work,
    pool_work,
    share,
)
from common.report import results

CARD = Peaks(copy_bytes_per_s=4e12, fma_fp32=50e12, tensor_tf32=400e12, tensor_fp16=800e12)


def test_the_stem_of_mobilenet():
    # x 3·224·224 = 150,528, weight 32·27 = 864, bias 32, y 32·112·112 = 401,408; 27 multiply-adds for each y
    assert conv2d_work((1, 3, 224, 224), (32, 3, 3, 3), stride=2, padding=1) == Work(2_211_328, 21_676_032)


def test_a_depthwise_layer():
    # 96 channels, 112 → 56: x 1,204,224, weight 864, bias 96, y 301,056, in fp16; 9 multiply-adds each y
    work = conv2d_work((1, 96, 112, 112), (96, 1, 3, 3), 2, 1, itemsize=2)
    assert work == Work(2 * 1_506_240, 2 * 301_056 * 9)


def test_a_projection_with_its_residual():
    # 144 → 24 on 56·56 = 3136 pixels, batch 2: x 903,168, weight 3,456, bias 24, y and residual 150,528 each
    with_residual = conv2d_work((2, 144, 56, 56), (24, 144, 1, 1), residual=True)
    assert with_residual == Work(4 * 1_207_704, 2 * 150_528 * 144)
    without = conv2d_work((2, 144, 56, 56), (24, 144, 1, 1), bias=False)
    assert with_residual.bytes - without.bytes == 4 * (150_528 + 24)


def test_uneven_windows():
    # H: 7 + 1 + 0 - 2·2 - 1 = 3, // 2 + 1 = 2 rows; W: 5 + 2 + 1 - 1 - 1 = 6, // 3 + 1 = 3 columns
    work = conv2d_work((1, 4, 7, 5), (6, 2, 3, 2), (2, 3), ((1, 0), (2, 1)), (2, 1), bias=False)
    assert work == Work(4 * (4 * 35 + 6 * 12 + 6 * 6), 2 * 36 * 12)


def test_the_other_operators():
    assert gemm_work(32, 1000, 1280, 2, bias=True) == Work(2 * (40_960 + 1_280_000 + 1000 + 32_000), 81_920_000)
    assert gemm_work(3, 5, 7) == Work(4 * (21 + 35 + 15), 210)
    assert pool_work((2, 1280, 7, 7)) == Work(4 * (125_440 + 2560), 125_440)
    assert add_work((2, 24, 56, 56), 2) == Work(6 * 150_528, 150_528)


def test_the_whole_network_moves_what_chapter_01_counts():
    """300.8 million multiply-adds, 54.9 MB of activations in fp32, all epilogues fused."""
    total, weights, c, h = Work(0, 0), 0, 32, 112
    layers = [((1, 3, 224, 224), (32, 3, 3, 3), 2, 1, False)]
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for t, out, n, s in table:
        for i in range(n):
            stride = s if i == 0 else 1
            if t > 1:
                layers.append(((1, c, h, h), (c * t, c, 1, 1), 1, 0, False))
            layers.append(((1, c * t, h, h), (c * t, 1, 3, 3), stride, 1, False))
            h //= stride
            layers.append(((1, c * t, h, h), (out, c * t, 1, 1), 1, 0, stride == 1 and out == c))
            c = out
    layers.append(((1, 320, 7, 7), (1280, 320, 1, 1), 1, 0, False))
    for x, weight, stride, padding, residual in layers:
        total += conv2d_work(x, weight, stride, padding, residual=residual)
        weights += math.prod(weight) + weight[0]
    total += pool_work((1, 1280, 7, 7)) + gemm_work(1, 1000, 1280, bias=True)
    weights += 1280 * 1000 + 1000
    assert len(layers) == 52
    assert (total.flops - 62_720) / 2 == pytest.approx(300.8e6, rel=1e-3)  # the pool's additions are no multiply-adds
    assert (total.bytes - 4 * weights) / 1e6 == pytest.approx(54.9, abs=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: conv2d_work((1, 3, 8), (4, 3, 1, 1)), r"x_shape must be 4 positive sizes, got \(1, 3, 8\)"),
        (lambda: conv2d_work((1, 3, 8, 0), (4, 3, 1, 1)), "x_shape must be 4 positive sizes"),
        (lambda: conv2d_work((1, 3, 8, 8), (4, 2, 1, 1)), r"3 channels of x / groups, kH, kW\), got \(4, 2, 1, 1\)"),
        (lambda: conv2d_work((1, 6, 8, 8), (4, 2, 1, 1)), "weight_shape must be"),
        (lambda: conv2d_work((1, 3, 8, 8), (4, 3, 1, 1), stride=0), "stride must be an integer of at least 1"),
        (lambda: conv2d_work((1, 3, 2, 2), (4, 3, 3, 3)), "the kernel reaches over 3 pixels"),
        (lambda: gemm_work(0, 2, 3), "m, n, k must be positive sizes"),
        (lambda: CARD.flops_per_s("fp4"), "one of fp32, tf32, fp16, 3xtf32, 3xfp16, int8, fp8, got 'fp4'"),
        (lambda: share(Work(1, 1), "fp32", CARD, 0), "measured_us must be above 0, got 0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- Floors


def test_memory_or_arithmetic_whichever_takes_longer():
    moves, computes = Work(4_000_000, 25_000_000), Work(4_000_000, 5_000_000_000)
    assert floor_us(moves, "fp32", CARD) == pytest.approx(1.0) and bound(moves, "fp32", CARD) == "memory"
    assert floor_us(computes, "fp32", CARD) == pytest.approx(100.0) and bound(computes, "fp32", CARD) == "arithmetic"
    assert floor_us(computes, "tf32", CARD) == pytest.approx(12.5)
    assert floor_us(computes, "fp16", CARD) == pytest.approx(6.25)
    assert share(computes, "fp32", CARD, 400.0) == pytest.approx(0.25)


@given(st.integers(1, 10**12), st.integers(0, 10**15), st.sampled_from(["fp32", "tf32", "fp16"]))
def test_the_floor_is_on_the_roof(bytes, flops, precision):
    work = Work(bytes, flops)
    at_the_floor = flops / floor_us(work, precision, CARD) * 1e6
    assert at_the_floor == pytest.approx(min(CARD.flops_per_s(precision), work.intensity * CARD.copy_bytes_per_s))
    assert share(work, precision, CARD, floor_us(work, precision, CARD)) == pytest.approx(1.0)


def test_peaks_are_rates_of_the_recorded_times():
    content = results.Results(records=peaks())
    recorded = Peaks.recorded(content)
    assert recorded == Peaks(pytest.approx(4.25e12), *map(pytest.approx, (60e12, 400e12, 790e12)))
    tf32 = content.suite("peaks").pop(2)
    assert tf32["case"] == "tensor-tf32"
    with pytest.raises(ValueError, match="no peak was measured for tf32: this card has no tensor cores for it"):
        Peaks.recorded(content).flops_per_s("tf32")
    content.suite("peaks").pop(0)
    with pytest.raises(ValueError, match="the results hold no peak of copy"):
        Peaks.recorded(content)
