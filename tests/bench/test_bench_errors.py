"""The suite "errors": whole networks against float64; and what truncated sums do to them, which the simulator lacks."""

import numpy as np
import pytest
import torch
from rich.console import Console
from tiers import seldom
from torch.nn import functional as F

from common import cuda, topology, weights
from common.bench import errors
from common.kernels import pair_of_halves, tf32x3
from common.measure.roofline import ARITHMETIC
from common.network.compare import relative_error
from common.network.ranges import ranges
from common.network.reference import run_layer

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="tensor cores for TF32 need a card of sm_80")


@seldom(6)
def test_records_of_a_network(capsys):
    case = errors.Case("digits", "pictures", 2)
    records = errors.measure(case, Console(width=200))
    ours = [r for r in records if r["implementation"].startswith("ours")]
    three = [ARITHMETIC["3xtf32"], ARITHMETIC["3xfp16"]]
    assert [r["arithmetic"] for r in ours] == [ARITHMETIC["fp32"], *three, *three]
    assert all(0 < r["error"] < 2e-6 and r["suite"] == "errors" for r in records)
    assert "float64" in capsys.readouterr().out


@seldom(6)
def test_a_network_without_bounds_has_no_row_of_halves(capsys):
    records = errors.measure(errors.Case("resnet20", "noise", 1), Console(width=200))
    assert ARITHMETIC["3xfp16"] not in {r["arithmetic"] for r in records}
    assert "resnet20-32: no layer has a bound for halves" in capsys.readouterr().out


def test_inputs_are_within_their_bound():
    for source in errors.NETWORKS:
        for kind in errors.INPUTS:
            case = errors.Case(source, kind, 2)
            assert case.x.shape[0] == 2 and case.bound / 8 < np.abs(case.x).max() <= case.bound
            assert not np.array_equal(case.x[0], case.x[1])


def test_options_name_what_there_is():
    with pytest.raises(ValueError, match="network must be one of seeded, digits, resnet20, got 'vgg'"):
        errors.Options(networks=("vgg",))


def emulated(case, product):
    """The logits with every dense sum by product(x (M, K), w (N, K), Range of x); the rest in float32 by PyTorch."""
    graph, parameters = weights.fold_batch_norm(*topology.read_onnx_with_parameters(case.model, case.x.shape))
    found = ranges(graph, parameters, case.bound)
    given = {name: torch.from_numpy(np.array(value)) for name, value in parameters.items()}
    tensors = {graph.input: torch.from_numpy(case.x)}
    for layer in graph.layers:
        x = tensors[layer.inputs[0]]
        if isinstance(layer, topology.Linear) or (isinstance(layer, topology.Conv2d) and layer.groups == 1):
            weight, bias = (parameters[name] for name in (layer.weight, layer.bias))
            out = layer.output_shape
            if isinstance(layer, topology.Conv2d):
                x = F.unfold(x, layer.kernel_size, padding=layer.padding[0][0], stride=layer.stride).transpose(1, 2)
            sums = product(
                x.reshape(-1, weight[0].size).numpy(), weight.reshape(len(weight), -1), found[layer.inputs[0]]
            )
            sums = torch.from_numpy(sums + bias).reshape(out[0], -1, out[1]).transpose(1, 2).reshape(out)
            tensors[layer.output] = sums.contiguous()
        else:
            tensors[layer.output] = run_layer(layer, [tensors[name] for name in layer.inputs], given)
    return tensors[graph.output].numpy()


def halves(x, w, found, truncate=True):
    return pair_of_halves.matmul(x, w, found.scale, pair_of_halves.scale_of(np.abs(w).max()), truncate)


def test_truncated_sums_err_hardly_more_than_rounded_ones():
    case = errors.Case("digits", "pictures", 1)
    ways = {
        "tf32x3": lambda x, w, found: tf32x3.matmul(x, w),
        "halves": halves,
        "halves, rounded": lambda x, w, found: halves(x, w, found, truncate=False),
    }
    error = {name: relative_error(emulated(case, way), case.reference) for name, way in ways.items()}
    assert max(error.values()) < 1.2 * error["halves, rounded"] < 3e-7, error
