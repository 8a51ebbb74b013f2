"""Matrix products and batch-norm: Gemm, MatMul, BatchNormalization."""

from dataclasses import replace

import numpy as np

from ..layers import (
    BatchNorm2d,
    Conv2d,
    Linear,
)
from ..node import Node
from ..translation import Activation, Translation
from .helpers import decimal


def gemm(state: Translation, node: Node) -> Activation:
    """alpha · A · B + beta · C, with a constant B, as a Linear layer."""
    source, matrix, bias = state.activation(node), state.constant(node, 1), state.constant(node, 2)
    if node.flag("transA"):
        raise node.unsupported("transA=1 makes features of the batch")
    if len(source.shape) != 2 or matrix is None or matrix.ndim != 2:
        raise node.invalid(f"its input of shape {source.shape} or its second input is not a matrix")
    state.check_type(node, source, matrix, bias)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    weight = matrix if node.flag("transB") else matrix.T
    if alpha != 1:
        weight = weight * np.float32(alpha)
    bias_name = None
    if bias is not None and beta != 0:
        if bias.size not in (1, len(weight)) or bias.ndim > 2 or bias.shape[-1:] not in ((), (1,), (len(weight),)):
            raise node.unsupported(f"its third input has the shape {bias.shape}, not ({len(weight)},)")
        bias = np.broadcast_to(bias.reshape(-1), (len(weight),))
        bias_name = state.parameter(node.inputs[2], bias if beta == 1 else bias * np.float32(beta), node)
    return linear(state, node, source, weight, bias_name)


def matmul(state: Translation, node: Node) -> Activation:
    """A · B with a constant matrix B: a Linear layer if A has one vector per sample, (N, K) or (N, 1, …, 1, K).

    A pointwise convolution if A is an image with the channels last, (N, H, W, K).
    """
    source, matrix = state.activation(node), state.constant(node, 1)
    if matrix is None or matrix.ndim != 2:
        raise node.unsupported("its second input is not a matrix")
    last = len(source.shape) == 4 and source.dims is not None and source.dims[-1] == 1  # an image's channels
    if not last and (len(source.shape) < 2 or any(size != 1 for size in source.shape[1:-1])):
        raise node.unsupported(
            f"its input of shape {source.shape} is neither one vector a sample nor an image with the channels last"
        )
    if source.shape[-1] != matrix.shape[0]:
        raise node.invalid(f"its input has {source.shape[-1]} features, its matrix {matrix.shape[0]} rows")
    state.check_type(node, source, matrix)
    if last:
        weight = state.parameter(node.inputs[1], matrix.T[:, :, None, None], node)
        sizes = {"in_channels": matrix.shape[0], "out_channels": matrix.shape[1], "kernel_size": (1, 1)}
        convolved = state.emit(Conv2d, node, [source], weight=weight, **sizes)
        return replace(convolved, shape=(*source.shape[:-1], matrix.shape[1]), dims=source.dims)
    result = linear(state, node, source, matrix.T, None)
    return state.view(node, result, (*source.shape[:-1], matrix.shape[1]))


def linear(state: Translation, node: Node, source: Activation, weight: np.ndarray, bias: str | None) -> Activation:
    """Append a Linear layer. It flattens its input, so a reshape before it needs no layer; a transpose does."""
    if source.permuted:
        source = state.materialize(node, source, node.inputs[0])
    return state.emit(
        Linear,
        node,
        [source],
        in_features=weight.shape[1],
        out_features=weight.shape[0],
        weight=state.parameter(node.inputs[1], weight, node),
        bias=bias,
    )


def batch_normalization(state: Translation, node: Node) -> Activation:
    """BatchNormalization in inference mode, as a BatchNorm2d layer."""
    source = state.direct(node)
    node.number("momentum", 0.9)  # used in training only
    if node.opset >= 14 and node.flag("training_mode"):
        raise node.unsupported("it is in training mode")
    if node.opset < 14 and sum(map(bool, node.outputs)) > 1:
        raise node.unsupported("it is in training mode (it has several outputs)")
    if node.opset < 9 and node.integer("spatial", 1) != 1:
        raise node.unsupported("spatial=0 normalises every pixel on its own")
    names = ("weight", "bias", "running_mean", "running_var")
    arrays = [state.constant(node, position) for position in range(1, 5)]
    if len(source.shape) < 2:
        raise node.invalid(f"its input of shape {source.shape} has no channels")
    fields = {}
    for position, (name, array) in enumerate(zip(names, arrays, strict=True), start=1):
        if array is None or array.shape != (source.shape[1],):
            raise node.invalid(f"its {name} is not of shape ({source.shape[1]},)")
        fields[name] = state.parameter(node.inputs[position], array, node)
    eps = decimal(node.number("epsilon", 1e-5))
    return state.emit(BatchNorm2d, node, [source], num_features=source.shape[1], eps=eps, **fields)
