"""Network(optimize=...): steps that become one, the compositions, and that results are those of separate kernels."""

import math

import numpy as np
import pytest
import zoo
from hypothesis import given, settings
from hypothesis import strategies as st
from network_models import Nodes, run_onnxruntime
from tiers import ALL, in_turn, seldom

from common import cuda, topology, weights
from common.network import Network, passes
from common.network import kernels as backend
from common.network.compare import TOLERANCES, compare, compare_steps, relative_error
from common.network.steps import fuse
from common.optimize import compositions, features, generate
from common.optimize.compositions import Composition, always
from common.optimize.fusions import BlockStep, InvertedResidual, PointwisePool, PoolStep, WholeNetwork, block_of
from common.optimize.generate import Block, Geometry, Tile

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="fused blocks need a card of sm_80")

ANY = Tile(1, 1)  # stands for a choice that is not computed
PERSISTENT = Composition("persistent", fuse=always, persistent=True)


@pytest.fixture(autouse=True)
def every_block_is_worth_it(monkeypatch):
    """Without a search a rule says what is; here all that can be fused is, so that it is tested."""
    from common.optimize import cost

    monkeypatch.setattr(cost, "worth_it", lambda *_: True)


@pytest.fixture(scope="module")
def digits():
    return weights.model("digits")


def graph_of(model, shape=None):
    return weights.fold_batch_norm(*topology.read_onnx_with_parameters(model, shape))[0]


def merged(graph, choose=lambda *_: ANY):
    return fuse(graph, InvertedResidual(choose))


def blocks_in(steps):
    return [step.block for step in steps if isinstance(step, BlockStep)]


# Steps that become one


def test_mobilenetv2_is_seventeen_blocks():
    graph = graph_of(weights.model("seeded"))
    steps = merged(graph)
    found = blocks_in(steps)
    assert len(found) == 17 and len(steps) == 20
    assert found[0] == Block(112, 112, 3, 32, 16, 1, "stem", (224, 224), ((0.0, 6.0), (0.0, 6.0), found[0].bounds[2]))
    assert found[2] == Block(56, 56, 24, 144, 24, residual=True)
    assert [block.stride for block in found].count(2) == 4
    assert sum(block.residual for block in found) == 10
    assert sum(step.macs for step in steps) == graph.macs == 300_774_272
    assert sum(step.parameter_bytes(4) for step in steps) == 4 * graph.params
    assert len(fuse(graph, InvertedResidual(lambda *_: ANY), PointwisePool())) == 19


def test_what_a_block_moves_is_its_input_and_its_output():
    step = merged(graph_of(weights.model("seeded")))[2]
    assert step.activation_bytes(2) == 2 * 2 * 24 * 56 * 56  # the residual is its input: read once
    assert step.layer is step.layers[0] and step.layer.out_channels == 144
    assert step.title == "InvertedResidual(56×56 24>144>24 +residual)"
    assert step.parameter_bytes(4) == 4 * (24 * 144 + 144 + 9 * 144 + 144 + 144 * 24 + 24)
    assert step.block.macs == step.macs
    assert step.output_shape == (1, 24, 56, 56) and step.reads == (step.inputs[0],)


def test_where_a_block_is_not_chosen_its_last_two_layers_may_be():
    asked = []

    def choose(block, *_):
        asked.append(block)
        return ANY if block.expand == "none" else None

    steps = merged(graph_of(weights.model("seeded")), choose)
    assert [block.expand for block in blocks_in(steps)] == ["none"] * 17 and len(asked) == 34
    assert len(steps) == 37
    assert blocks_in(merged(graph_of(weights.model("seeded")), lambda *_: None)) == []


FAMILIES = {  # how many blocks there are of each kind of expansion
    "mobilenet-v1": {"stem": 1, "none": 12},
    "mobilenet-v2": {"none": 1, "pointwise": 16},  # so narrow, its first block has a residual: the stem is read twice
    "mobilenet-v3-large": {"none": 1, "pointwise": 2},  # the others have a hard-swish, squeeze-and-excite or 5×5 taps
    "resnet-20": {},
    "resnet-50": {},
}


@seldom(6)
@pytest.mark.parametrize("name", FAMILIES if ALL else ["mobilenet-v2", "mobilenet-v3-large"])
def test_families(name, rng):
    """What is fused, and that the results are those of ONNX Runtime: in both precisions and compositions."""
    model = zoo.export(name, 32)
    steps = merged(graph_of(model))
    kinds = [block.expand for block in blocks_in(steps)]
    assert {kind: kinds.count(kind) for kind in kinds} == FAMILIES[name]
    x = rng.standard_normal((2, 3, 32, 32), dtype=np.float32)
    want = run_onnxruntime(model, x)
    ways = (("fp32", "latency"), ("fp16", "throughput"))
    for dtype, optimize in ways if ALL or name == "mobilenet-v2" else ways[:1]:
        net = Network(model, dtype=dtype, optimize=optimize)
        alike = relative_error(net(x), Network(model, dtype=dtype, layout="NHWC")(x))
        assert alike <= TOLERANCES[dtype]
        if dtype == "fp32":
            assert relative_error(net(x), want) <= TOLERANCES[dtype]


def chain(rng, extra=lambda net, tensors: None):
    """1×1, depthwise, 1×1 with a residual, each with its activation; `extra` may read what lies between."""
    net = Nodes(rng)
    first = net("Relu", net.conv("x", 8, 16, k=1))
    second = net("Relu", net.conv(first, 16, 16, group=16, pads=[1, 1, 1, 1]))
    last = net("Add", net.conv(second, 16, 8, k=1), "x")
    more = extra(net, (first, second, last))
    return net.model(more or last, ("n", 8, 9, 8))


READERS = {
    "nobody": (lambda net, t: None, ["pointwise"]),
    "of-hidden": (lambda net, t: net("Concat", t[2], t[0], axis=1), ["none"]),
    "of-convolved": (lambda net, t: net("Concat", t[2], t[1], axis=1), []),
    "of-the-output": (lambda net, t: net("Concat", t[2], t[2], axis=1), ["pointwise"]),
}


@pytest.mark.parametrize(("extra", "kinds"), READERS.values(), ids=READERS)
def test_what_somebody_else_reads_is_not_fused_away(rng, extra, kinds):
    model = chain(rng, extra)
    graph = graph_of(model)
    assert [block.expand for block in blocks_in(merged(graph))] == kinds
    x = rng.standard_normal((3, 8, 9, 8), dtype=np.float32)
    net = Network(model, optimize="throughput")
    assert relative_error(net(x), run_onnxruntime(model, x)) <= TOLERANCES["fp32"]


@pytest.mark.parametrize(("place", "kinds"), [("expand", ["none"]), ("depthwise", []), ("project", ["pointwise"])])
def test_only_the_last_convolution_of_a_block_may_have_a_residual(rng, place, kinds):
    net = Nodes(rng)
    others = {"project": "x", "expand": net.conv("x", 8, 16, k=1), "depthwise": net.conv("x", 8, 16, k=1)}

    def added(tensor, where):
        return net("Relu", net("Add", tensor, others[where]) if where == place else tensor)

    hidden = added(net.conv("x", 8, 16, k=1), "expand")
    convolved = added(net.conv(hidden, 16, 16, group=16, pads=[1, 1, 1, 1]), "depthwise")
    model = net.model(added(net.conv(convolved, 16, 8, k=1), "project"), ("n", 8, 9, 8))
    assert [block.expand for block in blocks_in(merged(graph_of(model)))] == kinds
    x = rng.standard_normal((2, 8, 9, 8), dtype=np.float32)
    optimized = Network(model, optimize="throughput")
    assert relative_error(optimized(x), run_onnxruntime(model, x)) <= TOLERANCES["fp32"]


SHAPES = {
    "padding-0": {"pads": [0, 0, 0, 0]},
    "stride-3": {"pads": [1, 1, 1, 1], "strides": [3, 3]},
    "strides-1-2": {"pads": [1, 1, 1, 1], "strides": [1, 2]},
    "dilation-2": {"pads": [1, 1, 1, 1], "dilations": [2, 2]},
    "5×5": {"k": 5, "pads": [1, 1, 1, 1]},
    "groups": {"pads": [1, 1, 1, 1], "group": 8},
}


@pytest.mark.parametrize("attributes", SHAPES.values(), ids=SHAPES)
def test_other_convolutions_between_are_no_block(rng, attributes):
    net = Nodes(rng)
    hidden = net.conv("x", 8, 16, k=1)
    convolved = net.conv(hidden, 16, 16, **({"group": 16} | attributes))
    model = net.model(net.conv(convolved, 16, 8, k=1), ("n", 8, 11, 10))
    assert blocks_in(merged(graph_of(model))) == []


def test_a_depthwise_convolution_that_adds_is_no_part_of_a_block(rng):
    net = Nodes(rng)
    hidden = net("Relu", net.conv("x", 8, 8, k=1))
    added = net("Add", net.conv(hidden, 8, 8, group=8, pads=[1, 1, 1, 1]), "x")
    model = net.model(net.conv(added, 8, 8, k=1), ("n", 8, 9, 8))
    assert blocks_in(merged(graph_of(model))) == []
    x = rng.standard_normal((2, 8, 9, 8), dtype=np.float32)
    assert relative_error(Network(model, optimize="latency")(x), run_onnxruntime(model, x)) <= TOLERANCES["fp32"]


def test_a_pool_is_merged_with_the_convolution_before_it_alone(rng):
    net = Nodes(rng)
    model = net.model(net("GlobalAveragePool", net("Relu", net.conv("x", 8, 24, k=1))), ("n", 8, 5, 7))
    graph = graph_of(model)
    (step,) = fuse(graph, PointwisePool())
    assert isinstance(step, PoolStep) and step.title == "Conv2d(8, 24, 1, 1, 0, 1) + ReLU + GlobalAveragePool"
    x = rng.standard_normal((3, 8, 5, 7), dtype=np.float32)
    optimized = Network(model, optimize="latency")
    assert "pointwise_pool" in str(optimized)
    assert relative_error(optimized(x), run_onnxruntime(model, x)) <= TOLERANCES["fp32"]
    kept = Network(model, optimize="latency", variants={"global_avg_pool": "naive"})
    assert len(kept.plan().steps) == 2 and "global_avg_pool has a rung or a function of its own" in kept.explain()


@settings(max_examples=8)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_random_graphs(data, seed):
    """Whoever reads what, in whatever order: the result is that of ONNX Runtime."""
    rng = np.random.default_rng(seed)
    net, known = Nodes(rng), ["x"]
    for _ in range(data.draw(st.integers(3, 10))):
        x = data.draw(st.sampled_from(known[-3:]))
        kind = data.draw(st.sampled_from(["1x1", "depthwise", "depthwise", "Relu", "Add"]))
        if kind == "1x1":
            made = net.conv(x, 8, 8, k=1)
        elif kind == "depthwise":
            made = net.conv(x, 8, 8, group=8, pads=[1, 1, 1, 1])
        elif kind == "Relu":
            made = net("Relu", x)
        else:
            made = net("Add", x, data.draw(st.sampled_from(known[-3:])))
        known.append(made)
    model = net.model(known[-1], ("n", 8, 5, 4))
    x = rng.standard_normal((2, 8, 5, 4), dtype=np.float32)
    want = run_onnxruntime(model, x)
    optimized = Network(model, optimize=Composition("all", fuse=always))
    for _ in range(2):
        assert relative_error(optimized(x), want) <= TOLERANCES["fp32"]


def test_what_is_added_is_not_hidden(rng):
    """The last convolution reads the depthwise one's output and adds it as well: it must be there."""
    net = Nodes(rng)
    spread = net.conv(net.conv("x", 8, 8, k=1), 8, 8, group=8, pads=[1, 1, 1, 1])
    model = net.model(net("Add", net.conv(spread, 8, 8, k=1), spread), ("n", 8, 5, 4))
    x = rng.standard_normal((2, 8, 5, 4), dtype=np.float32)
    optimized = Network(model, optimize=Composition("all", fuse=always))
    assert relative_error(optimized(x), run_onnxruntime(model, x)) <= TOLERANCES["fp32"]


# The compositions


@seldom(6)
@pytest.mark.parametrize(("optimize", "dtype"), in_turn(["latency", "throughput"], ["fp32", "fp16"]))
def test_the_digits_network(digits, rng, dtype, optimize):
    net, reference = Network(digits, dtype=dtype, optimize=optimize), Network(digits, "onnxruntime")
    assert net.layout == "NHWC"
    for batch in (1, 3):
        x = rng.standard_normal((batch, 3, 48, 48), dtype=np.float32)
        for _ in range(2):
            assert relative_error(net(x), reference(x)) <= TOLERANCES[dtype]


@seldom(6)
def test_a_persistent_network_is_one_launch(digits, rng):
    net = Network(digits, optimize=PERSISTENT)
    program = net.program((1, 3, 48, 48))
    assert program.single_launch is not None
    x = rng.standard_normal((1, 3, 48, 48), dtype=np.float32)
    program.input[...] = cuda.asarray(x)
    want = Network(digits, "onnxruntime")(x)
    for launch in (program.launch, lambda: [program.launch_step(i) for i in range(len(program.steps))]):
        program.output.fill(np.nan)
        launch()
        assert relative_error(cuda.asnumpy(program.output), want) <= TOLERANCES["fp32"]


def test_what_is_no_chain_of_blocks_is_launched_step_by_step(rng):
    *_, (_, graph) = Network(chain(rng, lambda net, t: net("Sigmoid", t[2])), optimize=PERSISTENT).stages()
    (match,) = passes.matches(graph, WholeNetwork())
    assert WholeNetwork().condition(match) == "1 of 2 steps are a chain of blocks, a head and linear layers"
    model = chain(rng, READERS["of-hidden"][0])
    program = Network(model, optimize=PERSISTENT).program((1, 8, 9, 8))
    assert program.single_launch is None


@pytest.mark.parametrize("optimize", ["latency", PERSISTENT], ids=["latency", "persistent"])
def test_a_plan_launches_and_compiles_nothing(digits, monkeypatch, optimize):
    monkeypatch.setattr(cuda, "RawKernel", lambda *_, **__: pytest.fail("a kernel was compiled"))
    assert len(Network(digits, optimize=optimize).plan((3, 3, 96, 64)).told) == 19


def test_print_says_what_is_fused(digits):
    net = Network(digits, optimize="latency")
    text = str(net)
    assert text.splitlines()[0].endswith("NHWC, input 1 × 3 × 48 × 48, optimized: latency")
    assert text.count("inverted_residual/") == 17
    assert "InvertedResidual(stem, 24×24 3>16>8)" in text
    assert "optimize='latency'" in repr(net) and net.optimize == "latency"
    assert "optimize" not in repr(Network(digits))


def test_a_stem_multiplies_by_halves_without_a_bound(digits, monkeypatch):
    """Where its weights are alike: a row that one scale for all leaves without bits is multiplied by TF32 numbers."""
    made = {}
    source = generate.source
    monkeypatch.setattr(generate, "source", lambda *args: made.update({str(args[0]): args[1]}) or source(*args))
    for alike, arithmetic in ((lambda weight: True, "halves"), (lambda weight: len(weight) != 16, "tf32x3")):
        made.clear()
        with monkeypatch.context() as patch:
            patch.setattr(backend, "_are_alike", alike)
            Network(digits, optimize="latency").plan()
        assert made["stem, 24×24 3>16>8"].arithmetic == arithmetic
    weight = np.ones((4, 3, 3, 3), np.float32)
    weight[1], weight[2] = 2.0**-15, 0
    assert backend._are_alike(weight)
    for value in (2.0**-16, np.nan, np.inf, 2.0**61):
        weight[1] = value
        assert not backend._are_alike(weight)


@seldom(6)
def test_a_choice_of_ones_own(digits, rng):
    """Which blocks are fused is a function of the block, the batch and the dtype."""
    asked = set()

    def choose(block, batch, dtype):
        asked.add((batch, dtype))
        return always(block, batch, dtype) if block.residual else None

    net = Network(digits, dtype="fp16", optimize=Composition("mine", fuse=choose, head=False))
    plan = net.plan((2, 3, 48, 48))
    assert sum("inverted_residual" in told for told in plan.told) == 10
    assert asked == {(2, "float16")} and plan.composition == "mine"
    assert not any("pointwise_pool" in told or "few_rows" in told for told in plan.told)
    x = rng.standard_normal((2, 3, 48, 48), dtype=np.float32)
    assert relative_error(net(x), Network(digits, "onnxruntime")(x)) <= TOLERANCES["fp16"]


def of_warpgroups(block, batch, dtype):
    """A tile with warpgroups for a block that has a pointwise expand; else none."""
    tile = Tile(block.out_size[0], block.out_size[1], images=2, warps=8, warpgroups=2, strip=2)
    return tile if Geometry(block, tile, 2).problem(cuda.shared_memory()) is None else None


def of_single_warps(block, batch, dtype):
    """A tile of single warps for a block that can have one; else none."""
    tile = Tile(2, 14, slice=16, strip=2, vector=0, stages=1, warps=2, pixel_warps=2, alone=True)
    return tile if Geometry(block, tile, 2).problem(cuda.shared_memory()) is None else None


@seldom(6)
@pytest.mark.skipif(cuda.backend() == "gpu" and cuda.compute_capability() != 90, reason="wgmma needs a card of sm_90")
@pytest.mark.parametrize("choose", [of_warpgroups, of_single_warps])
def test_blocks_of_other_kinds(rng, choose):
    """Tensor maps hold addresses: of buffers, other ones for another batch or in another context. Of single warps the
    network puts the weights in order when it records the launch, for each context anew."""
    net = Nodes(rng)

    def block(x, channels, outputs, **attributes):
        hidden = net("Relu", net.conv(x, channels, 64, k=1))
        convolved = net("Relu", net.conv(hidden, 64, 64, group=64, pads=[1, 1, 1, 1], **attributes))
        return net.conv(convolved, 64, outputs, k=1)

    first = net("Add", block("x", 16, 16), "x")
    second = block(net("Add", block(first, 16, 16), first), 16, 32, strides=[2, 2])
    model = net.model(net("Add", block(second, 32, 32), second), ("n", 16, 7, 6))
    optimized = Network(model, dtype="fp16", optimize=Composition("mine", fuse=choose, head=False))
    kinds = [(step.tile.warpgroups, step.tile.alone) for step in optimized.plan((3, 16, 7, 6)).steps]
    assert kinds == [(0, True) if choose is of_single_warps else (2, False)] * 4
    inputs = [rng.standard_normal((n, 16, 7, 6), dtype=np.float32) for n in (3, 3, 2, 5, 3)]
    for x in inputs:
        assert relative_error(optimized(x), run_onnxruntime(model, x)) <= TOLERANCES["fp16"]
    captured = [of.capture(3) for of in (optimized, optimized.context())]
    pairs = list(zip(inputs, captured, strict=False))
    for x, one in pairs:
        one.input[...] = cuda.asarray(x, one.input.dtype)
    for x, one in pairs:
        one.launch()
        assert relative_error(cuda.asnumpy(one.output), run_onnxruntime(model, x)) <= TOLERANCES["fp16"]


@seldom(6)
@pytest.mark.parametrize("choose", [of_warpgroups, of_single_warps])
def test_a_block_that_adds_another_tensor_is_not_of_other_kinds(rng, choose):
    net = Nodes(rng)
    other = net("Relu", net.conv("x", 16, 16, k=1))
    first = net("Relu", net.conv("x", 16, 16, k=1))
    hidden = net("Relu", net.conv(first, 16, 64, k=1))
    convolved = net("Relu", net.conv(hidden, 64, 64, group=64, pads=[1, 1, 1, 1]))
    model = net.model(net("Add", net.conv(convolved, 64, 16, k=1), other), ("n", 16, 7, 6))
    optimized = Network(model, dtype="fp16", optimize=Composition("mine", fuse=choose, head=False))
    assert "they add no residual but the block's input" in optimized.explain()
    x = rng.standard_normal((2, 16, 7, 6), dtype=np.float32)
    assert relative_error(optimized(x), run_onnxruntime(model, x)) <= TOLERANCES["fp16"]


def test_operators_of_ones_own_stay_out_of_blocks(digits):
    def told(**options):
        return " ".join(Network(digits, optimize="throughput", **options).plan().told)

    assert "inverted_residual" not in told(variants={"depthwise": "naive"})
    assert told(variants={"conv2d": "naive"}).count("inverted_residual") == 17  # the stem alone is left out
    assert "conv2d/naive" in told(variants={"conv2d": "naive"})
    assert "pointwise_pool" not in told(operators={"global_avg_pool": lambda x, out: None})
    assert "few_rows" not in told(variants={"gemm": "naive"})


def test_a_card_without_it_runs_separate_kernels(digits, monkeypatch, rng):
    lacking = tuple(
        features.Feature(one.name, "needs sm_80, this card, sm_75, has none", one.instead)
        for one in features.features()
    )
    monkeypatch.setattr(features, "features", lambda: lacking)
    net = Network(digits, optimize="latency")
    assert len(net.plan().steps) == 54
    x = rng.standard_normal((1, 3, 48, 48), dtype=np.float32)
    assert relative_error(net(x), Network(digits, "onnxruntime")(x)) <= TOLERANCES["fp32"]


def test_programmatic_launches_are_those_of_every_step(digits, monkeypatch):
    """As on a card that has them; the simulator makes ordinary launches of the same kernels."""
    able = tuple(features.Feature(one.name, None, one.instead) for one in features.features())
    monkeypatch.setattr(features, "features", lambda: able)
    made = []
    from common.kernels import ladder

    monkeypatch.setattr(
        ladder.Launch, "__post_init__", lambda self: (made.append(self), setattr(self, "_launch", None))
    )
    plain = compositions.Composition("plain")
    for optimize, launches, count in (("latency", True, 19), ("throughput", True, 20), (plain, False, 19)):
        made.clear()
        Network(digits, optimize=optimize).plan()
        assert len(made) == count and all(launch.programmatic is launches for launch in made)


@seldom(6)
def test_captured(digits, rng):
    captured = Network(digits, optimize="latency").capture(2)
    x = rng.standard_normal((2, 3, 48, 48), dtype=np.float32)
    captured.input[...] = cuda.asarray(x, captured.input.dtype)
    captured.launch()
    assert relative_error(cuda.asnumpy(captured.output), Network(digits, "onnxruntime")(x)) <= TOLERANCES["fp32"]


@seldom(6)
def test_profiles(digits, rng):
    net = Network(digits, optimize="throughput")
    x = rng.standard_normal((1, 3, 48, 48), dtype=np.float32)
    whole = net.profile(x, 2, progress=False)
    assert sum(row.runs_as.startswith("inverted_residual/") for row in whole.rows) == 17
    some = net.profile(x, 2, "features.3.*", progress=False)
    assert [row.where != "cpu" for row in some.rows].count(True) == 1
    # a block whose layers match is on the GPU as a whole; the others run layer by layer on PyTorch
    assert some.rows[2].runs_as == "inverted_residual/fused" and some.rows[3].runs_as == "PyTorch"


@seldom(6)
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_compared_step_by_step(digits, dtype):
    rows = compare_steps(digits, dtype=dtype, optimize="throughput")
    assert len(rows) == 20 and all(row.fits for row in rows)
    assert rows[1].allowed > 0 and (dtype == "fp16" or rows[1].allowed == 1e-6 * math.sqrt(8 + 9 + 48))


@seldom(6)
def test_compared(digits):
    rows = compare(digits, 2, 48, backends=("kernels",), batch=2, optimize="latency")
    assert all(row.within_contract for row in rows)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"optimize": "speed"}, ValueError, "optimize must be one of latency, throughput or None, got 'speed'"),
        ({"optimize": 3}, TypeError, "optimize must be a name, a Composition or None, got int"),
        ({"optimize": "latency", "layout": "NCHW"}, ValueError, "layout must be NHWC with optimize='latency'"),
        ({"optimize": "latency", "backend": "torch"}, ValueError, "optimize: backend 'torch' has no choice of it"),
        ({"optimize": "latency", "backend": "cudnn"}, ValueError, "optimize: backend 'cudnn' has no choice of it"),
    ],
    ids=["name", "type", "layout", "torch", "cudnn"],
)
def test_what_cannot_be_optimized(digits, options, error, message):
    with pytest.raises(error, match=message):
        Network(digits, **options)


def test_the_block_of_steps_says_what_they_compute(rng):
    graph = graph_of(chain(rng))
    steps = fuse(graph)
    assert block_of(steps[:3]) == Block(
        9, 8, 8, 16, 8, bounds=((0.0, math.inf), (0.0, math.inf), (-math.inf, math.inf)), residual=True
    )


@seldom(6)
def test_the_pool_of_many_images_by_the_persistent_kernel(rng, digits):
    """In fp16 only: the products of an image are averaged where they are made, and never stored."""
    pooled = Composition("pooled", head=False, pooled=True)
    x = rng.standard_normal((8, *graph_of(digits).input_shape[1:]), dtype=np.float32)
    net = Network(digits, "kernels", dtype="fp16", optimize=pooled)
    kinds = [step.fusion.name for step in net.program(x.shape).steps if getattr(step, "fusion", None)]
    assert kinds[-2:] == ["persistent-pool", "few-rows"]
    *_, pool, linear = net.runner.plan((65, *x.shape[1:])).steps  # too many
    assert pool.title == "GlobalAveragePool" and linear.title == "Linear(1280, 10)"
    assert relative_error(cuda.asnumpy(net(cuda.asarray(x))), run_onnxruntime(digits, x)) <= TOLERANCES["fp16"]
    plain = Network(digits, "kernels", dtype="fp32", optimize=pooled).program(x.shape).steps
    assert not any(isinstance(step, PoolStep) for step in plain)
