"""The plan: lifetimes, an arena, tensors that share memory, print(net), graphs, rungs and kernels of one's own."""

import itertools
import os
import threading
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_models import Nodes, layers, random_parameters, run_onnxruntime
from tiers import ALL, long, seldom

from common import cuda, cudnn, kernels, topology, weights
from common.cuda import arrays
from common.kernels import ladder, vectors
from common.network import Network
from common.network.arena import ALIGNMENT, Lifetime, aligned, place
from common.network.compare import TOLERANCE, TOLERANCES, relative_error
from common.topology import layers as kinds
from common.topology import write_onnx

needs_cudnn = pytest.mark.skipif(cudnn.missing() is not None, reason=str(cudnn.missing()))

lifetimes = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 20), st.integers(0, 8)).map(
        lambda one: (one[0], one[1], one[1] + one[2])
    ),
    min_size=1,
    max_size=25,
).map(lambda every: [Lifetime(f"t{i}", *one) for i, one in enumerate(every)])


@settings(max_examples=300)
@given(lifetimes)
def test_nothing_that_lives_at_the_same_time_lies_at_the_same_place(every):
    arena = place(every)
    for a, b in itertools.combinations(every, 2):
        if a.first <= b.last and b.first <= a.last:
            low, high = sorted((a, b), key=lambda one: arena.offsets[one.name])
            assert arena.offsets[low.name] + low.bytes <= arena.offsets[high.name]
    assert all(offset % ALIGNMENT == 0 for offset in arena.offsets.values())
    assert arena.bound <= arena.bytes <= arena.kept


def test_lives_meet_where_they_share_a_step():
    spans = [(first, last) for first in range(4) for last in range(first, 4)]
    for one, other in itertools.product(spans, repeat=2):
        shared = set(range(one[0], one[1] + 1)) & set(range(other[0], other[1] + 1))
        assert Lifetime("a", 1, *one).meets(Lifetime("b", 1, *other)) == bool(shared), (one, other)


def test_an_arena_of_a_chain_is_as_large_as_its_largest_pair():
    sizes = [1000, 5000, 300, 7000, 200]
    arena = place(Lifetime(str(i), size, i, i + 1) for i, size in enumerate(sizes))
    assert arena.bytes == arena.bound == max(aligned(a) + aligned(b) for a, b in itertools.pairwise(sizes))


def test_an_empty_arena():
    assert place([]).bytes == 0


@pytest.mark.parametrize(
    ("every", "message"),
    [
        ([Lifetime("a", 1, 0, 1), Lifetime("a", 1, 2, 3)], "several of 'a'"),
        ([Lifetime("a", 0, 0, 1)], "at least a byte"),
        ([Lifetime("a", 4, 3, 1)], "not before its beginning"),
    ],
)
def test_lives_that_cannot_be(every, message):
    with pytest.raises(ValueError, match=message):
        place(every)


@pytest.fixture(scope="module")
def seeded():
    return weights.model("seeded")


def test_mobilenetv2_takes_a_third_of_the_memory_at_most(seeded):
    for batch, dtype in ((1, "fp32"), (2, "fp16")):
        plan = Network(seeded, dtype=dtype).plan((batch, 3, 224, 224))
        assert plan.kept >= 3 * plan.arena.bytes and plan.arena.bytes == plan.arena.bound
        assert plan.macs == batch * 300_774_272
        assert all(one.last <= 54 for one in plan.lifetimes)


def test_print_shows_every_step(seeded):
    text = str(Network(seeded, layout="NCHW"))
    lines = text.splitlines()
    assert lines[0] == "mobilenetv2-1.0-224 on kernels, fp32, NCHW, input 1 × 3 × 224 × 224"
    assert len([line for line in lines if line.lstrip().split(":")[0].isdigit()]) == 54
    stem = next(line for line in lines if line.lstrip().startswith("0:"))
    for part in ("Conv2d(3, 32, 3, 2, 1, 1) + ReLU6", "conv2d/", "1 × 32 × 112 × 112", "1,605,632 at", "10,838,016"):
        assert part in stem
    assert "54 steps of 99 layers, 300.8 million multiply-accumulates, 68.86 MB moved" in text
    assert " times less than the " in text and "no placement takes less than" in text


WAYS = [
    {}, {"dtype": "fp16", "layout": "NHWC"}, {"optimize": "latency"}, {"optimize": "throughput", "dtype": "fp16"},
    {"passes": []}, {"variants": {"conv2d": "im2col_gemm"}, "layout": "NCHW"},
]  # fmt: skip


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_a_plan_allocates_launches_and_compiles_nothing(seeded, monkeypatch, options):
    """A hundred pictures would take half a gigabyte: a plan of them takes no more memory than one of a single one."""
    net = Network(seeded, **options)
    for batch in (1, 100):
        net.plan((batch, 3, 224, 224))  # which chooses tiles, and remembers them
    asked, real = [], arrays.fenced
    monkeypatch.setattr(arrays, "fenced", lambda *args: asked.append(args) or real(*args))
    monkeypatch.setattr(cuda, "RawKernel", lambda *_, **__: pytest.fail("a kernel was compiled"))
    monkeypatch.setattr(ladder.Launch, "__call__", lambda _: pytest.fail("a kernel was launched"))
    peaks = []
    for batch in (1, 100):
        tracemalloc.start()
        plan = net.plan((batch, 3, 224, 224))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert plan.macs == batch * 300_774_272 and str(plan)
    assert asked == [] and plan.arena.bytes > 80e6
    assert peaks[1] < peaks[0] + 4e6


@pytest.mark.parametrize("batch", [1, 5])
def test_a_plan_is_that_of_what_runs(seeded, batch):
    """Addresses without memory have the alignment that memory has: the same kernels, in the same places."""
    for options in ({"layout": "NCHW"}, {"layout": "NHWC", "dtype": "fp16"}):
        net = Network(seeded, **options)
        plan, run = net.plan((batch, 3, 32, 48)), net.program((batch, 3, 32, 48), arena=True).plan
        assert (str(plan), plan.arena, plan.shares) == (str(run), run.arena, run.shares)


def test_arrays_without_memory_are_those_of_one_thread_alone():
    with cuda.shapes_only():
        first, second = cuda.empty((1 << 20, 1 << 10)), cuda.zeros(3, np.float16)
        found = []
        other = threading.Thread(target=lambda: found.append(cuda.zeros(3)))
        other.start()
        other.join()
    assert first.shape == (1 << 20, 1 << 10) and first.strides == (4096, 4) and second.dtype == np.float16
    assert vectors.address(second) - vectors.address(first) == 1 << 32 and vectors.address(first) % 512 == 0
    assert (found[0] == 0).all() and (cuda.zeros(3) == 0).all()


@needs_cudnn
@pytest.mark.parametrize("tune", [False, 2])
def test_a_plan_on_cudnn_allocates_and_tunes_nothing(seeded, tune):
    import cupy

    from common.cudnn import plans

    net = Network(seeded, "cudnn", dtype="fp16", layout="NHWC", tune=tune)
    net.plan()  # which loads the library
    before = cupy.get_default_memory_pool().used_bytes(), len(plans._tuned)
    plan = net.plan((1000, 3, 224, 224))
    assert (cupy.get_default_memory_pool().used_bytes(), len(plans._tuned)) == before
    assert len(plan.told) == 54 and plan.arena.bytes > 800e6
    x = np.zeros((1, 3, 64, 64), np.float32)
    net(x)
    kept = net.plan(x.shape)
    assert kept is net.plan(x.shape) and kept.told == net.program(x.shape).told


def run(graph, rng, **options):
    """(net, x, plan) of a graph whose result is that of ONNX Runtime, over an arena and over buffers of their own."""
    model = write_onnx(graph, random_parameters(rng, graph))
    net = Network(model, **options)
    x = rng.standard_normal(graph.input_shape, dtype=np.float32)
    want = run_onnxruntime(model, x)
    assert relative_error(net(x), want) <= TOLERANCE
    assert relative_error(net(x), want) <= TOLERANCE  # what the first call left in the arena does no harm
    program = net.program(x.shape)
    program.input[...] = cuda.asarray(x)
    program.launch()
    assert relative_error(cuda.asnumpy(program.output), want) <= TOLERANCE
    return net.plan(x.shape)


@pytest.mark.parametrize("layout", cuda.LAYOUTS)
def test_activations_in_place_and_shapes_seen_anew_take_no_memory(rng, layout):
    plan = run(
        layers(
            (2, 4, 9, 8), (kinds.ReLU, {}), (kinds.HardSwish, {}), (kinds.Sigmoid, {}), (kinds.GlobalAveragePool, {}),
            (kinds.Reshape, {"shape": (4,)}), (kinds.ResidualAdd, {"inputs": ("t4", "t4")}),
        ),
        rng, layout=layout,
    )  # fmt: skip
    assert plan.shares == {"t1": "t0", "t2": "t1", "t4": "t3", "t5": "t4"}  # the input is kept
    assert plan.told[4] == "no launch" and plan.step_bytes(4) == 0


def test_what_is_read_again_is_not_overwritten(rng):
    plan = run(
        layers(
            (1, 3, 5, 4), (kinds.Sigmoid, {}), (kinds.HardSwish, {"inputs": ("t0",)}),
            (kinds.ResidualAdd, {"inputs": ("t0", "t1")}), (kinds.Mul, {"inputs": ("t2", "t2")}),
        ),
        rng,
    )  # fmt: skip
    assert plan.shares == {"t2": "t0", "t3": "t2"}


def test_what_another_shape_of_it_is_read_of_is_not_overwritten(rng):
    """t1 is t0 under another shape: a sum in the place of t1 would spoil t0, which is read after it."""
    plan = run(
        layers(
            (1, 3, 5, 4), (kinds.Sigmoid, {}), (kinds.Reshape, {"shape": (60,)}),
            (kinds.ResidualAdd, {"inputs": ("t1", "t1")}), (kinds.Reshape, {"shape": (3, 5, 4)}),
            (kinds.ResidualAdd, {"inputs": ("t0", "t3")}),
        ),
        rng, layout="NCHW",
    )  # fmt: skip
    assert plan.shares == {"t1": "t0", "t3": "t2", "t4": "t0"}


def test_what_is_read_under_another_shape_is_not_overwritten(rng):
    """t1 is t0 under another shape, and is read after t0's last reader: that one may not write in t0's place."""
    plan = run(
        layers(
            (1, 3, 5, 4), (kinds.Sigmoid, {}), (kinds.Reshape, {"shape": (60,)}),
            (kinds.ResidualAdd, {"inputs": ("t1", "t1")}), (kinds.HardSwish, {"inputs": ("t0",)}),
            (kinds.ResidualAdd, {"inputs": ("t2", "t1")}), (kinds.Reshape, {"shape": (3, 5, 4)}),
            (kinds.ResidualAdd, {"inputs": ("t3", "t5")}),
        ),
        rng, layout="NCHW",
    )  # fmt: skip
    assert plan.shares == {"t1": "t0", "t4": "t2", "t5": "t4", "t6": "t3"}


def test_a_network_whose_output_is_seen_of_its_input(rng):
    run(layers((2, 3, 5, 4), (kinds.Reshape, {"shape": (60,)})), rng)


@settings(max_examples=25)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_random_graphs(data, seed):
    """Whoever reads what, in whatever order: the result is that of ONNX Runtime, in both layouts."""
    unary = [kinds.ReLU, kinds.Sigmoid, kinds.HardSwish]
    made = []
    for i in range(data.draw(st.integers(2, 9))):
        known = ["input", *(f"t{k}" for k in range(i))]
        kind = data.draw(st.sampled_from([*unary, kinds.ResidualAdd, kinds.Mul, kinds.Conv2d]))
        count = 2 if kind in (kinds.ResidualAdd, kinds.Mul) else 1
        fields = {"inputs": tuple(data.draw(st.sampled_from(known[-4:])) for _ in range(count))}
        if kind is kinds.Conv2d:
            groups, size = data.draw(st.sampled_from([(1, (1, 1)), (4, (1, 1)), (1, (3, 3)), (2, (3, 3))]))
            pads = ((1, 1), (1, 1)) if size == (3, 3) else ((0, 0), (0, 0))
            fields |= {
                "in_channels": 4, "out_channels": 4, "kernel_size": size, "padding": pads, "groups": groups,
                "weight": f"w{i}",
            }  # fmt: skip
        made.append((kind, fields))
    graph = layers((2, 4, 5, 3), *made)
    for layout in cuda.LAYOUTS:
        run(graph, np.random.default_rng(seed), layout=layout)


# rungs, and kernels of one's own


def test_the_whole_network_on_the_first_rungs(rng):
    model = weights.model("digits")
    x = rng.standard_normal((2, 3, 48, 48), dtype=np.float32)
    first = dict.fromkeys(("pointwise", "depthwise", "conv2d", "gemm", "global_avg_pool"), "naive")
    net = Network(model, layout="NCHW", variants=first)
    assert {told.split("/")[1] for told in net.plan().told} == {"naive"}
    assert relative_error(net(x), Network(model, "onnxruntime")(x)) <= TOLERANCE


MINE = """extern "C" __global__ void mean(const float* x, float* out, int pixels, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    float sum = 0;
    for (int p = 0; p < pixels; ++p) sum += x[i * pixels + p];
    out[i] = sum / pixels;
}"""


def test_a_kernel_of_ones_own(rng):
    kernel, called = cuda.RawKernel(MINE, "mean"), []

    def mean(x, out):
        called.append(x.shape)
        n, c, h, w = x.shape
        kernel((-(-n * c // 64),), (64,), (x, out, np.int32(h * w), np.int32(n * c)))

    model = weights.model("digits")
    net = Network(model, layout="NCHW", operators={"global_avg_pool": mean})
    x = rng.standard_normal((3, 3, 48, 48), dtype=np.float32)
    assert relative_error(net(x), Network(model, "onnxruntime")(x)) <= TOLERANCE
    assert called == [(3, 1280, 2, 2)]
    assert "mean (yours)" in str(net)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"variants": {"pointwise": "fastest"}},
            ValueError,
            "variants: 'pointwise' must be one of naive, .* 'fastest'",
        ),
        ({"variants": {"pool": "naive"}}, ValueError, "operator must be one of .* got 'pool'"),
        ({"operators": {"pool": len}}, ValueError, "operators: must be of activate, .* got 'pool'"),
        ({"operators": {"add": "mine.cu"}}, TypeError, "operators: 'add' must be a function, got str"),
    ],
    ids=["variant", "operator", "unknown", "no-function"],
)
def test_rungs_and_functions_that_there_are_not(options, error, message):
    with pytest.raises(error, match=message):
        Network(weights.model("digits"), **options)


def test_recorded_launches_do_the_same_again_and_again(rng):
    a, b, out = (cuda.asarray(rng.standard_normal((7, 33), dtype=np.float32)) for _ in range(3))
    before = cuda.asnumpy(out).copy()
    with kernels.recorded() as launches:
        kernels.add(a, b, out=out)
        kernels.relu(out, out=out)
    np.testing.assert_array_equal(cuda.asnumpy(out), before)
    assert [launch.name.split("/")[0] for launch in launches] == ["add", "clamp"]
    for _ in range(2):
        out[...] = np.nan
        for launch in launches:
            launch()
        np.testing.assert_array_equal(cuda.asnumpy(out), np.maximum(cuda.asnumpy(a) + cuda.asnumpy(b), 0))


def test_what_is_no_launch_is_recorded_too(rng):
    """The gradient by atomics clears its sums before it adds to them: at every replay, not when it is recorded."""
    grad, x = (cuda.asarray(rng.standard_normal((2, 3, 5, 4), dtype=np.float32)) for _ in range(2))
    want = cuda.asnumpy(kernels.depthwise_backward_weight(grad, x, 3, 1, 1))
    out = cuda.full((3, 1, 3, 3), 7.0)
    with kernels.recorded() as launches:
        kernels.depthwise_backward_weight(grad, x, 3, 1, 1, out=out, variant="atomics")
    assert (cuda.asnumpy(out) == 7).all() and [launch.name.split("/")[-1] for launch in launches] == [
        "cleared",
        "atomics",
    ]
    for _ in range(2):
        for launch in launches:
            launch()
        np.testing.assert_allclose(cuda.asnumpy(out), want, rtol=1e-4, atol=1e-5)


def test_a_long_chain_in_place(rng):
    """Longer than Python's stack is deep."""
    count = 1200
    graph = layers((1, 1, 2, 2), *[(kinds.Sigmoid, {}) for _ in range(count)])
    plan = Network(write_onnx(graph, {})).plan()
    assert len(plan.shares) == count - 1 and len(plan.lifetimes) == 2


def test_recording_is_a_threads_own_business(rng):
    a = cuda.asarray(rng.standard_normal(9, dtype=np.float32))
    with kernels.recorded() as launches:
        other = threading.Thread(target=lambda: kernels.add(a, a, out=a))
        other.start()
        other.join()
    assert launches == []


# graphs


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_captured_network(rng, batch, dtype):
    model = weights.model("digits")
    net = Network(model, dtype=dtype)
    captured = net.capture(batch)
    assert net.capture(batch) is captured
    for _ in range(2):
        x = rng.standard_normal((batch, 3, 48, 48), dtype=np.float32)
        want = Network(model, "onnxruntime")(x)
        captured.input[...] = cuda.asarray(x, captured.input.dtype)
        for _ in range(2):  # the input is still there
            captured.launch()
            result = cuda.asnumpy(captured.output).astype(np.float32)
            assert relative_error(result, want) <= TOLERANCES[dtype]
        np.testing.assert_array_equal(net(x), result)


def test_other_sizes_can_be_captured(rng):
    net = Network(weights.model("digits"))
    assert net.capture(2, (40, 56)).input.shape == (2, 3, 40, 56)
    assert net(rng.standard_normal((2, 3, 40, 56), dtype=np.float32)).shape == (2, 10)


def test_what_cannot_be_captured():
    net = Network(weights.model("digits"))
    for batch in (0, -1, 1.5, "two"):
        with pytest.raises(ValueError, match="batch must be an integer of at least 1"):
            net.capture(batch)
    with pytest.raises(ValueError, match="backend 'torch' has no graph"):
        Network(weights.model("digits"), "torch").capture(1)
    with pytest.raises(ValueError, match="backend 'onnxruntime' has no plan"):
        Network(weights.model("digits"), "onnxruntime").plan()
    assert "99 layers" in str(Network(weights.model("digits"), "torch"))


def test_calls_on_several_streams(rng):
    if cuda.backend() != "gpu":
        pytest.skip("needs a GPU: the simulator has no streams")
    import cupy

    model = weights.model("digits")
    net = Network(model)
    net.capture(4)
    inputs = [rng.standard_normal((n, 3, 48, 48), dtype=np.float32) for n in (4, 2, 4, 3) * 8]
    reference = Network(model, "onnxruntime")
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    on_card = [cupy.asarray(x) for x in inputs]
    cupy.cuda.Device().synchronize()
    results = []
    for i, x in enumerate(on_card):  # nobody waits in between
        with streams[i % 4]:
            results.append(net(x))
    cupy.cuda.Device().synchronize()
    for x, result in zip(inputs, results, strict=True):
        assert relative_error(cupy.asnumpy(result), reference(x)) <= TOLERANCE


@seldom(6)
def test_many_calls_in_flat_memory(rng):
    """A small network on the simulator, MobileNetV2 in a graph on a GPU."""
    from common.network.profile import memory_in_use

    if cuda.backend() == "gpu":
        net = Network(weights.model("seeded"))
        net.capture(1)
        x = cuda.asarray(rng.standard_normal((1, 3, 224, 224), dtype=np.float32))
    else:
        nodes = Nodes(rng)
        x = nodes("Relu", nodes.same("x", 3))
        net = Network(nodes.model(nodes("GlobalAveragePool", x), ("n", 3, 64, 64)))
        x = rng.standard_normal((1, 3, 64, 64), dtype=np.float32)
    for _ in range(100):
        net(x)
    before = memory_in_use()
    for _ in range(10_000 if ALL else 1_000):
        net(x)
    assert memory_in_use() - before < 16 * 2**20  # one activation of 49 KB kept at each call would be 49 MB or more


def test_steps_say_what_they_move():
    graph = topology.read_onnx(weights.model("digits"))
    plan = Network(weights.model("digits")).plan()
    assert plan.bytes < sum(layer.activation_bytes() + layer.weight_bytes() for layer in graph)
    step = plan.steps[0]
    moved = 4 * (3 * 48 * 48 + 16 * 24 * 24 + 16 * 27 + 16)
    assert plan.step_bytes(0) == moved and step.title == "Conv2d(3, 16, 3, 2, 1, 1) + ReLU6"


@long
def test_a_picture_takes_the_simulator_half_a_second_at_most(seeded, rng):
    """MobileNetV2 at 224×224 on two cores: the best of 20 calls. Where others use the cores too, half of the work."""
    if cuda.backend() == "gpu" or (os.cpu_count() or 1) < 2:
        pytest.skip("is about the simulator on two cores or more")
    net, x = Network(seeded), rng.standard_normal((1, 3, 224, 224), dtype=np.float32)
    net(x)
    taken = []
    for _ in range(20):
        start, worked = time.perf_counter(), time.process_time()
        net(x)
        taken.append(min(time.perf_counter() - start, (time.process_time() - worked) / 2))
        if taken[-1] <= 0.5:
            return
    pytest.fail(f"the best of 20 calls took {min(taken):.2f} s")
