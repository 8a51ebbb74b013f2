"""Models that cannot be read: which error, naming what."""

import os
from functools import partial

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from topology_models import Model, mobilenet
from topology_oracle import agree

from common import topology as t
from common.topology import loading
from common.topology.layers import windows


def unsupported(model, *words, input_shape=None):
    with pytest.raises(t.UnsupportedModel) as caught:
        t.read_onnx(model, input_shape)
    assert all(word in str(caught.value) for word in words), caught.value


def invalid(model, *words, input_shape=None):
    with pytest.raises(t.InvalidModel) as caught:
        t.read_onnx(model, input_shape)
    assert all(word in str(caught.value) for word in words), caught.value


def resized(m, scales=(1, 1, 2, 2), sizes=None, **attributes):
    if sizes is not None:
        return m.op("Resize", "x", "", "", m.ints(*sizes), **attributes)
    return m.op("Resize", "x", "", m.const(np.array(scales, np.float64)), **attributes)


@pytest.mark.parametrize(
    ("opset", "write", "words"),
    [
        (13, lambda m: m.op("LRN", "x", size=3), ["'/LRN_2' (LRN)", "no layer for this operator"]),
        (13, lambda m: m.op("Gelu", "x", domain="com.microsoft"), ["Gelu", "com.microsoft"]),
        (13, lambda m: m.op("Transpose", "x", perm=[1, 0, 2, 3]), ["Transpose", "moves the batch"]),
        (13, lambda m: m.op("Div", m.normal(1, 3, 1, 1), "x"), ["Div", "divides a constant"]),
        (13, lambda m: m.op("Pow", "x", m.const(np.array(0.5))), ["Pow", "not the number 2 or 3"]),
        (13, lambda m: m.op("Pow", "x", m.normal(3, 1, 1)), ["Pow", "not the number 2 or 3"]),
        (13, lambda m: m.op("Add", "x", m.normal(9, 8)), ["Add", "not one number a channel"]),
        (13, lambda m: m.op("Mul", "x", m.normal(1, 3, 9, 8)), ["Mul", "not one number a channel"]),
        (13, lambda m: m.op("Sum", "x", "x", "x"), ["Sum", "3 inputs"]),
        (13, lambda m: m.op("Max", "x", m.op("Relu", "x"), "x"), ["Max", "3 computed inputs"]),
        (13, lambda m: m.op("Min", "x", m.op("Relu", "x"), m.normal(1)), ["Min", "2 computed inputs and 1 const"]),
        (13, lambda m: m.op("Conv", "x", m.op("Relu", "x")), ["Conv", "computed at run time"]),
        (13, lambda m: m.op("Pad", "x", m.ints(*[1] * 8), mode="reflect"), ["Pad", "reflect"]),
        (13, lambda m: m.pad("x", [0, 1, 0, 0, 0, 0, 0, 0]), ["Pad", "other axes"]),
        (13, lambda m: m.pad("x", [0, 0, -1, 0, 0, 0, 0, 0]), ["Pad", "cut"]),
        (13, lambda m: m.mean("x", 1, 2), ["ReduceMean", "not over height and width or one other axis"]),
        (13, lambda m: m.op("ReduceMean", "x"), ["ReduceMean", "over the batch"]),
        (13, lambda m: m.op("Reshape", "x", m.ints(3, 1, 9, 8)), ["Reshape", "keep the batch first"]),
        (13, lambda m: m.op("Flatten", "x", axis=2), ["Flatten", "axis 2"]),
        (13, lambda m: m.op("Squeeze", m.op("GlobalAveragePool", "x")), ["Squeeze", "keep the batch first"]),
        (13, lambda m: m.op("Concat", "x", "x", axis=0), ["Concat", "along the batch"]),
        (13, lambda m: m.op("Concat", "x", m.normal(1, 3, 9, 8), axis=1), ["Concat", "constant"]),
        (9, lambda m: m.op("Softmax", "x"), ["Softmax", "3 axes"]),
        (13, lambda m: m.op("MatMul", "x", m.normal(8, 2)), ["MatMul", "neither one vector a sample nor"]),
        (13, lambda m: m.op("ConvTranspose", "x", m.normal(3, 2, 3, 3), output_shape=[9, 8]), ["output_shape"]),
        (13, lambda m: m.op("ConvTranspose", "x", m.normal(3, 2, 3, 3), auto_pad="SAME_UPPER"), ["auto_pad SAME"]),
        (13, lambda m: m.op("ConvTranspose", "x", m.op("Relu", "x")), ["ConvTranspose", "computed at run time"]),
        (13, lambda m: resized(m, mode="cubic"), ["Resize", "its mode is 'cubic', not one of nearest, linear"]),
        (13, lambda m: resized(m, coordinate_transformation_mode="tf_crop_and_resize"), ["coordinates", "tf_crop"]),
        (19, lambda m: resized(m, coordinate_transformation_mode="half_pixel_symmetric"), ["half_pixel_symmetric"]),
        (13, lambda m: resized(m, nearest_mode="round"), ["its rounding is 'round'"]),
        (13, lambda m: resized(m, exclude_outside=1), ["Resize", "exclude_outside"]),
        (18, lambda m: resized(m, mode="linear", antialias=1), ["Resize", "antialias"]),
        (18, lambda m: resized(m, sizes=(1, 3, 18, 18), keep_aspect_ratio_policy="not_larger"), ["keep_aspect_ratio"]),
        (13, lambda m: resized(m, scales=(1, 2, 2, 2)), ["Resize", "other axes than height and width"]),
        (13, lambda m: resized(m, scales=(2, 1, 2, 2)), ["Resize", "other axes than height and width"]),
        (18, lambda m: resized(m, scales=(2,), axes=[2]), ["Resize", "one of the two alone"]),
        (13, lambda m: m.op("Resize", "x", "", "", m.op("Relu", "x")), ["Resize", "computed at run time"]),
        (10, lambda m: m.op("Resize", "x", m.const(np.array([1, 1, 0.5, 0.5]))), ["before operator set 11"]),
        (9, lambda m: m.op("Upsample", "x", m.const(np.array([1, 1, 2.0, 2.0])), mode="cubic"), ["mode is 'cubic'"]),
        (17, lambda m: m.op("LayerNormalization", "x", m.normal(3, 9, 8), axis=1), ["3 axes of (1, 3, 9, 8) at once"]),
        (17, lambda m: m.op("LayerNormalization", "x", m.normal(1, 3, 9, 8), axis=0), ["over the batch"]),
        (17, lambda m: m.op("LayerNormalization", "x", m.op("Relu", "x")), ["computed at run time"]),
        (13, lambda m: m.op("Gemm", m.op("Flatten", "x"), m.normal(1, 4), transA=1), ["transA"]),
        (13, lambda m: m.op("Gemm", m.op("Flatten", "x"), m.normal(216, 4), m.normal(3, 1)), ["(3, 1)"]),
        (13, lambda m: m.op("Cast", "x", to=TensorProto.INT64), ["Cast", "int64"]),
        (13, lambda m: m.op("Cast", "x", to=TensorProto.COMPLEX64), ["Cast", "COMPLEX64"]),
        (13, lambda m: m.op("Clip", "x", m.op("Relu", "x")), ["Clip", "computed at run time"]),
        (14, lambda m: m.batch_norm("x", 3, training_mode=1), ["BatchNormalization", "training"]),
        (8, lambda m: m.batch_norm("x", 3, spatial=0), ["BatchNormalization", "spatial=0"]),
        (9, lambda m: m.batch_norm("x", 3, outputs=5)[0], ["BatchNormalization", "training"]),
        (
            13,
            lambda m: m.op("Dropout", "x", "", m.const(np.array(True))),
            ["Dropout", "training"],
        ),
        (13, lambda m: m.op("Relu", m.op("Dropout", "x", outputs=2)[1]), ["Relu", "second output"]),
        (13, lambda m: m.op("MaxPool", "x", outputs=2, kernel_shape=[2, 2])[0], ["MaxPool", "indices"]),
        (19, lambda m: m.op("AveragePool", "x", kernel_shape=[2, 2], dilations=[2, 2]), ["dilated"]),
        (13, lambda m: m.op("Add", "x", m.op("Relu", m.normal(1, 3))), ["Relu", "constant"]),
        (13, lambda m: m.op("Identity", m.normal(1, 3)), ["outputs depend on no input"]),
    ],
)  # fmt: skip
def test_unsupported_nodes(opset, write, words):
    m = Model(opset)
    unsupported(m.build(write(m)), *words)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda m: m.conv("x", 4, 4), ["'/Conv_4' (Conv)", "3 channels, the weight is for 4"]),
        (lambda m: m.conv("x", 3, 4, strides=[0, 1]), ["Conv", "stride 0"]),
        (lambda m: m.conv("x", 3, 4, strides=[0, 1], auto_pad="SAME_UPPER"), ["Conv", "stride 0"]),
        (lambda m: m.conv("x", 3, 4, strides=[1]), ["Conv", "'strides' has 1 numbers"]),
        (lambda m: m.conv("x", 3, 4, strides=1), ["Conv", "'strides' is not of type INTS"]),
        (lambda m: m.conv("x", 3, 4, dilations=[1, -1]), ["Conv", "dilation -1"]),
        (lambda m: m.conv("x", 3, 4, pads=[0, 0, 0, -1]), ["Conv", "negative"]),
        (lambda m: m.conv("x", 3, 4, pads=[2**40] * 4), ["Conv", "padding 1099511627776"]),
        (lambda m: m.conv("x", 3, 400, pads=[9000] * 4), ["Conv", "over 2147483647 elements"]),
        (lambda m: m.conv("x", 3, 4, pads=[1, 1]), ["Conv", "2 paddings"]),
        (lambda m: m.conv("x", 3, 4, pads=[1] * 4, auto_pad="VALID"), ["Conv", "both pads and auto_pad"]),
        (lambda m: m.conv("x", 3, 4, auto_pad="SOME"), ["Conv", "'SOME'"]),
        (lambda m: m.conv("x", 3, 4, 10), ["Conv", "does not fit"]),
        (lambda m: m.conv("x", 3, 4, surprise=1), ["Conv", "'surprise' does not belong"]),
        (lambda m: m.op("Conv", "x", m.normal(4, 3, 3, 3), kernel_shape=[1, 1]), ["kernel_shape differs"]),
        (lambda m: m.op("Conv", "x", m.normal(4, 3, 3, 3), group=0), ["Conv", "3 channels"]),
        (lambda m: m.op("Conv", "x", m.normal(4, 1, 3, 3), group=3), ["Conv", "3 groups do not divide"]),
        (lambda m: m.op("Conv", "x", m.normal(4, 3, 3)), ["Conv", "4 dimensions"]),
        (lambda m: m.op("Conv", "x"), ["Conv", "it has 1 inputs, not 2 to 3"]),
        (lambda m: m.op("Conv", "x", m.normal(4, 3, 1, 1), m.normal(5)), ["Conv", "bias has the shape (5,)"]),
        (lambda m: m.op("Conv", "x", m.normal(0, 3, 1, 1)), ["Conv", "empty shape"]),
        (lambda m: m.op("Conv", "x", m.ints(*range(12)), group=1), ["Conv", "4 dimensions"]),
        (
            lambda m: m.op("Conv", "x", m.const(np.zeros((4, 3, 1, 1)), dtype=np.float64)),
            ["Conv", "float64", "float32"],
        ),
        (lambda m: m.op("Conv", "x", m.const(np.zeros((4, 3, 1, 1), np.int32))), ["Conv", "int32"]),
        (lambda m: m.batch_norm("x", 4), ["BatchNormalization", "not of shape (3,)"]),
        (lambda m: m.batch_norm("x", 3, epsilon=float("nan")), ["BatchNormalization", "NaN"]),
        (lambda m: m.batch_norm("x", 3, epsilon=-1.0), ["BatchNormalization", "eps is -1.0"]),
        (lambda m: m.clip("x", float("nan"), 6), ["Clip", "NaN"]),
        (lambda m: m.clip("x", 6, 0), ["Clip", "not in order"]),
        (lambda m: m.op("Clip", "x", min=0.0, max=6.0), ["Clip", "operator set 13"]),
        (lambda m: m.op("HardSigmoid", "x", alpha=float("inf")), ["HardSigmoid", "not finite"]),
        (lambda m: m.op("Add", "x", m.op("MaxPool", "x", kernel_shape=[2, 2])), ["Add", "do not fit"]),
        (lambda m: m.op("Add", "x", m.const(np.array(1))), ["Add", "int64"]),
        (lambda m: m.op("Div", "x", m.const(np.array(0.0))), ["Div", "divides by zero"]),
        (lambda m: m.op("Reshape", "x", m.ints(1, -1, -1)), ["Reshape", "is not a shape"]),
        (lambda m: m.op("Reshape", "x", m.ints(1, 7, -1)), ["Reshape", "cannot be seen"]),
        (lambda m: m.op("Reshape", "x", m.ints(1, 215)), ["Reshape", "cannot be seen"]),
        (lambda m: m.op("Reshape", "x", m.ints(1, 2**62, 4)), ["Reshape", "cannot be seen"]),
        (lambda m: m.squeeze("x", 1), ["Squeeze", "not of size 1"]),
        (lambda m: m.squeeze("x", 7), ["Squeeze", "not distinct axes"]),
        (lambda m: m.mean("x", 2, -2), ["ReduceMean", "not distinct axes"]),
        (lambda m: m.op("Transpose", "x", perm=[0, 1, 2]), ["Transpose", "does not permute"]),
        (lambda m: m.op("Concat", "x", m.op("GlobalAveragePool", "x"), axis=1), ["Concat", "differ outside"]),
        (lambda m: m.linear(m.op("Flatten", "x"), 5, 4), ["Gemm", "216 features"]),
        (lambda m: m.op("MatMul", m.op("Flatten", "x"), m.normal(5, 4)), ["MatMul", "216 features"]),
        (lambda m: m.op("MaxPool", "x"), ["MaxPool", "no kernel_shape"]),
        (lambda m: m.op("Concat", "x", "x"), ["Concat", "no axis"]),
        (lambda m: m.op("Add", "x", m.op("Concat", m.normal(1), m.normal(2))), ["Concat", "no axis"]),
        (lambda m: m.op("Add", "x", m.op("Concat", m.normal(1), m.normal(2), axis=-(2**31))), ["Concat", "axes"]),
        (lambda m: m.op("HardSwish", "x"), ["HardSwish", "operator set 13 has no such operator"]),
        (lambda m: m.op("Add", "x", "x", "x"), ["Add", "it has 3 inputs, not 2"]),
        (
            lambda m: m.op("Add", "x", m.op("Slice", m.normal(9), m.const(np.int64(0)), m.const(np.int64(1)))),
            ["Slice", "not vectors"],
        ),
        (lambda m: m.op("Slice", "x", m.ints(0), m.ints(1), m.ints(4)), ["Slice", "do not fit"]),
        (lambda m: m.op("Slice", "x", m.ints(0), m.ints(4), m.ints(2), m.ints(0)), ["Slice", "do not fit"]),
        (lambda m: m.op("Slice", "x", m.ints(0, 1), m.ints(4)), ["Slice", "do not fit"]),
        (lambda m: m.op("Slice", "x", m.ints(3), m.ints(3), m.ints(2)), ["Slice", "0 elements from 3"]),
        (lambda m: m.op("Split", "x", outputs=2, axis=1)[0], ["Split", "3 elements", "2 equal parts"]),
        (lambda m: m.op("Split", "x", m.ints(1, 1), outputs=2, axis=1)[0], ["Split", "make the 3 elements"]),
        (lambda m: m.op("Split", "x", m.ints(1, 2), outputs=3, axis=1)[0], ["Split", "not 3 that make"]),
        (lambda m: m.op("Split", "x", outputs=3, axis=4)[0], ["Split", "not distinct axes"]),
        (lambda m: m.op("LeakyRelu", "x", alpha=float("inf")), ["LeakyRelu", "alpha inf is not finite"]),
        (lambda m: m.op("Elu", "x", alpha=float("nan")), ["Elu", "NaN"]),
        (lambda m: m.op("Sub", "x", m.op("MaxPool", "x", kernel_shape=[2, 2])), ["Sub", "do not fit"]),
        (lambda m: m.op("Reshape", "x", m.ints(1, 216, *[1] * 20)), ["Reshape", "22 dimensions, over 16"]),
        (lambda m: m.op("MaxPool", "x", kernel_shape=[2, 2], pads=[2] * 4), ["MaxPool", "not below"]),
        (lambda m: m.op("Add", "x", m.op("Relu")), ["Relu", "it has 0 inputs, not 1"]),
        (lambda m: m.op("Add", "x", m.op("Gather", m.ints(1), m.ints(5))), ["Gather", "do not fit"]),
        (lambda m: m.op("Add", "x", m.op("Div", m.ints(1), m.ints(0))), ["Div", "by zero"]),
        (lambda m: m.op("Relu", "nobody"), ["Relu", "'nobody', which nothing writes"]),
    ],
)  # fmt: skip
def test_invalid_nodes(write, words):
    m = Model(13)
    invalid(m.build(write(m)), *words)


def test_a_batch_is_not_cut():
    for write in (
        lambda m: m.op("Slice", "x", m.ints(1), m.ints(2), m.ints(0)),
        lambda m: m.op("Slice", "x", m.ints(0), m.ints(2**62), m.ints(-4), m.ints(2)),
        lambda m: m.op("Split", "x", outputs=2)[1],
    ):
        m = Model(13)
        unsupported(m.build(write(m), (4, 3, 9, 8)), "it cuts along the batch")
    m = Model(13)
    assert (
        len(t.read_onnx(m.build(m.op("Slice", m.op("Relu", "x"), m.ints(0), m.ints(4), m.ints(0)), (4, 3, 9, 8)))) == 1
    )


def test_parts_of_the_newest_split():
    m = Model(18)
    first, second, third = m.op("Split", "x", outputs=3, axis=2, num_outputs=3)
    graph = agree(m.build(m.op("Concat", third, first, second, axis=2), (2, 3, 8, 5)))
    assert [layer.sizes for layer in graph.layers[:3]] == [(3, 3, 5), (3, 3, 5), (3, 2, 5)]
    m = Model(18)
    invalid(m.build(m.op("Split", "x", outputs=3, axis=2, num_outputs=2)[0]), "Split", "not its 3 outputs")


def test_gelu_of_an_unknown_kind():
    m = Model(20)
    invalid(m.build(m.op("Gelu", "x", approximate="sigmoid")), "Gelu", "approximate is 'sigmoid'")


def test_gemm_without_a_bias_is_newer_than_operator_set_10():
    for opset, refused in ((10, True), (11, False)):
        m = Model(opset)
        model = m.build(m.op("Gemm", m.op("Flatten", "x"), m.normal(216, 4)))
        if refused:
            invalid(model, "Gemm", "it has 2 inputs, not 3")
        else:
            agree(model)


def test_an_operator_that_is_not_read_is_named_before_the_inputs_are_counted():
    """The branches of an If read the input, the node itself does not."""
    m = Model(13)
    branch = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["b"])],
        "branch",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
    )
    y = m.op("If", m.const(np.array(True)), then_branch=branch, else_branch=branch)
    unsupported(m.build(y), "(If)", "no layer for this operator")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_parameters_that_are_no_numbers(bad):
    for dtype in (np.float32, np.float16):
        m = Model(13, dtype=dtype)
        weight = np.ones((4, 3, 1, 1), dtype)
        weight[1, 2] = bad
        y = m.op("Conv", "x", m.const(weight))
        invalid(m.build(y), "parameter 'const_1': 1 of 12 numbers are infinite or not a number")
    m = Model(13)
    t.read_onnx(m.build(m.clip("x", -np.inf, 6)))  # a bound may be infinite


def test_a_variance_that_is_not_positive():
    for variance, right in ((-1.0, False), (-2e-5, False), (0.0, True)):
        m = Model(13)
        arrays = [m.const(np.full(3, value, np.float32)) for value in (1, 0, 0, variance)]
        model = m.build(m.op("BatchNormalization", "x", *arrays, epsilon=1e-5))
        if right:
            t.read_onnx(model)
        else:
            invalid(model, "batch-norm", "the variance of channel 0 is -", "not positive even with eps")


@settings(max_examples=300)
@given(
    size=st.integers(1, 5), k=st.integers(1, 4), step=st.integers(1, 4), d=st.integers(1, 6),
    before=st.integers(0, 4), after=st.integers(0, 4), ceil_mode=st.booleans(),
)  # fmt: skip
def test_windows_that_lie_in_padding_alone(size, k, step, d, before, after, ceil_mode):
    """Counted tap by tap."""
    make = partial(
        t.MaxPool2d, name="pool", inputs=("x",), output="y", input_shapes=((1, 1, 1, size),), kernel_size=(1, k),
        stride=(1, step), padding=((0, 0), (before, after)), dilation=(1, d), ceil_mode=ceil_mode,
    )  # fmt: skip
    try:
        count = windows([1, size], (1, k), (1, step), ((0, 0), (before, after)), (1, d), ceil_mode)[1]
    except ValueError:
        return
    taps = np.arange(count)[:, None] * step - before + np.arange(k) * d
    if max(before, after) >= k or not ((taps >= 0) & (taps < size)).any(1).all():
        with pytest.raises(ValueError, match="padding"):
            make()
    else:
        assert make().output_shape == (1, 1, 1, count)


def test_graph_structure():
    m = Model(13)
    a = m.op("Relu", "relu_3")  # reads what the node after it makes of it
    b = m.op("Relu", a)
    assert b == "relu_3"
    invalid(m.build(b), "cycle")

    m = Model(13)
    m.nodes.append(helper.make_node("Relu", ["y"], ["y"], name="self"))
    invalid(m.build("y"), "'self' (Relu)", "cycle")

    m = Model(13)
    y = m.op("Relu", "x")
    m.nodes.append(helper.make_node("Relu", ["x"], [y]))
    invalid(m.build(y), "'relu_1' is written twice")

    m = Model(13)
    m.nodes.append(helper.make_node("Relu", ["x"], ["x"]))
    invalid(m.build("x"), "'x' is written twice")

    m = Model(13)
    m.op("Relu", "x")
    invalid(m.build("z"), "no node writes the output 'z'")
    invalid(m.build([]), "no output")
    unsupported(m.build(["relu_1", m.op("Identity", m.normal(1, 3))]), "'identity_4' does not depend on the input")

    m = Model(13)
    y = m.op("Add", "x", "x2")
    model = m.build(y)
    model.graph.input.append(helper.make_tensor_value_info("x2", 1, [2, 3, 9, 8]))
    unsupported(model, "the inputs 'x', 'x2' have the batch sizes 1, 2, not one")
    with pytest.raises(ValueError, match=r"input_shape must be 2 shapes, one per input, got \(1, 3, 9, 8\)"):
        t.read_onnx(model, (1, 3, 9, 8))
    assert t.read_onnx(model, (None, (1, 3, 9, 8))).signature == ((1, 3, 9, 8), (1, 3, 9, 8))

    m = Model(13)
    m.op("Relu", "x")
    assert len(t.read_onnx(m.build("x"))) == 0  # a network of no layers, and an unused node

    m = Model(13)  # a gate on vectors of one feature, reshaped to no dimension but the batch
    pooled = m.op("Reshape", m.op("GlobalAveragePool", m.conv("x", 3, 1)), m.ints(1))
    y = m.op("Mul", pooled, m.op("Reshape", m.linear(m.op("Flatten", "x"), 216, 1), m.ints(-1)))
    unsupported(m.build(m.op("Add", y, m.normal(1))), "Add", "not one number a channel")

    model = mobilenet(13)
    model.graph.initializer.append(model.graph.initializer[0])
    invalid(model, "same name")


@pytest.mark.parametrize(
    ("shape", "error", "words"),
    [
        ((1, 3, -1, 8), t.InvalidModel, "shape (1, 3, -1, 8)"),
        ((1, 3, 0, 8), t.InvalidModel, "shape (1, 3, 0, 8)"),
        ((1, 3, 2**40, 2**40), t.InvalidModel, "over 2147483647 elements"),
        ((2**62, 3, 9, 8), t.InvalidModel, "over 2147483647 elements"),
        ((1, "c", 9, 8), t.UnsupportedModel, "number of channels"),
        (None, t.UnsupportedModel, "no shape"),
        ((1, 3, 9, 8, 7), t.UnsupportedModel, "5 dimensions"),
        ((1, 4, 9, 8), t.InvalidModel, "4 channels"),
    ],
)
def test_input_shapes(shape, error, words):
    m = Model(13)
    with pytest.raises(error) as caught:
        t.read_onnx(m.build(m.conv("x", 3, 4), shape))
    assert words in str(caught.value)


def test_input_shapes_asked_for():
    m = Model(13)
    y = m.conv("x", 3, 4)
    assert t.read_onnx(m.build(y, None), (1, 3, 9, 8)).input_shape == (1, 3, 9, 8)
    assert t.read_onnx(m.build(y, ("n", "c", "h", "w")), (1, 3, 9, 8)).input_shape == (1, 3, 9, 8)
    for shape in ((1, 3, 9), (1, 3, 0, 9), (1, 3, -4, 9)):
        with pytest.raises(ValueError, match="input_shape"):
            t.read_onnx(m.build(y), shape)
    invalid(m.build(y), "Conv", "channels", input_shape=(1, 1, 9, 8))
    m = Model(13)  # a classifier on 3·9·8 numbers takes no other size
    invalid(m.build(m.linear(m.op("Flatten", "x"), 216, 5)), "Gemm", "features", input_shape=(1, 3, 9, 9))


def test_input_types():
    m = Model(13)
    unsupported(m.build(m.op("Relu", "x"), elem_type=TensorProto.UINT8), "'x' is uint8")
    unsupported(m.build(m.op("Relu", "x"), elem_type=TensorProto.STRING), "STRING")
    unsupported(m.build(m.op("Relu", "x"), elem_type=99), "99")


@pytest.mark.parametrize("version", [0, 1, 6, 99, -1])
def test_operator_sets(version):
    model = mobilenet(13)
    model.opset_import[0].version = version
    unsupported(model, f"operator set {version}")


def test_headers():
    model = mobilenet(13)
    del model.opset_import[:]
    invalid(model, "0 versions")
    invalid(onnx.ModelProto(), "no graph")
    model = mobilenet(13)
    model.ClearField("ir_version")
    invalid(model, "ir_version")
    model = mobilenet(13)
    model.graph.sparse_initializer.add()
    unsupported(model, "sparse")


def first_tensor(change):
    """The small network with its first initializer changed."""
    model = mobilenet(13)
    change(model.graph.initializer[0])
    return model


def shorten(tensor):
    tensor.raw_data = tensor.raw_data[:-1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (shorten, "holds 863 bytes, not 864"),
        (lambda tensor: tensor.ClearField("raw_data"), "holds 0 elements, not 216"),
        (lambda tensor: tensor.dims.append(2**30), "more than"),
        (lambda tensor: tensor.dims.extend([2**62, 2**62]), "more than"),
        (lambda tensor: tensor.dims.extend([0, 2**62]), "more than"),
        (lambda tensor: tensor.dims.extend([1] * 50), "16 dimensions"),
        (lambda tensor: tensor.dims.append(-1), "negative shape"),
        (lambda tensor: setattr(tensor, "data_type", TensorProto.INT32), "int32"),
        (lambda tensor: setattr(tensor, "data_location", TensorProto.EXTERNAL), "outside the model"),
    ],
)
def test_tensors(change, words):
    invalid(first_tensor(change), words)


def test_tensor_types():
    unsupported(first_tensor(lambda tensor: setattr(tensor, "data_type", TensorProto.STRING)), "STRING")
    unsupported(first_tensor(lambda tensor: setattr(tensor, "data_type", 77)), "number 77")
    m = Model(13, dtype=np.float64)
    m.op("Conv", "x", m.const(np.full((1, 3, 1, 1), 1e300)))
    invalid(m.build("conv_2"), "beyond float32")


# --- files -----------------------------------------------------------------------------------------


def test_files(tmp_path):
    path = tmp_path / "m.onnx"
    with pytest.raises(FileNotFoundError):
        t.read_onnx(path)
    for content, words in (
        (b"", "is empty"),
        (b"\xff" * 100, "not an ONNX file"),
        (b"<html></html>", "m.onnx"),
    ):
        path.write_bytes(content)
        if words == "m.onnx":
            with pytest.raises(t.InvalidModel):
                t.read_onnx(path)
        else:
            invalid(path, words)
    with pytest.raises(OSError, match="expected a regular file, got a folder"):
        t.read_onnx(tmp_path)
    content = mobilenet(13).SerializeToString()
    path.write_bytes(content[:-10])
    invalid(path, "cut off")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"expected a regular file, got a named pipe"):
        t.read_onnx(tmp_path / "pipe")
    os.mkfifo(tmp_path / "w.bin")
    invalid(with_external(tmp_path), "'w.bin'", "expected a regular file, got a named pipe")


def test_the_size_limit_is_checked_before_reading(tmp_path):
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.truncate(loading.MAX_FILE_BYTES + 1)  # sparse: it takes no space
    invalid(path, "over the limit")


def with_external(folder, location="w.bin", offset=None, length=None, dims=None):
    """A model file in the folder whose first convolution keeps its weight in `location`."""
    model = mobilenet(13)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    if dims is not None:
        tensor.dims[:] = dims
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("offset", [None, 0, 40])
def test_external_data_inside_the_folder(tmp_path, offset):
    weight = numpy_helper.to_array(mobilenet(13).graph.initializer[0])
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(bytes(offset or 0) + weight.tobytes() + b"more")
    path = with_external(tmp_path, "sub/w.bin", offset, weight.nbytes if offset else None)
    parameters = t.read_onnx_with_parameters(path)[1]
    assert np.array_equal(parameters["const_1"], weight)
    agree(t.load_model(path))


def test_external_data_as_the_onnx_package_writes_them(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save_model(mobilenet(13), path, save_as_external_data=True, location="m.data", size_threshold=0)
    assert t.read_onnx(path) == t.read_onnx(mobilenet(13))


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("../w.bin", "leaves the model's folder"),
        ("sub/../../w.bin", "leaves the model's folder"),
        ("/etc/passwd", "not a relative path"),
        ("C:\\w.bin", "not a relative path"),
        ("C:w.bin", "not a relative path"),
        ("..\\w.bin", "not a relative path"),
        ("", "not a relative path"),
        (None, "not a relative path"),
        (".", "not a relative path"),
        ("a\0b", "not a relative path"),
        ("missing.bin", "cannot read 'missing.bin'"),
        ("m.onnx/w.bin", "cannot read 'm.onnx/w.bin'"),
        ("x" * 5000, "cannot read"),
        ("sub", "expected a regular file, got a folder"),
        ("link.bin", "symbolic link"),
        ("linked/w.bin", "symbolic link"),
        ("short.bin", "'short.bin' ends before byte 864"),
    ],
)
def test_external_data_elsewhere(tmp_path, location, words):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (folder / "sub").mkdir(parents=True)
    for target in (tmp_path, outside):
        (target / "w.bin").write_bytes(bytes(1000))
    (folder / "link.bin").symlink_to(outside / "w.bin")
    (folder / "linked").symlink_to(outside)
    (folder / "short.bin").write_bytes(bytes(863))
    invalid(with_external(folder, location), "const_1", words)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"offset": -1}, "at -1"),
        ({"offset": 200}, "ends before byte 1064"),
        ({"offset": "many"}, "not a number"),
        ({"offset": 10**30}, "ends before byte"),
        ({"length": 4}, "864 bytes are needed"),
        ({"length": -1}, "864 bytes are needed"),
        ({"dims": [2**31, 1, 1, 1]}, "more than"),
        ({"dims": [2**30, 1, 1, 1]}, "2147483648 bytes"),
        ({"dims": [-8, 3, 3, 3]}, "negative shape"),
    ],
)
def test_external_data_of_the_wrong_size(tmp_path, fields, words):
    (tmp_path / "w.bin").write_bytes(bytes(1000))
    invalid(with_external(tmp_path, **fields), words)


def test_external_data_read_over_and_over_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "MAX_FILE_BYTES", 50_000)
    (tmp_path / "w.bin").write_bytes(bytes(1000))
    model = onnx.load(with_external(tmp_path), load_external_data=False)
    for i in range(60):
        model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
        model.graph.initializer[-1].name = f"copy {i}"
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    invalid(path, "all external data together")


def test_messages_are_one_printable_line():
    m = Model(13)
    y = m.op("Relu", "x")
    m.nodes[-1].op_type = "Re\nlu\x1b[31m" + "u" * 5000
    with pytest.raises(t.UnsupportedModel) as caught:
        t.read_onnx(m.build(y))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 300
