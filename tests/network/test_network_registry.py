"""Operators and fusions from outside, patterns, passes: what a network is made of can be added to."""

import dataclasses
import time

import numpy as np
import pytest
from celu import CELU, CELUOperator
from network_models import Nodes, layers, random_parameters, run_onnxruntime
from tiers import seldom

from common import cuda, topology, weights
from common.network import DEFAULT, Cudnn, Kernels, Network, OnnxRuntime, Torch, passes
from common.network.compare import TOLERANCE, TOLERANCES, compare_steps, first_drift, relative_error
from common.network.registry import (
    FUSIONS,
    OPERATORS,
    Arrays,
    Fusion,
    Operator,
    Part,
    Step,
    cost,
    layers_on,
    register,
    unregister,
)
from common.network.steps import fuse
from common.optimize.fusions import InvertedResidual
from common.topology import layers as kinds
from common.topology import operators, writer


@pytest.fixture(autouse=True, scope="module")
def from_outside():
    """Registered while this file's tests run: other tests ask what the course itself has."""
    for entry in (CELUOperator, ConvHardSwish):
        register(entry)
    yield
    for entry in (CELUOperator, ConvHardSwish):
        unregister(entry)


# An operator from outside: one file, one line


def test_an_operator_of_ones_own(rng):
    """Read, folded, run on kernels and PyTorch, written, in place, compared step by step: from one entry."""
    nodes = Nodes(rng)
    model = nodes.model(nodes("Celu", nodes("Celu", nodes.same("x", 3), alpha=0.2)))
    x = rng.standard_normal((2, 3, 9, 8), dtype=np.float32)
    want = run_onnxruntime(model, x)
    for layout in cuda.LAYOUTS:
        net = Network(model, layout=layout)
        assert relative_error(net(x), want) <= TOLERANCE
        plan = net.plan(x.shape)
        assert plan.told[1:] == ["celu", "celu"] and "CELU(0.2)" in str(net)
        assert list(plan.shares) == [plan.steps[1].output, plan.steps[2].output]  # written where it is read
    assert relative_error(Network(model, "torch")(x), want) <= TOLERANCE
    assert first_drift(compare_steps(model, x=x)) is None
    graph, parameters = topology.read_onnx_with_parameters(model)
    assert [type(layer).__name__ for layer in graph] == ["Conv2d", "CELU", "CELU"]
    again = topology.read_onnx(topology.write_onnx(graph, parameters))
    assert [layer.alpha for layer in again if isinstance(layer, CELU)] == [0.2, 1.0]


def test_a_backend_without_the_operator_refuses_it():
    graph = layers((1, 3, 9, 8), (CELU, {}))
    from common.network.cudnn import CudnnBackend

    with pytest.raises(topology.UnsupportedModel, match="'cudnn' runs no CELU; backends 'torch'"):
        CudnnBackend.check(object.__new__(CudnnBackend), graph)
    assert CELU in layers_on("kernels") and CELU not in layers_on("cudnn")


def test_what_cannot_be_registered():
    class Other(Operator):
        layer = CELU

    class Nameless(Fusion):
        pattern = (Part("add", kinds.ResidualAdd),)

    class Mine(kinds.ReLU):
        pass

    class ReadsRelu(Operator):
        layer = Mine
        onnx = {"Relu": lambda state, node: None}  # noqa: RUF012

    with pytest.raises(TypeError, match="must be a class made from Operator or Fusion, got <class 'int'>"):
        register(int)
    with pytest.raises(ValueError, match="Other: 'CELU' is registered by CELUOperator already"):
        register(Other)
    with pytest.raises(TypeError, match="Nameless must have name, got none"):
        register(Nameless)
    with pytest.raises(ValueError, match="ReadsRelu: the ONNX operator 'Relu' is read already"):
        register(ReadsRelu)
    before = len(OPERATORS)
    assert Mine not in OPERATORS
    assert register(CELUOperator) is CELUOperator and len(OPERATORS) == before  # made anew


def test_what_is_unregistered_is_unknown():
    tables = [dict(table) for table in (OPERATORS, FUSIONS, operators.TRANSLATE, writer.WRITE)]
    for entry in (CELUOperator, ConvHardSwish):
        unregister(entry)
        with pytest.raises(KeyError, match=f"{entry.__name__} is not registered"):
            unregister(entry)
    assert CELU not in OPERATORS and CELU not in writer.WRITE and "Celu" not in operators.TRANSLATE
    assert ConvHardSwish.name not in FUSIONS
    for entry in (CELUOperator, ConvHardSwish):
        register(entry)
    now = (OPERATORS, FUSIONS, operators.TRANSLATE, writer.WRITE)
    assert [list(table) for table in now] == [list(table) for table in tables]


def test_every_layer_of_the_topology_is_registered():
    known = {one for name in topology.__all__ if isinstance(one := getattr(topology, name), type)}
    known = {one for one in known if issubclass(one, kinds.Layer)} - {kinds.Layer}
    assert known <= set(OPERATORS) and known <= set(layers_on("torch"))
    assert known - set(layers_on("kernels")) == {kinds.Quantize, kinds.Dequantize}  # common.quantize runs these


# A fusion from outside: conv + hard-swish in one kernel

SOURCE = """extern "C" __global__ void conv_hard_swish(
    const float* x, const float* weight, const float* bias, float* out,
    int N, int C, int H, int W, int O, int K, int pad) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int OH = H + 2 * pad - K + 1, OW = W + 2 * pad - K + 1;
    if (i >= N * O * OH * OW) return;
    int column = i % OW, row = i / OW % OH, o = i / OW / OH % O, n = i / OW / OH / O;
    float sum = bias[o];
    for (int c = 0; c < C; ++c)
        for (int a = 0; a < K; ++a)
            for (int b = 0; b < K; ++b) {
                int y = row + a - pad, z = column + b - pad;
                if (y >= 0 && y < H && z >= 0 && z < W)
                    sum += x[((n * C + c) * H + y) * W + z] * weight[((o * C + c) * K + a) * K + b];
            }
    out[i] = sum * fminf(fmaxf(sum / 6 + 0.5f, 0.0f), 1.0f);
}"""


class ConvHardSwish(Fusion):
    """A dense convolution of stride 1 and its hard-swish, NCHW, float32."""

    name = "conv-hard-swish"
    pattern = (
        Part("convolution", kinds.Conv2d, lambda layer: layer.groups == 1 and layer.bias is not None),
        Part("hard-swish", kinds.HardSwish),
    )
    kernel = cuda.RawKernel(SOURCE, "conv_hard_swish")

    def condition(self, match):
        layer = match["convolution"]
        if match.target is not None and (match.target.layout, match.target.dtype) != ("NCHW", "fp32"):
            return f"needs fp32 in NCHW, got {match.target.dtype} in {match.target.layout}"
        if layer.stride != (1, 1) or layer.dilation != (1, 1) or len({*layer.padding[0], *layer.padding[1]}) != 1:
            return "needs stride and dilation 1, and the same padding on every side"
        return layer.kernel_size[0] == layer.kernel_size[1] or "needs a square kernel"

    def kernels(self, run, step, arrays):
        conv = step.parts["convolution"]
        n, c, h, w = arrays.x.shape
        sizes = (n, c, h, w, conv.out_channels, conv.kernel_size[0], conv.padding[0][0])
        blocks = -(-arrays.out.size // 128)
        args = (arrays.x, *run.weights(conv), arrays.out, *sizes)
        return run.launch("conv_hard_swish", self.kernel, (blocks,), (128,), args)


@pytest.fixture
def swishing(rng):
    """Two convolutions with a hard-swish, one that strides, one whose sum is read twice."""
    nodes = Nodes(rng, opset=14)
    x = nodes("HardSwish", nodes.conv("x", 3, 6, pads=[1, 1, 1, 1]))
    x = nodes("HardSwish", nodes.conv(x, 6, 5, k=1))
    x = nodes("HardSwish", nodes.conv(x, 5, 4, strides=[2, 2]))
    twice = nodes.conv(x, 4, 4, k=1)
    return nodes.model(nodes("Mul", nodes("HardSwish", twice), twice), ("n", 3, 11, 9))


def test_a_fusion_of_ones_own(rng, swishing):
    x = rng.standard_normal((2, 3, 11, 9), dtype=np.float32)
    want, own = run_onnxruntime(swishing, x), ["conv-hard-swish", *DEFAULT]
    net = Network(swishing, Kernels(layout="NCHW"), passes=own)
    assert relative_error(net(x), want) <= 1e-5
    plan = net.plan(x.shape)
    assert [told == "conv_hard_swish" for told in plan.told].count(True) == 2 and len(plan.steps) == 7
    assert plan.steps[0].title == "Conv2d(3, 6, 3, 1, 1, 1) + HardSwish"
    rows = compare_steps(swishing, x=x, layout="NCHW", passes=own)
    assert first_drift(rows) is None and rows[0].allowed == 1e-6 * np.sqrt(27 + 1)
    captured = net.capture(2, (11, 9))
    captured.input[...] = cuda.asarray(x)
    captured.launch()
    assert relative_error(cuda.asnumpy(captured.output), want) <= 1e-5


def test_a_fusion_saves_what_lies_between(swishing):
    apart, fused = (Network(swishing, layout="NCHW", passes=by) for by in (None, [ConvHardSwish, "epilogue"]))
    saved = 2 * 4 * (6 * 11 * 9 + 5 * 11 * 9)  # the convolutions' outputs, written and read
    assert apart.plan().bytes - fused.plan().bytes == saved
    step = fused.plan().steps[0]
    assert cost(step, 4) == (4 * (3 * 11 * 9 + 6 * 11 * 9 + 6 * 27 + 6), 2 * 6 * 27 * 11 * 9)
    assert apart.plan().macs == fused.plan().macs


def test_a_tensor_that_is_read_twice_is_moved_once():
    graph = layers((1, 3, 5, 4), (kinds.Sigmoid, {}), (kinds.ResidualAdd, {"inputs": ("t0", "t0")}))
    assert [cost(step, 4) for step in fuse(graph)] == [(4 * 2 * 60, 0)] * 2


def test_why_a_fusion_was_refused(swishing):
    text = Network(swishing, layout="NCHW", passes=["conv-hard-swish"]).explain()
    assert text.splitlines()[:2] == ["9 layers", "conv-hard-swish: 7 layers"]
    assert "refused 1 times, first /conv4 + /hardswish5: needs stride and dilation 1" in text
    text = Network(swishing, layout="NHWC", passes=["conv-hard-swish"]).explain()
    assert "refused 3 times" in text and "needs fp32 in NCHW, got fp32 in NHWC" in text


def test_a_fusion_runs_where_it_says_and_nowhere_else(swishing, monkeypatch):
    monkeypatch.setattr("common.cudnn.library.require", lambda: None)  # it refuses the layer before it needs a GPU
    from common.network.cudnn import CudnnBackend

    graph = topology.read_onnx(swishing)
    made = passes.rewrite(graph, (ConvHardSwish(),))
    with pytest.raises(topology.UnsupportedModel, match=r"'cudnn' runs no fusion 'conv-hard-swish'"):
        CudnnBackend.check(
            object.__new__(CudnnBackend),
            dataclasses.replace(made, layers=made.layers[:1], output=made.layers[0].output),
        )


# Passes


def test_the_graph_after_each_pass(swishing):
    net = Network(swishing, optimize="latency", passes=["epilogue", InvertedResidual(lambda *_: None)])
    found = dict(net.stages())
    assert list(found) == ["read", "fold batch-norm", "epilogue", "inverted-residual"]
    for graph in found.values():
        assert graph.output_shape == net.graph.output_shape and graph.macs == net.graph.macs
        assert str(graph).count("\n") == len(graph) + 5
    digits = list(Network(weights.model("digits"), optimize="latency").stages((1, 3, 96, 96)))
    made = ["epilogue", "inverted-residual", "persistent-pool", "pointwise-pool", "few-rows"]
    assert [name for name, _ in digits[2:]] == made
    sizes = [len(graph) for _, graph in digits]
    assert sizes == sorted(sizes, reverse=True) and sizes[1:3] == [99, 54] and digits[0][1].input_shape[2:] == (96, 96)


def test_a_pass_is_any_function_of_a_graph(rng):
    """Here one that takes out what a ReLU does to a ReLU's result."""

    def no_second_relu(graph):
        made, same = [], {}
        for layer in graph:
            inputs = tuple(same.get(name, name) for name in layer.inputs)
            before = next((one for one in made if one.output == inputs[0]), None)
            if isinstance(layer, kinds.ReLU) and isinstance(before, kinds.ReLU) and layer.output != graph.output:
                same[layer.output] = before.output
            else:
                made.append(dataclasses.replace(layer, inputs=inputs))
        return dataclasses.replace(graph, layers=tuple(made))

    graph = layers((1, 3, 5, 4), (kinds.Sigmoid, {}), (kinds.ReLU, {}), (kinds.ReLU, {}), (kinds.HardSwish, {}))
    model = topology.write_onnx(graph, random_parameters(rng, graph))
    net = Network(model, passes=[no_second_relu, *DEFAULT])
    x = rng.standard_normal((1, 3, 5, 4), dtype=np.float32)
    assert relative_error(net(x), run_onnxruntime(model, x)) <= TOLERANCE
    assert [name for name, _ in net.stages()][2:] == ["no_second_relu", "epilogue"] and len(net.plan().steps) == 3
    assert "no_second_relu: 3 layers" in net.explain()


def test_no_passes_run_layer_by_layer(rng, swishing):
    digits = weights.model("digits")
    x = rng.standard_normal((1, 3, 48, 48), dtype=np.float32)
    net = Network(digits, passes=[])
    assert len(net.plan().steps) == 99
    assert relative_error(net(x), Network(digits)(x)) <= TOLERANCE


def spoiled(**changes):
    def other(graph):
        return dataclasses.replace(graph, **changes)

    return other


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (["conv-swish"], ValueError, "passes: a fusion must be one of epilogue, .* got 'conv-swish'"),
        ([3], TypeError, "passes: must be functions, fusions or their names, got 3"),
        ("epilogue", TypeError, "passes must be a list of passes, got 'epilogue'"),
        ([lambda graph: None], TypeError, "pass '<lambda>' must give a Graph, got NoneType"),
        ([spoiled(output="t0")], ValueError, "pass 'other' must keep the output t1, got t0"),
        (
            [spoiled(layers=(kinds.Conv2d(
                name="c", inputs=("input",), output="t1", input_shapes=((1, 3, 5, 4),), in_channels=3, out_channels=3,
                kernel_size=(1, 1), weight="mine"),))],
            ValueError, "pass 'other' must use the graph's own parameters, got 'mine'",
        ),
    ],
    ids=["name", "kind", "string", "nothing", "output", "parameters"],
)  # fmt: skip
def test_passes_that_cannot_be(given, error, message):
    model = topology.write_onnx(layers((1, 3, 5, 4), (kinds.ReLU, {}), (kinds.Sigmoid, {})), {})
    with pytest.raises(error, match=message):
        Network(model, passes=given).plan()


# The matcher


class Chain(Fusion):
    """A convolution, what there is of a Sigmoid and a ReLU, and a pool."""

    name = "chain"
    pattern = (
        Part("convolution", kinds.Conv2d),
        Part("sigmoid", kinds.Sigmoid, optional=True),
        Part("relu", kinds.ReLU, optional=True, many=True),
        Part("pool", kinds.GlobalAveragePool),
    )


CONV = {"in_channels": 3, "out_channels": 3, "kernel_size": (1, 1), "weight": "w"}
CASES = {
    "all": ([(kinds.Sigmoid, {}), (kinds.ReLU, {}), (kinds.GlobalAveragePool, {})], 1),
    "many": ([(kinds.ReLU, {}), (kinds.ReLU, {}), (kinds.ReLU, {}), (kinds.GlobalAveragePool, {})], 1),
    "none-optional": ([(kinds.GlobalAveragePool, {})], 1),
    "other-order": ([(kinds.ReLU, {}), (kinds.Sigmoid, {}), (kinds.GlobalAveragePool, {})], 4),
    "no-pool": ([(kinds.Sigmoid, {})], 2),
    "read-twice": ([(kinds.GlobalAveragePool, {}), (kinds.Mul, {"inputs": ("t0", "t1")})], 3),
    "twice-by-one": ([(kinds.ResidualAdd, {"inputs": ("t0", "t0")}), (kinds.GlobalAveragePool, {})], 3),
}


@pytest.mark.parametrize(("rest", "count"), CASES.values(), ids=CASES)
def test_patterns(rest, count):
    graph = layers((1, 3, 5, 4), (kinds.Conv2d, dict(CONV)), *[(kind, dict(fields)) for kind, fields in rest])
    made = passes.rewrite(graph, (Chain(),))
    assert len(made) == count and made.macs == graph.macs and made.output_shape == graph.output_shape
    if count == 1:
        (step,) = made
        assert isinstance(step, Step) and step.inputs == ("input",) and len(step.layers) == len(graph)
        assert {"convolution", "pool"} <= set(step.parts)


def test_what_the_caller_reads_is_written():
    graph = layers((1, 3, 5, 4), (kinds.Conv2d, dict(CONV)), (kinds.GlobalAveragePool, {}))
    assert len(passes.rewrite(dataclasses.replace(graph, output="t0"), (Chain(),))) == 2


class ConvAdd(Fusion):
    """A 1×1 convolution and an addition, when both operands are there."""

    name = "conv-add"
    pattern = (Part("convolution", kinds.Conv2d), Part("add", kinds.ResidualAdd))

    def kernels(self, run, step, arrays):
        weights = run.weights(step.parts["convolution"])
        return run.run("pointwise", arrays.x, *weights, residual=arrays.inputs[1], out=arrays.out)


def test_a_step_stands_where_all_that_it_reads_is_written(rng):
    """conv a, sigmoid b, add a b: a fusion that waits takes it, the epilogue, which does not, cannot."""
    graph = layers(
        (1, 3, 5, 4), (kinds.Conv2d, dict(CONV)), (kinds.Sigmoid, {"inputs": ("input",)}),
        (kinds.ResidualAdd, {"inputs": ("t0", "t1")}),
    )  # fmt: skip
    assert len(fuse(graph)) == 3
    made = passes.rewrite(graph, (ConvAdd(),))
    assert [layer.output for layer in made] == ["t1", "t2"]
    model = topology.write_onnx(graph, random_parameters(rng, graph))
    x = rng.standard_normal((1, 3, 5, 4), dtype=np.float32)
    assert relative_error(Network(model, passes=[ConvAdd])(x), run_onnxruntime(model, x)) <= TOLERANCE


def test_a_fusion_may_give_a_layer(rng):
    """max(max(x, 0), …) is one ReLU: a rewriting that needs no kernel."""

    class OneRelu(Fusion):
        name = "one-relu"
        pattern = (Part("relu", kinds.ReLU), Part("more", kinds.ReLU, many=True))

        def build(self, match):
            return dataclasses.replace(match.nodes[0], output=match.nodes[-1].output)

    graph = layers((1, 3, 5, 4), (kinds.Sigmoid, {}), *[(kinds.ReLU, {}) for _ in range(3)], (kinds.Sigmoid, {}))
    made = passes.rewrite(graph, (OneRelu(),))
    assert [type(layer) for layer in made] == [kinds.Sigmoid, kinds.ReLU, kinds.Sigmoid]
    model = topology.write_onnx(graph, {})
    x = rng.standard_normal((1, 3, 5, 4), dtype=np.float32)
    assert relative_error(Network(model, passes=[OneRelu])(x), run_onnxruntime(model, x)) <= TOLERANCE


def test_what_a_step_writes_is_there_when_the_step_has_run():
    """conv c, conv a, relu c r, add a r: the ReLU has joined the first convolution, so its result is there for a."""
    graph = layers(
        (1, 3, 5, 4), (kinds.Conv2d, dict(CONV)), (kinds.Conv2d, dict(CONV) | {"inputs": ("input",)}),
        (kinds.ReLU, {"inputs": ("t0",)}), (kinds.ResidualAdd, {"inputs": ("t1", "t2")}),
    )  # fmt: skip
    first, second = fuse(graph)
    assert [layer.name for layer in first.layers] == ["layer0", "layer2"] and second.residual == "t2"


def test_a_layer_is_part_of_one_step_at_most(rng):
    """conv a, conv b, add a b: both might take the addition."""
    graph = layers(
        (1, 3, 5, 4), (kinds.Conv2d, dict(CONV)), (kinds.Conv2d, dict(CONV) | {"inputs": ("input",), "weight": "v"}),
        (kinds.ResidualAdd, {"inputs": ("t0", "t1")}),
    )  # fmt: skip
    made = passes.rewrite(graph, (ConvAdd(),))
    assert [layer.name for layer in made] == ["layer1", "layer0"] and made.layers[1].inputs == ("input", "t1")
    model = topology.write_onnx(graph, random_parameters(rng, graph))
    x = rng.standard_normal((1, 3, 5, 4), dtype=np.float32)
    assert relative_error(Network(model, passes=[ConvAdd])(x), run_onnxruntime(model, x)) <= TOLERANCE


def test_the_first_fusion_that_is_not_refused():
    class Never(Chain):
        def condition(self, match):
            return "never"

    class Nothing(Chain):
        def build(self, match):
            return "no step"

    graph = layers((1, 3, 5, 4), (kinds.Conv2d, dict(CONV)), (kinds.GlobalAveragePool, {}))
    refusals = []
    (step,) = passes.rewrite(graph, (Never(), Nothing(), Chain()), refusals=refusals)
    assert type(step.fusion) is Chain
    assert [(one.layers, one.reason) for one in refusals] == [
        (("layer0", "layer1"), "never"),
        (("layer0", "layer1"), "no step"),
    ]


@seldom(6)
def test_the_time_of_a_pass_grows_with_the_number_of_layers():
    """8,000 residual blocks: twice as many layers take about twice as long, not four times."""

    def seconds(count):
        shapes, made, x = ((1, 4, 4, 4),), [], "x"
        for i in range(count):
            fields = {"in_channels": 4, "out_channels": 4, "kernel_size": (1, 1), "weight": "w"}
            made.append(kinds.Conv2d(name=f"c{i}", inputs=(x,), output=f"c{i}", input_shapes=shapes, **fields))
            made.append(kinds.ResidualAdd(name=f"a{i}", inputs=(x, f"c{i}"), output=f"a{i}", input_shapes=2 * shapes))
            x = f"a{i}"
        graph = topology.Graph(name="long", input="x", input_shape=shapes[0], layers=tuple(made), output=x)
        start = time.process_time()
        assert len(fuse(graph)) == count and str(graph)
        return time.process_time() - start

    assert seconds(8000) < 8 * seconds(2000) + 1  # four times if it is linear, sixteen if it is quadratic


@pytest.mark.parametrize("name", FUSIONS)
def test_every_fusion_has_a_pattern_and_says_what_it_is(name):
    entry = FUSIONS[name]
    assert entry.name == name and entry.pattern and type(entry).__doc__
    ways = ("call", "integer_kernels")  # of quantized layers, where common.quantize is imported
    assert entry.runs_on("kernels") or any(callable(getattr(entry, way, None)) for way in ways)


# Backends as objects


@seldom(6)
def test_backends_as_objects(rng):
    digits = weights.model("digits")
    x = rng.standard_normal((2, 3, 48, 48), dtype=np.float32)
    for backend, short in (
        (Kernels(dtype="fp16", layout="NHWC"), {"dtype": "fp16", "layout": "NHWC"}),
        (Kernels(optimize="throughput"), {"optimize": "throughput"}),
        (Torch(), {"backend": "torch"}),
        (OnnxRuntime(), {"backend": "onnxruntime"}),
    ):
        one, other = Network(digits, backend), Network(digits, **short)
        assert repr(one) == repr(other) and one.target == other.target == backend
        assert one.backend == backend.name
        np.testing.assert_array_equal(one(x), other(x))
    assert relative_error(Network.from_onnx(digits, Kernels("fp16"))(x), Network(digits)(x)) <= TOLERANCES["fp16"]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda m: Kernels(dtype="fp64"), ValueError, "dtype must be one of fp32, fp16, got 'fp64'"),
        (lambda m: Kernels(layout="CHWN"), ValueError, "layout must be one of NCHW, NHWC, got 'CHWN'"),
        (lambda m: Kernels(optimize="fast"), ValueError, "optimize must be one of latency, throughput or None"),
        (lambda m: Kernels(variants={"add": "fast"}), ValueError, "variants: 'add' must be one of"),
        (lambda m: Kernels(operators={"add": 3}), TypeError, "operators: 'add' must be a function, got int"),
        (lambda m: Cudnn(arithmetic="fp16"), ValueError, "arithmetic of backend 'cudnn' with dtype 'fp32' must be"),
        (lambda m: Network(m, Kernels(), dtype="fp16"), TypeError, r"dtype: must be given to Kernels\(…\)"),
        (lambda m: Network(m, 3), TypeError, r"backend must be one of kernels, .* or an object such as Kernels\(\)"),
        (lambda m: Network(m, Kernels), TypeError, r"an object such as Kernels\(\), got <class"),
        (lambda m: Network(m, speed=3), TypeError, "speed is no option of a Network: they are dtype, layout"),
        (lambda m: Network(m, "torch", passes=[]), ValueError, "passes: backend 'torch' has no choice of it"),
        (lambda m: Network(m, OnnxRuntime()).stages(), ValueError, "backend 'onnxruntime' has no passes"),
    ],
    ids=lambda value: "",
)  # fmt: skip
def test_what_backends_cannot_do(make, error, message):
    model = topology.write_onnx(layers((1, 3, 5, 4), (kinds.ReLU, {})), {})
    with pytest.raises(error, match=message):
        make(model)


def test_a_backend_of_ones_own(rng):
    """Whatever makes a runner of a model."""

    class Zeros:
        name, dtype, layout, arithmetic = "zeros", "fp32", "NCHW", "fp32"

        def runner(self, model, pipeline):
            return lambda x: np.zeros(x.shape, np.float32)

    model = topology.write_onnx(layers((1, 3, 5, 4), (kinds.ReLU, {})), {})
    net = Network(model, Zeros())
    assert net.backend == "zeros" and not net(rng.standard_normal((2, 3, 5, 4))).any()


def test_arrays_name_their_first_input():
    assert Arrays([1, 2], None, 3).x == 1
