"""Files that a hand or a disk has damaged: refused in time, or read as ONNX Runtime reads them."""

import gc
import time
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, ModelProto, helper
from tiers import ALL
from topology_models import Model, branches, mobilenet, nhwc
from topology_oracle import evaluate, onnx_runtime

from common import topology as t
from common.topology.constants import FOLD
from common.topology.layers import Div
from common.topology.operators import TRANSLATE

REFUSALS = (t.InvalidModel, t.UnsupportedModel)
HEADS = ("gemm", "shape-chain", "mean-mean", "keras", "conv")


def small(opset, head):
    return mobilenet(opset, norm=True, head=head, shape=(1, 3, 9, 8))


CONTENT = small(13, "shape-chain").SerializeToString()


def read_or_refuse(source):
    """The graph and its parameters, or None for a refusal in one line; in time either way."""
    start = time.process_time()
    try:
        return t.read_onnx_with_parameters(source)
    except REFUSALS as error:
        assert "\n" not in str(error) and 10 < len(str(error)) < 400
        return None
    finally:
        assert time.process_time() - start < 2


def test_every_truncation_is_refused(tmp_path):
    path, content = tmp_path / "cut.onnx", CONTENT
    for length in range(0, len(content), max(1, len(content) // 400)):
        path.write_bytes(content[:length])
        assert read_or_refuse(path) is None


@settings(max_examples=5000 if ALL else 300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_bytes(tmp_path, flips):
    damaged = bytearray(CONTENT)
    for position, mask in flips:
        damaged[position % len(damaged)] ^= mask
    path = tmp_path / "flipped.onnx"
    path.write_bytes(damaged)
    read_or_refuse(path)


@settings(max_examples=1000 if ALL else 100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200))
def test_any_bytes(tmp_path, content):
    path = tmp_path / "any.onnx"
    path.write_bytes(content)
    assert read_or_refuse(path) is None


INTEGERS = st.sampled_from([0, 1, 2, 3, 4, 6, -1, -2, 7, 2**16, 2**31, 2**40, 2**63 - 1, -(2**63)])
NUMBERS = st.sampled_from([0.0, 1.0, 6.0, -1.0, 0.5, 1e-5, 3e38, float("inf"), float("-inf"), float("nan")])


def mutate(model: ModelProto, draw) -> None:
    """One plausible mistake: another operator, attribute, wiring or shape."""
    graph = model.graph
    node = graph.node[draw(st.integers(0, len(graph.node) - 1))]
    tensors = [value.name for value in graph.input]
    tensors += [tensor.name for tensor in graph.initializer]
    tensors += [name for other in graph.node for name in other.output]
    match draw(st.sampled_from(["operator", "attribute", "attribute", "input", "drop", "dims", "opset", "shape"])):
        case "operator":
            node.op_type = draw(st.sampled_from(sorted({*TRANSLATE, *FOLD})))
        case "attribute" if node.attribute:
            attribute = node.attribute[draw(st.integers(0, len(node.attribute) - 1))]
            if attribute.type == AttributeProto.INT:
                attribute.i = draw(INTEGERS)
            elif attribute.type == AttributeProto.FLOAT:
                attribute.f = draw(NUMBERS)
            elif attribute.type == AttributeProto.INTS and attribute.ints:
                attribute.ints[draw(st.integers(0, len(attribute.ints) - 1))] = draw(INTEGERS)
        case "input" if node.input:
            node.input[draw(st.integers(0, len(node.input) - 1))] = draw(st.sampled_from(tensors))
        case "drop" if node.input:
            del node.input[-1]
        case "dims" if graph.initializer:
            tensor = graph.initializer[draw(st.integers(0, len(graph.initializer) - 1))]
            dims = list(tensor.dims)
            if draw(st.booleans()):
                dims = dims[::-1]
            elif dims:
                dims[draw(st.integers(0, len(dims) - 1))] = draw(INTEGERS)
            tensor.dims[:] = dims
        case "opset":
            model.opset_import[0].version = draw(st.sampled_from([7, 9, 11, 12, 13, 17, 18, 21]))
        case "shape":
            dim = graph.input[0].type.tensor_type.shape.dim[draw(st.integers(0, 3))]
            dim.dim_value = draw(INTEGERS)


@settings(max_examples=5000 if ALL else 200)
@given(data=st.data())
def test_what_is_accepted_after_a_mistake_means_what_onnx_runtime_makes_of_it(data):
    opset = data.draw(st.sampled_from([9, 12, 13, 18]))
    makers = [partial(small, head=head) for head in HEADS] + [partial(nhwc, keepdims=0), branches, branches]
    model = data.draw(st.sampled_from(makers))(opset)
    for _ in range(data.draw(st.integers(1, 2))):
        mutate(model, data.draw)
    result = read_or_refuse(model)
    if result is None or sum(layer.activation_bytes() for layer in result[0]) > 10**7:
        return
    graph, parameters = result
    x = np.random.default_rng(0).standard_normal(graph.input_shape).astype(np.float32)
    try:
        expected = onnx_runtime(model, x)
    except Exception:  # ONNX Runtime refuses more, and with many exception types
        return
    got = evaluate(graph, parameters, x)
    assert got.shape == expected.shape
    if (np.abs(got) < 1e30).all():  # beyond, float32 overflows where the float64 of `evaluate` does not
        divides = any(isinstance(layer, Div) for layer in graph)  # by nearly nothing, which magnifies rounding
        assert np.allclose(got, expected, rtol=1e-4, atol=1e-4 * (1 + divides * np.abs(expected).max()))


def test_a_small_file_cannot_ask_for_large_constants():
    m = Model(13)
    w = m.normal(4, 3, 3, 3)
    for _ in range(40):
        w = m.op("Concat", w, w, axis=0)
    assert read_or_refuse(m.build(m.op("Conv", "x", w))) is None
    for shape in ([2**40], [2**20, 2**20], [-5], [2**63 - 1] * 8):
        m = Model(13)
        big = m.op("ConstantOfShape", m.ints(*shape))
        assert read_or_refuse(m.build(m.op("Add", "x", big))) is None
        m = Model(13)
        big = m.op("Expand", m.normal(1), m.ints(*shape))
        assert read_or_refuse(m.build(m.op("Add", "x", big))) is None
    m = Model(13)
    big = m.op("Mul", m.normal(4096, 1), m.normal(1, 4096))
    assert read_or_refuse(m.build(m.op("Add", "x", big))) is None


def test_long_chains_are_no_trouble():
    m = Model(13)
    y = "x"
    for _ in range(3000):
        y = m.op("Relu", y)
    graph = t.read_onnx(m.build(y))
    assert [type(layer) for layer in graph] == [t.ReLU]
    y = "x"
    for _ in range(3000):
        y = m.op("Add", y, y)
    assert len(read_or_refuse(m.build(y))[0]) == 3000


def in_proportion(read, small: int, factor: int = 8) -> None:
    """Reading `factor` times as much takes less than 3·factor times as long: linear, not quadratic.

    The best of three tries, without the garbage collector, which walks through all that other tests left.
    """

    def seconds(size: int) -> float:
        gc.collect()
        gc.disable()
        try:
            start = time.process_time()
            read(size)
            return time.process_time() - start
        finally:
            gc.enable()

    allowed = 3 * factor * max(min(seconds(small) for _ in range(3)), 0.01)
    tries: list[float] = []
    while len(tries) < 3 and not (tries and min(tries) < allowed):
        tries.append(seconds(factor * small))
    assert min(tries) < allowed, (tries, allowed)


def test_a_chain_of_biases_with_long_names_takes_neither_time_nor_memory():
    m = Model(13)
    bias = m.const(np.ones((1, 4, 1, 1), np.float32), "b" * 2000)
    y = m.conv("x", 3, 4, bias=False)
    for _ in range(1000):
        y = m.op("Add", y, bias)
    model = m.build(y)
    tracemalloc.start()
    graph, parameters = t.read_onnx_with_parameters(model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6 and [type(layer) for layer in graph] == [t.Conv2d]
    assert max(map(len, parameters)) < 10_000
    np.testing.assert_array_equal(parameters[graph.layers[0].bias], np.full(4, 1000))


def test_many_biases_that_clash():
    """Every convolution has the same bias and the same constant behind it, and their sum another name."""
    m = Model(13)
    shift = m.const(np.ones((1, 3, 1, 1), np.float32))
    weight, bias = m.normal(3, 3, 1, 1), m.const(np.ones(3, np.float32))
    y = "x"
    for _ in range(50):
        y = m.op("Add", m.op("Add", m.op("Conv", y, weight, bias), shift), shift)
    graph, parameters = read_or_refuse(m.build(y))
    assert [type(layer) for layer in graph] == [t.Conv2d] * 50
    assert all((parameters[layer.bias] == 3).all() for layer in graph)


def test_many_users_of_one_large_constant():
    for attributes, refused in (({}, False), ({"alpha": 0.5}, True)):  # each of the latter needs a matrix of its own
        m = Model(13)
        y, weight = m.op("Flatten", m.op("GlobalAveragePool", m.conv("x", 3, 700))), m.normal(700, 700)
        bias = m.normal(700)
        for _ in range(500):
            y = m.op("Gemm", y, weight, bias, **attributes)
        result = read_or_refuse(m.build(y))
        assert (result is None) == refused
        assert refused or len(result[0]) == 502


@pytest.mark.parametrize("constants_as_nodes", [False, True])
def test_constants_that_are_in_the_file_are_not_too_many(constants_as_nodes):
    m = Model(13, constants_as_nodes=constants_as_nodes)
    y = m.conv("x", 3, 2000, 1)
    for _ in range(100):
        y = m.op("Add", m.op("Mul", m.op("Sigmoid", y), m.normal(1, 2000, 1, 1)), m.normal(1, 2000, 1, 1))
    assert len(read_or_refuse(m.build(y))[0]) == 201


def test_a_constant_that_claims_more_than_it_holds_pays_for_nothing():
    m = Model(13, constants_as_nodes=True)
    y = m.op("Add", "x", m.op("ConstantOfShape", m.ints(2**28)))
    liar = m.normal(1)
    m.nodes[-1].attribute[0].t.dims[:] = [2**30]
    tracemalloc.start()
    assert read_or_refuse(m.build(m.op("Add", y, liar))) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


def test_names_that_a_file_has_chosen_to_clash():
    def read(count):
        m = Model(13)
        y = "x"
        for i in range(count):
            y = m.op("Sigmoid", y)
            m.nodes[-1].name = f"n.{i + 2}"
        for i in range(count):
            m.nodes.append(helper.make_node("Sigmoid", [y], [f"n.{i + 2}"], name="n"))
            y = f"n.{i + 2}"
        graph = t.read_onnx(m.build(y))
        assert len({layer.name for layer in graph}) == 2 * count

    in_proportion(read, 500)


def test_a_number_of_channels_that_no_array_of_the_file_has():
    m = Model(13)
    assert read_or_refuse(m.build(m.op("Add", "x", m.normal(1)), (1, 2**28, 1, 1))) is None


def test_a_listing_takes_time_in_proportion_to_its_layers():
    def read(count):
        m = Model(13)
        y = "x"
        for _ in range(count):
            y = m.op("Add", y, m.op("Relu", y))
        assert len(str(t.read_onnx(m.build(y))).splitlines()) > 2 * count

    in_proportion(read, 500)
