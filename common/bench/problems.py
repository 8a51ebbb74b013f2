"""The problems of the suite "kernels": arguments on the device, the correct result, the libraries' launches.

network     every distinct step of MobileNetV2, on the buffers of a network on cuDNN
additions   its residual additions, which cuDNN fuses into other steps
blocks      its inverted-residual blocks, three convolutions each, as one problem
gradients   of its depthwise layers, at a training batch size
dense       ResNet's 3×3 convolutions of stride 1, which suit Winograd's algorithm
products    products of square matrices
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import cuda, cudnn
from ..cuda import checks
from ..cuda import layout as layouts
from ..measure.roofline import Work, add_work, conv2d_work, gemm_work
from ..network.program import Program
from ..network.steps import Step
from ..optimize.fusions import block_of
from ..optimize.generate import Block
from ..topology import Conv2d
from .operators import CHECKED, Operator, convolved, float64, kind_of, operators, reference, relative_error, work_of

DTYPES: dict[str, np.dtype] = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16)}
POINTWISE = ("expand", "project", "head")
# the operators that can compute a kind of step; the rungs of the first have plain names
COMPUTED_BY = {
    "stem": ("conv2d",), "depthwise": ("depthwise",), "pool": ("global_avg_pool",), "linear": ("gemm",),
    **dict.fromkeys(POINTWISE, ("pointwise", "conv2d")),
}  # fmt: skip
CONV2D_UP_TO = (
    32  # the largest batch at which conv2d's rungs run 1×1 convolutions in fp32: larger ones show nothing new
)
TRAINING = 32  # batch size of the gradients
DENSE = ((56, 64), (28, 128), (14, 256), (7, 512))  # height and width, channels
CUBES = (512, 1024, 2048, 4096)
PRODUCTS = (*((n, n, n) for n in CUBES), (12544, 1280, 320))  # M, N, K; the last: 7×7 pixels at batch 256, a small K

Launch = Callable[[], Any]


@dataclass(eq=False)
class Setup:
    """A problem with its arrays, all activations in one layout.

    layout: None for matrices and elementwise operators. given: the operators' arguments by name, `out` included.
    want: the correct result for the first pictures, a float64 tensor. k: the number of products per sum. peers:
    launches of "cudnn" or "cublas" that write to `out`. plan: cuDNN's plan, if known.
    """

    layout: str | None
    given: dict[str, Any]
    want: Any
    k: int
    peers: Mapping[str, Launch]
    plan: str = ""
    peers_allowed: float | None = None  # the error allowed for the peers, if it is not that of the precision

    def poison(self) -> None:
        """Fill `out` with NaN, or int8 with 99."""
        self.given["out"][...] = 99 if np.dtype(self.given["out"].dtype) == np.int8 else np.nan

    def error(self) -> float:
        """‖out − want‖ / ‖want‖ of the present contents of `out`."""
        return relative_error(self.given["out"], self.want)


@dataclass(frozen=True)
class Problem:
    """A problem: contents of its records, the operators that can compute it, and its setups, allocated on iteration."""

    kind: str
    shape: str
    count: int  # the number of such layers in the network
    batch: int
    precision: str
    work: Work
    operators: tuple[str, ...]
    setups: Callable[[], Iterator[Setup]] = field(repr=False)

    @property
    def case(self) -> str:
        """The "case" of its records: "depthwise 56×56 144"."""
        return f"{self.kind} {self.shape}"


# ---- The steps of the network


def network(programs: Mapping[str, Program], batch: int, precision: str) -> Iterator[Problem]:
    """Yield MobileNetV2's distinct steps. programs: on cuDNN by layout, after a run; their launches are the peers."""
    program = next(iter(programs.values()))
    for operator in operators(program.steps):
        able = COMPUTED_BY[operator.kind]
        if operator.kind in POINTWISE and (batch > CONV2D_UP_TO or precision != "fp32"):
            able = able[:1]
        work = work_of(program.steps[operator.index], DTYPES[precision].itemsize)
        setups = functools.partial(_classifier if operator.kind == "linear" else _step, programs, operator)
        yield Problem(operator.kind, operator.shape, operator.count, batch, precision, work, able, setups)


def _step(programs: Mapping[str, Program], operator: Operator) -> Iterator[Setup]:
    for layout, program in programs.items():
        step, buffers, parameters = program.steps[operator.index], program.buffers, program.parameters
        layer = step.layer
        given = {"x": buffers[step.inputs[0]], "out": buffers[step.output]}
        if isinstance(layer, Conv2d):
            given |= {
                "weight": parameters[layer.weight], "bias": parameters[layer.bias] if layer.bias else None,
                "stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation, "groups": layer.groups,
                "residual": buffers[step.residual] if step.residual else None, "activation": step.activation,
            }  # fmt: skip
        launch = functools.partial(program.launch_step, operator.index)
        yield Setup(layout, given, *reference(program, operator.index), {"cudnn": launch}, program.told[operator.index])


def _classifier(programs: Mapping[str, Program], operator: Operator) -> Iterator[Setup]:
    program = next(iter(programs.values()))  # one row per picture, the same in both layouts
    step, buffers, parameters = program.steps[operator.index], program.buffers, program.parameters
    x, layer = buffers[step.inputs[0]], step.layer
    given = {
        "a": x.reshape(len(x), -1), "b": parameters[layer.weight],
        "bias": parameters[layer.bias] if layer.bias else None, "transpose_b": True, "out": buffers[step.output],
    }  # fmt: skip
    launch = functools.partial(program.launch_step, operator.index)
    peers = {"cudnn": launch, "cublas": functools.partial(cudnn.gemm, **given)}
    yield Setup(None, given, *reference(program, operator.index), peers, program.told[operator.index])


# ---- Random arrays


@functools.lru_cache(maxsize=4)
def _numbers(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def drawn(seed: int, shape: Sequence[int], precision: str, layout: str = "NCHW") -> Any:
    """Standard normal numbers on the device, determined by the seed; on zeros a GPU would run faster."""
    array = cuda.asarray(_numbers(seed, tuple(shape)).astype(DTYPES[precision]))
    return cuda.to_layout(array, layout) if array.ndim == 4 else array


def additions(steps: Sequence[Step], batch: int, precision: str, tune: bool | int) -> Iterator[Problem]:
    """Yield the residual additions with distinct shapes."""
    shapes = Counter(tuple(step.layers[-1].output_shape[1:]) for step in steps if step.residual is not None)
    for (c, h, w), count in shapes.items():
        shape = (batch, c, h, w)
        work = add_work(shape, DTYPES[precision].itemsize)
        setups = functools.partial(_addition, shape, precision, tune)
        yield Problem("add", f"{h}×{w} {c}", count, batch, precision, work, ("add",), setups)


def _addition(shape: tuple[int, ...], precision: str, tune: bool | int) -> Iterator[Setup]:
    a, b = drawn(0, shape, precision), drawn(1, shape, precision)
    given = {"a": a, "b": b, "out": cuda.empty(shape, DTYPES[precision])}
    peer = functools.partial(cudnn.add, **given, tune=tune)
    yield Setup(None, given, float64(a[:CHECKED]) + float64(b[:CHECKED]), 1, {"cudnn": peer})


# ---- Inverted-residual blocks


def blocks(steps: Sequence[Step], batch: int, precision: str, tune: bool | int) -> Iterator[Problem]:
    """Yield the distinct blocks of three convolutions; MobileNetV2's first block has no expand and is left out."""
    found: Counter[Block] = Counter()
    for three in zip(steps, steps[1:], steps[2:], strict=False):
        if not all(isinstance(step.layer, Conv2d) for step in three):
            continue
        if [kind_of(step) for step in three] == ["expand", "depthwise", "project"]:
            found[block_of(three)] += 1
    for block, count in found.items():
        work = Work(block.bytes(batch, DTYPES[precision].itemsize), 2 * batch * block.macs)
        setups = functools.partial(_block, block, batch, precision, tune)
        yield Problem("inverted residual", str(block), count, batch, precision, work, ("inverted_residual",), setups)


def _block(block: Block, batch: int, precision: str, tune: bool | int) -> Iterator[Setup]:
    hidden, dtype = block.hidden, DTYPES[precision]
    x = drawn(0, (batch, *block.input_shape), precision, "NHWC")
    shapes = {
        "expand": (hidden, block.channels, 1, 1), "depthwise": (hidden, 1, 3, 3),
        "project": (block.outputs, hidden, 1, 1),
    }  # fmt: skip
    weights, biases = {}, {}
    for i, (name, shape) in enumerate(shapes.items()):
        weights[name] = drawn(i, shape, precision) * math.prod(shape[1:]) ** -0.5  # so that few sums leave [0, 6]
        biases[f"{name}_bias"] = drawn(i + len(shapes), shape[:1], precision)
    given = {
        "x": x, **weights, **biases, "stride": block.stride, "residual": x if block.residual else None,
        "activations": ("relu6", "relu6", None),
        "out": layouts.empty((batch, block.outputs, *block.out_size), dtype, "NHWC"),
    }  # fmt: skip

    want = _convolved_64(float64(x[:CHECKED]), given, "expand").clamp(0, 6)
    want = _convolved_64(want, given, "depthwise", block.stride, 1, hidden).clamp(0, 6)
    want = _convolved_64(want, given, "project")
    if block.residual:
        want = want + float64(x[:CHECKED])
    expanded, dw = (layouts.empty((batch, hidden, *size), dtype, "NHWC") for size in (x.shape[2:], block.out_size))
    peer = functools.partial(_three_convolutions, given, expanded, dw, tune)
    yield Setup("NHWC", given, want, hidden, {"cudnn": peer})


def _convolved_64(
    x: Any, given: Mapping[str, Any], name: str, stride: int = 1, padding: int = 0, groups: int = 1
) -> Any:  # fmt: skip
    """A convolution of a float64 tensor with one of a block's weights and its bias."""
    import torch.nn.functional as F

    return F.conv2d(x, float64(given[name]), float64(given[f"{name}_bias"]), stride, padding, 1, groups)


def _three_convolutions(given: dict[str, Any], expanded: Any, dw: Any, tune: bool | int) -> None:
    """A block as cuDNN's three convolutions with fused bias, activation and residual, and two tensors between them."""
    cudnn.conv2d(given["x"], given["expand"], given["expand_bias"], activation="relu6", out=expanded, tune=tune)
    cudnn.conv2d(
        expanded, given["depthwise"], given["depthwise_bias"], given["stride"], 1, 1, dw.shape[1],
        activation="relu6", out=dw, tune=tune,
    )  # fmt: skip
    cudnn.conv2d(
        dw, given["project"], given["project_bias"], residual=given["residual"], out=given["out"], tune=tune
    )  # fmt: skip


# ---- Dense products and convolutions


def products(precision: str, sizes: Sequence[tuple[int, int, int]] = PRODUCTS) -> Iterator[Problem]:
    """Yield products of row-major matrices. sizes: M, N, K of (M, K) times (K, N)."""
    for m, n, k in sizes:
        work = gemm_work(m, n, k, DTYPES[precision].itemsize)
        setups = functools.partial(_product, m, n, k, precision)
        yield Problem("gemm", f"{m}×{n}×{k}", 1, 1, precision, work, ("gemm",), setups)


def _product(m: int, n: int, k: int, precision: str) -> Iterator[Setup]:
    a, b = drawn(0, (m, k), precision), drawn(1, (k, n), precision)
    given = {"a": a, "b": b, "bias": None, "transpose_b": False, "out": cuda.empty((m, n), DTYPES[precision])}
    yield Setup(None, given, float64(a) @ float64(b), k, {"cublas": functools.partial(cudnn.gemm, **given)})


def dense(batch: int, precision: str, tune: bool | int, sizes: Sequence[tuple[int, int]] = DENSE) -> Iterator[Problem]:
    """Yield 3×3 convolutions with bias and ReLU and as many outputs as inputs. sizes: (H = W, channels)."""
    for extent, c in sizes:
        x, weight = (batch, c, extent, extent), (c, c, 3, 3)
        work = conv2d_work(x, weight, 1, 1, 1, DTYPES[precision].itemsize)
        setups = functools.partial(_dense, x, weight, precision, tune)
        shape = f"{extent}×{extent} {c}>{c}"
        yield Problem("conv 3×3", shape, 1, batch, precision, work, ("winograd", "conv2d"), setups)


def _dense(x_shape: tuple[int, ...], shape: tuple[int, ...], precision: str, tune: bool | int) -> Iterator[Setup]:
    for layout in layouts.LAYOUTS:
        x, weight = drawn(0, x_shape, precision, layout), drawn(1, shape, precision, layout)
        bias = drawn(2, shape[:1], precision)
        given = {
            "x": x, "weight": weight, "bias": bias, "stride": 1, "padding": 1, "dilation": 1, "groups": 1,
            "activation": "relu", "residual": None, "out": layouts.empty(x_shape, DTYPES[precision], layout),
        }  # fmt: skip
        want = convolved(x[:CHECKED], weight, bias, 1, 1, 1, 1).clamp(min=0)
        peer = functools.partial(cudnn.conv2d, **given, tune=tune)
        yield Setup(layout, given, want, 9 * shape[1], {"cudnn": peer})


# ---- Gradients


def gradients(steps: Sequence[Step], batch: int, precision: str, tune: bool | int) -> Iterator[Problem]:
    """Yield the gradients of the distinct depthwise layers, with respect to input and weight.

    ValueError for padding that differs between opposite sides.
    """
    for operator in operators(list(steps)):
        if operator.kind != "depthwise":
            continue
        layer = steps[operator.index].layer
        x_shape, weight_shape = (batch, *layer.input_shapes[0][1:]), tuple(layer.parameter_shapes[layer.weight])
        window = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}
        # forward's output is read and its input or weight written; as many multiply-adds as forward
        work = conv2d_work(x_shape, weight_shape, **window, itemsize=DTYPES[precision].itemsize, bias=False)
        for which in ("input", "weight"):
            yield Problem(
                f"depthwise backward {which}", operator.shape, operator.count, batch, precision, work,
                (f"depthwise_backward_{which}",),
                functools.partial(_gradient, which, x_shape, weight_shape, window, precision, tune),
            )  # fmt: skip


def _grad_shape(x: tuple[int, ...], weight: tuple[int, ...], window: Mapping[str, Any]) -> tuple[int, ...]:
    return checks.convolution(x, weight, window["stride"], window["padding"], window["dilation"], x[1])[-1]


def _torch_window(window: Mapping[str, Any], groups: int) -> dict[str, Any]:
    """The window as PyTorch's arguments. ValueError for padding that differs between opposite sides."""
    (top, bottom), (left, right) = checks.padding(window["padding"])
    if (top, left) != (bottom, right):
        raise ValueError(f"padding must be the same on opposite sides, got {window['padding']}")
    return {**window, "padding": (top, left), "groups": groups}


def _gradient(
    which: str, x_shape: tuple[int, ...], shape: tuple[int, ...], window: Mapping[str, Any], precision: str,
    tune: bool | int,
) -> Iterator[Setup]:  # fmt: skip
    from torch.nn import grad as gradient

    groups, torchs = x_shape[1], _torch_window(window, x_shape[1])
    for layout in layouts.LAYOUTS:
        grad = drawn(0, _grad_shape(x_shape, shape, window), precision, layout)
        if which == "input":
            weight, out = drawn(1, shape, precision), layouts.empty(x_shape, DTYPES[precision], layout)
            given = {"grad": grad, "weight": weight, "input_shape": x_shape}
            first, k = float64(grad[:CHECKED]), weight[0].size
            want = gradient.conv2d_input((len(first), *x_shape[1:]), float64(weight), first, **torchs)
            peer = functools.partial(cudnn.conv2d_backward_input, grad, weight, x_shape)
        else:
            x, out = drawn(1, x_shape, precision, layout), cuda.empty(shape, DTYPES[precision])
            given, k = {"grad": grad, "x": x, "kernel_size": shape[2:]}, grad[:, 0].size
            want = gradient.conv2d_weight(float64(x), shape, float64(grad), **torchs)
            peer = functools.partial(cudnn.conv2d_backward_weight, x, grad, shape)
        launch = functools.partial(peer, **window, groups=groups, out=out, tune=tune)
        yield Setup(layout, {**given, **window, "out": out}, want, k, {"cudnn": launch})
