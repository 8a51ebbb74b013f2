"""What crosses memory at each level of fusion, counted by hand for a small network."""

import pytest

from common import topology
from common.bench.operators import kind_of
from common.measure.roofline import Peaks
from common.network.steps import fuse
from common.optimize.levels import LEVELS, apart, floor, kernels_of, traffic
from common.report import results, tables

STEPS = fuse(topology.build())


def elements(joined):
    kernels = kernels_of(STEPS, joined, kind_of)
    assert [step for kernel in kernels for step in kernel] == STEPS
    return len(kernels), sum(traffic(kernel, 1) for kernel in kernels)


def test_more_in_one_kernel_is_fewer_kernels_and_fewer_bytes():
    counted = [elements(joined) for joined in LEVELS.values()]
    assert [count for count, _ in counted] == [54, 37, 38, 21, 20, 19]
    moved = [size for _, size in counted]
    assert moved[0] > moved[1] > moved[2] > moved[3] > moved[4] > moved[5]


def test_a_block_reads_its_input_and_its_residual_once():
    block = next(kernel for kernel in kernels_of(STEPS, LEVELS["whole blocks"], kind_of) if len(kernel) == 3)
    first, _, last = block
    c, h, w = first.layers[0].input_shapes[0][1:]
    o, oh, ow = last.output_shape[1:]
    assert traffic(block, 2) == 2 * (c * h * w + o * oh * ow)
    residual = next(
        kernel for kernel in kernels_of(STEPS, LEVELS["whole blocks"], kind_of) if len(kernel[-1].layers) > 1
        and len(kernel) == 3
    )  # fmt: skip
    x = residual[0].layers[0].input_shapes[0][1:]
    assert traffic(residual, 1) == 2 * x[0] * x[1] * x[2], "read as input and as residual, and written"


def test_layers_apart_move_more():
    (with_bias, moved), (without, more) = apart(STEPS, True), apart(STEPS, False)
    assert with_bias < without and elements(())[1] < moved < more
    outputs = sum(
        step.layers[0].output_shape[1] * step.layers[0].output_shape[2] * step.layers[0].output_shape[3]
        for step in STEPS
        if type(step.layers[0]).__name__ == "Conv2d"
    )
    assert more - moved == 2 * outputs, "each bias reads and writes an output"


def test_the_least_time_is_that_of_bytes_and_of_flops():
    peaks = Peaks.recorded(results.load(tables.CARD))
    kernel, macs = [STEPS[1]], STEPS[1].macs
    moved, computed = floor(kernel, 4, 8, lambda step: step.macs, lambda step: "fp32", peaks)
    size = 8 * traffic(kernel, 4) + STEPS[1].parameter_bytes(4)
    assert moved == pytest.approx(1e6 * size / peaks.copy_bytes_per_s, rel=0.3)
    assert computed == pytest.approx(1e6 * 2 * 8 * macs / peaks.fma_fp32)
    twice = floor([STEPS[1], STEPS[2]], 4, 8, lambda step: macs, lambda step: "fp32", peaks)[1]
    assert twice == pytest.approx(2 * computed)
