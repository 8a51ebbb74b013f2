"""Profiles: which step runs where, what is copied, what the file and the picture say."""

import csv
import math

import numpy as np
import pytest
import torch
from network_models import Nodes
from tiers import seldom

from common import cuda, weights
from common.network import Network
from common.network.compare import TOLERANCE, relative_error
from common.network.profile import Placed
from common.network.steps import fuse
from common.report import steps

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def resnet():
    return Network(weights.resnet20_model())


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(5).standard_normal((2, 3, 32, 32), dtype=np.float32)


def conv1(step):
    return step.layer.name.endswith(".conv1")


PLACEMENTS = ["gpu", "cpu", "*.conv1", conv1]


def copies(plan, on_gpu, source, output):
    """Bytes, by hand, tensor by tensor: where it is made, and where it is read."""
    made, read, sizes = {source: False}, {(output, False)}, {}
    for step, gpu in zip(plan.steps, on_gpu, strict=True):
        made[step.output] = gpu
        read |= {(name, gpu) for name in step.reads}
        for layer in step.layers:
            sizes |= dict(zip(layer.inputs, layer.input_shapes, strict=True)) | {layer.output: layer.output_shape}
    return sum(4 * math.prod(sizes[name]) for name, gpu in read if made[name] != gpu)


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda p: getattr(p, "__name__", p))
def test_every_placement_computes_the_same(resnet, x, placement):
    placed = Placed(resnet.runner, x.shape, placement)
    times = np.zeros((len(placed.program.steps) + 1, 2))
    want = Network(weights.resnet20_model(), "onnxruntime")(x)
    for _ in range(2):
        assert relative_error(placed.run([x], times)[0], want) <= TOLERANCE
    assert (times[:-1, 0] > 0).all()
    assert sum(placed.copied) == copies(placed.plan, placed.on_gpu, placed.graph.input, placed.graph.output)


def test_a_random_placement_computes_the_same(resnet, x, rng):
    want = Network(weights.resnet20_model(), "onnxruntime")(x)
    for _ in range(5):
        chosen = {step.output for step in fuse(resnet.graph) if rng.random() < 0.5}
        placed = Placed(resnet.runner, x.shape, lambda step, chosen=chosen: step.output in chosen)
        (result,) = placed.run([x], np.zeros((24, 2)))
        assert relative_error(result, want) <= TOLERANCE
        assert sum(placed.copied) == copies(placed.plan, placed.on_gpu, placed.graph.input, placed.graph.output)


def test_concatenations_and_other_layers_on_either_side(rng):
    nodes = Nodes(rng, opset=14)
    a, b = nodes("Sigmoid", "x"), nodes.conv("x", 3, 4)
    pooled = nodes("MaxPool", a, kernel_shape=[3, 3])
    x = nodes("HardSwish", nodes("Concat", pooled, b, axis=1))
    net = Network(nodes.model(nodes("Flatten", nodes("GlobalAveragePool", x)), ("n", 3, 9, 8)))
    image = rng.standard_normal((1, 3, 9, 8), dtype=np.float32)
    want = net(image)
    for placement in ("cpu", "*conv*", "*concat*", "*pool*"):
        placed = Placed(net.runner, image.shape, placement)
        steps = len(placed.program.steps)
        assert relative_error(placed.run([image], np.zeros((steps + 1, 2)))[0], want) <= TOLERANCE


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda p: getattr(p, "__name__", p))
def test_a_profile(resnet, x, placement, tmp_path):
    profile = resnet.profile(x, runs=4, placement=placement, progress=False)
    on_gpu = {row.layer for row in profile.rows if row.where in ("gpu", "simulator")}
    expected = {"gpu": 23, "cpu": 0}.get(placement, 9)
    assert len(on_gpu) == expected
    steps = [row for row in profile.rows if row.step]
    assert [row.index for row in steps] == list(range(23))
    assert all(row.p5_ms <= row.median_ms <= row.p95_ms and row.median_ms > 0 for row in steps)
    assert sum(row.macs for row in steps) == 2 * sum(layer.macs for layer in resnet.graph)
    assert (profile.copied == 0) == (placement == "cpu") == (profile.copies_ms == 0)
    assert profile.total_ms >= 0.8 * sum(row.median_ms + row.copy_ms for row in profile.rows)
    assert profile.memory[1] - profile.memory[0] < 2 * 2**20
    lines = str(profile).splitlines()
    assert len([line for line in lines if line.lstrip().split(":")[0].isdigit()]) == 23
    assert f"{profile.copied:,} bytes" in lines[-2]

    path = profile.save(tmp_path / "profile.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(profile.rows) and rows[3]["layer"] == profile.rows[3].layer
    assert float(rows[3]["median_ms"]) == pytest.approx(profile.rows[3].median_ms, rel=1e-4)
    assert [p.name for p in tmp_path.iterdir()] == ["profile.csv"]


def test_a_profile_that_cannot_be_saved_leaves_nothing_behind(resnet, x, tmp_path):
    profile = resnet.profile(x, runs=1, placement="cpu", progress=False)
    with pytest.raises(OSError, match="no-such-folder"):
        profile.save(tmp_path / "no-such-folder" / "profile.csv")
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        profile.save(tmp_path / "taken")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


@seldom(6)
def test_the_picture_has_a_panel_a_profile_to_one_scale(resnet, x):
    profiles = [resnet.profile(x, runs=2, placement=p, progress=False) for p in ("gpu", "cpu", "*.conv1")]
    figure = steps.plot(profiles)
    assert len(figure.axes) == 3 and len({axes.get_ylim() for axes in figure.axes}) == 1
    for axes, profile in zip(figure.axes, profiles, strict=True):
        tall = sum(patch.get_height() for patch in axes.patches)
        copied = sum(row.copy_ms for row in profile.rows if row.copied)
        assert tall == pytest.approx(sum(row.median_ms for row in profile.rows) + copied)
        assert profile.placement in axes.get_title(loc="left")
    with pytest.raises(ValueError, match="at least one"):
        steps.plot([])


@seldom(6)
def test_records_are_of_a_gpu(resnet, x):
    profile = resnet.profile(x, runs=8, placement="*.conv1", progress=False)
    if cuda.backend() != "gpu":
        with pytest.raises(ValueError, match="simulator"):
            steps.records_of(profile, "resnet20")
        profile = resnet.profile(x, runs=8, placement="cpu", progress=False)
    records = steps.records_of(profile, "resnet20")
    again = steps.profile_of(records, "a card")
    assert [row.layer for row in again.rows] == [row.layer for row in profile.rows]
    assert again.copied == profile.copied and again.total_ms == pytest.approx(profile.total_ms, abs=1e-3)
    for row, kept in zip(profile.rows, again.rows, strict=True):
        assert kept.median_ms == pytest.approx(row.median_ms, rel=1e-3, abs=1e-4)
        assert kept.macs == row.macs and kept.where == row.where
    with pytest.raises(ValueError, match="none"):
        steps.profile_of([], "a card")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"placement": "*.conv9"}, ValueError, "pattern that a layer's name matches .*stem.* got '.*conv9'"),
        ({"placement": 3}, TypeError, "placement must be 'gpu', 'cpu', a pattern .* got 3"),
        ({"runs": 0}, ValueError, "runs must be an integer of at least 1, got 0"),
        ({"runs": 1.5}, ValueError, "runs must be an integer of at least 1, got 1.5"),
    ],
    ids=["pattern", "type", "no-runs", "half-runs"],
)
def test_profiles_that_there_are_not(resnet, x, options, error, message):
    with pytest.raises(error, match=message):
        resnet.profile(x, **{"runs": 1, **options})


def test_profiles_are_of_the_kernels_in_fp32(x):
    for net in (Network(weights.resnet20_model(), "torch"), Network(weights.resnet20_model(), dtype="fp16")):
        with pytest.raises(ValueError, match="profiles are of backend 'kernels' in fp32"):
            net.profile(x)
    with pytest.raises(ValueError, match=r"x must have shape \(N, 3, H, W\)"):
        Network(weights.resnet20_model()).profile(x[0])
