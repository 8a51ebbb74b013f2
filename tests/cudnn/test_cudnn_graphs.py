"""What cuDNN is asked for: every way to ask computes the same, shapes and strides are right. Needs no GPU."""

import itertools

import numpy as np
import pytest
import torch

from common import cuda, cudnn
from common.cuda import layout as layouts
from common.cudnn import blas
from common.cudnn.emulation import gemm, run
from common.cudnn.emulation import in_memory as placed
from common.cudnn.graphs import Node, elementwise, gradient_to_input, gradient_to_weight

CASES = [
    (x, w, stride, padding, dilation)
    for x, w, stride, padding, dilation in [
        ((2, 5, 7, 9), (4, 5, 1, 1), (1, 1), (0, 0), (1, 1)),
        ((1, 6, 9, 8), (6, 1, 3, 3), (2, 2), (1, 1), (1, 1)),
        ((2, 6, 11, 7), (4, 3, 3, 2), (1, 2), (2, 0), (2, 1)),
    ]
]
EPILOGUES = list(itertools.product([False, True], [False, True], [None, (0.0, 6.0), (0.0, np.inf), (-1.0, 0.5)]))


def convolution(case, bias=False, residual=False, bounds=None, layout="NCHW", arithmetic="fp32"):
    x, w, stride, padding, dilation = case
    return cudnn.Convolution(x, w, stride, padding, dilation, bias, residual, bounds, layout, arithmetic)


@pytest.mark.parametrize("layout", layouts.LAYOUTS)
@pytest.mark.parametrize("arithmetic", cudnn.ARITHMETICS)
@pytest.mark.parametrize("case", CASES, ids=["pointwise", "depthwise", "grouped"])
def test_every_composition_computes_the_same(rng, case, arithmetic, layout):
    for bias, residual, bounds in EPILOGUES:
        c = convolution(case, bias, residual, bounds, layout, arithmetic)
        x, w, b, r = (rng.standard_normal(s) for s in (c.x, c.w, (1, c.w[0], 1, 1), c.y))
        want = torch.conv2d(
            torch.from_numpy(x), torch.from_numpy(w), torch.from_numpy(b.ravel()) if bias else None,
            c.stride, c.padding, c.dilation, c.groups,
        ).numpy() + (r if residual else 0)  # fmt: skip
        want = np.clip(want, *bounds) if bounds else want
        compositions = list(c.compositions())
        assert len(set(compositions)) == len(compositions) >= 1
        for graphs in compositions:
            memory = {"x": placed(x, layout), "w": placed(w, layout)}
            memory |= {"bias": b.ravel().copy()} if bias else {}
            memory |= {"residual": placed(r, layout)} if residual else {}
            for graph in graphs:
                run(graph, memory)
            np.testing.assert_allclose(memory["y"], placed(want, layout), rtol=1e-12, atol=1e-12)


def test_only_nhwc_is_asked_for_with_an_identity():
    """The engine that writes kernels knows nothing else; asking for it in NCHW would only cost time."""
    for layout in layouts.LAYOUTS:
        spelled = [g.spelling for gs in convolution(CASES[0], True, layout=layout).compositions() for g in gs]
        assert any("identity" in text for text in spelled) == (layout == "NHWC")


def test_a_convolution_alone_is_one_graph():
    assert [len(graphs) for graphs in convolution(CASES[0]).compositions()] == [1]


def test_the_first_choice():
    def first(**options):
        return [
            g.spelling.count("→")
            for g in next(iter(convolution(CASES[0], True, False, (0, 6), **options).compositions()))
        ]

    assert first(layout="NHWC", arithmetic="fp16") == [3]  # all in one
    assert first(layout="NHWC", arithmetic="fp32") == [2, 0]  # bias and ReLU, then the cut at 6
    assert first(layout="NCHW", arithmetic="fp16") == [2, 0]


@pytest.mark.parametrize("case", CASES, ids=["pointwise", "depthwise", "grouped"])
def test_the_shape_of_the_output(case):
    c = convolution(case)
    conv = torch.nn.functional.conv2d(
        torch.zeros(c.x), torch.zeros(c.w), None, c.stride, c.padding, c.dilation, c.groups
    )
    assert c.y == tuple(conv.shape)


def test_gradients_read_and_write_what_they_should():
    c = convolution(CASES[1], layout="NHWC")
    to_input, to_weight = gradient_to_input(c), gradient_to_weight(c)
    assert [(t.name, t.shape) for t in (*to_input.tensors, to_input.output)] == [("dy", c.y), ("w", c.w), ("dx", c.x)]
    assert [(t.name, t.shape) for t in (*to_weight.tensors, to_weight.output)] == [("x", c.x), ("dy", c.y), ("dw", c.w)]
    assert to_input.nodes[0].op == "conv_dgrad" and to_weight.nodes[0].op == "conv_wgrad"


def test_a_graph_in_words():
    c = cudnn.Convolution((1, 3, 4, 5), (2, 3, 1, 1), bias=True, bounds=(0.0, 6.0), layout="NHWC", arithmetic="fp16")
    assert str(next(iter(c.compositions()))[0]).splitlines() == [
        "x         (1, 3, 4, 5)         strides (60, 1, 15, 3)           fp16",
        "w         (2, 3, 1, 1)         strides (3, 1, 3, 3)             fp16",
        "bias      (1, 2, 1, 1)         strides (2, 1, 2, 2)             fp16",
        "y         (1, 2, 4, 5)         strides (40, 1, 10, 2)           fp16",
        "conv_fprop(w, padding (0, 0), stride (1, 1), dilation (1, 1)) → identity → add(bias) → "
        "clamp(low 0.0, high 6.0), in fp16",
    ]


def test_elementwise_arrays_are_declared_whole():
    for shape in [(1, 1, 1, 1), (2, 3, 5, 7), (1, 64, 14, 14), (1, 17, 1, 1)]:
        for layout in layouts.LAYOUTS:
            for operands in ([], ["b"], ["bias"]):
                graph = elementwise(shape, [Node("add", name) for name in operands], operands, layout, "fp32")
                assert np.prod(graph.output.shape) == np.prod(shape)
                assert graph.output.strides == layouts.strides(graph.output.shape, "NHWC")


@pytest.mark.parametrize("layout", layouts.LAYOUTS)
@pytest.mark.parametrize("x", [(1, 5, 7, 3), (3, 5, 2, 4), (2, 1, 3, 3), (4, 6, 1, 1)], ids=str)
def test_a_pointwise_convolution_as_a_product(rng, x, layout):
    w = (4, x[1], 1, 1)
    graph = next(iter(cudnn.Convolution(x, w, layout=layout).compositions()))[0]
    p, names = blas.product_of(graph)
    a, b = rng.standard_normal(x), rng.standard_normal(w)
    memory = {"x": placed(a, layout), "w": b.ravel().copy()}
    y = np.full(int(np.prod(graph.output.shape)), np.nan)
    gemm(
        *(memory[name] for name in names), y, m=p.m, n=p.n, k=p.k, transa="NT"[p.transpose_a],
        transb="NT"[p.transpose_b], lda=p.k if p.transpose_a else p.m, ldb=p.n if p.transpose_b else p.k, ldc=p.m,
        batch=p.batch, stride_a=p.strides[0], stride_b=p.strides[1], stride_c=p.strides[2],
    )  # fmt: skip
    want = torch.conv2d(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    np.testing.assert_allclose(y, placed(want, layout), rtol=1e-12)


def test_what_is_no_product():
    for c in (
        convolution(CASES[1]),
        cudnn.Convolution((1, 4, 5, 5), (4, 4, 1, 1), stride=(2, 2)),
        cudnn.Convolution((1, 4, 5, 5), (4, 2, 1, 1)),
        cudnn.Convolution((1, 4, 5, 5), (4, 4, 1, 1), padding=(1, 0)),
        cudnn.Convolution((1, 4, 5, 5), (4, 4, 3, 3)),
    ):
        assert blas.plan_of(next(iter(c.compositions()))[0]) is None
    with_bias = cudnn.Convolution((1, 4, 5, 5), (4, 4, 1, 1), bias=True, bounds=(0.0, 6.0))
    assert [len(gs) for gs in with_bias.compositions() if blas.plan_of(gs[0])] == [2]


# memory layouts


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 1, 5, 7), (2, 3, 1, 1), (1, 3, 5, 1)])
def test_layouts_are_pytorchs(shape):
    x = torch.randn(shape)
    for layout, memory_format in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
        theirs = x.contiguous(memory_format=memory_format).numpy()
        assert layouts.has(theirs, layout)
        ours = cuda.to_layout(x.numpy(), layout)
        np.testing.assert_array_equal(cuda.asnumpy(ours), x.numpy())
        assert layouts.has(ours, layout)
        assert layouts.has(layouts.empty(shape, np.float16, layout), layout)


def test_arrays_of_two_layouts_are_refused():
    x = np.zeros((2, 3, 5, 7), np.float32)
    turned = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert layouts.shared_layout(x=x, y=None) == "NCHW" and layouts.shared_layout(x=turned) == "NHWC"
    assert layouts.shared_layout(x=turned, weight=np.zeros((8, 3, 1, 1), np.float32)) == "NHWC"
    with pytest.raises(ValueError, match=r"be NCHW, or all NHWC .* x \(2, 3, 5, 7\) with strides .* y \(2, 3, 5, 7\)"):
        layouts.shared_layout(x=x, y=turned)
    with pytest.raises(ValueError, match=r"array must have shape \(N, C, H, W\), got \(3,\)"):
        cuda.to_layout(np.zeros(3, np.float32), "NHWC")
    with pytest.raises(ValueError, match="layout must be one of NCHW, NHWC, got 'CHWN'"):
        cuda.to_layout(x, "CHWN")


# without a GPU

# x and weight, bias, multiplier of a 1×1 convolution
INT8 = (*[np.zeros((8, 1, 1, 8), np.int8).transpose(0, 3, 1, 2)] * 2, np.zeros(8, np.int32), np.ones(8, np.float32))


@pytest.mark.skipif(cudnn.missing() is None, reason="cuDNN is here")
@pytest.mark.parametrize(
    "call",
    [
        lambda x: cudnn.conv2d(x, x),
        lambda x: cudnn.conv2d_backward_input(x, x, (1, 1, 3, 3)),
        lambda x: cudnn.conv2d_backward_weight(x, x, (1, 1, 3, 3)),
        lambda x: cudnn.gemm(x[0, 0], x[0, 0]),
        lambda x: cudnn.linear(x[0, 0], x[0, 0]),
        lambda x: cudnn.add(x, x),
        lambda x: cudnn.clamp(x, 0, 6),
        lambda x: cudnn.avg_pool2d(x, 2),
        lambda x: cudnn.global_avg_pool(x),
        lambda x: cudnn.pointwise_int8(*INT8),
        lambda x: cudnn.versions(),
    ],
)
def test_without_a_gpu_it_says_what_is_missing(call):
    with pytest.raises(RuntimeError, match=r"NVIDIA GPU only.*06_optimize/results.*python -m common doctor"):
        call(np.zeros((1, 1, 3, 3), np.float32))
