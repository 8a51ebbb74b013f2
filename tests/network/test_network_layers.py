"""The backends "torch" and "kernels" layer by layer against ONNX Runtime: every kind of layer that there is."""

import numpy as np
import pytest
from network_models import layers, random_parameters, run_onnxruntime

from common import topology
from common.network import Network
from common.network.compare import TOLERANCES, relative_error
from common.network.registry import OPERATORS
from common.topology import layers as kinds
from common.topology import write_onnx

UNEVEN = ((0, 1), (2, 1))
ACROSS = {"in_channels": 4, "out_channels": 6, "kernel_size": (3, 2), "stride": (2, 3), "padding": UNEVEN,
          "output_padding": (0, 1), "dilation": (1, 2), "groups": 2, "weight": "w", "bias": "b"}  # fmt: skip
CASES = {
    "conv": [
        (
            kinds.Conv2d,
            {
                "in_channels": 4,
                "out_channels": 6,
                "kernel_size": (3, 2),
                "stride": (2, 1),
                "padding": UNEVEN,
                "dilation": (1, 2),
                "groups": 2,
                "weight": "w",
            },
        )
    ],
    "linear": [(kinds.Linear, {"in_features": 4 * 9 * 8, "out_features": 5, "weight": "w", "bias": "b"})],
    "batch-norm": [
        (
            kinds.BatchNorm2d,
            {"num_features": 4, "eps": 1e-3, "weight": "w", "bias": "b", "running_mean": "m", "running_var": "v"},
        )
    ],
    "batch-norm-of-shared-arrays": [
        (
            kinds.BatchNorm2d,
            {"num_features": 4, "eps": 1e-3, "weight": "w", "bias": "m", "running_mean": "m", "running_var": "w"},
        )
    ],
    "relu6": [(kinds.ReLU6, {})],
    "relu": [(kinds.ReLU, {})],
    "clip": [(kinds.Clip, {"min": -0.5, "max": 0.75})],
    "clip-above": [(kinds.Clip, {"max": 0.75})],
    "sigmoid": [(kinds.Sigmoid, {})],
    "hard-sigmoid": [(kinds.HardSigmoid, {"alpha": 0.2, "beta": 0.4})],
    "hard-swish": [(kinds.HardSwish, {})],
    "tanh": [(kinds.Tanh, {})],
    "erf": [(kinds.Erf, {})],
    "leaky-relu": [(kinds.LeakyReLU, {}), (kinds.LeakyReLU, {"alpha": 0.2})],
    "elu": [(kinds.ELU, {}), (kinds.ELU, {"alpha": 0.3})],
    "gelu": [(kinds.GELU, {})],
    "gelu-tanh": [(kinds.GELU, {"approximate": "tanh"})],
    "gelu-of-features": [(kinds.Reshape, {"shape": (288,)}), (kinds.GELU, {})],
    "softmax-channels": [(kinds.Softmax, {"dim": 1})],
    "softmax-columns": [(kinds.Softmax, {"dim": 3})],
    "sqrt": [(kinds.Sigmoid, {}), (kinds.Sqrt, {})],
    "mean-of-channels": [(kinds.Mean, {})],
    "mean-of-columns": [(kinds.Mean, {"dim": 3})],
    "mean-of-tokens": [(kinds.Reshape, {"shape": (36, 8)}), (kinds.Mean, {"dim": 1})],
    "layer-norm": [(kinds.LayerNorm, {"weight": "w", "bias": "b"})],
    "layer-norm-without-weights": [(kinds.LayerNorm, {"eps": 0.1})],
    "layer-norm-of-rows": [(kinds.LayerNorm, {"dim": 2, "weight": "w", "bias": "b"})],
    "layer-norm-of-features": [(kinds.Reshape, {"shape": (288,)}), (kinds.LayerNorm, {"weight": "w"})],
    "group-norm": [(kinds.GroupNorm, {"num_groups": 2, "weight": "w", "bias": "b"})],
    "group-norm-without-weights": [(kinds.GroupNorm, {"num_groups": 1, "eps": 0.1})],
    "instance-norm": [(kinds.GroupNorm, {"num_groups": 4, "bias": "b"})],
    "resize-linear": [(kinds.Resize, {"size": (13, 5)})],
    "resize-corners": [(kinds.Resize, {"size": (5, 17), "coordinates": "align_corners"})],
    "resize-to-a-pixel": [(kinds.Resize, {"size": (1, 3), "coordinates": "pytorch_half_pixel"})],
    "resize-by-scales": [(kinds.Resize, {"size": (15, 4), "scales": (1.7, 0.6), "coordinates": "asymmetric"})],
    "resize-nearest": [(kinds.Resize, {"size": (18, 24), "mode": "nearest", "coordinates": "asymmetric"})],
    "resize-nearest-up": [(kinds.Resize, {"size": (7, 11), "mode": "nearest", "rounding": "ceil"})],
    "resize-nearest-half": [
        (kinds.Resize, {"size": (18, 16), "mode": "nearest", "rounding": rounding})
        for rounding in ("round_prefer_floor", "round_prefer_ceil")
    ],
    "conv-transpose": [(kinds.ConvTranspose2d, ACROSS)],
    "conv-transpose-epilogue": [
        (kinds.ConvTranspose2d, ACROSS),
        (kinds.Sigmoid, {}),
        (kinds.ConvTranspose2d, ACROSS | {"in_channels": 6, "out_channels": 4, "weight": "w2", "bias": None}),
        (kinds.ReLU, {}),
    ],
    "residual": [(kinds.Sigmoid, {}), (kinds.ResidualAdd, {"inputs": ("input", "t0")})],
    "mul": [(kinds.Sigmoid, {}), (kinds.Mul, {"inputs": ("input", "t0")})],
    "squeeze-and-excite": [
        (kinds.GlobalAveragePool, {}),
        (kinds.HardSigmoid, {}),
        (kinds.Mul, {"inputs": ("input", "t1")}),
    ],
    "squeeze-first": [
        (kinds.GlobalAveragePool, {}),
        (kinds.Sigmoid, {}),
        (kinds.Mul, {"inputs": ("t1", "input")}),
    ],
    "add-of-means": [(kinds.GlobalAveragePool, {}), (kinds.Add, {"inputs": ("input", "t0")})],
    "sub": [(kinds.Sigmoid, {}), (kinds.Sub, {"inputs": ("input", "t0")})],
    "sub-of-means": [(kinds.GlobalAveragePool, {}), (kinds.Sub, {"inputs": ("t0", "input")})],
    "div": [(kinds.Sigmoid, {}), (kinds.Sigmoid, {}), (kinds.Div, {"inputs": ("input", "t1")})],
    "div-by-channel": [
        (kinds.GlobalAveragePool, {}),
        (kinds.Sigmoid, {}),
        (kinds.Div, {"inputs": ("input", "t1")}),
    ],
    "maximum": [(kinds.Sigmoid, {}), (kinds.Maximum, {"inputs": ("input", "t0")})],
    "minimum": [(kinds.GlobalAveragePool, {}), (kinds.Minimum, {"inputs": ("input", "t0")})],
    "slice-channels": [(kinds.Slice, {"starts": (1, 0, 0), "sizes": (2, 9, 8), "steps": (1, 1, 1)})],
    "slice-steps": [(kinds.Slice, {"starts": (3, 1, 7), "sizes": (4, 4, 3), "steps": (-1, 2, -3)})],
    "split-and-joined": [
        (kinds.Slice, {"starts": (0, 0, 0), "sizes": (1, 9, 8), "steps": (1, 1, 1)}),
        (kinds.Slice, {"starts": (1, 0, 0), "sizes": (3, 9, 8), "steps": (1, 1, 1), "inputs": ("input",)}),
        (kinds.ReLU, {}),
        (kinds.Concat, {"inputs": ("t2", "t0"), "dim": 1}),
    ],
    "concat-channels": [(kinds.Sigmoid, {}), (kinds.Concat, {"inputs": ("t0", "input", "t0"), "dim": 1})],
    "concat-rows": [(kinds.Sigmoid, {}), (kinds.Concat, {"inputs": ("input", "t0"), "dim": 2})],
    "global-pool": [(kinds.GlobalAveragePool, {})],
    "pad": [(kinds.Pad, {"padding": ((1, 0), (2, 3)), "value": -1.5})],
    "reshape": [(kinds.Reshape, {"shape": (8, 36)})],
    "permute": [(kinds.Permute, {"dims": (0, 2, 3, 1)})],
    "softmax-rows": [(kinds.Softmax, {"dim": 2})],
    "flattened-relu": [(kinds.ReLU, {}), (kinds.Reshape, {"shape": (288,)}), (kinds.HardSwish, {})],
    "seen-twice": [
        (kinds.Sigmoid, {}),
        (kinds.Reshape, {"shape": (4, 72)}),
        (kinds.ReLU, {"inputs": ("t0",)}),
        (kinds.Reshape, {"shape": (4, 72)}),
        (kinds.ResidualAdd, {"inputs": ("t1", "t3")}),
    ],
    "channel-shuffle": [(kinds.ChannelShuffle, {"groups": 2})],
    "channel-shuffle-of-one-pixel": [(kinds.GlobalAveragePool, {}), (kinds.ChannelShuffle, {"groups": 2})],
    "row-shuffle": [
        (kinds.Reshape, {"shape": (4, 3, 3, 8)}),
        (kinds.Permute, {"dims": (0, 1, 3, 2, 4)}),
        (kinds.Reshape, {"shape": (4, 9, 8)}),
    ],
    "shuffle": [
        (kinds.Reshape, {"shape": (2, 2, 9, 8)}),
        (kinds.Permute, {"dims": (0, 2, 1, 3, 4)}),
        (kinds.Reshape, {"shape": (4, 9, 8)}),
    ],
}


def check(graph, rng, backend="torch", **options):
    parameters = random_parameters(rng, graph)
    model = write_onnx(graph, parameters)
    x = rng.standard_normal(graph.input_shape, dtype=np.float32) * 3
    result, expected = Network(model, backend, **options)(x), run_onnxruntime(model, x)
    assert result.shape == graph.output_shape == expected.shape
    assert relative_error(result, expected) <= TOLERANCES[options.get("dtype", "fp32")]


# what runs the layers: PyTorch, and the kernels in both layouts, and in half precision
everywhere = pytest.mark.parametrize(
    "how",
    [
        {"backend": "torch"},
        {"backend": "kernels", "layout": "NCHW"},
        {"backend": "kernels", "layout": "NHWC"},
        {"backend": "kernels", "layout": "NHWC", "dtype": "fp16"},
    ],
    ids=lambda how: "-".join(how.values()),
)


def test_a_transposed_convolution_takes_in_its_epilogue(rng):
    """The residual and the clamp are part of its launch; a batch-norm after it, of its weight."""
    norm = {"num_features": 6, "weight": "n", "bias": "m", "running_mean": "m", "running_var": "v"}
    graph = layers(
        (2, 4, 9, 8),
        (kinds.ConvTranspose2d, ACROSS | {"weight": "w2", "bias": None}),
        (kinds.ConvTranspose2d, ACROSS | {"inputs": ("input",)}),
        (kinds.BatchNorm2d, norm),
        (kinds.ResidualAdd, {"inputs": ("t0", "t2")}),
        (kinds.Clip, {"min": -1.0, "max": 7.0}),
    )
    net = Network(write_onnx(graph, random_parameters(rng, graph)), layout="NHWC")
    assert [step.title for step in net.plan().steps][1].endswith("+ ResidualAdd + Clip")
    assert len(net.plan().steps) == 2
    for how in ({"layout": "NCHW"}, {"layout": "NHWC", "dtype": "fp16"}):
        check(graph, rng, "kernels", **how)


@everywhere
@pytest.mark.parametrize("name", CASES)
def test_layer(rng, name, how):
    check(layers((2, 4, 9, 8), *[(kind, dict(fields)) for kind, fields in CASES[name]]), rng, **how)


BY_KERNELS = {kind for kind, entry in OPERATORS.items() if type(entry).cudnn is type(entry).kernels}
POOL = {"kernel_size": (3, 2), "stride": (2, 1), "padding": ((1, 1), (0, 1)), "ceil_mode": True}
ON_CUDNN = {name: row for name, row in CASES.items() if {kind for kind, _ in row} <= BY_KERNELS} | {
    "max-pool": [(kinds.MaxPool2d, POOL)],
    "average-pool": [(kinds.AveragePool2d, POOL)],
}


@pytest.mark.parametrize("name", ON_CUDNN)
@pytest.mark.parametrize("how", [{"layout": "NCHW"}, {"layout": "NHWC"}, {"layout": "NHWC", "dtype": "fp16"}], ids=str)
def test_a_layer_that_backend_cudnn_runs_by_the_kernels(rng, name, how, monkeypatch):
    """These need no cuDNN, and run without it."""
    monkeypatch.setattr("common.cudnn.library.require", lambda: None)
    check(layers((2, 4, 9, 8), *[(kind, dict(fields)) for kind, fields in ON_CUDNN[name]]), rng, "cudnn", **how)


def test_which_layers_backend_cudnn_runs_by_the_kernels():
    """All but the ones that it runs on cuDNN or cuBLAS, or copies; `OPERATORS` also has those of other tests."""
    own = {kinds.Conv2d, kinds.BatchNorm2d, kinds.Linear, kinds.ReLU, kinds.ReLU6, kinds.Clip, kinds.ResidualAdd}
    own |= {kinds.GlobalAveragePool, kinds.Softmax, kinds.Permute, kinds.Reshape}
    every = {kind for row in CASES.values() for kind, _ in row} | {kinds.MaxPool2d, kinds.AveragePool2d}
    assert every - BY_KERNELS == own


def test_every_kind_of_layer_is_tested():
    tested = {kind for case in CASES.values() for kind, _ in case} | {kinds.MaxPool2d, kinds.AveragePool2d}
    every = {getattr(topology, name) for name in topology.__all__ if name[0].isupper()}
    integers = {kinds.Quantize, kinds.Dequantize}  # tests/quantize has them
    layers = {k for k in every if isinstance(k, type) and issubclass(k, kinds.Layer)}
    assert tested == layers - integers - {kinds.Layer}


POOLS = [
    {"kernel_size": (2, 2), "stride": (2, 2)},
    {"kernel_size": (3, 3), "stride": (2, 2), "padding": ((1, 1), (1, 1))},
    {"kernel_size": (3, 2), "stride": (1, 3), "padding": ((2, 0), (0, 1))},
    {"kernel_size": (5, 4), "stride": (1, 1), "padding": ((1, 4), (3, 0))},
    {"kernel_size": (1, 1), "stride": (3, 2)},
]


@everywhere
@pytest.mark.parametrize("fields", POOLS, ids=str)
@pytest.mark.parametrize("ceil_mode", [False, True], ids=["", "ceil"])
@pytest.mark.parametrize("size", [(9, 8), (7, 7), (6, 11)], ids=str)
def test_max_pool(rng, fields, ceil_mode, size, how):
    check(layers((2, 3, *size), (kinds.MaxPool2d, {**fields, "ceil_mode": ceil_mode})), rng, **how)


@everywhere
def test_dilated_max_pool(rng, how):
    fields = {"kernel_size": (2, 3), "stride": (2, 1), "padding": ((1, 0), (0, 2)), "dilation": (2, 3)}
    check(layers((1, 3, 9, 11), (kinds.MaxPool2d, fields)), rng, **how)


@everywhere
@pytest.mark.parametrize("fields", POOLS, ids=str)
@pytest.mark.parametrize("ceil_mode", [False, True], ids=["", "ceil"])
@pytest.mark.parametrize("count_include_pad", [False, True], ids=["", "include-pad"])
@pytest.mark.parametrize("size", [(9, 8), (7, 7), (6, 11)], ids=str)
def test_average_pool(rng, fields, ceil_mode, count_include_pad, size, how):
    fields = {**fields, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    check(layers((2, 3, *size), (kinds.AveragePool2d, fields)), rng, **how)
