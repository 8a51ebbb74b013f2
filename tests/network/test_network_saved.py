"""Network.save and Network.load: the same logits without the ONNX file, and what a file is refused for."""

import dataclasses
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import softsign
import torch
import zoo
from network_models import Nodes, run_onnxruntime
from tiers import seldom

from common import cuda, kernels, topology, weights
from common.network import Network, passes, registry, saved
from common.network.arena import Lifetime, for_batch, place, placed_at
from common.network.compare import TOLERANCES, relative_error
from common.network.encoding import decoded, encoded
from common.network.registry import Fusion, Part, Step
from common.network.steps import ConvStep
from common.optimize.compositions import Composition, always


class StudentCNN(torch.nn.Module):
    """What a student trains: convolutions with batch-norms, a branch, pools, a classifier."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3, 2, 1), torch.nn.BatchNorm2d(6), torch.nn.ReLU())
        self.left = torch.nn.Sequential(torch.nn.Conv2d(6, 5, 1), torch.nn.Hardswish())
        self.right = torch.nn.Sequential(torch.nn.Conv2d(6, 5, 3, padding=1), torch.nn.Sigmoid())
        self.tail = torch.nn.Sequential(torch.nn.BatchNorm2d(10), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        self.classify = torch.nn.Linear(10, 7)

    def forward(self, x):
        x = self.stem(x)
        return self.classify(self.tail(torch.cat([self.left(x), self.right(x)], 1)))


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    torch.manual_seed(3)
    module = StudentCNN()
    for one in module.modules():
        if isinstance(one, torch.nn.BatchNorm2d):
            one.running_mean.uniform_(-1, 1)
            one.running_var.uniform_(0.5, 2)
    path = tmp_path_factory.mktemp("student") / "student.onnx"
    topology.export_onnx(module.eval(), path, (17, 13), dynamic_batch=True)
    return path


@pytest.fixture(scope="module")
def digits():
    return weights.model("digits")


@pytest.fixture
def plan(student, tmp_path):
    """A saved network with its path."""
    path = tmp_path / "student.plan"
    Network(student).save(path)
    return path


def images(rng, n=1, height=17, width=13):
    return rng.standard_normal((n, 3, height, width), dtype=np.float32)


def rewritten(path, change):
    """The file with plan.json changed by `change`, a function of its content."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(entries[saved.HEADER])
    change(content)
    entries[saved.HEADER] = json.dumps(content).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


# The same network


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_students_cnn_gives_the_same_logits(rng, student, tmp_path, dtype, layout):
    net, x = Network(student, dtype=dtype, layout=layout), images(rng, 3)
    net.save(tmp_path / "net.plan", [(1, 3, 17, 13), x.shape, (1, 3, 9, 11)])
    loaded = Network.load(tmp_path / "net.plan")
    for one in (x, x[:1], images(rng, 1, 9, 11)):
        np.testing.assert_array_equal(loaded(one), net(one))
    expected = run_onnxruntime(topology.load_model(student), x[:1])
    assert relative_error(loaded(x[:1]), expected) <= TOLERANCES[dtype]
    for shape in [(1, 3, 17, 13), x.shape]:
        assert str(loaded.plan(shape)) == str(net.plan(shape))
        assert loaded.plan(shape).arena == net.plan(shape).arena
        assert [type(step) for step in loaded.plan(shape).steps] == [type(step) for step in net.plan(shape).steps]
    assert repr(loaded) == repr(net) and (loaded.dtype, loaded.layout) == (dtype, layout)
    for name, array in net.runner.parameters.items():
        assert loaded.runner.parameters[name].strides == array.strides


@pytest.mark.parametrize(
    "options", [{}, {"dtype": "fp16"}, {"optimize": "latency"}, {"optimize": "throughput"}], ids=str
)
def test_the_digits_network_gives_the_same_logits(rng, digits, tmp_path, options, monkeypatch):
    if cuda.compute_capability() < 80 and "optimize" in options:
        pytest.skip("fused blocks need a card of sm_80")
    from common.optimize import cost

    monkeypatch.setattr(cost, "worth_it", lambda *_: True)
    net, x = Network(digits, **options), images(rng, 2, 48, 48)
    net.save(tmp_path / "digits.plan", [x.shape])
    plan, expected = net.plan(x.shape), net(x)

    def none(*_):
        raise AssertionError("loading runs no passes and searches no tiles")

    for name in ("chosen", "rule"):
        monkeypatch.setattr(f"common.optimize.tiles.{name}", none)
        monkeypatch.setattr(f"common.optimize.blocks.{name}", none)
    for name in ("stages", "matches", "rewrite"):
        monkeypatch.setattr(passes, name, none)
    monkeypatch.setattr("common.network.program.place", none)
    monkeypatch.setattr(topology, "read_onnx_with_parameters", none, raising=False)
    loaded = Network.load(tmp_path / "digits.plan")
    np.testing.assert_array_equal(loaded(x), expected)
    found = loaded.plan(x.shape).steps
    assert [getattr(step, "tile", None) for step in found] == [getattr(step, "tile", None) for step in plan.steps]
    assert "optimize" not in options or any(hasattr(step, "tile") for step in found)
    assert loaded.optimize == options.get("optimize")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mobilenet-v3-small", {"layout": "NHWC", "dtype": "fp16"}),
        ("densenet-121", {"layout": "NCHW"}),
        ("tensorflow-style", {"layout": "NHWC"}),
    ],
)
def test_networks_of_other_families(rng, tmp_path, name, options):
    """Every kind of layer that they have, saved for one image and run on two."""
    net = Network(zoo.tensorflow_style() if name == "tensorflow-style" else zoo.export(name), **options)
    net.save(tmp_path / "net.plan", [(1, *net.input_shape[1:])])
    x = rng.standard_normal((2, *net.input_shape[1:]), dtype=np.float32)
    np.testing.assert_array_equal(Network.load(tmp_path / "net.plan")(x), net(x))


@seldom(6)
def test_a_fresh_process_loads_it_without_onnx(rng, digits, tmp_path):
    """Neither onnx nor PyTorch is imported, nor the ONNX file there."""
    net, x = Network(digits), images(rng, 1, 48, 48)
    net.save(tmp_path / "digits.plan")
    np.save(tmp_path / "x.npy", x)
    program = (
        "import sys; sys.modules['onnx'] = sys.modules['torch'] = None; import numpy as np;"
        "from common.network import Network; net = Network.load('digits.plan');"
        "np.save('y.npy', net(np.load('x.npy')))"
    )
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), net(x))


def test_equal_networks_give_equal_files_that_can_be_saved_again(student, tmp_path):
    first, second, third = (tmp_path / f"{i}.plan" for i in range(3))
    Network(student).save(first)
    Network(student).save(second)
    Network.load(first).save(third)
    assert first.read_bytes() == second.read_bytes() == third.read_bytes()
    assert set(np.load(first)) == {"plan.json", *map(str, range(len(Network(student).runner.parameters)))}


def test_what_works_with_a_loaded_network(rng, student, plan):
    net, loaded, x = Network(student), Network.load(plan), images(rng)
    np.testing.assert_array_equal(loaded.context()(x), net(x))
    captured = loaded.capture()
    captured.input[...] = cuda.asarray(x)
    captured.launch()
    np.testing.assert_array_equal(cuda.asnumpy(captured.output), net(x))
    program = loaded.program(x.shape)
    program.input[...] = cuda.asarray(x)
    program.launch()
    np.testing.assert_array_equal(cuda.asnumpy(program.output), net(x))


@seldom(6)
@pytest.mark.parametrize("options", [{}, {"dtype": "fp16", "layout": "NHWC"}], ids=str)
def test_other_batches_are_derived_from_the_plan_for_one_image(rng, student, digits, tmp_path, options):
    for model, size in ((student, (17, 13)), (digits, (48, 48))):
        net = Network(model, **options)
        net.save(tmp_path / "net.plan")
        loaded = Network.load(tmp_path / "net.plan")
        one = loaded.plan()
        for n in (7, 2, 1):
            x = images(rng, n, *size)
            np.testing.assert_array_equal(loaded(x), net(x))
            plan = loaded.plan(x.shape)
            assert plan.arena.offsets == {name: n * offset for name, offset in one.arena.offsets.items()}
            assert plan.steps[-1].output_shape[0] == n and plan.memory <= n * one.memory
            assert [(step.title, step.macs) for step in plan.steps] == [
                (step.title, step.macs) for step in net.plan(x.shape).steps
            ]


def test_tiles_are_for_their_batch(rng, digits, tmp_path):
    if cuda.compute_capability() < 80:
        pytest.skip("fused blocks need a card of sm_80")
    Network(digits, optimize="latency").save(tmp_path / "net.plan")
    loaded = Network.load(tmp_path / "net.plan")
    with pytest.raises(ValueError, match=r"one of the input shapes saved, \(1, 3, 48, 48\), got \(2, 3, 48, 48\)"):
        loaded(images(rng, 2, 48, 48))


def test_what_does_not_work_with_a_loaded_network(rng, plan):
    loaded = Network.load(plan)
    message = r"x must have one of the input shapes saved, \(1, 3, 17, 13\), got \(1, 3, 17, 14\)"
    with pytest.raises(ValueError, match=message):
        loaded(images(rng, 1, 17, 14))
    for call in (loaded.explain, lambda: list(loaded.stages())):
        with pytest.raises(ValueError, match="without ONNX graph and passes"):
            call()
    with pytest.raises(ValueError, match="has no ONNX model"):
        _ = loaded.model


# Files that are refused


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("format", "compiled network, version 1", "expected format 'compiled network, version 3', got '.*version 1'"),
        ("course", "0.0.9", r"expected course '[\d.]+', got '0\.0\.9'"),
        ("backend", "cudnn", "expected backend 'kernels', got 'cudnn'"),
        ("device", "another", r"expected device '\w+', which is here, got 'another'"),
        ("compute capability", 121, r"expected compute capability \d+, which is here, got 121"),
        ("card", "NVIDIA X1", r"expected card '.*', which is here, got 'NVIDIA X1'"),
    ],
)
def test_other_versions_and_cards(plan, field, value, message):
    rewritten(plan, lambda content: content.update({field: value}))
    with pytest.raises(ValueError, match=f"student.plan: {message}"):
        Network.load(plan)


def test_plans_without_chosen_tiles_are_for_every_card_of_a_compute_capability(digits, plan, tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "_card", lambda: "NVIDIA A")
    other = tmp_path / "tiles.plan"
    Network(digits, optimize="latency").save(other)
    monkeypatch.setattr(saved, "_card", lambda: "NVIDIA B")
    Network.load(plan)
    if cuda.compute_capability() >= 80:
        with pytest.raises(ValueError, match="expected card 'NVIDIA B', which is here, got 'NVIDIA A'"):
            Network.load(other)


def test_truncated_files(plan):
    content = plan.read_bytes()
    for size in [0, 1, 100, *range(997, len(content), 997), len(content) - 1]:
        plan.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"student.plan: expected a network saved by Network.save, got a damaged"):
            Network.load(plan)


def test_damaged_files(rng, student, plan):
    """A byte changed anywhere is found, or is in a field of the archive that says nothing of the content."""
    x, content = images(rng), plan.read_bytes()
    expected, found = Network(student)(x), 0
    places = rng.integers(0, len(content), 150)
    for place_ in places:
        damaged = bytearray(content)
        damaged[place_] ^= 1 << int(rng.integers(8))
        plan.write_bytes(damaged)
        try:
            np.testing.assert_array_equal(Network.load(plan)(x), expected)
        except ValueError as error:
            assert "student.plan" in str(error)
            found += 1
    assert found > 0.8 * len(places)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["plans"][0]["offsets"].popitem(), "offsets: must be of the activations"),
        (lambda c: c["plans"][0]["offsets"].update(dict.fromkeys(c["plans"][0]["offsets"], 0)), "share bytes"),
        (lambda c: c["plans"][0]["graph"]["layers"][0].pop("residual"), "expected the fields .* of ConvStep"),
        (lambda c: c["plans"][0]["graph"]["layers"][0].update(name=3), "expected a text, got '3'"),
        (
            lambda c: c["plans"][0]["graph"].update(type="subprocess:Popen"),
            "needs the class Popen of module subprocess",
        ),
        (lambda c: c["parameters"][0].update(shape=[1]), "must be of"),
        (lambda c: c["parameters"].pop(), "arrays for"),
        (lambda c: c["parameters"][0].update(name="other"), "parameter '.*' must be of shape"),
        (lambda c: c.pop("plans"), "'plans'"),
        (lambda c: c["options"].update(optimize="os:system"), "optimize 'os:system'"),
        (lambda c: c["options"].update(operators=["add"]), "operators: expected functions for add"),
    ],
)
def test_contents_that_are_wrong(plan, change, message):
    rewritten(plan, change)
    with pytest.raises(ValueError, match=f"student.plan: .*{message}"):
        Network.load(plan)


def test_files_that_are_none(tmp_path, student):
    with pytest.raises(FileNotFoundError):
        Network.load(tmp_path / "nothing.plan")
    with pytest.raises(ValueError, match=r"the name should end in \.plan"):
        Network.load(student)
    with pytest.raises(OSError, match="expected a regular file, got a folder"):
        (tmp_path / "folder.plan").mkdir()
        Network.load(tmp_path / "folder.plan")


# What is not saved


def test_a_file_is_replaced_only_by_a_complete_one(student, plan, monkeypatch):
    before = plan.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space left"):
        Network(student, dtype="fp16").save(plan)
    assert plan.read_bytes() == before and list(plan.parent.iterdir()) == [plan]


def test_networks_that_cannot_be_saved(student, tmp_path):
    path = tmp_path / "net.plan"
    for net, message in (
        (Network(student, "torch"), "backend 'torch' cannot be saved, only 'kernels' can"),
        (Network(student, optimize=Composition("mine", fuse=always)), "optimize must be latency, throughput or None"),
    ):
        with pytest.raises(ValueError, match=message):
            net.save(path)
    net = Network(student)
    for shapes, message in (
        ([], "shapes must have at least one"),
        ([(1, 4, 17, 13)], r"x must have shape \(N, 3, H, W\), got \(1, 4, 17, 13\)"),
    ):
        with pytest.raises(ValueError, match=message):
            net.save(path, shapes)
    with pytest.raises(ValueError, match=r"the name should end in \.plan"):
        net.save(tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []


def test_functions_for_operators_are_given_again(rng, student, tmp_path):
    def doubled(a, b=None, *, out, **named):
        out[...] = 2 * a.mean((2, 3), keepdims=True)
        return out

    net, x = Network(student, operators={"global_avg_pool": doubled}), images(rng)
    net.save(tmp_path / "net.plan")
    loaded = Network.load(tmp_path / "net.plan", operators={"global_avg_pool": doubled})
    np.testing.assert_array_equal(loaded(x), net(x))
    with pytest.raises(ValueError, match=r"operators: expected functions for global_avg_pool, .* got them for nothing"):
        Network.load(tmp_path / "net.plan")


# Operators and fusions of a user's file


@pytest.fixture
def outside(rng, tmp_path):
    """A saved network with an operator of the file softsign.py, registered during the test, and its result."""
    registry.register(softsign.SoftsignOperator)
    try:
        nodes = Nodes(rng)
        model = nodes.model(nodes("Softsign", nodes.same("x", 3)))
        net, x = Network(model), images(rng, 1, 9, 8)
        net.save(tmp_path / "outside.plan")
        yield tmp_path / "outside.plan", x, net(x)
    finally:
        if softsign.Softsign in registry.OPERATORS:
            registry.unregister(softsign.SoftsignOperator)


def test_an_operator_of_a_users_file(outside):
    path, x, expected = outside
    np.testing.assert_array_equal(Network.load(path)(x), expected)
    registry.unregister(softsign.SoftsignOperator)
    message = "outside.plan: needs the operator 'Softsign' of module softsign: import softsign before loading"
    with pytest.raises(ValueError, match=message):
        Network.load(path)


class ConvHardSwishStep(ConvStep):
    """The step of the fusion below."""


class ConvHardSwish(Fusion):
    """A 1×1 convolution and its hard-swish, as two launches of the course's kernels."""

    name = "conv-hard-swish"
    pattern = (Part("convolution", topology.Conv2d), Part("activation", topology.HardSwish))

    def build(self, match):
        return ConvHardSwishStep.of(*match.nodes, fusion=self, parts=match.parts)

    def kernels(self, run, step, arrays):
        return [
            *run.run("conv2d", arrays.x, *run.weights(step.layer), out=arrays.out),
            *run.run("activate", arrays.out, "hardswish", out=arrays.out),
        ]


def test_a_fusion_of_a_users_file(rng, student, tmp_path):
    path, x = tmp_path / "net.plan", images(rng)
    net = Network(student, passes=[ConvHardSwish(), *passes.DEFAULT])
    with pytest.raises(ValueError, match="fusion ConvHardSwish must be registered"):
        net.save(path)
    registry.register(ConvHardSwish)
    try:
        net = Network(student, passes=["conv-hard-swish", *passes.DEFAULT])
        assert any(isinstance(step, ConvHardSwishStep) for step in net.plan().steps)
        net.save(path)
        loaded = Network.load(path)
        assert any(type(step) is ConvHardSwishStep for step in loaded.plan().steps)
        np.testing.assert_array_equal(loaded(x), net(x))
    finally:
        registry.unregister(ConvHardSwish)
    message = f"needs the fusion 'conv-hard-swish' of module {__name__}: import {__name__} before loading"
    with pytest.raises(ValueError, match=message):
        Network.load(path)


def test_the_module_of_the_program_itself_is_said_so(plan):
    entry = {"kind": "fusion", "name": "mine", "module": "__main__"}
    rewritten(plan, lambda content: content["entries"].append(entry))
    with pytest.raises(ValueError, match="the fusion 'mine' of module __main__: define it before loading"):
        Network.load(plan)


# Parts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Noted(Step):
    """A step with a field that is not data."""

    note: object = kernels


def test_encoding():
    clip = topology.Clip(name="c", inputs=("x",), output="y", input_shapes=((1, 2),), min=-np.inf, max=np.float32(2.5))
    value = json.loads(json.dumps(encoded(clip), allow_nan=False))
    assert decoded(topology.Layer, value) == clip and decoded(topology.Clip, value).min == -np.inf
    for hint, wrong in ((topology.ReLU, value), (int, 1.5), (int, True), (tuple[int, int], [1]), (str | None, 3)):
        with pytest.raises(ValueError):
            decoded(hint, wrong)
    step = Noted.of(clip)
    with pytest.raises(TypeError, match=r"Noted\.note: cannot be saved: an object of type module"):
        encoded(step)


def test_offsets_for_a_batch(rng):
    """Of random live ranges: what is placed for one image is placed for n, n times as large."""
    for _ in range(50):
        ranges = [sorted(rng.integers(0, 9, 2)) for _ in range(12)]
        one = [Lifetime(f"t{i}", int(rng.integers(1, 2000)), *map(int, r)) for i, r in enumerate(ranges)]
        placed, n = place(one), int(rng.integers(1, 300))
        more = [dataclasses.replace(lifetime, bytes=n * lifetime.bytes) for lifetime in one]
        assert placed_at(more, for_batch(placed.offsets, n)).bytes <= n * placed.bytes
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        for_batch(placed.offsets, 0)


def test_offsets_are_checked():
    lifetimes = [Lifetime("a", 300, 0, 1), Lifetime("b", 100, 1, 2), Lifetime("c", 700, 2, 3)]
    made = place(lifetimes)
    assert placed_at(lifetimes, made.offsets) == made
    for offsets, message in (
        ({"a": 0, "b": 512}, "'c' is only in one"),
        ({"a": 0, "b": 512, "c": -256}, "'c' must be at a multiple of 256 from 0 on, got -256"),
        ({"a": 0, "b": 500, "c": 1024}, "'b' must be at a multiple of 256"),
        ({"a": 0, "b": 256, "c": 1024}, "'a' and 'b' are live together and share bytes"),
    ):
        with pytest.raises(ValueError, match=message):
            placed_at(lifetimes, offsets)
