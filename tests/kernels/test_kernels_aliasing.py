"""`out` that shares memory with an input: refused by name, but for the operators that work in place."""

import importlib
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest
from int8_checks import calls, on_device

from common import cuda, kernels, optimize
from common.cuda import checks
from common.cuda import layout as layouts
from common.optimize import blocks, head, sparse

IN_PLACE = ("add", "activate", "binary", "clamp", "multiply")
PATH = optimize.__path__
INT8 = [name for name in kernels.INT8_OPERATORS if name != "add_int8"]  # which test_kernels_int8.py has


def arrays(*shapes):
    return [cuda.full(shape, 1.0, np.float32) for shape in shapes]


X, W, DW, PW, B = (1, 4, 6, 6), (4, 4, 3, 3), (4, 1, 3, 3), (4, 4, 1, 1), (4,)  # the same number of channels all over


@dataclass(frozen=True)
class Call:
    """A launcher with the shapes of every array that it reads and of its output, and its other arguments."""

    launcher: Callable
    reads: dict[str, tuple]  # by argument; a list of shapes for a list of arrays
    out: tuple
    more: dict[str, Any] = field(default_factory=dict)
    layout: str = "NCHW"


IMAGE = {"x": X, "weight": W, "bias": B, "residual": X}
NORM = {"x": X, "weight": B, "bias": B}
BLOCK = {
    "x": (1, 8, 6, 6), "expand": (16, 8, 1, 1), "expand_bias": (16,), "depthwise": (16, 1, 3, 3),
    "depthwise_bias": (16,), "project": (8, 16, 1, 1), "project_bias": (8,), "residual": (1, 8, 6, 6),
}  # fmt: skip
CALLS = {
    "permute": Call(kernels.permute, {"x": (2, 3)}, (3, 2), {"dims": (1, 0)}),
    "pad": Call(kernels.pad, {"x": X}, (1, 4, 8, 8), {"padding": ((1, 1), (1, 1))}),
    "strided_slice": Call(
        kernels.strided_slice, {"x": X}, (1, 2, 6, 6), {"starts": (0, 1, 0, 0), "sizes": (1, 2, 6, 6)}
    ),
    "softmax": Call(kernels.softmax, {"x": (3, 5)}, (3, 5)),
    "gemm": Call(kernels.gemm, {"a": (4, 4), "b": (4, 4), "bias": B}, (4, 4)),
    "linear": Call(kernels.linear, {"x": (4, 4), "weight": (4, 4), "bias": B}, (4, 4)),
    "global_avg_pool": Call(kernels.global_avg_pool, {"x": X}, (1, 4, 1, 1)),
    "pool2d": Call(kernels.pool2d, {"x": X}, (1, 4, 3, 3), {"kernel_size": 2, "stride": 2, "kind": "max"}),
    "concat": Call(kernels.concat, {"arrays": [X, X, X]}, (1, 12, 6, 6), {"dim": 1}),
    "im2col": Call(kernels.im2col, {"x": X}, (1, 36, 36), {"kernel_size": 3, "padding": 1}),
    "conv2d": Call(kernels.conv2d, IMAGE, X, {"stride": 1, "padding": 1}),
    "pointwise": Call(kernels.pointwise, IMAGE | {"weight": PW}, X),
    "depthwise": Call(kernels.depthwise, IMAGE | {"weight": DW}, X, {"stride": 1, "padding": 1}),
    "depthwise_backward_input": Call(
        kernels.depthwise_backward_input, {"grad": X, "weight": DW}, X, {"input_shape": X, "padding": 1}
    ),
    "depthwise_backward_weight": Call(
        kernels.depthwise_backward_weight, {"grad": X, "x": X}, DW, {"kernel_size": (3, 3), "padding": 1}
    ),
    "resize": Call(kernels.resize, {"x": X}, (1, 4, 9, 9), {"size": 9}),
    "conv_transpose2d": Call(kernels.conv_transpose2d, IMAGE | {"x": (1, 4, 4, 4)}, X),
    "layer_norm": Call(kernels.layer_norm, {"x": (4, 6), "weight": (6,), "bias": (6,)}, (4, 6)),
    "group_norm": Call(kernels.group_norm, NORM, X, {"num_groups": 2}),
    "mean": Call(kernels.mean, {"x": X}, (1, 1, 6, 6)),
    "winograd": Call(kernels.winograd, IMAGE | {"transformed": (16, 8, 64)}, X, {"padding": 1}),
    "winograd_weight": Call(kernels.winograd_weight, {"weight": W}, (16, 8, 64)),
    "inverted_residual": Call(kernels.inverted_residual, BLOCK, (1, 8, 6, 6), {"variant": "halo"}, "NHWC"),
    "fused block": Call(blocks.inverted_residual, BLOCK, (1, 8, 6, 6), layout="NHWC"),
    "pointwise_pool": Call(
        head.pointwise_pool, {"x": (1, 8, 6, 6), "weight": (8, 8, 1, 1), "bias": (8,)}, (1, 8, 1, 1), layout="NHWC"
    ),
    "few_rows": Call(head.few_rows, {"x": (2, 8), "weight": (4, 8), "bias": B}, (2, 4)),
    "sparse.conv2d": Call(
        sparse.conv2d, IMAGE | {"packed": (1, 36, 8)}, X, {"stride": 1, "padding": 1}, layout="NHWC"
    ),
    "sparse.pack": Call(sparse.pack, {"weight": W}, (1, 36, 8)),
}  # fmt: skip
READS = [(name, argument) for name, call in CALLS.items() for argument in call.reads]
OPTIONS = {
    "accumulate", "activation", "activations", "arithmetic", "ceil_mode", "coordinates", "count_include_pad",
    "dilation", "dim", "dims", "eps", "groups", "input_bound", "input_shape", "kernel_size", "kind", "mode",
    "num_groups", "out", "output_padding", "padding", "programmatic", "rounding", "scales", "scheme", "size", "sizes",
    "starts", "steps", "stride", "tile", "transpose_b", "value", "variant",
}  # fmt: skip
LAUNCHERS = {call.launcher: name for name, call in CALLS.items()}


def image(shape, layout):
    return layouts.empty(shape, np.float32, layout if len(shape) == 4 else "NCHW")


def over(memory, shape, layout):
    """An array of this shape at the beginning of `memory`."""
    return layouts.shaped(memory[: math.prod(shape)], shape, layout if len(shape) == 4 else "NCHW")


def arguments(call, replaced=None, by=None):
    """All arguments, every array filled with ones; `replaced`, of a list the last member, is over the memory `by`."""
    given = {}
    for name, shapes in call.reads.items():
        made = []
        for shape in shapes if isinstance(shapes, list) else [shapes]:
            made.append(image(shape, call.layout))
            made[-1][...] = 1
        if name == replaced:
            made[-1] = over(by, call.reads[name][-1] if isinstance(shapes, list) else shapes, call.layout)
        given[name] = made if isinstance(shapes, list) else made[0]
    return given | call.more


@pytest.mark.parametrize(("name", "argument"), READS, ids=lambda value: value)
def test_out_that_shares_memory_with_an_input_is_refused(name, argument):
    call = CALLS[name]
    memory = cuda.full(20_000, 1.0, np.float32)
    out = over(memory, call.out, call.layout)
    shared = f"{argument}[2]" if argument == "arrays" else ALIASES.get((name, argument), argument)
    with pytest.raises(ValueError, match=rf"^out and {re.escape(shared)} share memory: the kernel reads one while"):
        call.launcher(**arguments(call, argument, memory), out=out)
    if argument == next(iter(call.reads)):  # and the same call with arrays of its own is right
        call.launcher(**arguments(call), out=image(call.out, call.layout))


ALIASES = {("linear", "x"): "a", ("linear", "weight"): "b"}  # linear is gemm


@pytest.mark.parametrize("operator", INT8)
def test_out_that_shares_memory_with_an_int8_operators_input_is_refused(rng, operator):
    call = calls(rng)[operator]
    for i, name in enumerate(call.names):
        own, want = call.arrays[i], call.want
        both = cuda.full(max(own.nbytes, want.nbytes), 1, np.int8)

        def shared(like, both=both):
            where = "NHWC" if like.ndim == 4 else "NCHW"
            return layouts.shaped(both[: like.nbytes].view(like.dtype), like.shape, where)

        arrays = [shared(own) if j == i else on_device(array) for j, array in enumerate(call.arrays)]
        out = shared(want)
        with pytest.raises(ValueError, match=f"^out and {name} share memory: the kernel reads one"):
            call.function(*arrays, out=out)


def test_every_operator_is_tried():
    assert set(kernels.OPERATORS) <= {*CALLS, *IN_PLACE, *INT8, "add_int8"}


@pytest.mark.parametrize("name", CALLS)
def test_every_array_that_a_launcher_takes_is_tried(name):
    parameters = set(inspect.signature(CALLS[name].launcher).parameters)
    assert parameters - OPTIONS == set(CALLS[name].reads) - OPTIONS
    assert set(CALLS[name].more) <= OPTIONS


def test_every_launcher_that_writes_to_out_is_tried():
    """What takes `out` in common.kernels and common.optimize: tried above, in place, or another name of such a one."""
    other_names = {
        "max_pool2d",
        "avg_pool2d",
        "linear_int8",
        "inverted_residual_int8",
        "pointwise_pool_int8",
        "few_rows_int8",
        "stage_int8",
        "max_pool2d_int8",
        "avg_pool2d_int8",
        "relu",
        "relu6",
        "subtract",
        "divide",
        "maximum",
        "minimum",
    }
    modules = [kernels, *(importlib.import_module(f"common.optimize.{one.name}") for one in iter_modules(PATH))]
    for module in modules:
        for name, value in vars(module).items():
            if not callable(value) or name.startswith("_") or not getattr(value, "__module__", "").startswith("common"):
                continue
            if isinstance(value, type) or "out" not in inspect.signature(value).parameters:
                continue
            activations = {"sigmoid", "hardsigmoid", "hardswish", "tanh", "leaky_relu", "elu", "gelu"}
            others = {*IN_PLACE, *INT8, "add_int8", *other_names, *activations, "unfused"}
            assert value in LAUNCHERS or name in others, name


@pytest.mark.parametrize("operator", IN_PLACE)
def test_in_place_is_right_and_a_part_is_not(operator, rng):
    call = {
        "add": lambda x, out: kernels.add(x, arrays(x.shape)[0], out=out),
        "multiply": lambda x, out: kernels.multiply(x, arrays(x.shape)[0], out=out),
        "binary": lambda x, out: kernels.divide(x, arrays(x.shape)[0], out=out),
        "clamp": lambda x, out: kernels.clamp(x, -1.0, 1.0, out=out),
        "activate": lambda x, out: kernels.activate(x, "sigmoid", out=out),
    }[operator]
    values = rng.standard_normal((1, 3, 5, 7)).astype(np.float32)
    want = cuda.asnumpy(call(cuda.asarray(values), None))
    x = cuda.asarray(values)
    np.testing.assert_array_equal(cuda.asnumpy(call(x, x)), want)
    both = cuda.full(109, 1.0, np.float32)
    with pytest.raises(ValueError, match="share memory in part: out may be the same array, or one of its own"):
        call(both[:105].reshape(1, 3, 5, 7), both[4:].reshape(1, 3, 5, 7))


def test_neighbours_in_one_buffer_are_apart():
    buffer = cuda.full(64, 1.0, np.float32)
    checks.apart(buffer[:32], x=buffer[32:], y=None)
    checks.apart(buffer[32:], x=buffer[:32])
    with pytest.raises(ValueError, match="out and y share memory"):
        checks.apart(buffer[:33], x=None, y=buffer[32:])
    rows = buffer.reshape(8, 8)
    with pytest.raises(ValueError, match="out and x share memory"):
        checks.apart(rows[:, ::-1], x=rows[7:])
