"""Bounds on a network's tensors, and the arithmetic of products that they allow."""

import numpy as np
import pytest
import zoo
from network_models import Nodes, run_onnxruntime
from tiers import only_all, seldom

from common import cuda, topology, weights
from common.network import Kernels, Network
from common.network.compare import compare, reference_outputs, relative_error
from common.network.passes import as_steps
from common.network.ranges import UNKNOWN, Range, ranges

on_tensor_cores = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma of halves by 16 needs a card of sm_80")


@pytest.fixture(scope="module")
def digits():
    return weights.model("digits")


def folded(model, shape=None):
    return weights.fold_batch_norm(*topology.read_onnx_with_parameters(model, shape))


def conv_and_clip(rng, low=-1e30, high=1e30, **attributes):
    n = Nodes(rng)
    x = n.conv("x", 4, 6, **attributes)
    return n.model(n("Clip", x, n.number(low), n.number(high)), (1, 4, 5, 5))


@pytest.mark.parametrize(
    "name", ["mobilenet-v2", "mobilenet-v3-small", "densenet-121", "unet", *only_all(["shufflenet-v2", "resnet-50"])]
)
@pytest.mark.parametrize("bound", [0.5, 4.0])
def test_no_element_lies_outside_its_range(rng, name, bound):
    """Of any layer, for inputs at the ends of their bound and within it."""
    graph, parameters = folded(zoo.export(name, batch=4), None)
    found = ranges(graph, parameters, bound)
    ends = rng.choice([-bound, bound], graph.input_shape).astype(np.float32)
    ends[0], ends[1] = bound, rng.uniform(-bound, bound, graph.input_shape[1:])
    tensors = reference_outputs(graph, parameters, as_steps(graph), {graph.input: ends})
    checked = 0
    for tensor, values in tensors.items():
        if found[tensor].known:
            channels = np.moveaxis(values.astype(np.float64), 1, 0).reshape(values.shape[1], -1)
            room = 1e-5 * found[tensor].bound
            assert (channels.min(1) >= found[tensor].low - room).all(), tensor
            assert (channels.max(1) <= found[tensor].high + room).all(), tensor
            checked += 1
    assert checked > (0.4 if name == "unet" else 0.9) * len(tensors)  # which has layers that normalise


def test_the_bound_of_a_convolution_is_reached(rng):
    """By the input that has the sign of each weight: there is no smaller bound."""
    model = conv_and_clip(rng)
    graph, parameters = folded(model)
    weight, bias = (parameters[name].astype(np.float64) for name in (graph.layers[0].weight, graph.layers[0].bias))
    found = ranges(graph, parameters, 2.0)[graph.layers[0].output]
    x = 2 * np.sign(weight)  # (6, 4, 3, 3): an image for each output
    most = np.einsum("oikl,oikl->o", x, weight) + bias
    np.testing.assert_allclose(found.high, most, rtol=1e-12)
    np.testing.assert_allclose(found.low, 2 * bias - most, rtol=1e-12, atol=1e-12)


def test_groups_have_ranges_of_their_own(rng):
    n = Nodes(rng)
    x = n("Relu", n.conv("x", 4, 6, k=1))
    graph, parameters = folded(n.model(n.conv(x, 6, 9, group=3), (1, 4, 5, 5)))
    _, relu, second = graph.layers
    found, weight = ranges(graph, parameters, 1.0), parameters[second.weight].astype(np.float64)
    assert (found[relu.output].low >= 0).all()
    high = found[relu.output].high
    for o in range(9):
        mine = high[o // 3 * 2 : o // 3 * 2 + 2]
        want = (np.maximum(weight[o], 0).sum((1, 2)) * mine).sum() + parameters[second.bias][o]
        np.testing.assert_allclose(found[second.output].high[o], want, rtol=1e-9)


def test_a_clamp_ends_what_nothing_bounds(rng):
    graph, parameters = folded(conv_and_clip(rng, -3.0, 1.5))
    found = ranges(graph, parameters)
    assert found[graph.input] is UNKNOWN and not found[graph.layers[0].output].known
    assert found[graph.output].bound == 3 and (found[graph.output].high == 1.5).all()


def test_what_is_far_wider_than_typical_does_not_fit():
    assert Range.of(-6, 6, 1.0).fits_halves and Range.of(-6, 6, 1.0).scale == 4096
    assert not Range.of(-1e5, 1e5, 1.0).fits_halves
    assert not UNKNOWN.fits_halves and not Range.of(0, 0, 0.0).fits_halves
    with pytest.raises(ValueError, match="bound must be"):
        _ = UNKNOWN.scale


@seldom(6)
def test_clamps_keep_a_network_in_range_and_their_absence_does_not():
    """A MobileNetV2 has useful bounds everywhere, a ResNet only near its input."""
    share = {}
    for name in ("mobilenet-v2", "resnet-50"):
        graph, parameters = folded(zoo.export(name, batch=1))
        found = ranges(graph, parameters, 3.0)
        fits = [found[layer.inputs[0]].fits_halves for layer in graph if isinstance(layer, topology.Conv2d)]
        share[name] = sum(fits) / len(fits)
        assert fits[0]
    assert share["mobilenet-v2"] == 1 and share["resnet-50"] < 0.5


# ---- The option


HOW = {
    "fma": {"pointwise/naive", "gemm/coalesced", "conv2d/direct"},
    "tf32x3": {"pointwise/split_k", "gemm/split_k", "conv2d/tensor_cores"},
    "halves": {"pointwise/split_k of halves", "gemm/coalesced", "conv2d/direct"},
}


@on_tensor_cores
@pytest.mark.parametrize("arithmetic", HOW)
def test_a_network_in_each_arithmetic(rng, digits, arithmetic):
    net = Network(digits, arithmetic=arithmetic)
    x = rng.standard_normal((2, *net.input_shape[1:])).astype(np.float32)
    assert relative_error(net(x), run_onnxruntime(digits, x)) < 3e-6
    assert net.arithmetic == arithmetic and arithmetic in repr(net)
    if cuda.backend() == "simulator":
        assert HOW[arithmetic] <= set(net.plan().told)


@on_tensor_cores
def test_what_has_no_bound_is_not_multiplied_by_halves(rng):
    """A first 1×1 convolution, with a bound on the inputs and without."""
    n = Nodes(rng)
    x = n("Relu", n.conv("x", 8, 16, k=1))
    model = n.model(n.conv(x, 16, 8, k=1), (1, 8, 4, 4))
    named = [Network(model, arithmetic="halves", input_bound=bound).plan().told for bound in (None, 2.0)]
    assert [sum("of halves" in told for told in plan) for plan in named] == [0, 2]


@on_tensor_cores
def test_an_input_beyond_its_bound_gives_nan(rng):
    n = Nodes(rng)
    net = Network(n.model(n.conv("x", 8, 16, k=1), (1, 8, 4, 4)), arithmetic="halves", input_bound=1.0)
    x = rng.uniform(-1, 1, net.input_shape).astype(np.float32)
    assert np.isfinite(net(x)).all()
    x[0, 0, 2, 2] = 100
    assert np.isnan(net(x)[0, :, 2, 2]).all()


@on_tensor_cores
def test_a_rung_or_function_of_the_users_wins(digits):
    told = Network(digits, arithmetic="halves", variants={"pointwise": "channels_last"}).plan().told
    assert "pointwise/channels_last" in told and not any("halves" in one for one in told)


@on_tensor_cores
@pytest.mark.parametrize("how", [{"arithmetic": "halves", "input_bound": 3.0}, {"arithmetic": "fma"}])
def test_a_saved_plan_has_its_arithmetic(rng, digits, how, tmp_path):
    net = Network(digits, **how)
    net.save(tmp_path / "digits.plan")
    loaded = Network.load(tmp_path / "digits.plan")
    assert loaded.arithmetic == how["arithmetic"] and loaded.target.input_bound == how.get("input_bound")
    assert loaded.plan().told == net.plan().told
    x = rng.standard_normal(net.input_shape).astype(np.float32)
    np.testing.assert_array_equal(loaded(x), net(x))


@on_tensor_cores
def test_without_tensor_cores_no_block_is_fused(digits):
    fused = Network(digits, optimize="latency").plan().told
    told = Network(digits, optimize="latency", arithmetic="fma").plan().told
    assert any("inverted_residual" in one for one in fused) and not any("inverted_residual" in one for one in told)


@on_tensor_cores
def test_compare_leaves_an_arithmetic_to_the_backends_that_have_it(digits):
    rows = compare(digits, 1, backends=["kernels", "torch"], arithmetic="halves")
    assert [row.arithmetic for row in rows] == ["fp32", "halves", "fp32"]
    assert all(row.within_contract for row in rows)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"arithmetic": "half"}, ValueError, "must be fp32 or tf32x3 or halves or fma, got 'half'"),
        ({"arithmetic": "halves", "dtype": "fp16"}, ValueError, "with dtype 'fp16' must be fp16, got 'halves'"),
        ({"arithmetic": "halves", "layout": "NCHW"}, ValueError, "layout must be NHWC with arithmetic='halves'"),
        ({"arithmetic": "fma", "input_bound": 1.0}, ValueError, "halves take it, got it with arithmetic 'fma'"),
        ({"arithmetic": "halves", "input_bound": "1"}, TypeError, "input_bound must be a number, got str"),
        ({"arithmetic": "halves", "input_bound": -1.0}, ValueError, "must be a positive magnitude, got -1.0"),
        ({"arithmetic": "halves", "input_bound": np.inf}, ValueError, "must be a positive magnitude, got inf"),
    ],
)  # fmt: skip
@on_tensor_cores
def test_options_that_do_not_fit(options, kind, message):
    with pytest.raises(kind, match=message):
        Kernels(**options)
