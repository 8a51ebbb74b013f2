"""Quantized networks on the int8 kernels: every bit is that of the integer steps on the CPU."""

import numpy as np
import pytest
from quantized_models import random_network
from tiers import ALL, only_all, seed, seldom

from common import cuda, weights
from common import topology as t
from common.network import Network
from common.optimize.compositions import Composition
from common.quantize import IntegerKernels, Integers, quantize

BLOCKS = pytest.mark.skipif(cuda.compute_capability() < 80, reason="fused blocks need a card of sm_80")


@pytest.fixture(scope="module")
def digits():
    """(the digits' network in QDQ form, three pictures, the logits by whether multipliers have moved)."""
    graph, parameters = weights.network("digits")
    x = weights.digits_input(weights.digits_split().train_images[:16])
    model = quantize(graph, parameters, x, ranges="minmax").model()
    return model, x[:3], {moved: Network(model, Integers(as_kernels=moved))(x[:3]) for moved in (False, True)}


def plain(array):
    return cuda.asnumpy(array)


@pytest.mark.parametrize("optimize", [None, pytest.param("throughput", marks=BLOCKS)])
def test_the_codes_are_the_integer_steps(digits, optimize):
    model, x, want = digits[0], digits[1], digits[2][optimize is not None]
    net = Network(model, IntegerKernels(optimize=optimize))
    np.testing.assert_array_equal(plain(net(x)), want)
    np.testing.assert_array_equal(plain(net(x[:1])), want[:1])


@pytest.mark.parametrize("optimize", [None, pytest.param("latency", marks=BLOCKS)])
def test_calls_are_captured_and_replayed(digits, optimize):
    model, x, want = digits[0], digits[1], digits[2][optimize is not None]
    net = Network(model, IntegerKernels(optimize=optimize), replay=True)
    captured = net.capture(len(x))
    assert captured.program.capturable
    captured.input[...] = cuda.asarray(x, np.float32)
    captured.output.fill(np.nan)
    captured.launch()
    np.testing.assert_array_equal(plain(captured.output), want)
    np.testing.assert_array_equal(plain(net(x)), want)


def test_the_plan_has_codes_of_a_byte_in_one_arena(digits):
    model, *_ = digits
    plan = Network(model, IntegerKernels()).plan((2, 3, 48, 48))
    steps = {step.output: i for i, step in enumerate(plan.steps)}
    stem = plan.step_bytes(steps["features.0.2.codes"])
    assert stem == 2 * 3 * 48 * 48 + 2 * 16 * 24 * 24 + 16 * (27 + 8)  # codes in, codes out, weights and two of 4 bytes
    assert plan.step_bytes(0) == 5 * 2 * 3 * 48 * 48  # float32 to int8
    assert plan.itemsizes["input"] == plan.itemsizes["classifier.1"] == 4 and plan.itemsizes["input.codes"] == 1
    assert plan.memory < plan.kept and plan.told[0].startswith("quantize")
    assert sum("ResidualAdd" in step.title for step in plan.steps) == 10  # each within a convolution's kernel
    assert not [told for told in plan.told if told.startswith("add_int8")]


@BLOCKS
@seldom(4)
def test_blocks_are_fused_where_there_is_a_tile(digits):
    model, *_ = digits
    net = Network(model, IntegerKernels(optimize="throughput"))
    assert sum(told.startswith("inverted_residual_int8") for told in net.plan().told) == 17
    separate = Network(model, IntegerKernels(optimize=Composition("mine", fuse=None)))
    assert not [told for told in separate.plan().told if told.startswith("inverted")]
    rungs = Network(model, IntegerKernels(optimize="latency", variants={"pointwise_int8": "dp4a"}))
    told = rungs.plan().told
    assert "pointwise_int8/dp4a" in told and not [one for one in told if one.startswith("inverted")]


@seldom(6)
def test_random_networks_are_the_integer_steps_or_refused():
    """About one in five has kernels for all of its layers."""
    start, ran = 10_000 * seed(), 0
    for number in range(start, start + (300 if ALL else 40)):
        model, x, _ = random_network(number)
        try:
            net = Network(model, IntegerKernels())
        except t.UnsupportedModel as error:
            assert "quantize.Integers() runs it" in str(error)
            continue
        assert not [step for step in net.plan().steps if step.fusion is None and step.macs]  # no product in floats
        np.testing.assert_array_equal(plain(net(x)), Network(model, Integers())(x), err_msg=f"network {number}")
        ran += 1
    assert ran >= 3


@seldom(4)
def test_options_choose_the_backend(digits):
    model, *_ = digits
    assert Network(model, "kernels", variants={"pointwise_int8": "dp4a"}).backend == "integer-kernels"
    assert Network(model, optimize="latency").optimize == "latency"
    assert Network(model).backend == ("integer-kernels" if cuda.backend() == "gpu" else "integers")
    with pytest.raises(ValueError, match="variants: 'pointwise_int8' must be one of naive, dp4a"):
        IntegerKernels(variants={"pointwise_int8": "wrong"})
    with pytest.raises(ValueError, match="optimize must be one of latency, throughput or None, got 'speed'"):
        IntegerKernels(optimize="speed")
    with pytest.raises(ValueError, match="cannot be saved"):
        Network(model, IntegerKernels()).save("never.plan")


@seldom(4)
@pytest.mark.parametrize("ranges", ["percentile", *only_all(["mse", "entropy"])])
def test_other_ranges_too(ranges):
    graph, parameters = weights.network("digits")
    x = weights.digits_input(weights.digits_split().train_images[:16])
    model = quantize(graph, parameters, x, ranges=ranges).model()
    np.testing.assert_array_equal(plain(Network(model, IntegerKernels())(x[:2])), Network(model, Integers())(x[:2]))
