"""Files that a hand or a disk has damaged, and odd graphs: a clear error, or what ONNX Runtime computes."""

import time

import numpy as np
import pytest
import zoo
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_models import Nodes
from tiers import ALL, long

from common import cuda
from common.network import Network
from common.network.compare import relative_error

pytestmark = long

MEGABYTES = 2**20
quietly = {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


def run_or_refuse(source, shape=None):
    """(x, result) of a network that can be made and run, or None for a refusal in one line; in time either way."""
    start = time.process_time()
    try:
        net = Network(source)
        n, c, h, w = shape or net.input_shape
        if max(n * c * h * w, net.plan().memory // 4) > 16 * MEGABYTES:  # what is large is not wrong
            return None
        x = np.random.default_rng(3).standard_normal((n, c, h, w), dtype=np.float32)
        return x, net(x)
    except ValueError as error:  # ModelError is one
        message = str(error)
        assert "\n" not in message and 10 < len(message) < 500, message
        return None
    finally:
        assert time.process_time() - start < 20


def content():
    """A small network with a bit of everything."""
    nodes = Nodes(np.random.default_rng(1), opset=14)
    x = nodes("HardSwish", nodes.same("x", 3))
    pooled = nodes("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    x = nodes("Concat", nodes("Relu", nodes.conv(x, 3, 4, k=1)), pooled, axis=1)
    x = nodes("Mul", x, nodes("HardSigmoid", nodes("GlobalAveragePool", x)))
    x = nodes(
        "AveragePool", nodes("Clip", x, nodes.number(0.0), nodes.number(6.0)), kernel_shape=[2, 2], strides=[2, 2]
    )
    x = nodes("Flatten", nodes("GlobalAveragePool", x))
    x = nodes("Gemm", x, nodes.number(nodes.rng.standard_normal((7, 5))))
    return nodes.model(nodes("Softmax", x, axis=1), (1, 3, 9, 8)).SerializeToString()


CONTENT = content()


def test_the_file_is_in_order(tmp_path):
    path = tmp_path / "whole.onnx"
    path.write_bytes(CONTENT)
    x, result = run_or_refuse(path)
    assert relative_error(result, Network(path, "onnxruntime")(x)) <= 1e-5


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "cut.onnx"
    for length in range(0, len(CONTENT), max(1, len(CONTENT) // 150)):
        path.write_bytes(CONTENT[:length])
        assert run_or_refuse(path) is None


@settings(max_examples=150, **quietly)
@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_bytes(tmp_path, flips):
    damaged = bytearray(CONTENT)
    for position, mask in flips:
        damaged[position % len(damaged)] ^= mask
    path = tmp_path / "flipped.onnx"
    path.write_bytes(damaged)
    run_or_refuse(path)


@pytest.mark.parametrize("name", ["mobilenet-v3-small", "densenet-121", "resnet-20"])
def test_a_damaged_export(name, tmp_path):
    """Bytes turned in the graph, not in the weights, which are most of a file and may hold any number."""
    whole = zoo.export(name, width=0.125) if name != "resnet-20" else zoo.export(name)
    for tensor in whole.graph.initializer:
        if len(tensor.raw_data) > 64:
            tensor.raw_data = bytes(len(tensor.raw_data))
    whole, rng = bytearray(whole.SerializeToString()), np.random.default_rng(8)
    spots = [i for i in range(len(whole)) if whole[i] or not any(whole[max(0, i - 16) : i + 16])]
    path = tmp_path / "damaged.onnx"
    for _ in range(25 if ALL else 8):
        damaged = bytearray(whole)
        damaged[spots[rng.integers(len(spots))]] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        run_or_refuse(path)


SMALL = st.integers(-1, 4)
PAIR = st.lists(SMALL, min_size=0, max_size=3)
NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 6.0, 0.25, float("inf"), float("-inf"), float("nan")])
ATTRIBUTES = {
    "MaxPool": {"kernel_shape": PAIR, "strides": PAIR, "pads": st.lists(SMALL, max_size=5), "ceil_mode": SMALL},
    "AveragePool": {"kernel_shape": PAIR, "strides": PAIR, "pads": st.lists(SMALL, max_size=5)},
    "Concat": {"axis": SMALL},
    "Softmax": {"axis": SMALL},
    "Flatten": {"axis": SMALL},
    "Transpose": {"perm": st.permutations([0, 1, 2, 3])},
    "HardSigmoid": {"alpha": NUMBERS, "beta": NUMBERS},
    "Relu": {}, "Sigmoid": {}, "HardSwish": {}, "GlobalAveragePool": {}, "Add": {}, "Mul": {}, "Einsum": {},
}  # fmt: skip


@settings(max_examples=200, **quietly)
@given(data=st.data())
def test_odd_graphs(data):
    """Attributes that make sense or not, readers of anything before: refused, or as ONNX Runtime has it."""
    nodes = Nodes(np.random.default_rng(2), opset=14)
    known = ["x", nodes.conv("x", 3, 4, k=data.draw(st.integers(1, 3)), group=1)]
    for _ in range(data.draw(st.integers(1, 5))):
        kind = data.draw(st.sampled_from(sorted(ATTRIBUTES)))
        inputs = [data.draw(st.sampled_from(known[-3:])) for _ in range(2 if kind in ("Add", "Mul", "Concat") else 1)]
        given_ = {name: data.draw(values) for name, values in ATTRIBUTES[kind].items() if data.draw(st.booleans())}
        known.append(nodes(kind, *inputs, **{k: v for k, v in given_.items() if v != []}))
    model = nodes.model(known[-1], (2, 3, 7, 6))
    ran = run_or_refuse(model)
    if ran is None:
        return
    x, result = ran
    try:
        want = Network(model, "onnxruntime")(x)
    except Exception:  # a reader may be more lenient than ONNX Runtime; its exceptions have no common base
        return
    assert result.shape == want.shape
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(result), finite)
    if finite.any() and np.linalg.norm(want[finite]) > 1e-3:
        assert relative_error(result[finite], want[finite]) <= 1e-5


@pytest.mark.parametrize("shape", [(1, 3, 2, 2), (1, 3, 1, 9), (3, 3, 31, 2)])
def test_images_too_small_for_a_network_are_refused(shape):
    model = zoo.export("densenet-121", width=0.125)
    with pytest.raises(ValueError, match=r"fit|padding|window"):
        Network(model)(cuda.asarray(np.zeros(shape, np.float32)))
