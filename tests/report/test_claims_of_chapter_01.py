"""What prose of chapters 01 and 02 says about recorded times and kernels, held against the records."""

from common import topology
from common.measure.roofline import Peaks
from common.report import results, tables
from common.topology import fusion

RECORDED = results.load(tables.CARD)
PEAKS = Peaks.recorded(RECORDED)


def timeline(implementation, precision):
    return results.find(RECORDED, suite="timeline", implementation=implementation, precision=precision, batch=1)


def test_ours_takes_less_than_half_of_cudnns_time_on_the_multiply_add_units_alone():
    ours = results.one(RECORDED, case=tables.FMA_ONLY, precision="fp32", batch=1, mode="hot")
    keys = {"implementation": "cudnn", "precision": "fp32", "batch": 1, "mode": "hot", "launch": "graph"}
    cudnn = results.find(RECORDED, suite="network", case=tables.NETWORK, **keys)
    assert {r["arithmetic"] for r in [ours, *cudnn]} == {"fp32"}
    assert ours["median_us"] < min(r["median_us"] for r in cudnn) / 2


def test_cudnn_in_fp32_leaves_bias_and_relu6_of_many_steps_to_a_second_kernel():
    kernels = [r["kernel"] for r in timeline("cudnn", "fp32")]
    assert len(kernels) == len(topology.build().layers)  # "is chance"
    assert sum(name.startswith("cudnn_generated_pointwise") for name in kernels) > 25


def test_pytorch_starts_a_kernel_for_most_biases():
    layers, biases = len(topology.build().layers), 53
    for precision in ("fp32", "fp16"):
        assert len(timeline("torch-eager", precision)) - layers > biases / 2


def test_bytes_limit_nearly_all_kernels_in_fp16_until_whole_blocks_are_fused():
    graph = topology.build()
    for level, joins in list(fusion.LEVELS.items())[:5]:
        groups, limited = fusion.kernels(graph, joins), 0
        for kernel, pair in zip(groups, fusion.traffic(graph, groups), strict=True):
            held = sum(getattr(layer, "params", 0) for layer in kernel)
            arithmetic = 2 * 256 * sum(layer.macs for layer in kernel) / PEAKS.tensor_fp16
            limited += 2 * (256 * sum(pair) + held) / PEAKS.copy_bytes_per_s > arithmetic
        assert limited < len(groups) / 2 if level == "whole block" else limited > 0.85 * len(groups), level
