"""The backends "torch" and "kernels" layer by layer against ONNX Runtime: every kind of layer that there is."""

import numpy as np
import pytest
from network_models import layers, random_parameters, run_onnxruntime

from common import topology
from common.network import Network
from common.network.compare import TOLERANCES, relative_error
from common.topology import layers as kinds
from common.topology import write_onnx

UNEVEN = ((0, 1), (2, 1))
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
    "softmax-channels": [(kinds.Softmax, {"dim": 1})],
    "softmax-columns": [(kinds.Softmax, {"dim": 3})],
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


@everywhere
@pytest.mark.parametrize("name", CASES)
def test_layer(rng, name, how):
    check(layers((2, 4, 9, 8), *[(kind, dict(fields)) for kind, fields in CASES[name]]), rng, **how)


def test_every_kind_of_layer_is_tested():
    tested = {kind for case in CASES.values() for kind, _ in case} | {kinds.MaxPool2d, kinds.AveragePool2d}
    every = {getattr(topology, name) for name in topology.__all__ if name[0].isupper()}
    assert tested == {k for k in every if isinstance(k, type) and issubclass(k, kinds.Layer)} - {kinds.Layer}


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
