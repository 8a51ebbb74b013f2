"""Networks of several inputs and outputs on every backend: calls, plans, files, contexts, comparisons, profiles."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from network_models import Nodes, other_backends, run_onnxruntime
from tiers import seldom

from common import cuda, topology
from common.network import Network
from common.network.compare import TOLERANCES, compare, compare_steps, first_drift, relative_error
from common.topology import layers as kinds

SHAPES = (2, 3, 9, 8), (2, 5), (2, 3, 5, 4)  # an image, what it is to look like, a smaller image


@pytest.fixture(scope="module")
def model():
    """Five outputs of three inputs: a map, one that other layers read, it once more, a view of it, and an input."""
    m = Nodes(np.random.default_rng(int(os.environ["COURSE_SEED"])))
    features = m("Relu", m.same(m.conv("x", 3, 6, pads=[1] * 4), 6))
    scale = m(
        "Sigmoid", m("Gemm", "style", m.number(m.rng.standard_normal((5, 6))), m.number(m.rng.standard_normal(6)))
    )
    scale = m("Unsqueeze", m("Unsqueeze", scale, m.integers(2)), m.integers(3))
    styled = m("Mul", features, scale)
    size = m("Concat", m("Slice", m("Shape", styled), m.integers(0), m.integers(1)), m.integers(3), axis=0)
    extent = m("Slice", m("Shape", styled), m.integers(2), m.integers(4))
    larger = m("Resize", "small", "", "", m("Concat", size, extent, axis=0), mode="linear")
    joined = m.conv(m("Concat", styled, larger, axis=1), 9, 4, pads=[1] * 4)
    flat = m("Flatten", styled)
    return m.model([joined, styled, styled, flat, "small"], ("n", 3, 9, 8), style=("n", 5), small=("n", 3, 5, 4))


def drawn(rng, shapes=SHAPES):
    return tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes)


WAYS = [
    {"backend": "torch"},
    {"backend": "onnxruntime"},
    {"backend": "kernels", "layout": "NCHW"},
    {"backend": "kernels", "layout": "NHWC"},
    {"backend": "kernels", "layout": "NCHW", "dtype": "fp16"},
    {"backend": "kernels", "layout": "NHWC", "dtype": "fp16"},
]
everywhere = pytest.mark.parametrize("how", WAYS, ids=lambda how: "-".join(how.values()))


def agree(results, wanted, dtype="fp32"):
    assert isinstance(results, tuple) and len(results) == len(wanted)
    for result, want in zip(results, wanted, strict=True):
        assert result.dtype == np.float32 and relative_error(cuda.asnumpy(result), want) <= TOLERANCES[dtype]


@everywhere
def test_calls(rng, model, how):
    net = Network(model, **how)
    assert list(net.graph.inputs) == ["x", "style", "small"] and len(net.graph.outputs) == 5
    assert net.input_shape == tuple((1, *shape[1:]) for shape in SHAPES)
    for inputs in (drawn(rng), drawn(rng), drawn(rng, [(3, *shape[1:]) for shape in SHAPES])):
        agree(net(*inputs), run_onnxruntime(model, *inputs), how.get("dtype", "fp32"))


@everywhere
def test_images_of_another_size(rng, model, how):
    x, style, small = drawn(rng, [(2, 3, 11, 6), (2, 5), (2, 3, 4, 4)])
    results = Network(model, **how)(x, style, small)
    assert [result.shape for result in results][:4] == [(2, 4, 11, 6), (2, 6, 11, 6), (2, 6, 11, 6), (2, 6 * 66)]
    agree(results, Network(model, "torch")(x, style, small), how.get("dtype", "fp32"))
    np.testing.assert_allclose(results[4], small, rtol=1e-3)


def test_results_are_arrays_of_their_own(rng, model):
    """A later call changes neither the outputs of an earlier one nor the inputs."""
    net = Network(model)
    first, second = drawn(rng), drawn(rng)
    before, kept = [one.copy() for one in first], net(*first)
    wanted = [one.copy() for one in kept]
    net(*second)
    for result, want in zip((*kept, *first), (*wanted, *before), strict=True):
        np.testing.assert_array_equal(result, want)


def test_tensors_of_pytorch(rng, model):
    inputs = drawn(rng)
    results = Network(model)(*map(torch.from_numpy, inputs))
    assert all(isinstance(one, torch.Tensor) for one in results)
    agree(tuple(one.numpy() for one in results), run_onnxruntime(model, *inputs))


@pytest.mark.parametrize("layout", cuda.LAYOUTS)
def test_outputs_live_until_the_end_and_inputs_all_the_time(rng, model, layout):
    """Neither shares memory with what later steps write; the plan counts all inputs."""
    net = Network(model, layout=layout)
    plan = net.plan(SHAPES)
    assert plan.input_shape == SHAPES and "input 2 × 3 × 9 × 8, 2 × 5, 2 × 3 × 5 × 4" in str(plan)
    numbers = sum(np.prod(shape) for shape in SHAPES) + sum(np.prod(step.output_shape) for step in plan.steps)
    assert plan.kept == 4 * numbers
    last = {one.name: one.last for one in plan.lifetimes}
    for name in (*net.graph.inputs, *net.graph.outputs):
        while name in plan.shares:
            name = plan.shares[name]
        assert last[name] == len(plan.steps)
    inputs = drawn(rng)
    program = net.program(SHAPES, arena=True)
    wanted = run_onnxruntime(model, *inputs)
    for array, x in zip(program.inputs, inputs, strict=True):
        array[...] = cuda.asarray(x)
    for _ in range(2):
        program.launch()
        agree(tuple(cuda.asnumpy(array) for array in program.outputs), wanted)
    assert program.input is program.inputs[0] and program.output is program.outputs[0]


def test_a_captured_network(rng, model):
    net = Network(model)
    captured = net.capture(2)
    inputs = drawn(rng)
    for array, x in zip(captured.inputs, inputs, strict=True):
        array[...] = cuda.asarray(x)
    captured.launch()
    agree(tuple(cuda.asnumpy(array) for array in captured.outputs), run_onnxruntime(model, *inputs))
    agree(net(*inputs), run_onnxruntime(model, *inputs))


@pytest.mark.parametrize("how", WAYS[2:], ids=lambda how: "-".join(how.values()))
def test_saved_and_loaded(rng, model, how, tmp_path):
    path, net = tmp_path / "several.plan", Network(model, **how)
    net.save(path)
    loaded = Network.load(path)
    assert loaded.input_shape == net.input_shape and loaded.graph.outputs == net.graph.outputs
    for shapes in (SHAPES, tuple((1, *shape[1:]) for shape in SHAPES)):  # another batch is derived
        inputs = drawn(rng, shapes)
        for one, other in zip(loaded(*inputs), net(*inputs), strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match=r"x must have one of the input shapes saved"):
        loaded(*drawn(rng, [(1, 3, 11, 6), (1, 5), (1, 3, 5, 4)]))
    larger = ((1, 3, 11, 6), (1, 5), (1, 3, 5, 4))
    net.save(path, shapes=[SHAPES, [list(shape) for shape in larger]])
    inputs = drawn(rng, larger)
    for one, other in zip(Network.load(path)(*inputs), net(*inputs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_contexts_run_at_once(rng, model):
    net = Network(model)
    every = [drawn(rng) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda context, inputs: context(*inputs), [net.context() for _ in every], every))
    for result, inputs in zip(results, every, strict=True):
        agree(result, run_onnxruntime(model, *inputs))


def test_comparisons(rng, model):
    pictures = [drawn(rng, [(1, *shape[1:]) for shape in SHAPES])]
    rows = compare(model, 3, backends=["kernels", "torch"], seed=1, batch=2, pictures=pictures)
    assert [row.backend for row in rows] == ["onnxruntime", "kernels", "torch"]
    assert all(row.within_contract and row.images == 4 for row in rows)
    wrong = compare(model, 2, backends=["kernels"], seed=1, operators={"multiply": twice})
    assert wrong[1].error > 0.1 and not wrong[1].within_contract
    with pytest.raises(ValueError, match="size must be left out for a network of several inputs, got 16"):
        compare(model, 1, size=16)


def twice(a, b, out):
    """A wrong multiplication, which only some of the outputs depend on."""
    out[...] = 2 * a * b


@pytest.mark.parametrize("backend", ["kernels", "torch"])
def test_the_error_of_every_step(rng, model, backend):
    assert first_drift(compare_steps(model, backend, drawn(rng))) is None
    assert first_drift(compare_steps(model, backend, seed=3)) is None
    assert first_drift(compare_steps(model, "kernels", operators={"multiply": twice})).step.startswith("Mul")


@pytest.mark.parametrize("placement", ["gpu", "cpu", "*conv*"])
def test_profiles(rng, model, placement):
    profile = Network(model).profile(drawn(rng), runs=2, placement=placement, progress=False)
    assert profile.input_shape == SHAPES and "2 × 3 × 9 × 8, 2 × 5, 2 × 3 × 5 × 4" in str(profile)
    numbers = [2 * 4 * 72, 2 * 6 * 72, 2 * 6 * 72]
    if placement == "gpu":  # small is on the CPU already
        assert profile.rows[-1].copied == 4 * sum(numbers)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda net, a, b, c: net(a, b), TypeError, "the network takes 3 inputs, got 2"),
        (lambda net, a, b, c: net(a, b, 3.0), TypeError, "input 2 must be an array, got float"),
        (lambda net, a, b, c: net(a, b.astype(int), c), TypeError, "input 1 must be floating point .* got int64"),
        (lambda net, a, b, c: net(b, a, c), ValueError, r"input 0 must have shape \(N, 3, H, W\), got \(2, 5\)"),
        (lambda net, a, b, c: net(a, b[:, :4], c), ValueError, r"input 1 must have shape \(N, 5\), got \(2, 4\)"),
        (lambda net, a, b, c: net(a, b[:1], c), ValueError, "inputs must have one batch size, got 2, 1, 2"),
        (lambda net, a, b, c: net.plan((1, 3, 9, 8)), ValueError, "shape must be 3 shapes, one per input, got"),
        (lambda net, a, b, c: net.capture(1, (4, 4)), ValueError, "size must be left out for a network of several"),
        (lambda net, a, b, c: net.profile(a), TypeError, "the network takes 3 inputs, got 1"),
    ],
)
def test_wrong_calls(rng, model, call, error, message):
    with pytest.raises(error, match=message):
        call(Network(model), *drawn(rng))


@other_backends
def test_a_network_of_one_input_says_so(backend):
    m = Nodes(np.random.default_rng(0))
    net = Network(m.model(m("Relu", "x")), backend)
    x = np.zeros((1, 3, 9, 8), np.float32)
    with pytest.raises(TypeError, match="the network takes 1 input, got 2"):
        net(x, x)
    assert not isinstance(net(x), tuple)


def test_written_and_read_again(rng, model):
    graph, parameters = topology.read_onnx_with_parameters(model)
    for dynamic in (False, True):
        again = topology.write_onnx(graph, parameters, dynamic)
        read = topology.read_onnx(again)
        assert read.inputs == graph.inputs and read.outputs == graph.outputs and read.layers == graph.layers
    inputs = drawn(rng)
    for one, other in zip(run_onnxruntime(again, *inputs), run_onnxruntime(model, *inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert str(graph).splitlines()[0].endswith("outputs 9, 6, 6, 10, small")


def test_a_pass_must_keep_every_output(model):
    def forgetful(graph):
        return replace(graph, more_outputs=graph.more_outputs[1:])

    with pytest.raises(ValueError, match="pass 'forgetful' must keep the more_outputs"):
        Network(model, passes=[forgetful]).plan()


@seldom(6)
@pytest.mark.parametrize("how", [{}, {"optimize": "latency"}, {"optimize": "latency", "dtype": "fp16"}], ids=str)
def test_a_backbone_that_gives_its_feature_maps(rng, how):
    """What an epilogue or a fused block would hide is an output here, and stays a tensor of its own."""
    whole = topology.build(0.35, 10, 32)
    convolutions = [layer.output for layer in whole if isinstance(layer, kinds.Conv2d)]
    adds = [layer.output for layer in whole if isinstance(layer, kinds.ResidualAdd)]
    chosen = (convolutions[4], adds[0], convolutions[20], adds[-1], whole.output)
    graph = replace(whole, output=chosen[0], more_outputs=chosen[1:])
    model = topology.write_onnx(graph, weights_of(rng, graph), True)
    x = rng.standard_normal((2, 3, 32, 32), dtype=np.float32)
    net = Network(model, **how)
    agree(net(x), run_onnxruntime(model, x), how.get("dtype", "fp32"))
    assert {step.output for step in net.plan().steps} >= set(chosen)


def weights_of(rng, graph):
    """Weights that keep the size of activations."""
    scales = {n: np.sqrt(2 / np.prod(s[1:])) if len(s) > 1 else 0.1 for n, s in graph.parameter_shapes.items()}
    return {n: (scales[n] * rng.standard_normal(s)).astype(np.float32) for n, s in graph.parameter_shapes.items()}
