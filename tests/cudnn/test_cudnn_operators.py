"""Each operator on cuDNN and cuBLAS against float64, at MobileNetV2's shapes and at odd ones, in every arithmetic."""

import math
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from int8_checks import constants, drawn, nhwc

from common import cuda, cudnn, topology
from common.cudnn import blas, plans
from common.kernels import int8

if cudnn.missing():
    pytest.skip(cudnn.missing(), allow_module_level=True)

LAYOUTS = ["NCHW", "NHWC"]
# ‖out − ref‖ / ‖ref‖; that of fp32 grows with the root of K. TF32 rounds factors to 10 bits, an error of 2^-11 each.
ALLOWED = {"fp32": 1e-6, "tf32": 2e-3, "fp16": 2e-3}

every_arithmetic = pytest.mark.parametrize("arithmetic", cudnn.ARITHMETICS)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def draw(rng, *shape, arithmetic="fp32", layout="NCHW"):
    array = cuda.asarray((rng.standard_normal(shape) + 0.5).astype(np.float16 if arithmetic == "fp16" else np.float32))
    return cuda.to_layout(array, layout) if len(shape) == 4 else array


def f64(array):
    return None if array is None else torch.from_numpy(cuda.asnumpy(array)).double()


def poisoned(array):
    array[...] = np.nan
    return array


def error_of(out, reference, terms=None):
    """‖out − reference‖ / ‖reference‖; terms: of what size the terms were that made up a result of a few numbers.

    They may cancel by chance, and then their rounding is all that is left.
    """
    result = cuda.asnumpy(out).astype(np.float64)
    assert result.shape == tuple(reference.shape)
    few = terms is not None and reference.numel() < 16
    size = np.linalg.norm((terms if few else reference).numpy())
    return float(np.linalg.norm(result - reference.numpy()) / max(size, 1e-6))


def agrees(out, reference, arithmetic, k=1, terms=None):
    allowed = ALLOWED[arithmetic] * (math.sqrt(max(k, 1)) if arithmetic == "fp32" else 1)
    assert error_of(out, reference, terms) <= allowed


def mobilenet_convolutions():
    """The different convolutions of MobileNetV2 at 224 × 224: (in, height, out, kernel, stride, groups)."""
    shapes = {}
    for layer in topology.build().layers:
        if isinstance(layer, topology.Conv2d):
            _, c, h, _ = layer.input_shapes[0]
            shapes[c, h, layer.out_channels, layer.kernel_size[0], layer.stride[0], layer.groups] = None
    return list(shapes)


def convolve(rng, x, w, stride, padding, dilation, groups, arithmetic, layout, residual, activation, tune=False):
    a, b = draw(rng, *x, arithmetic=arithmetic, layout=layout), draw(rng, *w, arithmetic=arithmetic, layout=layout)
    bias = draw(rng, w[0], arithmetic=arithmetic)
    ref = F.conv2d(f64(a), f64(b), f64(bias), stride, padding, dilation, groups)
    terms = F.conv2d(f64(a).abs(), f64(b).abs(), f64(bias).abs(), stride, padding, dilation, groups)
    r = draw(rng, *ref.shape, arithmetic=arithmetic, layout=layout) if residual else None
    ref, terms = (ref + f64(r), terms + f64(r).abs()) if residual else (ref, terms)
    if activation:
        ref = {"relu": F.relu, "relu6": F.relu6}[activation](ref)
    out = poisoned(cuda.to_layout(draw(rng, *ref.shape, arithmetic=arithmetic), layout))
    given = cudnn.conv2d(
        a, b, bias, stride, padding, dilation, groups,
        residual=r, activation=activation, arithmetic=arithmetic, tune=tune, out=out,
    )  # fmt: skip
    assert given is out
    agrees(out, ref, arithmetic, w[1] * w[2] * w[3], terms)
    return error_of(out, ref, terms)


@every_layout
@every_arithmetic
@pytest.mark.parametrize("shape", mobilenet_convolutions(), ids=str)
def test_convolutions_of_mobilenetv2(rng, shape, arithmetic, layout):
    c, h, o, k, stride, groups = shape
    project = k == 1 and o < c  # linear, and with a residual where the block has one
    error = convolve(
        rng, (1, c, h, h), (o, c // groups, k, k), stride, k // 2, 1, groups, arithmetic, layout,
        residual=project, activation=None if project else "relu6",
    )  # fmt: skip
    if arithmetic == "tf32" and groups == 1:
        assert error > 1e-5  # it really is TF32
    if arithmetic == "fp32":
        assert error < 1e-5  # it really is not


ODD = [  # x, w, stride, padding, dilation, groups
    ((1, 1, 1, 1), (1, 1, 1, 1), 1, 0, 1, 1),
    ((3, 7, 5, 11), (13, 7, 1, 1), 1, 0, 1, 1),
    ((2, 17, 13, 9), (17, 1, 3, 3), 2, 1, 1, 17),
    ((1, 33, 7, 7), (33, 1, 5, 5), 1, 2, 1, 33),
    ((2, 6, 17, 15), (10, 3, 3, 2), (2, 1), (1, 0), (2, 1), 2),
    ((1, 3, 31, 29), (5, 3, 7, 7), 2, 3, 1, 1),
    ((2, 5, 9, 8), (4, 5, 3, 3), 1, ((0, 1), (0, 1)), 1, 1),
]


@every_layout
@every_arithmetic
@pytest.mark.parametrize("case", ODD, ids=lambda case: f"{case[0]} {case[1]}")
@pytest.mark.parametrize(("residual", "activation"), [(False, None), (False, "relu6"), (True, None), (True, "relu")])
def test_odd_convolutions(rng, case, arithmetic, layout, residual, activation):
    x, w, stride, padding, dilation, groups = case
    if isinstance(padding, tuple) and isinstance(padding[0], tuple):
        pytest.importorskip("torch")
        (top, bottom), (left, right) = padding
        a, b = draw(rng, *x, arithmetic=arithmetic, layout=layout), draw(rng, *w, arithmetic=arithmetic, layout=layout)
        out = cudnn.conv2d(a, b, None, stride, padding, dilation, groups, arithmetic=arithmetic)
        ref = F.conv2d(F.pad(f64(a), (left, right, top, bottom)), f64(b), None, stride, 0, dilation, groups)
        return agrees(out, ref, arithmetic, k=w[1] * w[2] * w[3])
    convolve(rng, x, w, stride, padding, dilation, groups, arithmetic, layout, residual, activation)


@every_arithmetic
def test_a_tuned_convolution_is_right_and_not_slower(rng, arithmetic):
    for x, w, groups in [((1, 384, 14, 14), (64, 384, 1, 1), 1), ((1, 144, 28, 28), (144, 1, 3, 3), 144)]:
        convolve(rng, x, w, 1, w[2] // 2, 1, groups, arithmetic, "NHWC", False, "relu6", tune=8)
        c = cudnn.Convolution(x, w, padding=(w[2] // 2,) * 2, bias=True, bounds=(0.0, 6.0), layout="NHWC",
                              arithmetic=arithmetic)  # fmt: skip
        ways = tuple(c.compositions())
        best = [sum(us for _, us in found) for ws in ways if all(found := [plans.fastest(g, 8) for g in ws])]
        chosen = plans.choose(ways, tune=8)
        assert sum(plans.fastest(plan.graph, 8)[1] for plan in chosen.plans) == min(best)


@every_layout
@every_arithmetic
@pytest.mark.parametrize("x", [(3, 33, 7, 5), (1, 384, 14, 14)], ids=str)
def test_pointwise_convolutions_on_cublas(rng, x, arithmetic, layout):
    import cupy

    w = (24, x[1], 1, 1)
    graph = next(iter(cudnn.Convolution(x, w, layout=layout, arithmetic=arithmetic).compositions()))[0]
    a, b = draw(rng, *x, arithmetic=arithmetic, layout=layout), draw(rng, *w, arithmetic=arithmetic, layout=layout)
    out = poisoned(draw(rng, x[0], 24, *x[2:], arithmetic=arithmetic, layout=layout))
    plan = blas.plan_of(graph)
    workspace = cupy.empty(plan.workspace, np.uint8)
    plan.launch({"x": a.data.ptr, "w": b.data.ptr, "y": out.data.ptr}, workspace.data.ptr)
    agrees(out, F.conv2d(f64(a), f64(b)), arithmetic, x[1])
    if arithmetic == "tf32" and x[1] == 384:
        assert error_of(out, F.conv2d(f64(a), f64(b))) > 1e-5


def test_what_was_tuned_is_found_again_on_disk(rng, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    c = cudnn.Convolution((1, 32, 20, 20), (16, 32, 1, 1), bias=True)
    graph = next(iter(c.compositions()))[0]
    plans.clear()
    plan, us = plans.fastest(graph)
    plans.clear()
    monkeypatch.setattr(plans, "_search", None)  # it would fail
    again, remembered = plans.fastest(graph)
    assert (again.name, remembered) == (plan.name, us)
    plans.clear()
    next(tmp_path.glob("cudnn-*.json")).write_text("{")  # damaged: searched anew
    with pytest.raises(TypeError):
        plans.fastest(graph)
    plans.clear()


def test_wrong_arguments(rng):
    x, w = draw(rng, 1, 4, 5, 5), draw(rng, 8, 4, 1, 1)
    with pytest.raises(ValueError, match="arithmetic for float32 arrays must be fp32 or tf32, got 'fp16'"):
        cudnn.conv2d(x, w, arithmetic="fp16")
    with pytest.raises(ValueError, match="arithmetic must be one of fp32, tf32, fp16, got 'int8'"):
        cudnn.conv2d(x, w, arithmetic="int8")
    with pytest.raises(ValueError, match="must be NCHW, or all NHWC"):
        cudnn.conv2d(x, draw(rng, 8, 4, 3, 3, layout="NHWC"))
    with pytest.raises(ValueError, match=r"weight must have shape \(any, 4, any, any\), got \(8, 5, 1, 1\)"):
        cudnn.conv2d(x, draw(rng, 8, 5, 1, 1))
    with pytest.raises(ValueError, match="algorithm must be 'cublas' or 'convolution', got 'magic'"):
        cudnn.gemm(x[0, 0], x[0, 0], algorithm="magic")
    with pytest.raises(ValueError, match="padding must be at most half"):
        cudnn.avg_pool2d(x, 2, padding=2)


@pytest.mark.parametrize(("channels", "outputs"), [(16, 96), (24, 144), (96, 576), (960, 320)])
def test_pointwise_in_int8(rng, channels, outputs):
    """cuDNN's own roundings: here and there the next code."""
    x, weight = drawn(rng, 2, channels, 14, 14), drawn(rng, outputs, channels, 1, 1)
    zero_point, bias, multiplier = constants(rng, weight)
    want = int8.conv2d(x, weight, bias, multiplier, zero_point=zero_point, bounds=(zero_point, 120))
    out = nhwc(np.full(want.shape, 99, np.int8))
    given = nhwc(x), nhwc(weight), cuda.asarray(bias), cuda.asarray(multiplier)
    cudnn.pointwise_int8(*given, zero_point=zero_point, bounds=(zero_point, 120), out=out)()
    off = np.abs(cuda.asnumpy(out).astype(int) - want)
    assert off.max() <= 1 and off.mean() < 1e-3
    with pytest.raises(ValueError, match=r"weight must have shape \(any, \d+, any, any\)"):
        cudnn.pointwise_int8(given[0], given[1][:, :8], *given[2:])


@every_arithmetic
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1280, 1000), (17, 33, 7), (128, 256, 64), (196, 576, 96)], ids=str)
@pytest.mark.parametrize(("algorithm", "transpose"), [("cublas", False), ("cublas", True), ("convolution", True)])
def test_gemm(rng, shape, arithmetic, algorithm, transpose):
    m, k, n = shape
    a = draw(rng, m, k, arithmetic=arithmetic)
    b = draw(rng, *((n, k) if transpose else (k, n)), arithmetic=arithmetic)
    bias = draw(rng, n, arithmetic=arithmetic)
    for given, activation in [(None, None), (bias, None), (bias, "relu6")]:
        ref = f64(a) @ (f64(b).T if transpose else f64(b)) + (0 if given is None else f64(given))
        ref = F.relu6(ref) if activation else ref
        terms = f64(a).abs() @ (f64(b).T if transpose else f64(b)).abs() + (0 if given is None else f64(given).abs())
        out = poisoned(draw(rng, m, n, arithmetic=arithmetic))
        cudnn.gemm(a, b, given, transpose_b=transpose, activation=activation, arithmetic=arithmetic,
                   algorithm=algorithm, out=out)  # fmt: skip
        agrees(out, ref, arithmetic, k, terms)
    if arithmetic == "tf32" and k >= 256 and m >= 128:
        plain = cudnn.gemm(a, b, transpose_b=transpose, arithmetic="tf32", algorithm=algorithm)
        assert error_of(plain, f64(a) @ (f64(b).T if transpose else f64(b))) > 1e-5


@every_layout
@pytest.mark.parametrize("arithmetic", ["fp32", "fp16"])
@pytest.mark.parametrize("shape", [(1, 1280, 7, 7), (3, 17, 5, 11), (2, 1, 1, 1), (1, 33, 13, 1)], ids=str)
def test_pooling(rng, shape, arithmetic, layout):
    x = draw(rng, *shape, arithmetic=arithmetic, layout=layout)
    agrees(cudnn.global_avg_pool(x), f64(x).mean((2, 3), keepdim=True), arithmetic, shape[2] * shape[3])
    if min(shape[2:]) >= 3:
        ref = F.avg_pool2d(f64(x), 3, 2, 1)
        out = poisoned(draw(rng, *ref.shape, arithmetic=arithmetic, layout=layout))
        cudnn.avg_pool2d(x, 3, 2, 1, out=out)
        agrees(out, ref, arithmetic, 9)


@every_layout
@pytest.mark.parametrize("arithmetic", ["fp32", "fp16"])
@pytest.mark.parametrize("shape", [(1, 24, 56, 56), (3, 7, 5, 11), (1, 1, 1, 1), (2, 13, 1, 1)], ids=str)
def test_addition_and_clamp(rng, shape, arithmetic, layout):
    a, b = (draw(rng, *shape, arithmetic=arithmetic, layout=layout) for _ in range(2))
    out = poisoned(draw(rng, *shape, arithmetic=arithmetic, layout=layout))
    agrees(cudnn.add(a, b, out=out), f64(a) + f64(b), arithmetic)
    agrees(cudnn.add(a, b, activation="relu6"), F.relu6(f64(a) + f64(b)), arithmetic)
    agrees(cudnn.clamp(a, -0.25, 0.75), f64(a).clamp(-0.25, 0.75), arithmetic)


@every_layout
@every_arithmetic
@pytest.mark.parametrize(
    "case", [c for c in ODD if not isinstance(c[3], tuple)], ids=lambda case: f"{case[0]} {case[1]}"
)
def test_gradients(rng, case, arithmetic, layout):
    x, w, stride, padding, dilation, groups = case
    a, b = draw(rng, *x, arithmetic=arithmetic, layout=layout), draw(rng, *w, arithmetic=arithmetic, layout=layout)
    shape = F.conv2d(f64(a), f64(b), None, stride, padding, dilation, groups).shape
    dy = draw(rng, *shape, arithmetic=arithmetic, layout=layout)
    how = stride, padding, dilation, groups
    dx = cudnn.conv2d_backward_input(dy, b, x, *how, arithmetic=arithmetic)
    agrees(dx, torch.nn.grad.conv2d_input(x, f64(b), f64(dy), *how), arithmetic, w[0] // groups * w[2] * w[3])
    dw = cudnn.conv2d_backward_weight(a, dy, w, *how, arithmetic=arithmetic)
    agrees(dw, torch.nn.grad.conv2d_weight(f64(a), w, f64(dy), *how), arithmetic, x[0] * shape[2] * shape[3])


@every_layout
@pytest.mark.parametrize("arithmetic", ["fp32", "fp16"])
@pytest.mark.parametrize(("channels", "height", "stride"), [(32, 112, 1), (96, 112, 2), (144, 56, 1), (960, 7, 1)])
def test_gradients_of_depthwise_layers_of_mobilenetv2(rng, channels, height, stride, arithmetic, layout):
    x, w, how = (2, channels, height, height), (channels, 1, 3, 3), (stride, 1, 1, channels)
    a, b = draw(rng, *x, arithmetic=arithmetic, layout=layout), draw(rng, *w, arithmetic=arithmetic, layout=layout)
    extent = (height - 1) // stride + 1
    dy = draw(rng, 2, channels, extent, extent, arithmetic=arithmetic, layout=layout)
    dx = cudnn.conv2d_backward_input(dy, b, x, *how, tune=4)
    agrees(dx, torch.nn.grad.conv2d_input(x, f64(b), f64(dy), *how), arithmetic, 9)
    dw = cudnn.conv2d_backward_weight(a, dy, w, *how, tune=4)
    agrees(dw, torch.nn.grad.conv2d_weight(f64(a), w, f64(dy), *how), arithmetic, 2 * extent * extent)


def test_torch_tensors_on_their_stream(rng):
    x = torch.randn(2, 8, 9, 9, device="cuda").contiguous(memory_format=torch.channels_last)
    w = torch.randn(4, 8, 3, 3, device="cuda").contiguous(memory_format=torch.channels_last)
    with torch.cuda.stream(torch.cuda.Stream()):
        out = cudnn.conv2d(x, w, padding=1)
        ref = F.conv2d(x.double(), w.double(), padding=1)
        assert isinstance(out, torch.Tensor) and out.is_contiguous(memory_format=torch.channels_last)
        assert float((out.double() - ref).norm() / ref.norm()) < 1e-5
    torch.cuda.synchronize()


def test_threads_and_streams(rng):
    import cupy

    x, w = draw(rng, 1, 32, 28, 28, layout="NHWC"), draw(rng, 64, 32, 1, 1, layout="NHWC")
    want = cuda.asnumpy(cudnn.conv2d(x, w, activation="relu"))
    wrong = []

    def work():
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for _ in range(50):
                out = cudnn.conv2d(x, w, activation="relu")
                stream.synchronize()
                if not (cupy.asnumpy(out) == want).all():
                    wrong.append(1)

    cupy.cuda.Device().synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_launch_can_be_recorded_in_a_cuda_graph(rng):
    """`Call` takes no memory if it is given some."""
    import cupy

    from common.cudnn import operators

    x, w = draw(rng, 1, 64, 14, 14), draw(rng, 32, 64, 1, 1)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        call, out = operators.convolution(x, w, activation="relu6")
        scratch = cupy.empty(max(1, call.scratch), np.uint8)
        call(scratch.data.ptr)
        want = out.copy()
        stream.begin_capture()
        call(scratch.data.ptr)
        graph = stream.end_capture()
        poisoned(out)
        graph.launch(stream)
        stream.synchronize()
        assert bool((out == want).all())
