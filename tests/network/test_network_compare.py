"""The comparison finds what is wrong: it must not pass a network that is off."""

import numpy as np
import pytest
from network_models import Nodes

from common import cuda, topology
from common.network import available
from common.network import compare as comparing
from common.network.compare import TOLERANCES, close_top, compare, compare_steps, first_drift, relative_error, top
from common.network.kernels import KernelBackend
from common.network.reference import OnnxRuntimeBackend
from common.network.steps import fuse


@pytest.fixture
def model(rng):
    nodes = Nodes(rng)
    x = nodes("Relu", nodes.conv("x", 3, 8))
    x = nodes("Flatten", nodes("GlobalAveragePool", nodes.conv(x, 8, 16)))
    weight, bias = nodes.number(rng.standard_normal((16, 20))), nodes.number(rng.standard_normal(20))
    return nodes.model(nodes("Gemm", x, weight, bias), ("n", 3, 9, 8))


def spoil(monkeypatch, change):
    """From here on the kernels' backend has one number changed, the first of the classifier's bias."""
    original = KernelBackend.__init__

    def init(self, *arguments, **named):
        original(self, *arguments, **named)
        parameter = list(self.parameters.values())[-1]
        parameter[(0,) * parameter.ndim] = change(parameter[(0,) * parameter.ndim])

    monkeypatch.setattr(KernelBackend, "__init__", init)


def test_a_grouped_convolution_adds_up_the_channels_of_a_group(rng):
    nodes = Nodes(rng)
    (step,) = fuse(topology.read_onnx(nodes.model(nodes.conv("x", 6, 12, group=3), ("n", 6, 9, 8))))
    assert comparing.terms(step) == 2 * 9


def test_all_backends_are_within_the_contract(model):
    rows = compare(model, inputs=3)
    assert [row.backend for row in rows] == ["onnxruntime", *(name for name in available() if name != "onnxruntime")]
    assert all(row.within_contract and row.images == row.same_top5 == 3 and row.milliseconds > 0 for row in rows)
    assert rows[0].error == 0 and set(available()) == {row.backend for row in rows}


def test_cudnn_is_left_out_where_it_runs_not_all_layers(rng, monkeypatch):
    monkeypatch.setattr(comparing, "available", lambda: ("kernels", "cudnn", "torch", "onnxruntime"))
    monkeypatch.setattr("common.cudnn.library.require", lambda: None)  # it refuses the layer before it needs a GPU
    nodes = Nodes(rng, opset=14)
    model = nodes.model(nodes("Softmax", nodes.conv("x", 3, 8), axis=1))
    rows = compare(model, inputs=1)
    assert [row.backend for row in rows] == ["onnxruntime", "kernels", "torch"]
    assert all(row.within_contract for row in rows)
    with pytest.raises(topology.UnsupportedModel, match=r"'cudnn' runs Softmax along the last dimension, not"):
        compare(model, inputs=1, backends=["cudnn"])  # asked for by name, it is an error


def test_our_kernels_are_never_left_out(model, monkeypatch):
    monkeypatch.setattr(KernelBackend, "refuses", lambda self, layer: "runs nothing")
    with pytest.raises(topology.UnsupportedModel, match="'kernels' runs nothing"):
        compare(model, inputs=1)


def test_a_planted_error_is_found(model, monkeypatch):
    """One score of twenty is off by 1e-3, and all are of size 1 to 10: an error of about 1e-4."""
    spoil(monkeypatch, lambda value: value + 1e-3)
    reference, ours, torchs = compare(model, inputs=3, backends=["kernels", "torch"])
    assert not ours.within_contract and ours.error > 1e-5
    assert reference.within_contract and torchs.within_contract


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_outside_the_contract(model, monkeypatch, value):
    spoil(monkeypatch, lambda _: value)
    ours = compare(model, inputs=2, backends=["kernels"])[1]
    assert not ours.within_contract


def test_nan_in_one_input_of_several_is_found(model, monkeypatch):
    original = KernelBackend.__call__
    calls = []

    def call(self, x):
        calls.append(x)
        result = original(self, x)
        return result * np.float32(np.nan) if len(calls) == 3 else result  # the first call warms up

    monkeypatch.setattr(KernelBackend, "__call__", call)
    ours = compare(model, inputs=3, backends=["kernels"])[1]
    assert np.isnan(ours.error) and not ours.within_contract


def test_another_order_of_classes_is_outside_the_contract(model, monkeypatch):
    original = KernelBackend.__call__
    monkeypatch.setattr(KernelBackend, "__call__", lambda self, x: original(self, x)[:, ::-1].copy())
    ours = compare(model, inputs=2, backends=["kernels"])[1]
    assert ours.same_top5 < 2 and not ours.within_contract


def test_close_classes_may_change_places():
    """Ten scores of root mean square 1: with a tolerance of 5e-3 two are close up to 0.01 apart."""
    reference = np.array([[1.508, 1.5, 1.4, 1.3, 1.2, 0.1, 0.05, 0.0, -0.3, -0.4]], np.float32)
    reference /= np.sqrt(np.mean(reference**2))
    apart = reference[0, 0] - reference[0, 1]
    assert 0.007 < apart < 0.01

    def close(*exchanged: int, tolerance: float = 5e-3) -> bool:
        scores = reference.copy()
        scores[:, exchanged] = reference[:, exchanged[::-1]]
        return bool(close_top(scores, reference, tolerance)[0])

    assert close(0, 0) and close(0, 1) and not close(0, 1, tolerance=1e-3)
    assert not close(1, 2) and not close(4, 5) and close(7, 8), "the last two are not among the first five"
    assert not close_top(np.full_like(reference, np.nan), reference[:, ::-1], 5e-3)[0]


@pytest.mark.parametrize(("dtype", "within"), [("fp32", False), ("fp16", True)])
def test_classes_that_rounding_exchanges(model, monkeypatch, dtype, within):
    """The best two scores are nearly equal and stand in each other's place: fp32 allows the error, not the order."""
    original = KernelBackend.__call__
    tied = {}

    def call(self, x):
        scores = np.array(original(self, x))
        first, second = tied["top"][:2]
        scores[:, [first, second]] = tied["scores"][:, [second, first]]
        return scores

    reference = OnnxRuntimeBackend.__call__

    def nearly_tied(self, x):
        scores = np.array(reference(self, x))
        first, second = top(scores)[0, :2]
        scores[:, second] = scores[:, first] * np.float32(1 - 1e-6)
        tied.update(top=(first, second), scores=scores)
        return scores

    monkeypatch.setattr(OnnxRuntimeBackend, "__call__", nearly_tied)
    monkeypatch.setattr(KernelBackend, "__call__", call)
    ours = compare(model, inputs=1, backends=["kernels"], dtype=dtype)[1]
    assert ours.error <= TOLERANCES[dtype] and ours.same_top5 == 0 and ours.within_contract is within


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_classes_far_apart_must_not_change_places(model, monkeypatch, dtype):
    """The fifth class and the sixth have exchanged scores that are no tie."""
    original = KernelBackend.__call__

    def call(self, x):
        scores = np.array(original(self, x))
        fifth, sixth = np.argsort(-scores[0])[4:6]
        scores[:, [fifth, sixth]] = scores[:, [sixth, fifth]]
        return scores

    monkeypatch.setattr(KernelBackend, "__call__", call)
    ours = compare(model, inputs=1, backends=["kernels"], dtype=dtype, seed=3)[1]
    assert ours.close_top5 == 0 and not ours.within_contract


def test_a_seed_draws_the_same_inputs_again(model):
    first, again, other = (compare(model, 2, backends=["torch"], seed=seed)[1].error for seed in (1, 1, 2))
    assert first == again != other


def test_inputs_of_another_size(model):
    assert all(row.within_contract for row in compare(model, 1, size=13))


def test_relative_error():
    assert relative_error([1.0, 2.0], [1.0, 2.0]) == 0
    assert relative_error([3.0, 4.0], [0.0, 0.0]) > 1e300
    assert relative_error([3.0, 0.0], [3.0, 4.0]) == pytest.approx(0.8)
    assert np.isnan(relative_error([np.nan], [1.0])) and np.isnan(relative_error([1.0], [np.nan]))
    with pytest.raises(ValueError, match="shape"):
        relative_error([1.0], [[1.0]])


def test_top():
    scores = np.array([[0, 3, 1, 2], [5, 5, 9, 5]])
    assert top(scores, 2).tolist() == [[1, 3], [2, 0]]
    assert top(scores).shape == (2, 4)


# step by step


BROKEN = """extern "C" __global__ void mean(const float* x, float* out, int pixels, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    float sum = 0;
    for (int p = 0; p + 1 < pixels; ++p) sum += x[i * pixels + p];  // the last one is forgotten
    out[i] = sum / pixels;
}"""


def mean(x, out):
    n, c, h, w = x.shape
    cuda.RawKernel(BROKEN, "mean")((-(-n * c // 64),), (64,), (x, out, np.int32(h * w), np.int32(n * c)))


@pytest.mark.parametrize("options", [{}, {"layout": "NHWC"}, {"dtype": "fp16"}, {"backend": "torch"}], ids=str)
def test_every_step_is_right(model, options):
    rows = compare_steps(model, **options)
    assert first_drift(rows) is None and [row.index for row in rows] == list(range(len(rows)))
    assert all(row.own <= row.allowed and row.error <= TOLERANCES[options.get("dtype", "fp32")] for row in rows)


def test_the_step_that_drifts_is_named_and_those_behind_it_are_not(model):
    rows = compare_steps(model, layout="NCHW", operators={"global_avg_pool": mean})
    culprit = first_drift(rows)
    assert culprit.step == "GlobalAveragePool" and culprit.runs_as == "mean (yours)"
    behind = rows[culprit.index + 1 :]
    assert behind and all(row.fits and row.error > 1e-3 for row in behind)
    assert all(row.fits for row in rows[: culprit.index])


def test_an_output_that_nobody_writes_is_found(model):
    rows = compare_steps(model, operators={"global_avg_pool": lambda x, out: None})
    assert np.isnan(first_drift(rows).own) and first_drift(rows).step == "GlobalAveragePool"


def test_steps_of_an_image_of_ones_own(model, rng):
    x = rng.standard_normal((3, 3, 11, 10), dtype=np.float32)
    assert first_drift(compare_steps(model, x=x)) is None
    with pytest.raises(ValueError, match=r"x must have shape \(N, 3, H, W\)"):
        compare_steps(model, x=x[0])
    with pytest.raises(ValueError, match="the reference"):
        compare_steps(model, "onnxruntime")


def test_pictures_are_compared_too(model, rng):
    picture = rng.standard_normal((1, 3, 9, 8), dtype=np.float32)
    rows = compare(model, inputs=2, pictures=[picture])
    assert all(row.images == 3 and row.within_contract for row in rows)
    assert all(row.images == 1 for row in compare(model, inputs=0, pictures=[picture]))
    with pytest.raises(ValueError, match="inputs must be at least 1"):
        compare(model, inputs=0)


FIRST_ONLY = BROKEN.replace("p + 1 < pixels", "p < pixels").replace("if (i >= rows) return;", "if (i >= 16) return;")


def first_only(x, out):
    """Right for the first picture, and no other is written."""
    n, c, h, w = x.shape
    cuda.RawKernel(FIRST_ONLY, "mean")((-(-n * c // 64),), (64,), (x, out, np.int32(h * w), np.int32(n * c)))


def test_a_kernel_that_is_right_for_the_first_picture_alone(model):
    wrong = {"layout": "NCHW", "operators": {"global_avg_pool": first_only}}
    assert compare(model, inputs=3, backends=["kernels"], **wrong)[1].within_contract
    for batch in (2, 3, 7):
        assert not compare(model, inputs=3, backends=["kernels"], batch=batch, **wrong)[1].within_contract
        assert all(row.within_contract and row.images == 3 for row in compare(model, inputs=3, batch=batch))
    with pytest.raises(ValueError, match="batch must be an integer of at least 1, got 0"):
        compare(model, batch=0)
