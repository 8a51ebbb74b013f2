"""What chapter 03 says of cuDNN and cuBLAS holds in the recorded results of the suites "plans" and "operators"."""

import numpy as np
import pytest
import torch

from common import topology
from common.bench.plans import CASES
from common.measure.roofline import Peaks
from common.report import results, tables, ways

H200 = results.load(tables.CARD)
WAYS = results.find(H200, suite="plans")
PLAIN, RELU, SPLIT, IDENTITY = ways.ORDER


def us(case, way, precision, layout):
    return results.one(H200, suite="plans", operator=case, way=way, precision=precision, layout=layout)["median_us"]


def all_us(case, precision):
    return [r["median_us"] for r in WAYS if (r["operator"], r["precision"]) == (case, precision)]


def rounded(x):
    """x in float64 with 10 fraction bits, to the nearest: Veltkamp's splitting removes 42 of 52."""
    big = x.astype(np.float64) * (2.0**42 + 1)
    return big - (big - x)


def test_everything_is_recorded():
    assert {r["operator"] for r in WAYS} == set(CASES) and {r["way"] for r in WAYS} == set(ways.ORDER)


@pytest.mark.parametrize("case", CASES)
def test_the_description_matters_more_than_the_precision(case):
    ratios = [max(all_us(case, p)) / min(all_us(case, p)) for p in ("fp32", "tf32", "fp16")]
    assert max(ratios) > min(all_us(case, "fp32")) / min(all_us(case, "fp16"))


def test_one_description_is_more_than_ten_times_slower_than_another():
    assert max(max(all_us(case, "fp16")) / min(all_us(case, "fp16")) for case in CASES) > 10


@pytest.mark.parametrize("case", CASES)
def test_the_identity_pays_in_fp16(case):
    assert us(case, PLAIN, "fp16", "NHWC") > 1.5 * us(case, IDENTITY, "fp16", "NHWC")


@pytest.mark.parametrize("case", list(CASES)[:2])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_in_strict_fp32_the_plain_description_of_a_pointwise_layer_is_slow(case, layout):
    assert us(case, PLAIN, "fp32", layout) > 3 * min(us(case, way, "fp32", layout) for way in (RELU, SPLIT))


def test_the_order_that_a_learner_predicts():
    case = "pointwise 14×14 384>64"
    times = [us(case, way, "fp16", "NHWC") for way in (IDENTITY, SPLIT, PLAIN)]
    assert times == sorted(times)


def test_a_description_with_fewer_bytes_is_slower():
    case = "pointwise 14×14 384>64"
    assert us(case, PLAIN, "fp16", "NCHW") > 10 * us(case, SPLIT, "fp16", "NCHW")


def test_the_bytes_of_these_layers_take_less_time_than_any_kernel():
    rate = Peaks.recorded(H200).copy_bytes_per_s
    assert all(r["bytes"] / rate * 1e6 < r["median_us"] for r in WAYS)


def test_engines():
    plain = [r for r in WAYS if r["way"] == PLAIN]
    fused = [r for r in WAYS if r["way"] == IDENTITY]
    assert fused and {r["layout"] for r in fused} == {"NHWC"}
    assert not {p for r in fused for p in r["plans"]} & {p for r in plain for p in r["plans"]}
    assert all(r["plans"] == ["eng0"] for r in plain if r["layout"] == "NCHW")


def convolved(case, x, w, bias):
    """Convolution, bias and ReLU6 in float64."""
    x, w, bias = (torch.from_numpy(one.astype(np.float64)) for one in (x, w, bias))
    y = torch.conv2d(x, w, bias, padding=CASES[case][2], groups=x.shape[1] // w.shape[1])
    return y.clamp(0, 6).numpy()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_rounding_predicts_the_recorded_error(case, precision):
    x_shape, w_shape, _ = CASES[case]
    random = np.random.default_rng(0)
    x, w, bias = (random.standard_normal(s, np.float32) for s in (x_shape, w_shape, w_shape[:1]))
    if precision == "tf32":
        want, got = convolved(case, x, w, bias), convolved(case, rounded(x), rounded(w), bias)
    else:
        want = convolved(case, *(one.astype(np.float16) for one in (x, w, bias)))
        got = want.astype(np.float16)
    predicted = np.linalg.norm(got - want) / np.linalg.norm(want)
    for r in results.find(H200, suite="plans", operator=case, precision=precision):
        most = 1.6 if "|" in r["way"] else 1.1  # with two cuDNN graphs, the array between them is rounded as well
        assert r["error"] < 1e-6 or predicted / 1.1 < r["error"] < most * predicted


def test_strict_fp32_is_exact():
    assert all(r["error"] < 1e-6 for r in WAYS if r["precision"] == "fp32")


def test_a_plan_on_tensor_cores_can_be_as_exact_as_fp32():
    exact = [r for r in WAYS if r["precision"] == "tf32" and "depthwise" not in r["operator"] and r["error"] < 1e-6]
    assert exact
    for r in exact:
        assert us(r["operator"], r["way"], "fp32", r["layout"]) > r["median_us"]
        best = min(all_us(r["operator"], "fp32"))
        assert best == pytest.approx(r["median_us"], rel=0.05)  # cuBLAS is about as fast for this layer


@pytest.mark.parametrize(("precision", "layout"), [("fp32", "NCHW"), ("fp32", "NHWC"), ("fp16", "NHWC")])
def test_who_runs_the_pointwise_layers(precision, layout):
    layers = results.find(
        H200, suite="operators", implementation="cudnn", batch=1, precision=precision, layout=layout
    )  # fmt: skip
    chosen = [r for r in layers if r["kind"] in ("expand", "project", "head")]
    total = sum(r["count"] for r in chosen)
    cublas = sum(r["count"] for r in chosen if "cuBLAS" in r["plan"])
    convolutions = [layer for layer in topology.build() if isinstance(layer, topology.Conv2d)]
    assert total == sum(layer.kernel_size == (1, 1) for layer in convolutions)
    assert cublas > total / 2 if precision == "fp32" else cublas <= total / 10
