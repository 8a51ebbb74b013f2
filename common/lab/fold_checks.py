"""What notebook 02/2 shows about the learner's `fold`: on small networks, and layer by layer in PyTorch."""

import importlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .. import topology
from ..topology import BatchNorm2d, Conv2d, Graph, Layer
from .cases import Builder, drawn, mobilenet
from .engine import folder, parts
from .judging import first_flaw

Tensors = dict[str, torch.Tensor]
PARTS = ("fold_conv_bn", "fold")  # of weights.py, those that the notebook writes


def forked() -> tuple[Graph, dict[str, np.ndarray]]:
    """A small network with two batch-norms, one of which must stay: an addition reads its convolution's output, too."""
    net = Builder(1, 3, (9, 7), 4)
    outputs: list[Layer] = []
    for name in ("first", "forked"):
        before = outputs[-1:]
        conv = net.add(
            Conv2d, name, *before, in_channels=before[0].output_shape[1] if before else 3, out_channels=6,
            kernel_size=(3, 3), padding=((1, 1), (1, 1)), weight=f"{name}.weight", bias=None,
        )  # fmt: skip
        names = {field: f"{name}.norm.{field}" for field in ("weight", "bias", "running_mean", "running_var")}
        norm = net.add(BatchNorm2d, f"{name}.norm", conv, num_features=6, eps=1e-5, **names)
        outputs += [conv, norm]
    net.add(topology.ResidualAdd, "sum", outputs[-1], outputs[-2])
    graph = net.finish_with_classifier("classifier", "forked")
    return graph, drawn(graph)


def try_fold() -> None:
    """Print the first flaw of this session's `fold` on two small networks, or that both are right."""
    networks = {"a small MobileNetV2": mobilenet(0.35, 32, 10, batch_norm=True), "a network with a fork": forked}
    for name, network in networks.items():
        if flaw := first_flaw(2, topology.write_onnx(*network())):
            print(f"✗ {name}: {flaw}")
            return
    print(f"✓ fold: in {len(networks)} small networks every layer reads the right tensor and computes the same")
    path = folder() / "weights.py"
    there = parts(path.read_text(encoding="utf-8"))
    if taken := [name for name in PARTS if name in there and there[name].reference]:
        verb = "are" if len(taken) > 1 else "is"
        print(f"But {' and '.join(taken)} {verb} the reference's; yours {verb} not saved yet.")


def folded_by_engine(graph: Graph, parameters: Mapping[str, np.ndarray]) -> tuple[int, Tensors]:
    """Fold a network with this session's engine: (number of layers, arrays by PyTorch's names).

    Raises what the engine raises, and AssertionError if `folded` lacks arrays of a layer.
    """
    read, own = (importlib.import_module(f"engine.{name}") for name in ("graph", "weights"))
    model = topology.write_onnx(graph, parameters)
    net = read.read(model)
    net, arrays = own.fold(net, own.extract(model, net))
    found: Tensors = {}
    for layer in net.layers:
        if layer.weights and layer.output not in arrays:
            raise AssertionError(f"fold: `folded` has no entry for {layer.output!r}")
        for role, array in arrays.get(layer.output, {}).items():
            name = layer.weights["weight"].removesuffix("weight") + role
            found[name] = torch.from_numpy(np.array(array))
    return len(net.layers), found


def pairs(module: nn.Module) -> Iterator[tuple[str, nn.Conv2d, nn.BatchNorm2d]]:
    """(the convolution's name, convolution, batch-norm) of each two that follow each other in a Sequential."""
    for name, sequence in module.named_modules():
        if isinstance(sequence, nn.Sequential):
            for i in range(1, len(sequence)):
                conv, norm = sequence[i - 1], sequence[i]
                if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                    yield f"{name}.{i - 1}", conv, norm


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """‖got − expected‖ / ‖expected‖ in the 2-norm, in float64."""
    return float((got.double() - expected.double()).norm() / expected.double().norm())


def layer_errors(unfolded: nn.Module, folded: Tensors, x: torch.Tensor) -> dict[torch.dtype, dict[str, float]]:
    """The relative error of each folded convolution, computed in float64 and in float32, by the convolution's name.

    Each gets the input that it has in the unfolded network, and is compared with convolution and batch-norm.
    """
    inputs: Tensors = {}

    def remember(name: str) -> Any:
        return lambda module, arguments: inputs.update({name: arguments[0].clone()})

    hooks = [conv.register_forward_pre_hook(remember(name)) for name, conv, _ in pairs(unfolded)]
    unfolded(x)
    for hook in hooks:
        hook.remove()
    errors: dict[torch.dtype, dict[str, float]] = {torch.float64: {}, torch.float32: {}}
    for name, conv, norm in pairs(unfolded):
        for dtype, found in errors.items():
            weight, bias = (folded[f"{name}.{role}"].to(dtype) for role in ("weight", "bias"))
            seen = inputs[name].to(dtype)
            two_steps = deepcopy(norm).to(dtype)(deepcopy(conv).to(dtype)(seen))
            one_step = F.conv2d(seen, weight, bias, conv.stride, conv.padding, 1, conv.groups)  # type: ignore[arg-type]
            found[name] = relative_error(one_step, two_steps)
    return errors
