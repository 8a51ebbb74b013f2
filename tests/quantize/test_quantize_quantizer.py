"""Post-training quantization: the digits keep their accuracy, and every layer its meaning."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from quantized_models import onnx_runtime
from tiers import only_all, seldom

from common import topology as t
from common import weights
from common.network import Network
from common.quantize import METHODS, calibrated, choose, equalized, quantize, sensitivities, with_grids
from common.quantize.calibration import outputs
from common.quantize.equalization import pairs, unbalanced
from common.quantize.quantizer import saturates, units
from common.quantize.sensitivity import agreement, relative_error
from common.topology import layers as kinds

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def digits():
    """(graph, parameters, calibration pictures of training digits, held-out pictures, labels)."""
    split = weights.digits_split()
    graph, parameters = weights.network("digits")
    calibration = weights.digits_input(split.train_images[::24])
    return graph, parameters, calibration, weights.digits_input(split.test_images), split.test_labels


@pytest.fixture(scope="module")
def block():
    """The small MobileNetV2 with seeded weights on small pictures: (graph, parameters, pictures)."""
    network = t.build(0.35, 10, 32, batch_norm=True)
    graph, parameters = weights.fold_batch_norm(network, weights.seeded_parameters(network))
    return graph, parameters, np.random.default_rng(3).standard_normal((6, 3, 32, 32)).astype(np.float32)


def accuracy(scores, labels):
    return float((scores.argmax(1) == labels).mean())


@pytest.mark.parametrize("ranges", ["mse", *only_all([name for name in METHODS if name != "mse"])])
def test_digits_keep_98_percent(digits, ranges):
    graph, parameters, calibration, x, labels = digits
    made = quantize(graph, parameters, calibration, ranges=ranges)
    model = made.model()
    onnx.checker.check_model(model, full_check=True)
    ours, theirs = Network(model)(x), onnx_runtime(model, x)
    assert accuracy(ours, labels) >= 0.98 and accuracy(theirs, labels) >= 0.98
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()  # sums of the same codes, in float32
    assert (ours.argmax(1) == theirs.argmax(1)).all()


def test_no_layer_of_mobilenet_stays_in_float(digits):
    graph, parameters, calibration, _, _ = digits
    model = quantize(graph, parameters, calibration[:8], ranges="minmax").model()
    *_, (_, steps) = Network(model).stages()
    assert [type(one).__name__ for one in steps if not getattr(one, "fusion", None)] == ["Quantize"]
    assert not [layer for layer in t.read_onnx(model) if isinstance(layer, t.ReLU6)]  # saturation does the same


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_what_is_written_is_what_is_read(block, dtype, per_channel):
    graph, parameters, x = block
    made = quantize(graph, parameters, x, per_channel=per_channel, dtype=dtype, ranges="minmax")
    again, same = t.read_onnx_with_parameters(made.model(), graph.input_shape)
    assert again.layers == made.graph.layers and dict(again.grids) == dict(made.graph.grids)
    assert all(np.array_equal(same[name], made.parameters[name]) for name in same)
    grids = {grid.dtype for name, grid in made.graph.grids if name.endswith("weight")}
    assert grids == {"int8"} and {layer.grid.dtype for layer in made.graph if isinstance(layer, t.Quantize)} == {dtype}
    scales = [len(grid.scale) for name, grid in made.graph.grids if name.endswith("weight")]
    assert (max(scales) > 1) == per_channel
    assert all(abs(grid.zero_point[0]) == 0 for _, grid in made.graph.grids)


@seldom(6)
def test_per_tensor_scales_break_where_channels_differ_and_equalization_mends_them(digits):
    """The same network in float32, with channels of different ranges before the depthwise convolutions."""
    graph, parameters, calibration, x, labels = digits
    x, labels = x[:128], labels[:128]
    worse = unbalanced(graph, parameters, calibration, 6, np.random.default_rng(0))
    reference = outputs(graph, parameters, x)
    assert relative_error(outputs(graph, worse, x), reference) < 1e-5
    grids = calibrated(graph, worse, calibration, "minmax")
    found = {}
    for per_channel in (True, False):
        made = with_grids(graph, worse, grids, per_channel=per_channel)
        found[per_channel] = accuracy(outputs(made.graph, made.parameters, x), labels)
    mended = quantize(graph, worse, calibration, per_channel=False, equalize=True, ranges="minmax")
    assert found[False] < 0.9 < 0.93 < found[True], found
    assert accuracy(outputs(mended.graph, mended.parameters, x), labels) >= 0.975


def test_equalization_changes_weights_and_not_the_network(block):
    graph, parameters, x = block
    made = equalized(graph, parameters, x)
    assert relative_error(outputs(graph, made, x), outputs(graph, parameters, x)) < 1e-5
    (first, activation, second), *more = pairs(graph)
    assert isinstance(activation, t.ReLU6) and second.groups == second.in_channels and len(more) > 30
    assert not np.allclose(made[first.weight], parameters[first.weight])


def test_equalization_keeps_a_channel_that_reaches_the_bound_of_a_relu6():
    """Two channels, one that is clamped at 6 and one that is not: only the second may be scaled."""
    names = {"in_channels": 2, "out_channels": 2, "kernel_size": (1, 1)}
    shape = ((1, 2, 1, 1),)
    layers = (
        kinds.Conv2d(name="a", inputs=("x",), output="a", input_shapes=shape, weight="w1", bias="b1", **names),
        kinds.ReLU6(name="r", inputs=("a",), output="r", input_shapes=shape),
        kinds.Conv2d(name="b", inputs=("r",), output="b", input_shapes=shape, weight="w2", **names),
    )
    graph = t.Graph(name="pair", input="x", input_shape=(1, 2, 1, 1), layers=layers, output="b")
    diagonal = np.diag([9.0, 0.01]).reshape(2, 2, 1, 1).astype(np.float32)
    mixed = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32).reshape(2, 2, 1, 1)
    parameters = {"w1": diagonal, "b1": np.zeros(2, np.float32), "w2": mixed}
    x = np.ones((1, 2, 1, 1), np.float32)
    made = equalized(graph, parameters, x)
    assert made["w1"][0, 0] == 9.0 and np.array_equal(made["w2"][:, 0], mixed[:, 0])  # 9 > 6
    s = float(np.sqrt(0.01 / 4.0))
    assert made["w1"][1, 1, 0, 0] == pytest.approx(0.01 / s) and made["w2"][1, 1, 0, 0] == pytest.approx(4 * s)
    far = np.array([5.0, 100.0], np.float32).reshape(1, 2, 1, 1)  # the second channel is 1.0: 1 / s ≤ 6 must hold
    made = equalized(graph, parameters, far)
    assert 1.0 / (0.01 / made["w1"][1, 1, 0, 0]) <= 6.0
    assert np.allclose(outputs(graph, made, far), outputs(graph, parameters, far), rtol=1e-6)


def test_a_relu6_is_left_out_only_if_saturation_does_the_same():
    layer = kinds.ReLU6(name="r", inputs=("a",), output="r", input_shapes=((1, 2),))
    scale = float(np.float32(6 / 255))
    assert saturates(t.Grid((scale * 0.999,), (0,), "uint8"), layer)
    assert not saturates(t.Grid((scale * 1.001,), (0,), "uint8"), layer)
    assert not saturates(t.Grid((scale * 0.9,), (3,), "uint8"), layer)  # −3 steps are below 0
    assert saturates(t.Grid((100.0,), (-128,), "int8"), kinds.ReLU(**{n: getattr(layer, n) for n in FIELDS}))


FIELDS = ("name", "inputs", "output", "input_shapes")


def test_layers_that_stay_in_float(block):
    graph, parameters, x = block
    grids = calibrated(graph, parameters, x, "minmax")
    reference = outputs(graph, parameters, x)
    products = [layer.name for layer in graph if isinstance(layer, kinds.Conv2d | kinds.Linear)]
    none = with_grids(graph, parameters, grids, in_float=products)
    assert not [layer for layer in none.graph if isinstance(layer, t.Quantize)]
    assert np.array_equal(outputs(none.graph, none.parameters, x), reference)
    kept = products[1:4]
    some = with_grids(graph, parameters, grids, in_float=kept)
    held = {layer.name for layer in some.graph if layer.name in kept and layer.weight not in dict(some.graph.grids)}
    assert held == set(kept)
    model = some.model()
    ours, theirs = Network(model)(x), onnx_runtime(model, x)
    assert relative_error(ours, theirs) < 0.02


@seldom(6)
def test_the_most_sensitive_layers_come_first(block):
    graph, parameters, x = block
    narrow = dict(calibrated(graph, parameters, x, "minmax"))
    poor = [layer for layer in graph if isinstance(layer, kinds.Conv2d)][3]
    grid = narrow[poor.inputs[0]]
    narrow[poor.inputs[0]] = replace(grid, scale=(grid.scale[0] / 20,))  # saturates nearly everything
    readers = [layer.name for layer in graph if poor.inputs[0] in layer.inputs]
    ranking = sensitivities(graph, parameters, narrow, x[:2])
    assert ranking[0].layer in readers and ranking[0].error > 2 * ranking[len(readers)].error
    reference = outputs(graph, parameters, x)
    made, kept = choose(graph, parameters, narrow, x, ranking, 1.0)
    assert agreement(outputs(made.graph, made.parameters, x), reference) == 1.0
    assert list(kept) == [one.layer for one in ranking[: len(kept)]]
    assert choose(graph, parameters, narrow, x, ranking, 0.0)[1] == ()
    with pytest.raises(ValueError, match="wanted must be an agreement between 0 and 1, got 98"):
        choose(graph, parameters, narrow, x, ranking, 98)


def test_a_channel_of_zero_weights_and_a_large_bias():
    """Its scale follows from the bias, whose code would not fit into int32 otherwise."""
    names = {"in_channels": 1, "out_channels": 2, "kernel_size": (1, 1)}
    layer = kinds.Conv2d(
        name="a", inputs=("x",), output="y", input_shapes=((1, 1, 2, 2),), weight="w", bias="b", **names
    )
    graph = t.Graph(name="zero", input="x", input_shape=(1, 1, 2, 2), layers=(layer,), output="y")
    parameters = {"w": np.array([0.0, 1.0], np.float32).reshape(2, 1, 1, 1), "b": np.array([1e6, -3.0], np.float32)}
    x = np.random.default_rng(0).standard_normal((4, 1, 2, 2)).astype(np.float32)
    model = quantize(graph, parameters, x, ranges="minmax").model()
    got = Network(model)(x)
    assert np.allclose(got, onnx_runtime(model, x), rtol=1e-6) and np.allclose(got[:, 0], 1e6, rtol=1e-6)


def test_moves_keep_the_grid_and_additions_only_run_in_integers_where_read():
    shape = (1, 2, 6, 6)
    conv = {"in_channels": 2, "out_channels": 2, "kernel_size": (1, 1)}
    layers = (
        kinds.Conv2d(name="a", inputs=("x",), output="a", input_shapes=(shape,), weight="w1", **conv),
        kinds.MaxPool2d(name="m", inputs=("a",), output="m", input_shapes=(shape,), kernel_size=(2, 2), stride=(2, 2)),
        kinds.Conv2d(name="b", inputs=("m",), output="b", input_shapes=((1, 2, 3, 3),), weight="w2", **conv),
        kinds.ResidualAdd(name="s", inputs=("m", "b"), output="s", input_shapes=((1, 2, 3, 3),) * 2),
    )
    graph = t.Graph(name="moves", input="x", input_shape=shape, layers=layers, output="s")
    assert [unit.layer.name for unit in units(graph)] == ["a", "m", "b"]
    rng = np.random.default_rng(0)
    parameters = {name: rng.standard_normal((2, 2, 1, 1)).astype(np.float32) for name in ("w1", "w2")}
    x = rng.standard_normal((4, *shape[1:])).astype(np.float32)
    made = quantize(graph, parameters, x)
    grids = {layer.inputs[0]: layer.grid for layer in made.graph if isinstance(layer, t.Quantize)}
    assert grids["a"] == grids["m"]
    model = made.model()
    assert np.allclose(Network(model)(x), onnx_runtime(model, x), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ranges": "max"}, "ranges must be one of minmax, percentile, entropy, mse, got 'max'"),
        ({"dtype": "int4"}, "dtype must be int8 or uint8, got 'int4'"),
        ({"in_float": ["nowhere"]}, "in_float must be names of layers, got 'nowhere'"),
    ],
)
def test_unknown_options(block, options, words):
    with pytest.raises(ValueError, match=words):
        quantize(*block, **options)


def test_pictures_and_networks_that_do_not_fit(block):
    graph, parameters, x = block
    for pictures in (x[:0], x[:, :1], x[0], np.float32(3)):
        with pytest.raises(ValueError, match=r"x must be calibration pictures of shape \(N, 3, 32, 32\)"):
            quantize(graph, parameters, pictures)
    broken = x.copy()
    broken[2, 1, 3, 3] = np.nan
    with pytest.raises(ValueError, match="calibration: tensor 'input' must be finite for every picture"):
        quantize(graph, parameters, broken)
    made = quantize(graph, parameters, x, ranges="minmax")
    with pytest.raises(ValueError, match="graph must be in float32, got one that is quantized already"):
        quantize(made.graph, made.parameters, x)


@seldom(6)
def test_onnx_runtime_reads_digits_as_well_with_weights_of_seven_bits():
    """By default, without its option for exact sums, which quantized_models.session sets."""
    import onnxruntime

    graph, parameters = weights.network("digits")
    split = weights.digits_split()
    made = quantize(graph, parameters, weights.digits_input(split.train_images[::22]), weight_bits=7)
    session = onnxruntime.InferenceSession(made.model().SerializeToString(), providers=["CPUExecutionProvider"])
    scores = session.run(None, {session.get_inputs()[0].name: weights.digits_input(split.test_images)})[0]
    assert (scores.argmax(1) == split.test_labels).mean() >= 0.98


@seldom(6)
def test_errors_by_layer():
    from common.quantize.sensitivity import layer_errors

    graph, parameters = weights.network("digits")
    x = weights.digits_input(weights.digits_split().train_images[:8])
    found = layer_errors(graph, parameters, quantize(graph, parameters, x), x)
    assert [one.layer for one in found[:2]] == ["features.0.0", "features.1.conv.0.0"] and len(found) == 64
    assert found[0].so_far == found[0].own and all(0 < one.own < 0.05 for one in found if "pool" not in one.layer)
    coarse = layer_errors(graph, parameters, quantize(graph, parameters, x, per_channel=False), x)
    assert np.median([one.own for one in coarse]) > np.median([one.own for one in found])


def test_extremes_are_those_of_each_picture():
    from common.quantize.calibration import extremes, histograms

    graph, parameters = weights.network("digits")
    x = weights.digits_input(weights.digits_split().train_images[:20])
    name = graph.layers[0].output
    low, high = extremes(graph, parameters, x, {name, graph.input})[name]
    (whole,) = histograms(graph, parameters, x, {name}).values()
    assert low.shape == high.shape == (20,) and (low.min(), high.max()) == (whole.low, whole.high)
