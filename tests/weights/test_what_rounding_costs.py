"""What notebook 3 of chapter 02 says of fp16 and int8: errors of networks whose stored numbers are rounded."""

from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from common import images, topology, weights
from common.topology import Conv2d, GlobalAveragePool, Linear, ReLU6, ResidualAdd

DIGITS = weights.digits_split()


@cache
def network(name):
    """(graph, parameters, input): digits as stored, seeded before it is rounded to fp16."""
    if name == "digits":
        return *weights.network("digits"), torch.from_numpy(weights.digits_input(DIGITS.test_images[:50]))
    unfolded = topology.build(batch_norm=True)
    folded = weights.fold_batch_norm(unfolded, weights.seeded_parameters(unfolded))
    return *folded, torch.from_numpy(images.to_input(images.read(images.sample())))


def same(tensor):
    return tensor


def fp16(tensor):
    return tensor.half().float()


def run(name, store=same, store_weights=same, parameters=None):
    """(scores, the largest absolute value of all layers)."""
    graph, arrays, x = network(name)
    p = {key: store_weights(torch.from_numpy(np.array(array))) for key, array in (parameters or arrays).items()}
    tensors, largest = {graph.input: store(x)}, 0.0
    for layer in graph:
        y = tensors[layer.inputs[0]]
        match layer:
            case Conv2d():
                (top, bottom), (left, right) = layer.padding
                y = F.pad(y, (left, right, top, bottom))
                y = F.conv2d(y, p[layer.weight], p[layer.bias], layer.stride, groups=layer.groups)
            case ReLU6():
                y = y.clamp(0, 6)
            case ResidualAdd():
                y = y + tensors[layer.inputs[1]]
            case GlobalAveragePool():
                y = y.mean((2, 3), keepdim=True)
            case Linear():
                y = F.linear(y.flatten(1), p[layer.weight], p[layer.bias])
        tensors[layer.output] = store(y)
        largest = max(largest, float(y.abs().max()))
    return tensors[graph.output], largest


@cache
def exact(name):
    return run(name)


def error(name, **options):
    got, want = run(name, **options)[0].double(), exact(name)[0].double()
    return float((got - want).norm() / want.norm())


@pytest.mark.parametrize("name", ["digits", "seeded"])
def test_few_parameters_are_subnormal_in_fp16_and_they_are_small(name):
    values = np.concatenate([array.ravel() for array in network(name)[1].values()])
    size = np.abs(values.astype(np.float16))
    subnormal = (size > 0) & (size < np.finfo(np.float16).smallest_normal)
    assert np.isfinite(size).all() and ((size == 0) == (values == 0)).all()
    assert subnormal.mean() < 1e-3
    assert np.abs(values[subnormal]).sum() < 1e-5 * np.abs(values).sum(dtype=np.float64)


@pytest.mark.parametrize("name", ["digits", "seeded"])
def test_activations_are_a_thousand_times_below_the_limit_of_fp16(name):
    assert exact(name)[1] < 65504 / 1000


def test_the_weights_of_digits_are_fp16_numbers():
    assert error("digits", store_weights=fp16) == 0


def test_a_trained_network_loses_less_than_a_fifth_of_what_is_allowed_and_a_random_one_ten_times_as_much():
    digits, seeded = (error(name, store=fp16, store_weights=fp16) for name in ("digits", "seeded"))
    assert digits <= 1e-3
    assert 10 * digits < seeded < 5e-3
    assert error("seeded", store_weights=fp16) > error("seeded", store=fp16)  # most of it is the weights'


@pytest.mark.parametrize("name", ["digits", "seeded"])
def test_fp16_gives_the_same_answers(name):
    rounded = run(name, store=fp16, store_weights=fp16)[0]
    assert torch.equal(rounded.argmax(1), exact(name)[0].argmax(1))


@pytest.mark.parametrize("name", ["digits", "seeded"])
def test_one_int8_scale_per_channel_is_better_than_one_per_tensor(name):
    graph, parameters, _ = network(name)
    depthwise = {layer.weight for layer in graph if isinstance(layer, Conv2d) and layer.groups > 1}

    def int8(array, axes):
        scale = np.abs(array).max(axis=axes, keepdims=True) / 127
        return (np.round(array / scale) * scale).astype(np.float32)

    tensor, channel = (
        error(name, parameters={key: int8(a, axes) if key in depthwise else a for key, a in parameters.items()})
        for axes in (None, (1, 2, 3))
    )
    assert tensor > 1.25 * channel
