"""A whole network as one launch (common/optimize/persistent.py)."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from nvrtc import compile_with_nvrtc
from tiers import in_turn, only_all, seldom

from common import cuda, kernels
from common.optimize import generate, persistent
from common.optimize.generate import Block, Tile
from common.optimize.head import Head, Linear
from common.optimize.persistent import Persistent, chosen

on_gpu = cuda.backend() == "gpu"
needs_clusters = pytest.mark.skipif(on_gpu and cuda.compute_capability() < 90, reason="clusters need a card of sm_90")
both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float16])
pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="needs a card of sm_80")


def small_network():
    """A stem, a block of stride 2, two with a residual, one of which has more channels than a slice; head, linear."""
    return [
        Block(10, 12, 3, 32, 16, 1, "stem", (20, 24)),
        Block(10, 12, 16, 48, 24, 2),
        Block(5, 6, 24, 72, 24, residual=True),
        Block(5, 6, 24, 144, 24, residual=True),
        Block(5, 6, 24, 24, 40, expand="none"),
        Head(30, 40, 72),
        Linear(72, 13),
    ]


def arrays_of(layer, rng, dtype):
    def array(*shape, scale=1.0):
        made = cuda.asarray((scale * rng.standard_normal(shape)).astype(dtype))
        return cuda.to_layout(made, "NHWC") if len(shape) == 4 else made

    if isinstance(layer, Linear):
        return array(layer.outputs, layer.inputs, scale=layer.inputs**-0.5), array(layer.outputs)
    if isinstance(layer, Head):
        return array(layer.outputs, layer.channels, 1, 1, scale=layer.channels**-0.5), array(layer.outputs)
    h, c, o = layer.hidden, layer.channels, layer.outputs
    taps = 3 if layer.expand == "stem" else 1
    expand = array(h, c, taps, taps, scale=math.sqrt(2 / c) / taps), array(h)
    return (
        *((None, None) if layer.expand == "none" else expand),
        array(h, 1, 3, 3, scale=0.5), array(h), array(o, h, 1, 1, scale=h**-0.5), array(o),
    )  # fmt: skip


def composed(x, layer, arrays):
    """A phase as the operators of common.kernels compute it."""
    if isinstance(layer, Linear):
        return kernels.linear(x.reshape(len(x), -1), *arrays)
    if isinstance(layer, Head):
        return kernels.global_avg_pool(kernels.pointwise(x, *arrays, activation=layer.bounds))
    e, eb, d, db, p, pb = arrays
    h = x
    if layer.expand == "stem":
        h = kernels.conv2d(x, e, eb, 2, 1, activation=layer.bounds[0])
    elif layer.expand == "pointwise":
        h = kernels.pointwise(x, e, eb, activation=layer.bounds[0])
    h = kernels.depthwise(h, d, db, layer.stride, 1, activation=layer.bounds[1])
    return kernels.pointwise(h, p, pb, residual=x if layer.residual else None, activation=layer.bounds[2])


def built(rng, layers, dtype, batch, plan=None, blocks=None):
    x = cuda.to_layout(cuda.asarray(rng.standard_normal((batch, *layers[0].input_shape)).astype(dtype)), "NHWC")
    phases = [(layer, arrays_of(layer, rng, dtype)) for layer in layers]
    return x, phases, Persistent(x, phases, plan=plan, blocks=blocks)


def check(x, phases, network):
    """Every phase against the operators, on what the phase before gave; twice, from poisoned memory."""
    results = []
    for _ in range(2):
        for out in network.outputs:
            out[...] = np.nan
        network.launch()
        results.append([cuda.asnumpy(out).copy() for out in network.outputs])
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)
    given = x
    for i, ((layer, arrays), out) in enumerate(zip(phases, network.outputs, strict=True)):
        wanted = cuda.asnumpy(composed(given, layer, arrays)).astype(np.float64)
        result = cuda.asnumpy(out).astype(np.float64).reshape(wanted.shape)
        error = np.linalg.norm(result - wanted) / np.linalg.norm(wanted)
        allowed = 2e-3 if x.dtype == np.float16 else 1e-6 * math.sqrt(max(_sums(layer)))
        assert error <= allowed, f"phase {i}, {layer}: relative error {error:.1e}, allowed {allowed:.1e}"
        given = out


def _sums(layer):
    if isinstance(layer, Linear):
        return (layer.inputs,)
    return (layer.channels,) if isinstance(layer, Head) else (layer.channels, layer.hidden)


@seldom(6)
@both_dtypes
@pytest.mark.parametrize("cluster", [1, pytest.param(8, marks=needs_clusters)])
@pytest.mark.parametrize(("batch", "warps"), [(1, 4), (2, 8)])
def test_network_is_what_the_operators_compute(rng, dtype, cluster, batch, warps):
    layers = small_network()
    plan = chosen(layers, np.dtype(dtype).name, batch, warps=(warps,), clusters=(cluster,), multiprocessors=16)
    assert plan.cluster == cluster and plan.warps == warps
    check(*built(rng, layers, dtype, batch, plan))


@seldom(6)
def test_the_defaults(rng):
    x, phases, network = built(rng, small_network(), np.float16, 3)
    check(x, phases, network)
    assert network.output is network.outputs[-1] and network.output.shape == (3, 13)


@seldom(6)
@needs_clusters
def test_tiles_are_for_the_blocks_that_are_there(rng, monkeypatch):
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 16)
    monkeypatch.setattr(persistent, "resident", lambda kernel, plan: 8)  # of two clusters there is room for one
    x, phases, network = built(rng, small_network(), np.float16, 1)
    wanted = chosen(small_network(), "float16", 1, multiprocessors=8, clusters=(network.plan.cluster,))
    assert network.blocks == 8 and network.plan == wanted
    assert network.plan != chosen(small_network(), "float16", 1, multiprocessors=16)
    check(x, phases, network)


def given_tiles(dtype, warps=4, cluster=4):
    """Tiles of every kind side by side: teams, split tiles in larger clusters, slices of weights at a time."""
    layers = [
        Block(9, 7, 16, 32, 16, residual=True),
        Block(9, 7, 16, 64, 16, residual=True),
        Block(9, 7, 16, 96, 24, 2),
        Block(5, 4, 24, 32, 24, residual=True),
        *[Block(5, 4, 24, 128, 24, residual=True)] * 3,
    ]
    tiles = [
        Tile(3, 4, slice=16, warps=1, stages=2),                       # four teams of a warp, more tiles than blocks
        Tile(3, 7, slice=32, split=2, warps=2, stages=1),              # two tiles in a cluster, two teams
        Tile(5, 4, slice=32, split=1, warps=2, stages=2),              # three slices, of which two are there
        Tile(1, 4, slice=32, warps=2, stages=1, strip=1),
        *[Tile(5, 4, slice=32, split=4, warps=2, stages=1)] * 3,       # two warps of four idle; a loop of three phases
    ]  # fmt: skip
    return chosen(layers, dtype, 2, warps=(warps,), clusters=(cluster,), multiprocessors=8, tiles=tiles), layers


@seldom(6)
@needs_clusters
@both_dtypes
@pytest.mark.parametrize("blocks", [4, 12])
def test_given_tiles(rng, dtype, blocks):
    plan, layers = given_tiles(np.dtype(dtype).name)
    assert [phase.split for phase in plan.phases] == [1, 2, 1, 1, 4, 4, 4]
    assert not plan.phases[2].resident
    assert max(phase.teams for phase in plan.phases) > 1
    check(*built(rng, layers, dtype, 2, plan, blocks=blocks))


@seldom(6)
@needs_clusters
@pytest.mark.parametrize(("early", "dtype"), in_turn([(2,), (2, 5, 6), (1, 3, 4)], [np.float32, np.float16]), ids=str)
def test_weights_that_are_fetched_late(rng, dtype, early):
    """Where two phases' weights do not fit, those of the second one are fetched when the first one is over."""
    plan, layers = given_tiles(np.dtype(dtype).name)
    phases = tuple(dataclasses.replace(phase, early=i in early) for i, phase in enumerate(plan.phases))
    late = dataclasses.replace(plan, phases=phases)
    assert late.shared <= plan.shared and late.runs()[-1] == [4, 5, 6]
    check(*built(rng, layers, dtype, 2, late, blocks=4))


@seldom(6)
@needs_clusters
def test_phases_that_are_alike_are_a_loop(rng):
    plan, layers = given_tiles("float16")
    assert plan.runs() == [[0], [1], [2], [3], [4, 5, 6]]
    x, phases, network = built(rng, layers, np.float16, 2, plan, blocks=4)
    unrolled = Persistent(x, phases, plan=dataclasses.replace(plan, rolled=False, barrier="grid_barrier"), blocks=8)
    check(x, phases, network)
    check(x, phases, unrolled)
    np.testing.assert_array_equal(cuda.asnumpy(network.output), cuda.asnumpy(unrolled.output))
    assert unrolled.source.count("BARRIER(counter)") == 6 and network.source.count("BARRIER(counter)") == 5


def watched(rng, dtype, source):
    """What the simulator finds when it sees every access of a small network, its text changed by `source`."""
    layers = [
        *[Block(4, 8, 16, 32, 16, residual=True)] * 2,
        Block(4, 8, 16, 32, 16, residual=True),
        Block(4, 8, 16, 32, 16, 2),
        Head(8, 16, 24),
        Linear(24, 5),
    ]
    # whole images: what lies outside of one is written to a place that nobody reads, by many threads
    whole, split = Tile(4, 8, slice=32, warps=2, stages=1), Tile(4, 8, slice=16, split=2, warps=1, stages=1)
    tiles = [whole, whole, split, Tile(2, 4, slice=32, warps=2, stages=1), None, None]
    plan = chosen(layers, np.dtype(dtype).name, 2, warps=(2,), clusters=(2,), multiprocessors=4, tiles=tiles)
    _, _, network = built(rng, layers, dtype, 2, plan, blocks=4)
    text, given = source(network.source), generate.options()
    kernel = cuda.RawKernel(text, persistent.KERNEL, options=given, enable_cooperative_groups=True)
    kernel.max_dynamic_shared_size_bytes = max(48 * 1024, plan.shared)
    arrays = (network.counter, *network.arrays)
    return cuda.trace(kernel, (4,), (64,), arrays, shared_mem=plan.shared).findings


@seldom(6)
@pytest.mark.skipif(on_gpu, reason="the simulator sees every access")
@both_dtypes
def test_nothing_is_read_before_it_is_written(rng, dtype):
    """No race between phases, or between a phase and the weights that arrive meanwhile."""
    assert not watched(rng, dtype, str)


@seldom(6)
@pytest.mark.skipif(on_gpu, reason="the simulator sees every access")
@pytest.mark.parametrize(
    "number", [1, 3, *only_all([2, 4])]
)  # the first two phases have the same tiles of whole images
def test_every_barrier_is_needed(rng, number):
    def without(text):
        parts = text.split("BARRIER(counter);")
        assert len(parts) == 6
        return "BARRIER(counter);".join([*parts[:number], parts[number] + parts[number + 1], *parts[number + 2 :]])

    assert any(finding.kind in ("race", "uninitialised-read") for finding in watched(rng, np.float32, without))


def test_what_does_not_fit_is_named(rng):
    layers = small_network()[2:4]
    x, phases, network = built(rng, layers, np.float32, 1)
    with pytest.raises(ValueError, match=r"phase 1, .*: its input has shape"):
        Persistent(x, [phases[0], (Block(9, 9, 24, 48, 24), phases[1][1])])
    with pytest.raises(ValueError, match=r"phase 0, .*: depthwise must be float32"):
        Persistent(x, [(layers[0], (*phases[0][1][:2], phases[1][1][2], *phases[0][1][3:])), phases[1]])
    with pytest.raises(ValueError, match="plan is for other layers, dtype or batch"):
        Persistent(x, phases[:1], plan=network.plan)
    with pytest.raises(ValueError, match="no tiles of 4 warps fit into 3,000 bytes"):
        chosen(layers, "float32", shared_memory=3000, warps=(4,))


def mobilenet():
    layers, size, c = [Block(112, 112, 3, 32, 16, 1, "stem", (224, 224))], 112, 16
    for t, o, n, s in ((6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(n):
            stride = s if i == 0 else 1
            layers.append(Block(size, size, c, c * t, o, stride, residual=i > 0))
            size, c = (size - 1) // stride + 1, o
    return [*layers, Head(size * size, c, 1280), Linear(1280, 1000)]


@seldom(6)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_mobilenet_fits(dtype):
    """On an H200, all of it in one kernel; what phases take of shared memory never overlaps."""
    plan = chosen(mobilenet(), dtype, multiprocessors=132, shared_memory=227 * 1024, warps=(8,), clusters=(8,))
    assert plan.shared <= 227 * 1024 and len(plan.phases) == 19
    for i, (phase, (work, weights)) in enumerate(zip(plan.phases, plan.places(), strict=True)):
        taken = [(work, work + phase.work), (weights, weights + phase.weights)]
        if i + 1 < len(plan.phases) and plan.phases[i + 1].early:
            coming = plan.places()[i + 1][1]
            taken.append((coming, coming + plan.phases[i + 1].weights))
        taken.sort()
        assert taken[0][0] >= 0 and taken[-1][1] <= plan.shared
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(taken))


@seldom(6)
@pytest.mark.parametrize(
    ("card", "cluster", "dtype"),
    [("sm_80", 1, "float32"), ("sm_90", 8, "float16"), *only_all([("sm_80", 1, "float16"), ("sm_90", 8, "float32")])],
)
def test_nvrtc_compiles_it(dtype, card, cluster):
    layers = [*small_network()[:-2], *[Block(5, 6, 40, 80, 40, residual=True)] * 2, *small_network()[-2:]]
    plan = chosen(layers, dtype, warps=(8,), clusters=(cluster,), multiprocessors=108, shared_memory=163 * 1024)
    assert compile_with_nvrtc(persistent.source(plan), card, generate.options()) is None
