"""The operators: check the arguments, choose a composition of plans, bind the arrays to it, launch."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import checks
from ..cuda import layout as layouts
from . import blas, library, plans
from .graphs import ARITHMETICS, Convolution, Node, elementwise, gradient_to_input, gradient_to_weight


@dataclass
class Call:
    """An operator with its arrays bound, which can be launched any number of times.

    run       launches it, given the address of its scratch memory
    scratch   bytes of scratch memory
    told      the plans that run, for reports
    """

    run: Callable[[int], None]
    scratch: int = 0
    told: str = ""
    arrays: list[Any] = field(default_factory=list, repr=False)  # keeps them alive, as only addresses are passed on

    def __call__(self, scratch: int | None = None) -> None:
        """Enqueue it on CuPy's current stream. scratch: an address; None allocates from CuPy's pool."""
        if scratch is None and self.scratch:
            import cupy

            memory = cupy.empty(self.scratch, np.uint8)  # freed in stream order, after everything is enqueued
            self.run(memory.data.ptr)
        else:
            self.run(scratch or 0)


def _bound(composition: plans.Composition, **arrays: Any) -> Call:
    pointers = {name: array.data.ptr for name, array in arrays.items() if array is not None}
    return Call(
        lambda scratch: composition.launch(pointers, scratch),
        composition.scratch,
        str(composition),
        list(arrays.values()),
    )


def arithmetic_for(dtype: Any, arithmetic: str | None) -> str:
    """The given arithmetic, or by default the strict one of the dtype: "fp16" for float16, else "fp32".

    Raises ValueError for an arithmetic that arrays of the dtype do not support.
    """
    allowed = ("fp16",) if np.dtype(dtype) == np.float16 else ("fp32", "tf32")
    if arithmetic is None:
        return allowed[0]
    if arithmetic not in ARITHMETICS:
        raise ValueError(f"arithmetic must be one of {', '.join(ARITHMETICS)}, got {arithmetic!r}")
    if arithmetic not in allowed:
        raise ValueError(f"arithmetic for {np.dtype(dtype)} arrays must be {' or '.join(allowed)}, got {arithmetic!r}")
    return arithmetic


def _layout(**arrays: Any) -> str:
    """The layout of all arrays; NHWC, for which cuDNN has more engines, if they fit both (one pixel)."""
    given = [array for array in arrays.values() if array is not None]
    return "NHWC" if all(layouts.has(array, "NHWC") for array in given) else layouts.shared_layout(**arrays)


def _activation(activation: Any) -> tuple[float, float] | None:
    low, high = map(float, checks.bounds(activation))
    return None if (low, high) == (-math.inf, math.inf) else (low, high)


def _symmetric(x: Any, pads: checks.Pads, layout: str) -> tuple[Any, tuple[int, int], list[Callable[[], None]]]:
    """(input, padding, copies to run first): cuDNN pads opposite sides equally, so other inputs are padded here."""
    (top, bottom), (left, right) = pads
    if top == bottom and left == right:
        return x, (top, left), []
    n, c, h, w = x.shape
    size = (n, c, h + top + bottom, w + left + right)
    padded = layouts.shaped(cuda.zeros(math.prod(size), x.dtype), size, layout)
    inside = padded[:, :, top : top + h, left : left + w]

    def copy() -> None:
        inside[...] = x

    return padded, (0, 0), [copy]


def convolution(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, *,
    residual: Any = None, activation: Any = None, arithmetic: str | None = None, tune: bool | int = False,
    out: Any = None,
) -> tuple[Call, Any]:  # fmt: skip
    """conv2d with its arrays bound: (call, out). Arguments and errors as in conv2d."""
    checks.array("x", x, (None,) * 4, allowed=layouts.LAYOUTS)
    checks.array("weight", weight, None, like=x, allowed=layouts.LAYOUTS)
    s, pads, d, shape = checks.convolution(x.shape, weight.shape, stride, padding, dilation, groups)
    if bias is not None:
        checks.array("bias", bias, (weight.shape[0],), like=x)
    if residual is not None:
        checks.array("residual", residual, shape, like=x, allowed=layouts.LAYOUTS)
    if out is not None:
        checks.array("out", out, shape, like=x, allowed=layouts.LAYOUTS)
    layout = _layout(x=x, weight=weight, residual=residual, out=out)
    out = checks.output(out, shape, like=x, layout=layout)
    checks.apart(out, x=x, weight=weight, bias=bias, residual=residual)
    input_, symmetric, before = _symmetric(x, pads, layout)
    spec = Convolution(
        tuple(input_.shape), tuple(weight.shape), s, symmetric, d, bias is not None, residual is not None,
        _activation(activation), layout, arithmetic_for(x.dtype, arithmetic),
    )  # fmt: skip
    composition = plans.choose(tuple(spec.compositions()), tune)
    call = _bound(composition, x=input_, w=weight, bias=bias, residual=residual, y=out)
    return _after(before, call), out


def _after(before: list[Callable[[], None]], call: Call) -> Call:
    if not before:
        return call

    def run(scratch: int) -> None:
        for copy in before:
            copy()
        call.run(scratch)

    return Call(run, call.scratch, "copy into a padded array | " + call.told, call.arrays)


@cuda.operator
def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, *,
    residual: Any = None, activation: Any = None, arithmetic: str | None = None, tune: bool | int = False,
    out: Any = None,
) -> Any:  # fmt: skip
    """out = activation(conv2d(x, weight) + bias + residual), in one kernel if cuDNN supports that.

    x: (N, C, H, W), weight: (O, C/groups, kH, kW), bias: (O,) or None, residual: as out or None, out: (N, O, oH, oW);
    float32 or float16, all NCHW or all NHWC in memory (see common.cuda.to_layout), as their strides say.
    stride, dilation: an int or a pair (height, width); padding: an int, a pair or ((top, bottom), (left, right)).
    activation: None, "relu", "relu6" or bounds (low, high). arithmetic: "fp32" (strict, the default for float32),
    "tf32" (tensor cores round both factors to 10-bit mantissas; grouped convolutions stay in fp32), "fp16" (float16
    arrays, sums in fp32). tune: see plans.choose.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype; ValueError if a shape,
    layout or option is invalid; RuntimeError without a GPU or cuDNN, or if cuDNN has no plan (plans.Unsupported).
    """
    library.require()
    call, out = convolution(
        x, weight, bias, stride, padding, dilation, groups, residual=residual, activation=activation,
        arithmetic=arithmetic, tune=tune, out=out,
    )  # fmt: skip
    call()
    return out


def _gradient_spec(
    x_shape: Any, weight_shape: Any, dy: Any, stride: Any, padding: Any, dilation: Any, groups: int, layout: str,
    arithmetic: str | None,
) -> Convolution:  # fmt: skip
    for name, shape in (("x_shape", x_shape), ("weight_shape", weight_shape)):
        if len(shape) != 4 or any(not isinstance(size, (int, np.integer)) or size < 1 for size in shape):
            raise ValueError(f"{name} must be four sizes of at least 1, got {tuple(shape)}")
    s, pads, d, shape = checks.convolution(x_shape, weight_shape, stride, padding, dilation, groups)
    checks.array("dy", dy, shape, allowed=layouts.LAYOUTS)
    if any(low != high for low, high in pads):
        raise ValueError(f"padding must be the same on opposite sides for gradients, got {padding!r}")
    return Convolution(
        tuple(map(int, x_shape)), tuple(map(int, weight_shape)), s, (pads[0][0], pads[1][0]), d, layout=layout,
        arithmetic=arithmetic_for(dy.dtype, arithmetic),
    )  # fmt: skip


def gradient_call(which: str, first: Any, second: Any, spec: Convolution, out: Any, tune: bool | int) -> Call:
    """A backward pass with its arrays bound. which: "input" (dy, weight → dx) or "weight" (x, dy → dw)."""
    names = ("dy", "weight") if which == "input" else ("x", "dy")
    checks.apart(out, **dict(zip(names, (first, second), strict=True)))
    if which == "input":
        return _bound(plans.choose(((gradient_to_input(spec),),), tune), dy=first, w=second, dx=out)
    return _bound(plans.choose(((gradient_to_weight(spec),),), tune), x=first, dy=second, dw=out)


@cuda.operator
def conv2d_backward_input(
    dy: Any, weight: Any, x_shape: tuple[int, ...], stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, *, arithmetic: str | None = None, tune: bool | int = False, out: Any = None,
) -> Any:  # fmt: skip
    """dx of y = conv2d(x, weight): torch.nn.grad.conv2d_input.

    dy: (N, O, oH, oW), weight: (O, C/groups, kH, kW), x_shape: (N, C, H, W), out: of that shape; layout, dtypes,
    arithmetic, tune and errors as in conv2d.
    """
    library.require()
    checks.array("dy", dy, (None,) * 4, allowed=layouts.LAYOUTS)
    checks.array("weight", weight, (None,) * 4, like=dy, allowed=layouts.LAYOUTS)
    layout = _layout(dy=dy, weight=weight, out=out)
    spec = _gradient_spec(x_shape, weight.shape, dy, stride, padding, dilation, groups, layout, arithmetic)
    out = checks.output(out, spec.x, like=dy, layout=layout)
    gradient_call("input", dy, weight, spec, out, tune)()
    return out


@cuda.operator
def conv2d_backward_weight(
    x: Any, dy: Any, weight_shape: tuple[int, ...], stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, *, arithmetic: str | None = None, tune: bool | int = False, out: Any = None,
) -> Any:  # fmt: skip
    """dw of y = conv2d(x, weight): torch.nn.grad.conv2d_weight.

    x: (N, C, H, W), dy: (N, O, oH, oW), weight_shape: (O, C/groups, kH, kW), out: of that shape; layout, dtypes,
    arithmetic, tune and errors as in conv2d.
    """
    library.require()
    checks.array("x", x, (None,) * 4, allowed=layouts.LAYOUTS)
    checks.array("dy", dy, (None,) * 4, like=x, allowed=layouts.LAYOUTS)
    layout = _layout(x=x, dy=dy, out=out)
    spec = _gradient_spec(x.shape, weight_shape, dy, stride, padding, dilation, groups, layout, arithmetic)
    out = checks.output(out, spec.w, like=x, layout=layout)
    gradient_call("weight", x, dy, spec, out, tune)()
    return out


# ---- gemm


def gemm_call(
    a: Any, b: Any, bias: Any, transpose_b: bool, activation: Any, arithmetic: str | None, out: Any
) -> tuple[Call, Any]:
    """gemm on cuBLAS with its arrays bound: (call, out). Arguments and errors as in gemm.

    cuBLAS is column-major: the row-major out = a @ b is the same memory as the column-major outᵀ = bᵀ @ aᵀ.
    """
    m, k = checks.array("a", a, (None, None)).shape
    n = checks.array("b", b, (None, k) if transpose_b else (k, None), like=a).shape[0 if transpose_b else 1]
    if bias is not None:
        checks.array("bias", bias, (n,), like=a)
    limits = _activation(activation)
    out = checks.output(out, (m, n), like=a)
    checks.apart(out, a=a, b=b, bias=bias)
    how = arithmetic_for(a.dtype, arithmetic)

    product = blas.Product(n, m, k, transpose_b, how, add=bias is not None)

    def run(scratch: int) -> None:
        import cupy

        if bias is not None:
            out[...] = bias  # cuBLAS adds the product to out
        product.launch(b.data.ptr, a.data.ptr, out.data.ptr, scratch)
        if limits:
            cupy.clip(out, limits[0], limits[1], out=out)

    return Call(run, blas.WORKSPACE, f"cuBLAS in {how}", [a, b, bias, out]), out


def gemm_as_convolution_call(
    a: Any, b: Any, bias: Any, transpose_b: bool, activation: Any, arithmetic: str | None, tune: bool | int, out: Any
) -> tuple[Call, Any]:
    """gemm as a 1×1 convolution, bound: (call, out). The rows of a are the pixels, its columns the channels.

    Arguments and errors as in gemm, with transpose_b=True.
    """
    m, k = checks.array("a", a, (None, None)).shape
    if not transpose_b:
        raise ValueError("transpose_b must be True for algorithm='convolution': its weight is (N, K), got False")
    n = checks.array("b", b, (None, k), like=a).shape[0]
    out = checks.output(out, (m, n), like=a)
    checks.apart(out, a=a, b=b, bias=bias)

    def as_image(matrix: Any) -> Any:
        return matrix.reshape(1, matrix.shape[0], 1, matrix.shape[1]).transpose(0, 3, 1, 2)

    call, _ = convolution(
        as_image(a), b.reshape(n, k, 1, 1), bias, activation=activation, arithmetic=arithmetic, tune=tune,
        out=as_image(out),
    )  # fmt: skip
    return call, out


@cuda.operator
def gemm(
    a: Any, b: Any, bias: Any = None, *, transpose_b: bool = False, activation: Any = None,
    arithmetic: str | None = None, algorithm: str = "cublas", tune: bool | int = False, out: Any = None,
) -> Any:  # fmt: skip
    """out = activation(a @ b + bias), or a @ b.T with transpose_b, on cuBLAS or as a 1×1 convolution on cuDNN.

    a: (M, K); b: (K, N), or (N, K) with transpose_b; bias: (N,) or None; out: (M, N); row-major, float32 or float16,
    sums in fp32. algorithm: "cublas" or "convolution" (fuses bias and activation if cuDNN supports it; requires
    transpose_b). activation, arithmetic, tune and errors as in conv2d.
    """
    library.require()
    if algorithm == "cublas":
        call, out = gemm_call(a, b, bias, transpose_b, activation, arithmetic, out)
    elif algorithm == "convolution":
        call, out = gemm_as_convolution_call(a, b, bias, transpose_b, activation, arithmetic, tune, out)
    else:
        raise ValueError(f"algorithm must be 'cublas' or 'convolution', got {algorithm!r}")
    call()
    return out


def linear(x: Any, weight: Any, bias: Any = None, *, arithmetic: str | None = None, out: Any = None) -> Any:
    """out = x @ weight.T + bias: torch.nn.functional.linear.

    x: (N, in_features), weight: (out_features, in_features), bias: (out_features,) or None; otherwise as gemm.
    """
    return gemm(x, weight, bias, transpose_b=True, arithmetic=arithmetic, out=out)


# ---- Elementwise


def elementwise_call(
    x: Any, chain: list[Node], operands: dict[str, Any], out: Any, layout: str, tune: bool | int
) -> Call:
    """A chain of elementwise nodes on arrays of one shape and layout, bound; uses CuPy if cuDNN has no plan.

    operands: the nodes' other arrays by name; tune: see plans.choose.
    """
    shape = tuple(x.shape)
    if len(shape) != 4:
        shape = (1, math.prod(shape), 1, 1)
    dtype = "fp16" if x.dtype == np.float16 else "fp32"
    graph = elementwise(shape, chain, list(operands), layout, dtype)
    try:
        return _bound(plans.choose(((graph,),), tune), x=x, y=out, **operands)
    except plans.Unsupported:
        return _elementwise_on_cupy(x, chain, operands, out)


def _elementwise_on_cupy(x: Any, chain: list[Node], operands: dict[str, Any], out: Any) -> Call:
    import cupy

    def run(_: int) -> None:
        value = x
        for node in chain:
            if node.operand:
                value = cupy.add(value, operands[node.operand], out=out)
            else:
                bounds = dict(node.attributes)
                value = cupy.clip(value, bounds["low"], bounds["high"], out=out)

    return Call(run, told="CuPy", arrays=[x, out, *operands.values()])


@cuda.operator
def add(a: Any, b: Any, *, activation: Any = None, tune: bool | int = False, out: Any = None) -> Any:
    """out = activation(a + b): the residual addition.

    a, b, out: any one shape, float32 or float16; four dimensions all NCHW or all NHWC, others C-contiguous.
    activation, tune and errors as in conv2d.
    """
    library.require()
    allowed = layouts.LAYOUTS if len(getattr(a, "shape", ())) == 4 else ("NCHW",)
    checks.array("a", a, None, allowed=allowed)
    checks.array("b", b, tuple(a.shape), like=a, allowed=allowed)
    layout = _layout(a=a, b=b, out=out)
    out = checks.output(out, tuple(a.shape), like=a, layout=layout)
    chain = [Node("add", "b")]
    if limits := _activation(activation):
        chain.append(clamp_node(*limits))
    elementwise_call(a, chain, {"b": b}, out, layout, tune)()
    return out


def clamp_node(low: float, high: float) -> Node:
    """The node that clamps to [low, high]."""
    return Node("clamp", None, (("low", low), ("high", high)))


@cuda.operator
def clamp(x: Any, low: float, high: float, *, tune: bool | int = False, out: Any = None) -> Any:
    """out = min(max(x, low), high): torch.clamp. x, out: any one shape; layouts, dtypes and errors as in add."""
    library.require()
    allowed = layouts.LAYOUTS if len(getattr(x, "shape", ())) == 4 else ("NCHW",)
    checks.array("x", x, None, allowed=allowed)
    low, high = map(float, checks.bounds((low, high)))
    layout = _layout(x=x, out=out)
    out = checks.output(out, tuple(x.shape), like=x, layout=layout)
    elementwise_call(x, [clamp_node(low, high)], {}, out, layout, tune)()
    return out
