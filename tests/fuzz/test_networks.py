"""Random valid networks on the kernels against ONNX Runtime; where the two differ, float64 decides."""

import os
from collections import Counter

import networks
import numpy as np
import onnx
import pytest
from tiers import long
from topology_models import Model

SEED = int(os.environ["COURSE_SEED"])
NETWORKS = 800  # in each of the ways


def check(seed, way, numbers, folder, most=6):
    """How the results stand, and what the networks that ran are made of; every wrong one is kept in `folder`."""
    outcomes, made_of, wrong = Counter(), Counter(), []
    for number in numbers:
        r = np.random.default_rng([seed, list(networks.WAYS).index(way), number])
        drawn = networks.draw(r, most)
        try:
            outcomes[outcome := networks.attempt(drawn, way, r)] += 1
        except networks.Wrong as mistake:
            path = folder / f"{way}-{number}.onnx"
            onnx.save(drawn.model, path)
            wrong.append(f"network {number}: {mistake}\n    kept in {path}")
        else:
            if not outcome.endswith("refused"):
                made_of.update(networks.spelled(drawn.model))
    shown = "\n".join(wrong[:10])
    assert not wrong, f"COURSE_SEED={seed}, {way}: {len(wrong)} of {len(numbers)} are wrong\n{shown}"
    return outcomes, made_of


@long
@pytest.mark.parametrize("way", networks.WAYS)
def test_random_networks(way, tmp_path, record_property):
    outcomes, made_of = check(SEED, way, range(NETWORKS), tmp_path)
    listed = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    record_property("fuzzed", f"networks, {way}: {listed}")
    assert outcomes["as ONNX Runtime"] > 0.8 * NETWORKS
    missing = (networks.NAMED | {f"operator set {n}" for n in networks.OPSETS}) - set(made_of)
    assert not missing, f"drawn too rarely, or refused: {sorted(missing)}"


def test_as_many_as_promised():
    assert NETWORKS * len(networks.WAYS) >= 3000


@pytest.mark.parametrize("way", networks.WAYS)
def test_a_few(way, tmp_path):
    check(1, way, range(1), tmp_path, most=2)


def test_a_wrong_result_is_noticed():
    m = Model(13)
    model = m.build(m.op("Relu", m.conv("x", 3, 4)))
    x = np.random.default_rng(0).standard_normal((1, 3, 9, 8), dtype=np.float32)
    right = networks.run_onnx_runtime(model, x)
    assert networks.judge(model, x, right) == "as ONNX Runtime"
    for wrong in (right * np.float32(1.0001), right[:, :, :-1], np.where(right == right.max(), np.nan, right)):
        with pytest.raises(networks.Wrong, match=r"from onnx\.reference in float64: ours"):
            networks.judge(model, x, wrong)


@long
def test_onnx_runtime_can_be_wrong():
    """It gives a dilated pool another size if that is to keep its size; PyTorch says what is right."""
    m = Model(13)
    y = m.op("MaxPool", "x", kernel_shape=[2, 2], dilations=[2, 1], auto_pad="SAME_LOWER")
    drawn = networks.Drawn(m.build(y, (2, 3, 6, 7)), set())
    assert networks.attempt(drawn, "NCHW", np.random.default_rng(0)).startswith("ONNX Runtime is off")


def test_a_refusal_of_what_is_named_is_wrong():
    m = Model(13)
    with pytest.raises(networks.Wrong, match="refused"):
        networks.attempt(networks.Drawn(m.build(m.op("Softsign", "x")), set()), "NCHW", np.random.default_rng(0))
    drawn = networks.Drawn(m.build(m.op("Softsign", "x")), {"Softsign"})
    assert networks.attempt(drawn, "NCHW", np.random.default_rng(0)) == "Softsign refused"
