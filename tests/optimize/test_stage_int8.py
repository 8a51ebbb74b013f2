"""Consecutive blocks in int8 as one kernel (stage_int8.cu): the bits of their convolutions, one after the other."""

import re
from dataclasses import replace

import numpy as np
import pytest
from int8_checks import modelled, nhwc, same, third_in_two_roundings
from test_sliding_int8 import image_of, parts_of

from common import cuda
from common.kernels import int8
from common.kernels.traced import trace_call
from common.network import Network
from common.optimize import fusions_int8
from common.optimize.compositions import THROUGHPUT
from common.optimize.stage_int8 import Stage, StageBlock, chosen_stage, problem, stage_int8
from common.optimize.tiles_int8 import Int8Block
from common.quantize import IntegerKernels, Integers, quantize
from common.topology import ReLU6, ResidualAdd
from common.topology.builder import Builder

pytestmark = pytest.mark.skipif(
    cuda.backend() == "gpu" and cuda.compute_capability() < 90, reason="clusters are there from sm_90 on"
)


def block(channels, hidden, outputs, stride=1):
    return Int8Block(14, 14, channels, hidden, outputs, stride)


def stage_of(rng, sizes, zero, adds):
    """(StageBlocks, x → the last one's output by the model) of blocks of these sizes."""
    blocks, steps = [], []
    for size, add in zip(sizes, adds, strict=True):
        parts, there = parts_of(rng, block(*size), zero)
        more = {}
        if add:
            scales = int8.residual_scales((0.9, parts[2].zero_point), (1.1, zero), (1.3, -2))
            more = {"residual_scales": scales, "residual_first": add == 2}
        if add and zero == 37:
            parts[2], there[2] = replace(parts[2], bounds=(-100, 90)), replace(there[2], bounds=(-100, 90))
        stride = block(*size).stride
        blocks.append(StageBlock(*there, **more, stride=stride))
        steps.append((parts, stride, more))

    def model(x):
        for parts, stride, more in steps:
            x = modelled(x, parts, stride, zero, **({"residual": x} if more else {}), **more)
        return x

    return blocks, model


CASES = [
    ([(64, 192, 64)], (0,), 1),
    ([(32, 384, 32)], (1,), 2),
    ([(64, 384, 64), (64, 192, 96), (96, 384, 96)], (1, 0, 2), 2),
    ([(64, 192, 64)] * 3, (1, 1, 1), 1),
    ([(96, 384, 160, 2)], (0,), 2),
    ([(64, 192, 96), (96, 192, 192, 2)], (0, 0), 1),
]


@pytest.mark.parametrize("zero", [37, -128])
@pytest.mark.parametrize(("sizes", "adds", "batch"), CASES, ids=str)
def test_it_is_its_blocks_one_after_the_other(rng, sizes, adds, batch, zero):
    blocks, model = stage_of(rng, sizes, zero, adds)
    stage = Stage(blocks, batch)
    for _ in range(2):  # the same memory, twice
        x = image_of(rng, block(*sizes[0]), batch)
        same(stage_int8(nhwc(x), stage), model(x))


def test_channels_that_take_two_roundings_have_the_same_bits(rng, monkeypatch):
    """Every third hidden channel: groups of 16 of one kind, and of the other."""
    third_in_two_roundings(monkeypatch)
    for sizes in ([(32, 192, 32)], [(32, 192, 64, 2)]):
        blocks, model = stage_of(rng, sizes, 11, (0,))
        x = image_of(rng, block(*sizes[0]), 1)
        assert "-DONE_STEP=0" in Stage(blocks, 1).switches
        same(stage_int8(nhwc(x), blocks), model(x))


def test_its_trace_has_no_finding(rng):
    """Rows of mail, packets, x that is overwritten, rings of weights: of both strides."""
    blocks, _ = stage_of(rng, [(32, 192, 32), (32, 192, 32), (32, 192, 32, 2)], 11, (1, 0, 0))
    x = nhwc(image_of(rng, block(32, 192, 32), 1))
    (report,) = trace_call(lambda: stage_int8(x, blocks), None)
    assert not report.findings


def test_launches_follow_one_another_without_a_reset(rng):
    """Numbers of packets go on from launch to launch, and for each thread block alike."""
    blocks, model = stage_of(rng, [(32, 192, 32), (32, 192, 32)], 11, (1, 1))
    stage = Stage(blocks, 2)
    for turn in range(3):
        x = image_of(rng, block(32, 192, 32), 2)
        same(stage_int8(nhwc(x), stage), model(x))
        np.testing.assert_array_equal(cuda.asnumpy(stage.counters), 2 * (turn + 1))


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ([], "one block or more, got none"),
        ([Int8Block(7, 7, 64, 192, 64)], "on images of 14×14, got Int8Block"),
        ([Int8Block(14, 14, 192, 192, 64, 1, False)], "blocks that expand"),
        ([block(64, 192, 64, 2), block(64, 192, 64)], "only a stage's last block has stride 2"),
        ([block(48, 192, 64)], "a stage takes 32, 64 or 96 channels"),
        ([block(64, 192, 160)], "a stage takes 32, 64 or 96 channels"),
        ([block(64, 192, 224, 2)], "outputs of stride 2, got Int8Block"),
        ([block(64, 320, 64)], r"a stage takes 192, 384, … hidden channels"),
        ([block(64, 192, 96), block(64, 192, 64)], "the channels of the one before, got 96 and 64"),
    ],
)
def test_what_it_does_not_compute_is_named(blocks, why):
    assert re.search(why, problem(blocks, 1))


@pytest.mark.skipif(cuda.backend() == "gpu", reason="it is as on the simulator")
def test_the_simulator_takes_as_many_images_as_an_h200():
    assert problem([block(64, 384, 64)], 33) is None
    assert problem([block(64, 384, 64)], 34) == "a stage has 4 multiprocessors for an image, got 34 images for 132"


def test_a_card_has_room_for_all_thread_blocks(monkeypatch):
    """They wait for one another."""
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 132)
    monkeypatch.setattr(cuda, "compute_capability", lambda: 90)
    some = [block(64, 384, 64)]
    assert problem(some, 33) is None
    assert problem(some, 34) == "a stage has 4 multiprocessors for an image, got 34 images for 132"
    monkeypatch.setattr(cuda, "shared_memory", lambda: 180 * 1024)
    assert problem(some, 1) is None
    assert problem([block(96, 384, 96)], 1) == "a stage of 1 blocks does not fit into 184320 bytes of shared memory"
    monkeypatch.setattr(cuda, "shared_memory", lambda: 227 * 1024)
    monkeypatch.setattr(cuda, "compute_capability", lambda: 100)
    assert "wgmma, which is in sm_90 alone, this card is sm_100" in problem(some, 1)


def test_wrong_arguments(rng):
    blocks, _ = stage_of(rng, [(32, 192, 32)], 11, (0,))
    x = nhwc(image_of(rng, block(32, 192, 32), 2))
    stage = Stage(blocks, 1)
    with pytest.raises(ValueError, match=r"x must have shape \(1, 32, 14, 14\), got \(2, 32, 14, 14\)"):
        stage_int8(x, stage)
    with pytest.raises(ValueError, match=r"x must have shape \(any, any, 14, 14\)"):
        stage_int8(x[:, :, :7], stage)
    with pytest.raises(ValueError, match="out and x share memory"):
        stage_int8(x[:1], stage, out=x[:1])
    with pytest.raises(TypeError, match="out"):
        stage_int8(x[:1], stage, out=cuda.asarray(np.zeros((1, 32, 14, 14), np.float32)))
    with pytest.raises(ValueError, match="stage_int8: x is added to an output of its shape"):
        Stage(stage_of(rng, [(32, 192, 64)], 11, (1,))[0], 1)
    with pytest.raises(ValueError, match=r"blocks\[0\].depthwise.weight must have shape \(192, 1, 3, 3\), got"):
        Stage([replace(blocks[0], depthwise=blocks[0].project)], 1)
    with pytest.raises(TypeError, match=r"blocks\[0\].expand.weight"):
        Stage([replace(blocks[0], expand=replace(blocks[0].expand, weight="w"))], 1)
    with pytest.raises(ValueError, match=r"blocks\[0\].stride must be 1 or 2, got 3"):
        Stage([replace(blocks[0], stride=3)], 1)
    clamped = replace(blocks[0], depthwise=replace(blocks[0].depthwise, bounds=(0, 10)))
    with pytest.raises(ValueError, match="takes small sums of hidden tensors that fill int8"):
        Stage([clamped], 1)


# ---- In a network


@pytest.fixture(scope="module")
def quantized():
    """(a network of two blocks of stride 1 and one of stride 2 on 14×14 pixels in QDQ form, pictures, its logits)."""
    built = Builder(2, 32, 14, 10)
    x = built.conv("first", None, 32, 1)
    for i, stride in enumerate((1, 1, 2)):
        built.conv(f"expand{i}", None, 192, 1)
        built.add(ReLU6, f"hidden{i}")
        built.conv(f"depthwise{i}", None, 192, 3, stride, groups=192)
        built.add(ReLU6, f"convolved{i}")
        y = built.conv(f"project{i}", None, 32, 1)
        x = built.add(ResidualAdd, f"add{i}", x, y) if stride == 1 else y
    graph = built.finish_with_classifier("classes", "stage")
    rng = np.random.default_rng(3)
    pictures = rng.standard_normal((6, *graph.input_shape[1:])).astype(np.float32)
    parameters = {
        name: rng.standard_normal(shape).astype(np.float32) / np.float32(np.prod(shape[1:]) ** 0.5)
        for layer in graph.layers for name, shape in layer.parameter_shapes.items()
    }  # fmt: skip
    model = quantize(graph, parameters, pictures, ranges="minmax").model()
    return model, pictures[:2], Network(model, Integers(as_kernels=True))(pictures[:2])


def network(model, choose):
    return Network(model, IntegerKernels(optimize=replace(THROUGHPUT, stage_int8=choose)))


def test_blocks_of_a_network_become_a_stage(quantized):
    model, x, want = quantized
    net = network(model, lambda blocks, batch: batch > 1)
    np.testing.assert_array_equal(cuda.asnumpy(net(x)), want)
    np.testing.assert_array_equal(cuda.asnumpy(net(x[:1])), want[:1])
    steps, of_one = ([str(step) for step in net.plan((n, *x.shape[1:])).steps] for n in (2, 1))
    assert "Stage(14×14, 3 blocks, 32>32), int8" in steps and not any("Stage" in step for step in of_one)
    assert sum(told.startswith("stage_int8") for told in net.plan(x.shape).told) == 1


def test_a_stage_whose_sums_are_not_small_runs_block_by_block(quantized, monkeypatch):
    """What the choice cannot know: the constants of a stage are made when arrays are there."""
    model, x, want = quantized

    def refuses(*given):
        raise ValueError("sums")

    monkeypatch.setattr(fusions_int8, "Stage", refuses)
    net = network(model, lambda blocks, batch: True)
    np.testing.assert_array_equal(cuda.asnumpy(net(x)), want)
    assert sum(told.startswith("inverted_residual_int8") for told in net.plan(x.shape).told) == 1


@pytest.mark.parametrize(("images", "whether"), [(1, False), (8, False), (9, True)])
def test_few_images_are_left_to_separate_kernels(images, whether):
    assert chosen_stage([block(64, 384, 64)] * 2, images) is whether
