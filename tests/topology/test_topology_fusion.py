"""What fusing saves: the kernels and megabytes that chapter 01 prints, and a block added up by hand."""

from common import topology
from common.topology import fusion
from common.topology.layers import Conv2d

NETWORK = topology.build()


def test_the_levels_of_mobilenet():
    found = list(fusion.counts(NETWORK).values())
    assert [number for number, _ in found] == [151, 99, 54, 36, 37, 20, 19]
    assert [round(4 * n / 1e6, 1) for _, n in found] == [158.9, 105.5, 54.9, 36.0, 27.7, 8.4, 5.2]


def test_fusing_more_moves_less_and_loses_no_layer():
    for joins in fusion.LEVELS.values():
        groups = fusion.kernels(NETWORK, joins)
        assert [layer for kernel in groups for layer in kernel] == list(NETWORK)
        assert len(fusion.traffic(NETWORK, groups)) == len(groups)
    moved = [elements for _, elements in fusion.counts(NETWORK).values()]
    assert moved == sorted(moved, reverse=True)


def test_one_layer_per_kernel_reads_its_inputs_and_writes_its_output():
    apart = fusion.traffic(NETWORK, fusion.kernels(NETWORK, fusion.LEVELS["ReLU6 and add separate"]))
    for layer, (reads, writes) in zip(NETWORK, apart, strict=True):
        assert 4 * (reads + writes) == layer.activation_bytes()


def test_a_whole_block_reads_its_input_once_though_it_is_added():
    groups = fusion.kernels(NETWORK, fusion.LEVELS["whole block"])
    moved = fusion.traffic(NETWORK, groups)
    third = next(i for i, kernel in enumerate(groups) if any("features.3." in layer.name for layer in kernel))
    assert moved[third] == (24 * 56 * 56, 24 * 56 * 56)  # 24 → 144 → 24 at 56 × 56, with a residual


def test_each_whole_block_has_one_depthwise_convolution():
    for kernel in fusion.kernels(NETWORK, fusion.LEVELS["whole block"])[1:-2]:
        assert sum(isinstance(layer, Conv2d) and layer.groups > 1 for layer in kernel) == 1


def test_kinds_of_layers():
    found = [fusion.kind(layer) for layer in NETWORK]
    counted = {kind: found.count(kind) for kind in dict.fromkeys(found)}
    assert counted == {
        "stem": 1, "ReLU6": 35, "depthwise": 17, "project": 17, "expand": 16, "add": 10, "head": 1, "pool": 1,
        "linear": 1,
    }  # fmt: skip
