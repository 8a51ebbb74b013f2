"""The reader against ONNX Runtime: what it accepts, it understands."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from topology_models import Model, branches, keras, mobilenet, nhwc
from topology_oracle import agree, evaluate, onnx_runtime

from common import topology as t

OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)


def kinds(graph):
    return [type(layer).__name__ for layer in graph]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("norm", [False, True])
def test_every_operator_set(opset, norm):
    graph = agree(mobilenet(opset, norm))
    assert graph.census() == {
        "Conv2d": 5,
        "ReLU6": 4,
        "ResidualAdd": 1,
        "GlobalAveragePool": 1,
        "Linear": 1,
    } | ({"BatchNorm2d": 3} if norm else {})


@pytest.mark.parametrize("head", ["gemm", "shape-chain", "mean-mean", "keras", "conv"])
@pytest.mark.parametrize("opset", [7, 10, 11, 13, 18, 21])
def test_every_head(head, opset):
    graph = agree(mobilenet(opset, head=head), seed=1)
    assert graph.output_shape == (1, 5)
    assert graph.census()["GlobalAveragePool"] == 1
    assert kinds(graph)[-1] == {"keras": "Softmax", "conv": "Reshape"}.get(head, "Linear")


@pytest.mark.parametrize("head", ["gemm", "shape-chain", "mean-mean", "keras", "conv"])
@pytest.mark.parametrize("shape", [(1, 3, 17, 15), (2, 3, 1, 1), (3, 3, 40, 2)])
def test_any_input_size_and_batch(head, shape):
    model = mobilenet(13, head=head, shape=("n", 3, "h", "w"))
    assert agree(model, shape).input_shape == shape


def test_open_dimensions_have_defaults_and_a_fixed_size_can_be_changed():
    open_model = mobilenet(13, shape=(None, 3, "h", None))
    assert t.read_onnx(open_model).input_shape == (1, 3, 224, 224)
    assert t.read_onnx(open_model, (None, None, 32, None)).input_shape == (1, 3, 32, 224)
    fixed = mobilenet(13, shape=(2, 3, 17, 15))
    assert t.read_onnx(fixed).input_shape == (2, 3, 17, 15)
    assert t.read_onnx(fixed, (4, 3, 20, 20)).output_shape == (4, 5)


def test_a_batch_size_spelt_out_in_a_reshape_follows_the_batch_asked_for():
    m = Model(13)
    x = m.op("GlobalAveragePool", m.conv("x", 3, 4, 1))
    model = m.build(m.linear(m.op("Reshape", x, m.ints(1, 4)), 4, 5))
    assert t.read_onnx(model, (6, 3, 9, 8)).output_shape == (6, 5)
    assert agree(model).output_shape == (1, 5)


def test_initializers_listed_as_inputs_and_constants_as_nodes():
    assert len(agree(mobilenet(8, inputs_too=True))) == 12
    assert len(agree(mobilenet(12, norm=True, constants_as_nodes=True))) == 15


def test_nodes_out_of_order_unused_nodes_and_unused_initializers():
    m = Model(13)
    y = m.relu6(m.conv("x", 3, 4))
    m.op("NoSuchOperator", y)
    m.initializers.append(helper.make_tensor("unused", TensorProto.STRING, [1], [b"text"]))
    assert kinds(t.read_onnx(m.build(y, reverse=True))) == ["Conv2d", "ReLU6"]


@settings(max_examples=80)
@given(data=st.data())
def test_convolutions(data):
    def number(low, high):
        return data.draw(st.integers(low, high))

    group = data.draw(st.sampled_from([1, 1, 2, 3]))
    i, o, kernel = group * number(1, 3), group * number(1, 3), (number(1, 4), number(1, 4))
    attributes = {"strides": [number(1, 3), number(1, 3)]}
    # ONNX Runtime itself refuses SAME padding together with dilation
    auto_pad = data.draw(st.sampled_from([None, "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto_pad in (None, "NOTSET", "VALID"):
        attributes["dilations"] = [number(1, 2), number(1, 2)]
    if auto_pad in (None, "NOTSET"):
        attributes["pads"] = [number(0, 3) for _ in range(4)]
    if auto_pad is not None:
        attributes["auto_pad"] = auto_pad
    m = Model(data.draw(st.sampled_from([7, 11, 13, 22])), seed=number(0, 99))
    y = m.conv("x", i, o, kernel, group, bias=data.draw(st.booleans()), **attributes)
    graph = agree(m.build(y, (number(1, 2), i, number(7, 12), number(7, 12))))
    assert kinds(graph) == ["Conv2d"]


@settings(max_examples=60)
@given(data=st.data())
def test_pooling(data):
    def number(low, high):
        return data.draw(st.integers(low, high))

    kernel = (number(1, 3), number(1, 3))
    op_type = data.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    attributes = {"kernel_shape": kernel, "strides": [number(1, 3), number(1, 3)]}
    auto_pad = data.draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto_pad == "NOTSET":
        attributes["pads"] = [number(0, k - 1) for k in kernel * 2]
        attributes["ceil_mode"] = number(0, 1)
    else:
        attributes["auto_pad"] = auto_pad
        # a stride beyond the window makes ONNX Runtime compute negative paddings, and stop
        attributes["strides"] = [number(1, k) for k in kernel]
    if op_type == "AveragePool":
        attributes["count_include_pad"] = number(0, 1)
    m = Model(data.draw(st.sampled_from([11, 19, 22])))
    agree(m.build(m.op(op_type, "x", **attributes), (1, 2, number(4, 9), number(4, 9))))


def test_average_pool_over_the_whole_image_is_global():
    m = Model(9)
    model = m.build(m.op("AveragePool", "x", kernel_shape=[9, 8]))
    assert kinds(agree(model)) == ["GlobalAveragePool"]
    assert kinds(t.read_onnx(model, (1, 3, 12, 12))) == ["AveragePool2d"]


@pytest.mark.parametrize(
    ("lower", "upper", "kind"),
    [(0, 6, "ReLU6"), (0, None, "ReLU"), (None, 6, "Clip"), (-1, 2.5, "Clip"), (None, None, None)],
)
@pytest.mark.parametrize("opset", [7, 11, 13])
def test_clip_bounds(lower, upper, kind, opset):
    m = Model(opset)
    y = m.conv(m.clip(m.conv("x", 3, 4, 1), lower, upper), 4, 2, 1)
    graph = agree(m.build(y))
    assert kinds(graph) == ["Conv2d", *([kind] if kind else []), "Conv2d"]
    if kind == "Clip":
        assert str(graph.layers[1]) == {-1: "Clip(-1, 2.5)", None: "Clip(-inf, 6)"}[lower]


def test_relu_then_min_is_relu6_unless_someone_else_reads_between():
    m = Model(12)
    relu = m.op("Relu", m.conv("x", 3, 4, 1))
    six = m.op("Min", relu, m.const(np.array(6.0)))
    assert kinds(agree(m.build(six))) == ["Conv2d", "ReLU6"]
    both = m.op("Add", relu, six)
    assert kinds(agree(m.build(both))) == ["Conv2d", "ReLU", "Clip", "ResidualAdd"]
    m = Model(12)
    y = m.op("Max", m.const(np.array([0.0])), m.op("Min", m.const(np.array(6.0)), m.conv("x", 3, 4, 1)))
    assert kinds(agree(m.build(y))) == ["Conv2d", "ReLU6"]


@pytest.mark.parametrize("opset", [8, 11, 13, 18])
@pytest.mark.parametrize("bias", ["add", "add-3d", "mul-add"])
@pytest.mark.parametrize(
    "relu6",
    [
        Model.relu6,
        lambda m, x: m.op("Min", m.op("Relu", x), m.const(np.array([6.0]))),
    ],
    ids=["clip", "relu-min"],
)
def test_keras_style(opset, bias, relu6):
    m, x = keras(opset, relu6, bias)
    x = m.mean(x, 2, 3, keepdims=0)
    x = m.op("Softmax", m.op("Add", m.op("MatMul", x, m.normal(8, 5)), m.normal(5)), axis=1)
    graph = agree(m.build(x, ("batch", 17, 15, 3)), (2, 17, 15, 3))
    norms = ["BatchNorm2d"] if bias == "mul-add" else []
    assert kinds(graph) == [
        *("Permute", "Conv2d", *norms, "ReLU6", "Conv2d", *norms, "ReLU6", "Conv2d", *norms),
        *("ResidualAdd", "Conv2d", *norms, "ReLU6", "GlobalAveragePool", "Linear", "Softmax"),
    ]
    convs = [layer for layer in graph if isinstance(layer, t.Conv2d)]
    assert convs[-1].padding == ((0, 1), (0, 1))


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_pooling_in_nhwc_between_transposes(keepdims, opset):
    graph = agree(nhwc(opset, keepdims))
    assert graph.census()["Permute"] == 1
    assert graph.output_shape == ((2, 1, 1, 5) if keepdims else (2, 5))


def test_transposes_that_cancel_or_move_only_ones_cost_nothing():
    m = Model(13)
    x = m.op("Transpose", m.conv("x", 3, 4, 1), perm=[0, 2, 3, 1])
    x = m.op("Transpose", m.relu6(x), perm=[0, 3, 1, 2])
    x = m.op("Transpose", m.op("GlobalAveragePool", x), perm=[0, 2, 3, 1])
    x = m.linear(m.op("Flatten", x), 4, 5)
    assert kinds(agree(m.build(x))) == ["Conv2d", "ReLU6", "GlobalAveragePool", "Linear"]


def test_transposes_that_matter_become_layers():
    m = Model(13)
    x = m.op("Transpose", m.conv("x", 3, 4, 1), perm=[0, 2, 3, 1])
    flat = m.linear(m.op("Flatten", x), 4 * 9 * 8, 5)
    assert kinds(agree(m.build(flat))) == ["Conv2d", "Permute", "Linear"]
    assert kinds(agree(m.build(x))) == ["Conv2d", "Permute"]
    swapped = m.conv(m.op("Transpose", "x", perm=[0, 1, 3, 2]), 3, 2, (1, 3))
    assert kinds(agree(m.build(swapped))) == ["Permute", "Conv2d"]


def test_concat_pad_and_softmax_along_transposed_axes():
    m = Model(13)
    a, b = (m.op("Transpose", m.conv("x", 3, c, 1), perm=[0, 2, 3, 1]) for c in (2, 3))
    y = m.op("Concat", a, b, axis=-1)
    y = m.pad(y, [0, 1, 0, 0, 0, 0, 2, 0], value=-0.5)
    y = m.op("Softmax", y, axis=3)
    graph = agree(m.build(y))
    assert kinds(graph) == ["Conv2d", "Conv2d", "Concat", "Pad", "Softmax", "Permute"]
    assert graph.layers[3].padding == ((1, 0), (0, 2))


def test_padding_of_an_nhwc_input_seen_as_nchw():
    """As tf2onnx writes a first convolution of stride 2; padding of channels stays refused."""
    m = Model(13)
    padded = m.pad(m.op("Transpose", "x", perm=[0, 3, 1, 2]), [0, 0, 0, 1, 0, 0, 1, 2])
    graph = agree(m.build(m.conv(padded, 3, 4, 3, strides=[2, 2]), (2, 9, 8, 3)))
    assert kinds(graph) == ["Permute", "Conv2d"]
    assert graph.layers[1].padding == ((0, 1), (1, 2))
    channels = m.pad(m.op("Transpose", "x", perm=[0, 3, 1, 2]), [0, 1, 1, 0, 0, 0, 0, 0])
    with pytest.raises(t.UnsupportedModel, match="pads other axes than height and width"):
        t.read_onnx(m.build(channels, (2, 9, 8, 3)))


@pytest.mark.parametrize("opset", [7, 11, 13, 18])
def test_padding_before_a_convolution_is_its_own_unless_others_see_it(opset):
    m = Model(opset)
    padded = m.pad("x", [0, 0, 0, 1, 0, 0, 2, 1])
    y = m.conv(padded, 3, 4, 3, pads=[1, 0, 0, 0])
    graph = agree(m.build(y))
    assert kinds(graph) == ["Conv2d"]
    assert graph.layers[0].padding == ((1, 2), (1, 1))
    seen = m.op("Concat", y, m.conv(m.op("Relu", padded), 3, 2, 3, pads=[1, 0, 0, 0]), axis=1)
    assert kinds(agree(m.build(seen))) == ["Pad", "Conv2d", "ReLU", "Conv2d", "Concat"]
    m = Model(opset)
    ones = m.conv(m.pad("x", [0, 0, 1, 1, 0, 0, 1, 1], value=1.5), 3, 4, 3)
    assert kinds(agree(m.build(ones))) == ["Pad", "Conv2d"]


def test_pad_with_axes():
    m = Model(18)
    y = m.op("Pad", "x", m.ints(1, 0, 0, 2), "", m.ints(-1, 2))
    assert agree(m.build(y)).layers[0].padding == ((0, 2), (1, 0))


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize(("op_type", "shape"), [
    (op_type, shape)
    for op_type in ("Add", "Sub", "Mul", "Div")
    for shape in ((), (1,), (4, 1, 1), (1, 4, 1, 1), (1, 1, 1, 1))
])  # fmt: skip
def test_arithmetic_with_constants(op_type, shape, position):
    m = Model(13)
    inputs = [m.conv("x", 3, 4, 1), m.normal(*shape)]
    model = m.build(m.op(op_type, *(inputs if position == 0 else inputs[::-1])))
    if (op_type, position) == ("Div", 1):
        with pytest.raises(t.UnsupportedModel, match="divides a constant"):
            t.read_onnx(model)
        return
    expected = ["Conv2d"] if op_type == "Add" or (op_type, position) == ("Sub", 0) else ["Conv2d", "BatchNorm2d"]
    assert kinds(agree(model)) == expected


def test_normalisation_of_the_input():
    m = Model(13)
    x = m.op("Sub", "x", m.const(np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1)))
    x = m.op("Div", x, m.const(np.array([0.229, 0.224, 0.225]).reshape(1, 3, 1, 1)))
    assert kinds(agree(m.build(m.conv(x, 3, 4)))) == ["BatchNorm2d", "BatchNorm2d", "Conv2d"]


def test_a_bias_added_to_a_convolution_that_has_one():
    m = Model(13)
    graph = agree(m.build(m.op("Add", m.normal(4, 1, 1), m.conv("x", 3, 4))))
    assert kinds(graph) == ["Conv2d"]


def test_a_constant_added_where_others_read_the_convolution_stays_a_layer():
    m = Model(13)
    y = m.conv("x", 3, 4)
    graph = agree(m.build(m.op("Add", y, m.op("Add", y, m.normal(4, 1, 1)))))
    assert kinds(graph) == ["Conv2d", "BatchNorm2d", "ResidualAdd"]


@pytest.mark.parametrize("attributes", [{}, {"transB": 1}, {"alpha": 0.5, "beta": -2.0}, {"beta": 0.0, "transB": 1}])
@pytest.mark.parametrize("opset", [7, 11, 13])
def test_gemm(attributes, opset):
    m = Model(opset)
    x = m.op("Flatten", m.op("Relu", "x"))
    graph = agree(m.build(m.linear(x, 216, 5, **attributes), (3, 3, 9, 8)))
    assert str(graph.layers[-1]) == "Linear(216, 5)"
    assert graph.layers[-1].inputs == (graph.layers[0].output,)  # the Flatten is gone
    assert (graph.layers[-1].bias is None) == (attributes.get("beta") == 0)


@pytest.mark.parametrize("bias", [(), (1,), (5,), (1, 5), (1, 1)])
def test_gemm_bias_shapes(bias):
    m = Model(13)
    y = m.op("Gemm", m.op("Flatten", "x"), m.normal(216, 5), m.normal(*bias))
    assert kinds(agree(m.build(y))) == ["Linear"]


def test_one_matrix_used_both_ways_round():
    """A square weight as Gemm's transposed and MatMul's plain operand: two arrays."""
    m = Model(13)
    w = m.normal(6, 6)
    x = m.op("Flatten", m.op("GlobalAveragePool", m.conv("x", 3, 6)))
    y = m.op("MatMul", m.op("Gemm", x, w, transB=1), w)
    graph = agree(m.build(m.op("Gemm", y, w, transB=1)))
    assert graph.params == 6 * 3 * 9 + 6 + 2 * 36


@pytest.mark.parametrize("opset", [7, 12, 13, 22])
def test_identity_dropout_cast_squeeze_unsqueeze(opset):
    m = Model(opset)
    x = m.op("Identity", m.conv("x", 3, 4))
    x = m.op("Cast", x, to=TensorProto.FLOAT)
    x = m.op("Dropout", x, **({"ratio": 0.3} if opset < 12 else {}))
    x = m.squeeze(m.op("GlobalAveragePool", x), 2, 3)
    x = m.squeeze(m.unsqueeze(x, 1), 1)
    x = m.op("Identity", m.linear(x, 4, 5))
    assert kinds(agree(m.build(x))) == ["Conv2d", "GlobalAveragePool", "Linear"]


@pytest.mark.parametrize("target", [(0, -1), (-1, 4), (1, 4), (1, -1), (0, 4)])
def test_reshapes_before_the_classifier_are_dissolved(target):
    m = Model(13)
    x = m.op("Reshape", m.op("GlobalAveragePool", m.conv("x", 3, 4)), m.ints(*target))
    assert kinds(agree(m.build(m.linear(x, 4, 5)))) == ["Conv2d", "GlobalAveragePool", "Linear"]


def test_reshapes_that_are_seen_become_layers_once():
    m = Model(13)
    x = m.op("Flatten", m.conv("x", 3, 4))
    assert kinds(agree(m.build(x))) == ["Conv2d", "Reshape"]
    x = m.op("Reshape", x, m.ints(0, 8, 9, -1))
    y = m.op("Concat", m.conv(x, 8, 2, 1), x, m.conv(x, 8, 2, 1), axis=1)
    m2 = m.build(y, (1, 3, 11, 10))
    graph = agree(m2)
    assert kinds(graph) == ["Conv2d", "Reshape", "Conv2d", "Conv2d", "Concat"]


@pytest.mark.parametrize("opset", [9, 13])
def test_softmax_of_images(opset):
    m = Model(opset)
    y = m.op("Softmax", m.op("GlobalAveragePool", m.conv("x", 3, 4)), axis=1)
    assert kinds(agree(m.build(y))) == ["Conv2d", "GlobalAveragePool", "Softmax"]


def test_mobilenet_v3_idioms():
    """Squeeze-and-excitation, hard swish whole and in pieces, swish, a maximum pool."""
    m = Model(14)
    x = m.op("HardSwish", m.conv("x", 3, 8, pads=[1] * 4))
    gate = m.op("HardSigmoid", m.conv(m.op("GlobalAveragePool", x), 8, 8, 1), alpha=1 / 6)
    x = m.op("Mul", x, gate)
    three, six = m.const(np.array(3.0)), m.const(np.array(6.0))
    x = m.op("Div", m.op("Mul", x, m.relu6(m.op("Add", x, three))), six)
    x = m.op("Mul", x, m.op("Sigmoid", x))
    x = m.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    graph = agree(m.build(x))
    assert graph.census()["Mul"] == 3


@pytest.mark.parametrize("opset", [7, 11, 13, 18])
def test_branches(opset):
    graph = agree(branches(opset))
    assert {"MaxPool2d", "AveragePool2d", "HardSigmoid", "Concat", "Permute", "Reshape"} < set(kinds(graph))


def test_weights_that_are_computed_from_constants():
    m = Model(13)
    w = m.op("Transpose", m.normal(3, 3, 2, 4), perm=[3, 2, 0, 1])
    w = m.op("Cast", m.op("Cast", w, to=TensorProto.DOUBLE), to=TensorProto.FLOAT)
    w = m.op("Concat", m.op("Slice", w, m.ints(0), m.ints(1), m.ints(1)), m.normal(4, 2, 3, 3), axis=1)
    bias = m.op("Mul", m.op("Expand", m.const(np.array(0.5)), m.ints(4)), m.op("Identity", m.normal(4)))
    bias = m.op("Squeeze", m.op("Unsqueeze", bias, m.ints(0)), m.ints(0))
    assert kinds(agree(m.build(m.op("Conv", "x", w, bias)))) == ["Conv2d"]


def test_shape_arithmetic_is_folded():
    m = Model(13)
    x = m.conv("x", 3, 4)
    n = m.op("Slice", m.op("Shape", x), m.ints(0), m.ints(1))
    rest = m.op("Div", m.op("ReduceProd", m.op("Shape", x), keepdims=1), n)
    zero = m.op("Sub", m.op("Mul", rest, m.ints(1)), rest)
    one = m.op("ConstantOfShape", m.ints(1), value=numpy_helper.from_array(np.array([1])))
    chosen = m.op("Where", m.op("Equal", zero, m.ints(0)), rest, one)
    chosen = m.op("Cast", m.op("Cast", chosen, to=TensorProto.INT32), to=TensorProto.INT64)
    y = m.linear(m.op("Reshape", x, m.op("Concat", n, chosen, axis=0)), 4 * 7 * 6, 5)
    assert kinds(agree(m.build(y, ("n", 3, 9, 8)), (3, 3, 9, 8))) == ["Conv2d", "Linear"]


@pytest.mark.parametrize("end", [0, -5, -6, -7, -(2**63)])
def test_weights_in_reverse(end):
    """A backward slice that ends at −n of n elements leaves the first one out; only what lies below takes it in."""
    m = Model(13)
    w = m.op("Slice", m.normal(6, 3, 2, 2), m.ints(5), m.ints(end), m.ints(0), m.ints(-1))
    (conv,) = agree(m.build(m.op("Conv", "x", w)))
    assert conv.out_channels == {0: 5, -5: 4, -6: 5}.get(end, 6)


def test_integers_are_divided_towards_zero():
    m = Model(13)
    three = m.op("Neg", m.op("Div", m.ints(-7), m.ints(2)))
    w = m.op("Reshape", m.normal(4 * 3 * 3 * 3), m.op("Concat", m.ints(4, 3), three, m.ints(3), axis=0))
    assert kinds(agree(m.build(m.op("Conv", "x", w)))) == ["Conv2d"]


def test_half_precision_files():
    model = mobilenet(13, dtype=np.float16, norm=True)
    assert agree(model, dtype=np.float16, tolerance=5e-3).census()["Conv2d"] == 5


def test_double_precision_files_are_read_as_float32():
    graph, parameters = t.read_onnx_with_parameters(mobilenet(13, dtype=np.float64))
    single = mobilenet(13)
    x = np.random.default_rng(3).standard_normal(graph.input_shape).astype(np.float32)
    assert np.allclose(evaluate(graph, parameters, x), onnx_runtime(single, x), atol=1e-5)


def test_numbers_in_typed_fields_instead_of_raw_data():
    model = mobilenet(13)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(helper.make_tensor(tensor.name, tensor.data_type, array.shape, array.reshape(-1).tolist()))
    assert not model.graph.initializer[0].HasField("raw_data")
    agree(model)


def test_parameters_keep_their_names_and_their_numbers():
    m = Model(13)
    w, b = (
        m.const(m.random.standard_normal((4, 3, 1, 1)), "stem.weight"),
        m.const(np.arange(4.0), "stem.bias"),
    )
    k = m.const(m.random.standard_normal((4, 5)), "dense/kernel")
    x = m.op("Add", m.op("Conv", "x", w), m.op("Reshape", b, m.ints(1, 4, 1, 1)))
    y = m.op("MatMul", m.mean(x, 2, 3, keepdims=0), k)
    graph, parameters = t.read_onnx_with_parameters(m.build(y))
    assert graph.layers[0].weight == "stem.weight"
    assert graph.layers[-1].weight == "dense/kernel"
    original = {i.name: numpy_helper.to_array(i) for i in m.initializers}
    assert np.array_equal(parameters["dense/kernel"], original["dense/kernel"].T)
    assert np.array_equal(parameters["stem.weight"], original["stem.weight"])
    assert np.array_equal(parameters[graph.layers[0].bias], np.arange(4.0))


def test_the_result_is_the_same_from_a_path_and_from_a_model(tmp_path):
    model = mobilenet(13)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert t.read_onnx(path) == t.read_onnx(str(path)) == t.read_onnx(model)


# -- slices and activations --------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [9, 11, 13, 18])
def test_slices(opset):
    m = Model(opset)

    def cut(x, starts, ends, axes, steps):
        if opset < 10:  # has no steps
            return m.op("Slice", x, starts=starts, ends=ends, axes=axes)
        return m.op("Slice", x, *(m.ints(*values) for values in (starts, ends, axes, steps)))

    x = cut("x", [1, -8], [2**31 - 1, -1], [1, 2], [1, 3])
    x = cut(m.op("Relu", x), [5, 0], [-(2**31) if opset >= 10 else 7, 1], [3, 1], [-2, 1])
    graph = agree(m.build(x, (2, 4, 9, 8)))
    assert [type(layer) for layer in graph] == [t.Slice, t.ReLU, t.Slice]
    if opset >= 10:
        assert str(graph.layers[0]) == "Slice(1:4, 1:10:3, :)" and str(graph.layers[2]) == "Slice(0:1, :, 5::-2)"


def test_slices_of_views():
    """Of an NHWC picture the last axis is the channels; of a reshaped one it is none of the layer's before."""
    m = Model(13)
    x = m.op("Transpose", m.op("Relu", "x"), perm=[0, 2, 3, 1])
    x = m.op("Slice", x, m.ints(1), m.ints(3), m.ints(-1))
    x = m.op("Reshape", m.op("Transpose", x, perm=[0, 3, 1, 2]), m.ints(2, 6, -1))
    graph = agree(m.build(m.op("Slice", x, m.ints(5, 1), m.ints(0, 20), m.ints(1, 2), m.ints(-2, 4)), (2, 4, 9, 8)))
    assert [type(layer) for layer in graph] == [t.ReLU, t.Slice, t.Reshape, t.Slice]
    assert graph.layers[1].sizes == (2, 9, 8)


@pytest.mark.parametrize("opset", [11, 13])
def test_splits(opset):
    m = Model(opset)
    how = {"split": [1, 3]} if opset < 13 else {}
    first, second = m.op("Split", "x", *([] if how else [m.ints(1, 3)]), outputs=2, axis=-3, **how)
    halves = m.op("Split", m.op("Sigmoid", second), outputs=4, axis=3)
    y = m.op("Mul", m.op("Concat", halves[2], halves[0], axis=1), m.op("Split", first, outputs=4, axis=3)[1])
    graph = agree(m.build(y, (2, 4, 9, 8)))
    assert graph.census() == {"Slice": 5, "Sigmoid": 1, "Concat": 1, "Mul": 1}  # of what is read, no more


def test_a_split_into_one_part_is_no_layer():
    m = Model(13)
    (same,) = [m.op("Split", m.op("Relu", "x"), outputs=1, axis=1)]
    assert agree(m.build(same)).census() == {"ReLU": 1}


def test_activations():
    m = Model(20)
    x = m.op("LeakyRelu", m.op("LeakyRelu", m.op("Elu", m.op("Tanh", "x"), alpha=0.3)), alpha=0.2)
    graph = agree(m.build(m.op("Gelu", m.op("Gelu", m.op("Erf", x)), approximate="tanh")))
    assert [str(layer) for layer in graph] == [
        "Tanh", "ELU(0.3)", "LeakyReLU(0.01)", "LeakyReLU(0.2)", "Erf", "GELU", "GELU(tanh)",
    ]  # fmt: skip


def gelu_parts(m, x, order):
    """GELU in the spellings of PyTorch's two exporters and of tf2onnx."""
    c = lambda value: m.const(np.array(value))  # noqa: E731
    if order == "torch":
        raised = m.op("Add", m.op("Erf", m.op("Div", x, c(2**0.5))), c(1.0))
        return m.op("Mul", m.op("Mul", x, raised), c(0.5))
    if order == "half first":
        raised = m.op("Add", c(1.0), m.op("Erf", m.op("Mul", x, c(0.5**0.5))))
        return m.op("Mul", raised, m.op("Mul", c(0.5), x))
    if order == "half inside":
        erf = m.op("Erf", m.op("Mul", x, c(0.5**0.5)))
        return m.op("Mul", x, m.op("Add", m.op("Mul", erf, c(0.5)), c(0.5)))
    cube = m.op("Pow", x, c(3.0)) if order == "tanh of a power" else m.op("Mul", x, m.op("Mul", x, x))
    inner = m.op("Mul", c((2 / np.pi) ** 0.5), m.op("Add", x, m.op("Mul", c(0.044715), cube)))
    raised = m.op("Add", c(1.0), m.op("Tanh", inner))
    return m.op("Mul", m.op("Mul", c(0.5), x), raised)


@pytest.mark.parametrize("order", ["torch", "half first", "half inside", "tanh", "tanh of a power"])
def test_a_gelu_in_parts(order):
    m = Model(13)
    x = m.conv("x", 3, 4)
    y = gelu_parts(m, gelu_parts(m, m.conv(gelu_parts(m, x, order), 4, 4, 1), order), order)
    graph = agree(m.build(y))
    gelu = f"GELU{'(tanh)' if order.startswith('tanh') else ''}"
    assert [str(layer) for layer in graph if isinstance(layer, t.GELU)] == [gelu] * 3
    assert [type(layer) for layer in graph] == [t.Conv2d, t.GELU, t.Conv2d, t.GELU, t.GELU]


def test_a_part_of_a_gelu_that_others_read_stays():
    m = Model(13)
    raised = m.op("Add", m.op("Erf", m.op("Div", "x", m.const(np.array(2**0.5)))), m.const(np.array(1.0)))
    gelu = m.op("Mul", m.op("Mul", "x", raised), m.const(np.array(0.5)))
    graph = agree(m.build(m.op("Sub", gelu, raised)))
    assert graph.census() == {"BatchNorm2d": 2, "Erf": 1, "GELU": 1, "Sub": 1}


@pytest.mark.parametrize("changed", [{"scale": 0.70}, {"one": 1.001}, {"half": 0.501}, {"other": True}])
def test_what_is_nearly_a_gelu_is_none(changed):
    m = Model(13)
    c = lambda value: m.const(np.array(value))  # noqa: E731
    erf = m.op("Erf", m.op("Mul", "x", c(changed.get("scale", 0.5**0.5))))
    factor = m.op("Relu", "x") if "other" in changed else "x"
    y = m.op("Mul", m.op("Mul", factor, m.op("Add", erf, c(changed.get("one", 1.0)))), c(changed.get("half", 0.5)))
    assert "GELU" not in agree(m.build(y)).census()


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Div", "Max", "Min"])
def test_two_computed_tensors(op_type):
    m = Model(13)
    one, other = m.op("Relu", "x"), m.op("Sigmoid", m.op("Sigmoid", "x"))
    y = m.op(op_type, one, other)
    y = m.op(op_type, y, m.op("Sigmoid", m.op("GlobalAveragePool", "x")))  # broadcast
    turned = (m.op("Transpose", z, perm=[0, 2, 3, 1]) for z in (y, other))
    graph = agree(m.build(m.op(op_type, *turned)))
    kind = {"Add": t.ResidualAdd, "Sub": t.Sub, "Div": t.Div, "Max": t.Maximum, "Min": t.Minimum}[op_type]
    made = [type(layer) for layer in graph]
    assert (
        made.count(kind) + made.count(t.Add) == 3
        and made.count(t.Add) == (op_type == "Add")
        and type(graph.layers[-1]) is t.Permute
    )


def test_squares_and_cubes():
    m = Model(13)
    y = m.op("Add", m.op("Pow", "x", m.const(np.array(2.0))), m.op("Pow", m.op("Relu", "x"), m.const(np.array([3.0]))))
    assert agree(m.build(y)).census() == {"Mul": 3, "ReLU": 1, "ResidualAdd": 1}


@pytest.mark.parametrize(("apart", "perm"), [((2, 3, 2, 9, 8), (0, 2, 1, 3, 4)), ((2, 2, -1, 72), (0, 2, 1, 3))])
def test_a_channel_shuffle(apart, perm):
    m = Model(13)
    x = m.op("Transpose", m.op("Reshape", m.op("Relu", "x"), m.ints(*apart)), perm=list(perm))
    x = m.op("Reshape", x, m.ints(2, 6, 9, 8))
    graph = agree(m.build(m.op("Concat", x, m.op("Sigmoid", x), axis=1), (2, 6, 9, 8)))
    assert [str(layer) for layer in graph.layers[:2]] == ["ReLU", f"ChannelShuffle({apart[1]})"]
    assert graph.census()["ChannelShuffle"] == 1 and len(graph) == 4


def test_what_is_no_channel_shuffle():
    """Another order, or another shape at the end."""
    for perm, target in (([0, 1, 3, 2, 4], [2, 6, 9, 8]), ([0, 2, 1, 3, 4], [2, 6, 8, 9])):
        m = Model(13)
        turned = m.op("Transpose", m.op("Reshape", "x", m.ints(2, 3, 2, 9, 8)), perm=perm)
        census = agree(m.build(m.conv(m.op("Reshape", turned, m.ints(*target)), 6, 2), (2, 6, 9, 8))).census()
        assert census == {"Reshape": 2, "Permute": 1, "Conv2d": 1}


def test_the_groups_of_a_channel_shuffle_can_be_read_too():
    m = Model(13)
    turned = m.op("Transpose", m.op("Reshape", "x", m.ints(2, 3, 2, 9, 8)), perm=[0, 2, 1, 3, 4])
    shuffled = m.op("Reshape", turned, m.ints(2, 6, 9, 8))
    again = m.op("Reshape", m.op("Relu", m.op("Transpose", turned, perm=[0, 1, 2, 4, 3])), m.ints(2, 6, 9, 8))
    census = agree(m.build(m.op("Concat", shuffled, again, axis=1), (2, 6, 9, 8))).census()
    assert census["ChannelShuffle"] == 1 and census["Permute"] == 1
