"""Resized images, transposed convolutions and norms, as exporters write them, against ONNX Runtime."""

import numpy as np
import pytest
from topology_models import Model
from topology_oracle import agree

from common import topology as t

SHAPE = (2, 4, 9, 8)


def kinds(graph):
    return [type(layer) for layer in graph]


# -- sizes -------------------------------------------------------------------------------------------------

COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")


def floats(m, *values):
    return m.const(np.array(values, np.float32), dtype=np.float32)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2, 3), (0.5, 2), (1.7, 0.6), (1 / 9, 1.25)], ids=str)
def test_resize_by_scales(coordinates, mode, scales):
    m = Model(13)
    y = m.op("Resize", m.op("Relu", "x"), "", floats(m, 1, 1, *scales), mode=mode,
             coordinate_transformation_mode=coordinates, nearest_mode="floor", cubic_coeff_a=-0.75)  # fmt: skip
    relu, resize = agree(m.build(y, SHAPE))
    assert isinstance(relu, t.ReLU) and resize.coordinates == coordinates and resize.mode == mode
    assert resize.size == tuple(int(extent * scale) for extent, scale in zip((9, 8), scales, strict=True))
    assert (resize.scales is None) == all(s * e % 1 == 0 for s, e in zip(scales, (9, 8), strict=True))


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("size", [(18, 16), (3, 2), (1, 1), (13, 5), (17, 15)], ids=str)
def test_resize_to_the_nearest_pixel(rounding, coordinates, size):
    m = Model(13)
    how = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    (resize,) = agree(m.build(m.op("Resize", "x", "", "", m.ints(2, 4, *size), **how), SHAPE))
    assert resize.size == size and resize.scales is None


@pytest.mark.parametrize("opset", [11, 13, 18, 19])
def test_resize_in_several_operator_sets(opset):
    m = Model(opset)
    y = m.op("Resize", "x", m.const(np.zeros(0)), m.const(np.zeros(0)), m.ints(2, 4, 5, 13), mode="linear")
    if opset >= 18:
        y = m.op("Resize", y, "", "", m.ints(7, 3), axes=[-2, 3], antialias=0, keep_aspect_ratio_policy="stretch")
        y = m.op("Resize", y, "", floats(m, 1.5, 2.0), axes=[3, 2], mode="nearest")
    graph = agree(m.build(y, SHAPE))
    assert graph.output_shape == ((2, 4, 14, 4) if opset >= 18 else (2, 4, 5, 13))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [7, 9, 10])
def test_its_predecessors(opset, mode):
    m = Model(opset)
    if opset == 7:
        y = m.op("Upsample", "x", mode=mode, scales=[1.0, 1.0, 2.0, 3.0])
    else:
        y = m.op("Upsample" if opset == 9 else "Resize", "x", floats(m, 1, 1, 2, 3), mode=mode)
    (resize,) = agree(m.build(y, SHAPE))
    assert (resize.size, resize.coordinates, resize.rounding) == ((18, 24), "asymmetric", "floor")


@pytest.mark.parametrize("opset", [13, 17])
def test_the_size_of_another_tensor(opset):
    """F.interpolate(y, size=x.shape[2:]), in the words of PyTorch's exporter; for any batch and size asked for."""
    m = Model(opset)
    small = m.op("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2])
    extent = [m.unsqueeze(m.op("Gather", m.op("Shape", "x"), m.const(np.array(axis)), axis=0), 0) for axis in (2, 3)]
    before = m.op("Slice", m.op("Shape", small), m.ints(0), m.ints(2), m.ints(0))
    sizes = m.op("Concat", before, m.op("Cast", m.op("Concat", *extent, axis=0), to=7), axis=0)
    model = m.build(m.op("Add", "x", m.op("Resize", small, "", "", sizes, mode="linear")), ("n", 4, "h", "w"))
    for shape in ((1, 4, 9, 8), (3, 4, 11, 6)):
        graph = agree(model, shape)
        assert kinds(graph) == [t.MaxPool2d, t.Resize, t.ResidualAdd] and graph.output_shape == shape


def test_a_size_computed_with_a_floor():
    """F.interpolate(x, scale_factor=1.7, recompute_scale_factor=True)"""
    m = Model(13)

    def extent(axis):
        size = m.op("Cast", m.op("Gather", m.op("Shape", "x"), m.const(np.array(axis)), axis=0), to=1)
        return m.unsqueeze(m.op("Floor", m.op("Mul", size, m.const(np.array(1.7, np.float32)))), 0)

    sizes = m.op("Cast", m.op("Concat", extent(2), extent(3), axis=0), to=7)
    sizes = m.op("Concat", m.op("Slice", m.op("Shape", "x"), m.ints(0), m.ints(2), m.ints(0)), sizes, axis=0)
    (resize,) = agree(m.build(m.op("Resize", "x", "", "", sizes, mode="linear"), SHAPE))
    assert resize.size == (15, 13) and str(resize) == "Resize((15, 13), linear, half_pixel)"


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        {"strides": [2, 3], "pads": [0, 1, 2, 1], "output_padding": [0, 2], "dilations": [2, 1], "group": 2},
        {"group": 4, "auto_pad": "VALID"},
    ],
    ids=str,
)
def test_transposed_convolutions(how):
    m = Model(13)
    groups = how.get("group", 1)
    x = m.op("ConvTranspose", "x", m.normal(4, 3, 3, 2), m.normal(3 * groups), kernel_shape=[3, 2], **how)
    x = m.op("Add", m.op("ConvTranspose", x, m.normal(3 * groups, 5, 2, 2), strides=[2, 2]), m.normal(5, 1, 1))
    first, second = agree(m.build(x, SHAPE))
    assert isinstance(first, t.ConvTranspose2d) and first.out_channels == 3 * groups
    assert second.bias is not None and second.kernel_size == (2, 2)


# -- norms -------------------------------------------------------------------------------------------------


def layer_norm(m, x, channels, axis=-1, affine=True):
    """LayerNormalization, or before operator set 17 its parts as PyTorch's exporter writes them."""
    weight, bias = m.normal(channels), m.normal(channels)
    if m.opset >= 17:
        return m.op("LayerNormalization", x, weight, *([bias] if affine else []), axis=axis, epsilon=1e-6)
    centred = m.op("Sub", x, m.mean(x, axis))
    variance = m.mean(m.op("Pow", centred, m.const(np.array(2.0))), axis)
    y = m.op("Div", centred, m.op("Sqrt", m.op("Add", variance, m.const(np.array(1e-6)))))
    return m.op("Add", m.op("Mul", y, weight), bias) if affine else y


@pytest.mark.parametrize("opset", [11, 13, 17, 18])
def test_layer_norm_of_the_channels(opset):
    m = Model(opset)
    x = m.op("Transpose", m.conv("x", 4, 6), perm=[0, 2, 3, 1])
    y = m.op("Relu", m.op("Transpose", layer_norm(m, x, 6), perm=[0, 3, 1, 2]))
    graph = agree(m.build(y, SHAPE))
    assert kinds(graph) == [t.Conv2d, t.LayerNorm, t.ReLU]
    norm = graph.layers[1]
    assert (norm.dim, norm.eps, norm.channels) == (1, 1e-6, 6) and norm.weight and norm.bias


@pytest.mark.parametrize("opset", [13, 17])
def test_a_convnext_block(opset):
    """Linear layers of the pixels are pointwise convolutions; the scale before the sum stays a batch-norm to fold."""
    m = Model(opset)
    y = m.op("Transpose", m.conv("x", 4, 4, 3, 4, pads=[1] * 4), perm=[0, 2, 3, 1])
    y = layer_norm(m, y, 4)
    y = m.op("Add", m.normal(16), m.op("MatMul", y, m.normal(4, 16)))
    erf = m.op("Erf", m.op("Div", y, m.const(np.array(2**0.5))))
    y = m.op("Mul", m.op("Mul", y, m.op("Add", erf, m.const(np.array(1.0)))), m.const(np.array(0.5)))
    y = m.op("Add", m.op("MatMul", y, m.normal(16, 4)), m.normal(4))
    y = m.op("Mul", m.normal(4, 1, 1), m.op("Transpose", y, perm=[0, 3, 1, 2]))
    graph = agree(m.build(m.op("Add", "x", y), SHAPE))
    expected = [t.Conv2d, t.LayerNorm, t.Conv2d, t.GELU, t.Conv2d, t.BatchNorm2d, t.ResidualAdd]
    assert kinds(graph) == expected
    assert [str(graph.layers[i]) for i in (2, 4)] == ["Conv2d(4, 16, 1, 1, 0, 1)", "Conv2d(16, 4, 1, 1, 0, 1)"]


@pytest.mark.parametrize("opset", [13, 17])
def test_layer_norm_of_pooled_channels(opset):
    """(N, C, 1, 1) seen as (N, 1, 1, C) has the channels in the same dimension, and needs no layer to turn it."""
    m = Model(opset)
    x = m.op("Transpose", m.op("GlobalAveragePool", m.conv("x", 4, 6)), perm=[0, 2, 3, 1])
    x = m.op("Flatten", m.op("Transpose", layer_norm(m, x, 6), perm=[0, 3, 1, 2]))
    graph = agree(m.build(m.linear(x, 6, 3), SHAPE))
    assert kinds(graph) == [t.Conv2d, t.GlobalAveragePool, t.LayerNorm, t.Linear]
    m = Model(opset)
    x = m.op("Flatten", m.op("GlobalAveragePool", m.conv("x", 4, 6)))
    graph = agree(m.build(m.linear(layer_norm(m, x, 6), 6, 3), SHAPE))
    assert [k for k in kinds(graph) if k is not t.Reshape] == [t.Conv2d, t.GlobalAveragePool, t.LayerNorm, t.Linear]


def test_layer_norm_without_weights_and_of_other_axes():
    m = Model(13)
    x = layer_norm(m, m.op("Relu", "x"), 4, axis=1, affine=False)
    graph = agree(m.build(x, SHAPE))
    assert kinds(graph) == [t.ReLU, t.LayerNorm] and graph.layers[1].weight is None
    m = Model(17)
    x = m.op("LayerNormalization", m.op("Relu", "x"), m.normal(8), m.normal(8), axis=3)
    x = m.op("Reshape", x, m.ints(0, 4, 72))
    model = m.build(m.op("LayerNormalization", x, m.normal(72)), SHAPE)
    graph = agree(model)
    assert kinds(graph) == [t.ReLU, t.LayerNorm, t.Reshape, t.LayerNorm]
    assert [layer.dim for layer in graph if isinstance(layer, t.LayerNorm)] == [3, 2]
    parameters = t.read_onnx_with_parameters(model)[1]
    assert kinds(agree(t.write_onnx(graph, parameters))) == kinds(graph)
    with pytest.raises(ValueError, match="operator set 16 is below 17, the first with LayerNormalization"):
        t.write_onnx(graph, parameters, opset=16)


def test_parts_that_are_no_layer_norm_stay_parts():
    """Another mean than that of the deviations, or an eps per channel."""
    m = Model(13)
    centred = m.op("Sub", "x", m.mean("x", 1))
    variance = m.op("Add", m.mean(m.op("Mul", "x", centred), 1), m.const(np.array(30.0)))
    graph = agree(m.build(m.op("Div", centred, m.op("Sqrt", variance)), SHAPE))
    assert t.LayerNorm not in kinds(graph) and graph.census()["Mean"] == 2


def test_a_part_that_others_read_stays():
    m = Model(13)
    centred = m.op("Sub", "x", m.mean("x", 1))
    variance = m.op("Add", m.mean(m.op("Mul", centred, centred), 1), m.const(np.array(1e-5)))
    y = m.op("Add", m.op("Div", centred, m.op("Sqrt", variance)), centred)
    assert kinds(agree(m.build(y, SHAPE))) == [t.Mean, t.Sub, t.LayerNorm, t.ResidualAdd]


def test_a_mean_over_channels():
    """Spatial attention: the mean over the channels scales each pixel."""
    m = Model(13)
    scale = m.op("Sigmoid", m.conv(m.mean("x", -3), 1, 1, 3, pads=[1] * 4))
    graph = agree(m.build(m.op("Mul", "x", scale), SHAPE))
    assert kinds(graph) == [t.Mean, t.Conv2d, t.Sigmoid, t.Mul]
    m = Model(18)
    graph = agree(m.build(m.mean(m.op("Relu", "x"), 1, keepdims=0), SHAPE))
    assert kinds(graph) == [t.ReLU, t.Mean, t.Reshape] and graph.output_shape == (2, 9, 8)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_mean_over_one_of_height_and_width(keepdims):
    """Coordinate attention: means over the columns and over the rows, each read by layers of its own."""
    m = Model(13)
    rows = m.op("Sigmoid", m.mean("x", 3, keepdims=keepdims))
    columns = m.mean(m.op("Transpose", m.op("Relu", "x"), perm=[0, 2, 3, 1]), 1, keepdims=keepdims)
    graph = agree(m.build(rows, SHAPE))
    assert kinds(graph)[:1] == [t.Mean] and graph.output_shape == ((2, 4, 9, 1) if keepdims else (2, 4, 9))
    graph = agree(m.build(columns, SHAPE))
    assert graph.census()["Mean"] == 1 and graph.output_shape == ((2, 1, 8, 4) if keepdims else (2, 8, 4))
    graph = agree(m.build(m.op("Add", m.op("Relu", columns), m.op("Sigmoid", columns)), SHAPE))
    assert graph.census()["Mean"] == 1
    assert kinds(agree(m.build(m.mean(m.mean("x", 3, keepdims=keepdims), 2, keepdims=keepdims), SHAPE)))[0] is (
        t.GlobalAveragePool
    )


def test_a_mean_that_is_taken_apart_and_put_together():
    """A pool as PyTorch's newer exporter writes it where the memory order is another: all elements in one axis."""
    m = Model(18)
    line = m.op("Reshape", m.mean(m.op("Relu", "x"), -1, -2), m.ints(-1))
    x = m.op("Gather", line, m.const(np.arange(4).reshape(1, 4, 1, 1)))
    graph = agree(m.build(m.linear(m.op("Flatten", x), 4, 3), (1, 4, 9, 8)))
    assert kinds(graph) == [t.ReLU, t.GlobalAveragePool, t.Linear]
    assert t.read_onnx(m.build(m.op("Flatten", x), (1, 4, 9, 8)), (3, 4, 9, 8)).output_shape == (3, 4)
    m = Model(18)
    line = m.op("Reshape", "x", m.ints(-1))
    turned = m.op("Gather", line, m.const(np.arange(288)[::-1].copy()))
    for y, words in (
        (m.op("Relu", line), "keep the batch first"),
        (line, "keep the batch first"),
        (turned, "another order than theirs"),
    ):
        with pytest.raises(t.UnsupportedModel, match=words):
            t.read_onnx(m.build(y, (1, 4, 9, 8)))


def test_elements_by_index():
    """x[:, 2], and lists of evenly spaced indices."""
    m = Model(13)
    y = m.op("Gather", m.op("Relu", "x"), m.const(np.array(-2)), axis=1)
    graph = agree(m.build(y, SHAPE))
    assert kinds(graph) == [t.ReLU, t.Slice, t.Reshape] and graph.output_shape == (2, 9, 8)
    for indices, axis in (([1, 3, 5], 2), ([7, 4, 1], 3), ([2], -1)):
        m = Model(13)
        (cut,) = agree(m.build(m.op("Gather", "x", m.ints(*indices), axis=axis), SHAPE))
        assert cut.sizes[axis - 1 if axis > 0 else 2] == len(indices)
    m = Model(13)
    for y, error in ((m.op("Gather", "x", m.ints(0, 1, 3), axis=2), t.UnsupportedModel),
                     (m.op("Gather", "x", m.ints(0, 9), axis=2), t.InvalidModel),
                     (m.op("Gather", "x", m.ints(0), axis=0), t.UnsupportedModel)):  # fmt: skip
        with pytest.raises(error, match="Gather"):
            t.read_onnx(m.build(y, SHAPE))


def group_norm(m, x, groups, channels):
    """As PyTorch's exporters write it."""
    ones, zeros = m.const(np.ones(groups)), m.const(np.zeros(groups))
    y = m.op("InstanceNormalization", m.op("Reshape", x, m.ints(0, groups, -1)), ones, zeros, epsilon=1e-3)
    y = m.op("Reshape", y, m.op("Shape", x))
    return m.op("Add", m.op("Mul", y, m.normal(channels, 1, 1)), m.normal(channels, 1, 1))


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm(groups):
    m = Model(17)
    graph = agree(m.build(m.op("Relu", group_norm(m, m.conv("x", 4, 6), groups, 6)), SHAPE))
    assert kinds(graph) == [t.Conv2d, t.GroupNorm, t.ReLU]
    norm = graph.layers[1]
    assert (norm.num_groups, norm.eps) == (groups, 1e-3) and norm.weight and norm.bias


def test_instance_norm():
    m = Model(13)
    y = m.op("InstanceNormalization", "x", m.normal(4), m.normal(4))
    y = m.op("Mul", y, m.normal(4, 1, 1))  # joins the weight and the bias that it has
    (norm,) = agree(m.build(m.op("Sub", y, m.normal(4, 1, 1)), SHAPE))
    assert isinstance(norm, t.GroupNorm) and norm.num_groups == 4


def test_groups_with_weights_of_their_own_and_groups_that_are_no_channels():
    m = Model(13)
    y = m.op("InstanceNormalization", m.op("Reshape", "x", m.ints(0, 2, -1)), m.normal(2), m.normal(2))
    (norm,) = agree(m.build(m.op("Reshape", y, m.ints(0, 4, 9, 8)), SHAPE))
    assert norm.parameter_shapes == {norm.weight: (4,), norm.bias: (4,)}
    m = Model(13)
    y = m.op("InstanceNormalization", m.op("Reshape", "x", m.ints(0, 3, -1)), m.normal(3), m.normal(3))
    assert kinds(agree(m.build(y, SHAPE))) == [t.Reshape, t.GroupNorm]
    m = Model(13)
    y = m.op("InstanceNormalization", m.op("Transpose", "x", perm=[0, 3, 1, 2]), m.normal(8), m.normal(8))
    assert kinds(agree(m.build(y, SHAPE))) == [t.Permute, t.GroupNorm]


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(opset):
    m = Model(opset)
    size = 2 if opset < 21 else 4
    y = m.op("GroupNormalization", m.op("Relu", "x"), m.normal(size), m.normal(size), num_groups=2)
    assert kinds(agree(m.build(y, SHAPE))) == [t.ReLU, t.GroupNorm]


@pytest.mark.parametrize(
    ("opset", "write", "words"),
    [
        (13, lambda m: m.op("ConvTranspose", "x", m.normal(3, 2, 3, 3)), ["ConvTranspose", "4 channels"]),
        (13, lambda m: m.op("ConvTranspose", "x", m.normal(4, 2, 3, 3), output_padding=[1, 0]), ["output padding 1"]),
        (13, lambda m: m.op("ConvTranspose", "x", m.normal(4, 2, 1, 1), pads=[5] * 4), ["leaves none of 9"]),
        (13, lambda m: m.op("ConvTranspose", "x", m.normal(4, 2, 3, 3), m.normal(3)), ["bias has the shape (3,)"]),
        (13, lambda m: m.op("Resize", "x"), ["Resize", "either scales or sizes"]),
        (13, lambda m: m.op("Resize", "x", "", floats(m, 1, 1, 2, 0)), ["Resize", "not positive"]),
        (13, lambda m: m.op("Resize", "x", "", floats(m, 2, 2)), ["2 sizes or scales for 4 axes"]),
        (13, lambda m: m.op("Resize", "x", "", m.ints(1, 1, 2, 2)), ["no vector of floating-point numbers"]),
        (13, lambda m: m.op("Resize", "x", "", "", m.ints(2, 4, 0, 9)), ["size 0 is not between 1"]),
        (17, lambda m: m.op("LayerNormalization", "x", m.normal(4)), ["input 1 has the shape (4,), not (8,)"]),
        (17, lambda m: m.op("LayerNormalization", "x", m.normal(8), epsilon=-1.0), ["eps is -1.0"]),
        (13, lambda m: m.op("InstanceNormalization", "x", m.normal(4), m.normal(3)), ["input 2 is not of shape (4,)"]),
        (18, lambda m: m.op("GroupNormalization", "x", m.normal(3), m.normal(3), num_groups=3), ["3 groups do not"]),
    ],
)
def test_invalid_nodes(opset, write, words):
    m = Model(opset)
    with pytest.raises(t.InvalidModel) as caught:
        t.read_onnx(m.build(write(m), SHAPE))
    assert all(word in str(caught.value) for word in words), caught.value
