"""Activations and arithmetic: elementwise and per-channel operators."""

import math
from dataclasses import replace

import numpy as np

from ..constants import normalize_axes
from ..layers import (
    ELU,
    GELU,
    Add,
    BatchNorm2d,
    Clip,
    Div,
    Erf,
    HardSigmoid,
    HardSwish,
    Layer,
    LeakyReLU,
    Maximum,
    Minimum,
    Mul,
    ReLU,
    ReLU6,
    ResidualAdd,
    Sigmoid,
    Softmax,
    Sqrt,
    Sub,
    Tanh,
)
from ..node import Node
from ..tensors import FLOATS
from ..translation import Activation, Translation
from .helpers import decimal, scalar

FLOAT_MAX = float(np.finfo(np.float32).max)  # Clip's default bound before operator set 11


def clip_node(state: Translation, node: Node) -> Activation:
    """Clip; its bounds are attributes before operator set 11, then inputs."""
    source = state.activation(node)
    if node.opset < 11:
        return clipped(state, node, source, node.number("min", -FLOAT_MAX), node.number("max", FLOAT_MAX))
    lower, upper = state.constant(node, 1), state.constant(node, 2)
    state.check_type(node, source, lower, upper)
    return clipped(
        state,
        node,
        source,
        -math.inf if lower is None else scalar(node, lower),
        math.inf if upper is None else scalar(node, upper),
    )


def minimum_maximum(state: Translation, node: Node) -> Activation:
    """Min or Max of two computed tensors; or of one and constants, as a Clip with one bound."""
    values = [state.value(node, position) for position in range(len(node.inputs))]
    positions = [position for position, value in enumerate(values) if isinstance(value, Activation)]
    if len(positions) == len(values) == 2:
        return combined(state, node, Minimum if node.op_type == "Min" else Maximum)
    if len(positions) != 1:
        raise node.unsupported(
            f"it has {len(positions)} computed inputs and {len(values) - len(positions)} constants,"
            " not two computed ones, or one and constants"
        )
    source = state.activation(node, positions[0])
    bounds = [value for value in values if isinstance(value, np.ndarray)]
    state.check_type(node, source, *bounds)
    numbers = [scalar(node, bound) for bound in bounds]
    if node.op_type == "Min":
        return clipped(state, node, source, -math.inf, min(numbers, default=math.inf))
    return clipped(state, node, source, max(numbers, default=-math.inf), math.inf)


def clipped(state: Translation, node: Node, source: Activation, lower: float, upper: float) -> Activation:
    """`source` clamped to [lower, upper] by a new layer; `source` itself if both are infinite."""
    lower = -math.inf if lower <= -FLOAT_MAX else decimal(lower)
    upper = math.inf if upper >= FLOAT_MAX else decimal(upper)
    kind, fields = clip_kind(lower, upper)
    return source if kind is None else state.pointwise(kind, node, source, **fields)


def clip_kind(lower: float, upper: float) -> tuple[type[Layer] | None, dict[str, float]]:
    """(the kind of layer that clamps to [lower, upper], its fields); (None, {}) if both bounds are infinite."""
    if (lower, upper) == (-math.inf, math.inf):
        return None, {}
    if (lower, upper) == (0, 6):
        return ReLU6, {}
    if (lower, upper) == (0, math.inf):
        return ReLU, {}
    return Clip, {"min": lower, "max": upper}


def relu(state: Translation, node: Node) -> Activation:
    """Relu as a ReLU layer."""
    return state.pointwise(ReLU, node, state.activation(node))


def sigmoid(state: Translation, node: Node) -> Activation:
    """Sigmoid as a layer."""
    return state.pointwise(Sigmoid, node, state.activation(node))


def hard_sigmoid(state: Translation, node: Node) -> Activation:
    """HardSigmoid as a layer."""
    alpha, beta = decimal(node.number("alpha", 0.2)), decimal(node.number("beta", 0.5))
    return state.pointwise(HardSigmoid, node, state.activation(node), alpha=alpha, beta=beta)


def hard_swish(state: Translation, node: Node) -> Activation:
    """HardSwish as a layer."""
    return state.pointwise(HardSwish, node, state.activation(node))


def tanh(state: Translation, node: Node) -> Activation:
    """Tanh as a layer."""
    return state.pointwise(Tanh, node, state.activation(node))


def erf(state: Translation, node: Node) -> Activation:
    """Erf as a layer."""
    return state.pointwise(Erf, node, state.activation(node))


def sqrt(state: Translation, node: Node) -> Activation:
    """Sqrt as a layer."""
    return state.pointwise(Sqrt, node, state.activation(node))


def leaky_relu(state: Translation, node: Node) -> Activation:
    """LeakyRelu as a LeakyReLU layer."""
    alpha = decimal(node.number("alpha", 0.01))
    return state.pointwise(LeakyReLU, node, state.activation(node), alpha=alpha)


def elu(state: Translation, node: Node) -> Activation:
    """Elu as an ELU layer."""
    return state.pointwise(ELU, node, state.activation(node), alpha=decimal(node.number("alpha", 1.0)))


def gelu(state: Translation, node: Node) -> Activation:
    """Gelu as a GELU layer. Exporters to operator sets before 20 write it in parts, see simplify.parts_into_gelu."""
    return state.pointwise(GELU, node, state.activation(node), approximate=node.text("approximate", "none"))


def power(state: Translation, node: Node) -> Activation:
    """Pow with the constant exponent 2 or 3, as one or two products."""
    source, exponent = state.activation(node), state.constant(node, 1)
    if exponent is None or exponent.size != 1 or exponent.ndim > len(source.shape) or exponent.item() not in (2, 3):
        raise node.unsupported("its exponent is not the number 2 or 3")
    factor = source
    if exponent.item() == 3:
        factor = state.emit(Mul, node, [source, source], view=state.new_tensor(f"{node.outputs[0]}.square"))
    return replace(source, tensor=state.emit(Mul, node, [factor, source]).tensor)


def softmax(state: Translation, node: Node) -> Activation:
    """Softmax along one axis, as a layer."""
    source = state.activation(node)
    rank = len(source.shape)
    if node.opset >= 13:
        (axis,) = normalize_axes((node.integer("axis", -1),), rank)
    else:
        # before operator set 13 the sum is over this axis and all after it
        (axis,) = normalize_axes((node.integer("axis", 1),), rank)
        summed = [i for i in range(axis, rank) if source.shape[i] > 1]
        if len(summed) > 1:
            raise node.unsupported(f"it sums over {len(summed)} axes of {source.shape} at once")
        axis = summed[0] if summed else axis
    if source.dims is None:
        source = state.materialize(node, source, node.inputs[0])
    dim = axis if source.dims is None else source.dims[axis]
    return state.pointwise(Softmax, node, source, dim=dim)


def arithmetic(state: Translation, node: Node) -> Activation:
    """Add, Sub, Mul, Div, Sum of two computed tensors; or, with a constant, a per-channel scale and shift."""
    kinds: dict[str, type[Layer]] = {"Add": Add, "Sum": Add, "Sub": Sub, "Mul": Mul, "Div": Div}
    if len(node.inputs) != 2:
        raise node.unsupported(f"it has {len(node.inputs)} inputs, not 2")
    first, second = state.value(node, 0), state.value(node, 1)
    if isinstance(first, Activation) and isinstance(second, Activation):
        return combined(state, node, kinds[node.op_type])

    position = 0 if isinstance(first, Activation) else 1
    source, constant = state.activation(node, position), state.constant(node, 1 - position)
    if constant is None:
        raise node.invalid(f"input {1 - position} is missing")
    state.check_type(node, source, constant)
    if constant.dtype not in FLOATS:
        raise node.unsupported(f"it computes with {constant.dtype}")
    numbers = state.per_channel(node, source, constant).astype(np.float64)
    ones, zeros = np.ones_like(numbers), np.zeros_like(numbers)
    if node.op_type in ("Add", "Sum"):
        return affine(state, node, source, ones, numbers, node.inputs[1 - position])
    if node.op_type == "Mul":
        return affine(state, node, source, numbers, zeros, scale_name=node.inputs[1 - position])
    if node.op_type == "Sub":
        return affine(state, node, source, ones if position == 0 else -ones, -numbers if position == 0 else numbers)
    if position == 1:
        raise node.unsupported("it divides a constant by a computed tensor")
    if not numbers.all():
        raise node.invalid("it divides by zero")
    return affine(state, node, source, 1 / numbers, zeros)


def combined(state: Translation, node: Node, kind: type[Layer]) -> Activation:
    """An elementwise layer of two computed tensors; a view that both have applies to its output as well."""
    first, second = state.activation(node, 0), state.activation(node, 1)
    if first.dtype != second.dtype:
        raise node.invalid(f"its inputs are {first.dtype} and {second.dtype}")
    if first.dims != second.dims or first.dims is None:
        first, second = state.direct(node, 0), state.direct(node, 1)
    if not fits(first, second):
        raise node.invalid(f"the shapes {first.shape} and {second.shape} do not fit")
    if kind is Add and first.shape == second.shape:
        kind = ResidualAdd
    result = state.emit(kind, node, [first, second])
    return replace(result, shape=tuple(np.broadcast_shapes(first.shape, second.shape)), dims=first.dims)


def fits(first: Activation, second: Activation) -> bool:
    """Whether two shapes of equal rank can be broadcast to one another."""
    return len(first.shape) == len(second.shape) and all(
        a == b or 1 in (a, b) for a, b in zip(first.shape, second.shape, strict=True)
    )


def affine(
    state: Translation,
    node: Node,
    source: Activation,
    scale: np.ndarray,
    shift: np.ndarray,
    shift_name: str | None = None,
    scale_name: str | None = None,
) -> Activation:
    """scale · in + shift per channel, both (channels,), as a BatchNorm2d with mean 0, variance 1 and eps 0.

    shift_name, scale_name: the parameters' names.
    """
    if (scale == 1).all() and (shift == 0).all():
        return source
    output = node.outputs[0]
    fields = {
        "weight": state.parameter(scale_name or f"{output}.weight", scale, node),
        "bias": state.parameter(shift_name or f"{output}.bias", shift, node),
        "running_mean": state.parameter(f"{output}.running_mean", np.zeros_like(scale), node),
        "running_var": state.parameter(f"{output}.running_var", np.ones_like(scale), node),
    }
    return state.pointwise(BatchNorm2d, node, source, num_features=len(scale), eps=0.0, **fields)
