"""Helpers of several operators: an image as input, a single number, a decimal."""

import math

import numpy as np

from ..node import Node
from ..tensors import FLOATS
from ..translation import Activation, Translation


def image(state: Translation, node: Node) -> Activation:
    """The first input as (N, C, H, W) in the ONNX graph's order. UnsupportedModel for another number of dimensions."""
    source = state.direct(node)
    if len(source.shape) != 4:
        raise node.unsupported(f"its input of shape {source.shape} is not (N, C, H, W)")
    return source


def scalar(node: Node, array: np.ndarray) -> float:
    """The number in a constant of one floating-point element. UnsupportedModel for others, InvalidModel for NaN."""
    if array.size != 1 or array.dtype not in FLOATS:
        raise node.unsupported(f"a bound of shape {array.shape} and type {array.dtype} is not one number")
    value = float(array.reshape(()).astype(np.float64))
    if math.isnan(value):
        raise node.invalid("a bound is NaN")
    return value


def decimal(value: float) -> float:
    """The float with the shortest decimal that rounds to the same float32: 1e-05, not 9.999999747378752e-06."""
    if not math.isfinite(value):
        return value
    return float(str(np.float32(value)))
