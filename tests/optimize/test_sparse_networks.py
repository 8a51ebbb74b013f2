"""What sparse kernels are for: zeros counted, layers listed, the fastest chosen."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiers import seldom

from common import cuda, weights
from common.network import Network
from common.optimize import sparse, sparse_choice
from common.optimize.sparse_activations import PATTERNS, Synthetic, measure, table, zero_box_share, zeros
from common.optimize.sparse_layers import NETWORKS, convolutions, distinct
from common.report import tables

sys.path.insert(0, str(Path(__file__).parents[1] / "network"))


def digits(count=2):
    return weights.digits_input(weights.digits_split().test_images[:count])


# ---- Zeros


@pytest.mark.parametrize(("channels", "side"), [(1, 1), (8, 1), (0, 1), (32, 4), (5, 3)])
def test_boxes_of_zeros(rng, channels, side):
    x = rng.standard_normal((2, 37, 9, 7)) * (rng.random((2, 37, 9, 7)) < 0.05)
    found = [
        not x[n, c : c + (channels or 37), h : h + side, w : w + side].any()
        for n in range(2)
        for c in range(0, 37, channels or 37)
        for h in range(0, 9, side)
        for w in range(0, 7, side)
    ]
    assert zero_box_share(x, channels, side) == pytest.approx(np.mean(found))


def test_nan_is_counted_as_something_and_minus_zero_as_nothing():
    x = np.full((1, 8, 4, 4), -0.0, np.float32)
    assert zeros(x).elements == zeros(x).tiles_8 == 1
    x[0, 0, 0, 0] = np.nan
    assert zeros(x).elements == 1 - 1 / 128 and zeros(x).tiles_4 == 0


def test_a_network_has_zeros_behind_its_relus_alone():
    x = digits()
    net = Network(weights.model("digits"))
    program = net.program(x.shape)
    program.input[...] = cuda.asarray(x)
    program.launch()
    rows = measure(program)
    assert len(rows) == 52 and rows[0].after == "input"
    for row in rows:
        assert (0.3 < row.elements < 0.8) == (row.after == "ReLU6"), row
        assert row.tiles_8 <= row.tiles_4 <= row.groups_32 <= row.groups_8 <= row.elements
    one = next(i for i, step in enumerate(program.steps) if step.layer.name == rows[1].layer)
    read = cuda.asnumpy(program.buffers[program.steps[one].inputs[0]])
    assert rows[1].elements == pytest.approx((read == 0).mean())
    shown = table(rows[:3])
    assert "24×24 16>16 3×3 groups 16" in shown and "%" in shown
    with pytest.raises(ValueError, match="program must keep every activation"):
        measure(net.program(x.shape, arena=True))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_synthetic_zeros(pattern):
    made = Synthetic((2, 64, 32, 40), pattern, np.float16)
    assert cuda.layout.has(made.at(0.7), "NHWC")
    x, more = (cuda.asnumpy(made.at(s)) for s in (0.7, 0.9))
    assert x.dtype == np.float16 and (x >= 0).all()
    unit = {"elements": (1, 1), "pixels": (64, 1), "tiles": (32, 8)}[pattern]
    assert zero_box_share(x, *unit) == pytest.approx(0.7, abs=0.12)
    assert (more[x == 0] == 0).all()
    assert (cuda.asnumpy(made.at(0.0)) > 0).all() and not cuda.asnumpy(made.at(1.0)).any()
    with pytest.raises(ValueError, match="sparsity must be from 0 to 1, got"):
        made.at(1.5)
    with pytest.raises(ValueError, match="pattern must be one of elements, pixels, tiles, got 'rows'"):
        Synthetic((1, 1, 1, 1), "rows")


# ---- Layers


@seldom(6)
@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "mobilenetv2"])
def test_layers_are_those_of_the_networks(name):
    """The same networks as PyTorch modules at full width, run without numbers."""
    import zoo

    seen = []

    def note(module, given, out):
        (x,) = given
        k, s, p = module.kernel_size, module.stride, module.padding
        seen.append((tuple(x.shape), tuple(module.weight.shape), k, s, ((p[0],) * 2, (p[1],) * 2), tuple(out.shape)))

    with torch.device("meta"):
        module = zoo.MODULES[name](1.0).eval()
        for layer in module.modules():
            if isinstance(layer, torch.nn.Conv2d):
                layer.register_forward_hook(note)
        module(torch.zeros(2, 3, 224, 224))
    ours = [one.shape for one in convolutions(name, batch=2)]
    assert sorted(seen) == sorted((s.x, s.weight, s.kernel, s.stride, s.padding, s.y) for s in ours)


def test_distinct_layers():
    found = distinct(batch=4)
    for network in NETWORKS:
        assert sum(one.counts.get(network, 0) for one in found) == len(convolutions(network))
    assert all(one.shape.batch == 4 for one in found) and len({str(one.shape) for one in found}) == len(found)
    expand = next(one for one in found if str(one.shape) == "112×112 16>96 1×1")
    assert not expand.after_relu and expand.counts == {"mobilenetv2": 1}
    with pytest.raises(ValueError, match=r"network must be one of densenet-121, .*, got 'vgg'"):
        convolutions("vgg")


# ---- Choosing


def of(shape, us, kind="given", sparsity=0.5, **more):
    same = {"shape": shape, "batch": 1, "precision": "fp32", "kind": kind, "sparsity": sparsity, "pattern": "elements"}
    spread = {name: {"median_us": t, "p5_us": 0.99 * t, "p95_us": 1.01 * t} for name, t in us.items()}
    return [same | {"implementation": name} | times | more for name, times in spread.items()]


def test_twins_and_libraries_skip_nothing():
    assert {s for s in sparse.SCHEMES if sparse.skips(sparse.PREFIX + s)} == set(sparse.DENSE)
    assert not any(map(sparse.skips, ("ours", "cudnn", "cudnn-2nd")))


def test_the_gain_of_a_network():
    shapes = [str(one.shape) for one in distinct(["resnet-50"])]
    records = [r for shape in shapes for r in of(shape, {"cudnn": 10.0, "ours": 12.0, "sparse/ballot": 30.0})]
    nil = sparse_choice.choose(records, "resnet-50", 1, "fp32")
    assert nil.best_us == nil.dense_us == 53 * 10 and not nil.schemes and "no gain" in str(nil)
    records += of("56×56 64>64 3×3", {"sparse/pixels": 4.0})
    records += of("56×56 64>64 3×3", {"sparse/tiles": 1.0}, kind="sweep", sparsity=0.99)  # is not what it is given
    gain = sparse_choice.choose(records, "resnet-50", 1, "fp32")
    assert gain.schemes == {"56×56 64>64 3×3": "pixels"} and gain.best_us == 530 - 3 * 6
    assert "in 3 of 53 convolutions: 3.4% less" in str(gain)
    records += of("28×28 128>128 3×3", {"sparse/dense": 2.0, "sparse/ballot": 1.99})  # the twin skips nothing either
    again = sparse_choice.choose(records, "resnet-50", 1, "fp32")
    assert again.schemes == gain.schemes and again.best_us == again.dense_us - 3 * 6 < gain.best_us
    missing = sparse_choice.choose(records[6:], "resnet-50", 1, "fp32")
    assert len(missing.missing) == 2 and "2 shapes were not measured" in str(missing)
    assert "nothing was measured" in str(sparse_choice.choose(records, "resnet-50", 8, "fp32"))


@pytest.mark.parametrize(
    ("ratios", "meets"),
    [
        ((2.0, 1.5, 0.5), 0.5 + 0.4 * 0.5),
        ((0.9, 0.8, 0.7), 0.0),
        ((3.0, 2.0, 1.0), None),
        ((0.9, 1.5, 0.5), 0.5 + 0.4 * 0.5),  # wins at first, loses, wins: the last crossing counts
        ((0.9, 0.9, 1.5), None),
    ],
)
def test_break_even(ratios, meets):
    us = {"cudnn": (10.0,) * 3, "sparse/ballot": [10 * ratio for ratio in ratios], "sparse/dense": (0.1,) * 3}
    records = [
        {"implementation": name, "pattern": "elements", "us_at": dict(zip(("0", "0.5", "0.9"), times, strict=True))}
        for name, times in (us | {"sparse/pixels": (99.0,) * 3}).items()
    ]
    assert tables.break_even(records, "elements", "dense") is None  # the twin takes 0.1 µs
    found = tables.break_even(records, "elements")
    assert found is None if meets is None else found == pytest.approx(meets)
    assert tables.break_even(records, "pixels") is None


@pytest.mark.parametrize("scheme", ["ballot", "tiles"])
def test_a_network_runs_on_sparse_kernels_where_they_were_chosen(scheme):
    x = digits(1)
    model = weights.model("digits")
    schemes = {"12×12 48>8 1×1": scheme, "48×48 3>16 3×3 stride 2": scheme, "2×2 336>112 1×1": scheme}
    net = Network(model, layout="NHWC", operators=sparse_choice.operators(schemes))
    want = Network(model, layout="NHWC")(x)
    for _ in range(2):  # packs its weights in the first call
        np.testing.assert_allclose(net(x), want, rtol=1e-4, atol=1e-4)
