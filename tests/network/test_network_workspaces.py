"""Workspaces of kernels in the memory planner: live during one step, in the arena beside the activations."""

import gc

import numpy as np
import pytest
from network_models import Nodes, run_onnxruntime

from common import cuda, kernels
from common.cuda.simulator import memory
from common.network import Network
from common.network.arena import Lifetime, place, placed_at
from common.network.compare import TOLERANCES, relative_error
from common.network.program import workspace_of


@pytest.fixture(scope="module")
def model():
    """Convolutions and a classifier on all pixels: in NHWC its input is copied to rows first."""
    nodes = Nodes(np.random.default_rng(5))
    weight = nodes.rng.standard_normal
    x = nodes("Conv", "x", nodes.number(weight((5, 3, 3, 3)) / 5), pads=[1, 1, 1, 1])
    x = nodes("Sigmoid", nodes("Conv", x, nodes.number(weight((7, 5, 3, 3)) / 6), pads=[0, 1, 1, 0]))
    x = nodes("Flatten", x)
    return nodes.model(nodes("Gemm", x, nodes.number(weight((7 * 8 * 7, 6)) / 20)), ("n", 3, 9, 8))


WAYS = {"columns": {"layout": "NCHW", "variants": {"conv2d": "im2col_gemm"}}, "rows": {"layout": "NHWC"}}


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("way", WAYS)
def test_results_are_those_with_workspaces_of_their_own(rng, model, way, dtype):
    net = Network(model, dtype=dtype, **WAYS[way])
    for n in (1, 3):
        x = rng.standard_normal((n, 3, 9, 8), dtype=np.float32)
        assert net.plan(x.shape).workspaces
        apart = net.program(x.shape)  # without an arena each workspace is an array of its own
        apart.input[...] = cuda.asarray(x)
        apart.launch()
        for _ in range(2):  # the second time the arena has what the first left
            np.testing.assert_array_equal(net(x), cuda.asnumpy(apart.output).astype(np.float32))
        assert relative_error(net(x), run_onnxruntime(model, x)) <= TOLERANCES[dtype]


def test_sizes_and_places(model):
    plan = Network(model, **WAYS["columns"]).plan((2, 3, 9, 8))
    first, second = plan.steps[:2]
    sizes = {"first": 4 * 27 * 9 * 8, "second": 4 * 45 * 8 * 7}  # im2col's columns of one image, as fp32
    assert plan.workspaces == {
        workspace_of(first): -(-sizes["first"] // 256) * 256, workspace_of(second): -(-sizes["second"] // 256) * 256,
    }  # fmt: skip
    lives = {one.name: (one.first, one.last) for one in plan.complete.lifetimes}
    assert lives[workspace_of(first)] == (0, 0) and lives[workspace_of(second)] == (1, 1)
    placed_at(plan.complete.lifetimes, plan.complete.offsets)  # raises if two that are live together share bytes
    assert plan.arena == place(plan.lifetimes) and plan.memory == plan.arena.bytes  # which no kernel changes
    assert plan.memory < plan.complete.bytes < plan.memory + sum(plan.workspaces.values())
    assert "0.02 MB with kernels' workspaces, up to 0.01 MB per step" in str(plan)
    assert "workspaces" not in str(Network(model, layout="NCHW", variants={"conv2d": "direct"}).plan())


@pytest.mark.skipif(cuda.backend() != "simulator", reason="counts the simulator's allocations")
@pytest.mark.parametrize("way", WAYS)
def test_a_program_is_one_allocation(model, way):
    net = Network(model, **WAYS[way])
    gc.collect()
    before = set(memory._fences)
    program = net.program((1, 3, 9, 8), arena=True)
    (low,) = set(memory._fences) - before
    assert memory._fences[low].end - memory._fences[low].start == program.plan.complete.bytes


def test_a_saved_plan_has_them(rng, model, tmp_path):
    net = Network(model, **WAYS["columns"])
    net.save(tmp_path / "net.plan")
    loaded = Network.load(tmp_path / "net.plan")
    assert loaded.plan().workspaces == net.plan().workspaces and loaded.plan().complete == net.plan().complete
    for n in (1, 4):  # that for four images is derived: other workspaces beside activations at four times the offsets
        x = rng.standard_normal((n, 3, 9, 8), dtype=np.float32)
        np.testing.assert_array_equal(loaded(x), net(x))
    assert loaded.plan(x.shape).workspaces == net.plan(x.shape).workspaces


def test_a_fused_epilogue_behind_columns(rng):
    """The rung's product is a workspace too, where a bias and an activation follow."""
    nodes = Nodes(rng)
    model = nodes.model(nodes("Relu", nodes.conv("x", 3, 5)))
    net, x = Network(model, **WAYS["columns"]), rng.standard_normal((2, 3, 9, 8), dtype=np.float32)
    columns, product = 4 * 27 * 7 * 6, 4 * 2 * 5 * 7 * 6
    assert list(net.plan(x.shape).workspaces.values()) == [sum(-(-size // 256) * 256 for size in (columns, product))]
    for _ in range(2):
        assert relative_error(net(x), run_onnxruntime(model, x)) <= TOLERANCES["fp32"]


def test_workspaces_without_a_plan(rng):
    first, second = cuda.workspace((3, 5)), cuda.workspace((3, 5))
    first[...], second[...] = 1, 2
    assert (cuda.asnumpy(first) == 1).all()
    room = cuda.empty(600, np.uint8)
    with cuda.workspace_in(room) as space:
        parts = [cuda.workspace(50), cuda.workspace(10, np.float16), cuda.workspace(200)]
    assert space.taken == 256 + 256 + 1024
    offsets = [part.ctypes.data - room.ctypes.data for part in parts] if cuda.backend() == "simulator" else [0, 256, -1]
    assert offsets[:2] == [0, 256] and not 0 <= offsets[2] < 600  # what does not fit has memory of its own
    x, weight = (cuda.asarray(rng.standard_normal(shape, dtype=np.float32)) for shape in ((1, 3, 9, 7), (4, 3, 3, 3)))
    with cuda.workspace_in(None) as space:
        kernels.conv2d(x, weight, variant="im2col_gemm")
    assert space.taken == -(-4 * 27 * 7 * 5 // 256) * 256


def test_planning_with_workspaces_needs_less_than_apart():
    """A workspace lies where activations of other steps do."""
    activations = [Lifetime("a", 512, 0, 1), Lifetime("b", 2048, 1, 2), Lifetime("c", 256, 2, 3)]
    scratch = [Lifetime("w", 2048, 3, 3)]
    placed = place(activations)
    complete = place(scratch, beside=placed)
    assert complete.bytes == placed.bytes == 2560
    assert complete.lifetimes == (*activations, *scratch) and placed.offsets.items() <= complete.offsets.items()
    with pytest.raises(ValueError, match="there are several of 'a'"):
        place([Lifetime("a", 1, 0, 0)], beside=placed)
