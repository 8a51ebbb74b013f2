"""The problems of the suite "kernels" in int8: MobileNetV2's steps on random int8 arrays, its additions and blocks.

The right result of the first pictures is the NumPy model's (common.kernels.int8), and every bit counts. cuDNN is a peer
for 1×1 convolutions without an addition, where some codes may be the next ones (cudnn.pointwise_int8); of a block, the
three kernels of its convolutions are one.
"""

import contextlib
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import cuda, cudnn, kernels
from ..kernels import int8
from ..measure.roofline import Work, add_work
from ..network.steps import Step
from ..optimize.blocks_int8 import Int8Convolution, inverted_residual_int8
from ..topology import Conv2d
from .operators import CHECKED, Operator, float64, kind_of, operators, work_of
from .problems import Problem, Setup

COMPUTED_BY = {
    "stem": "conv2d_int8", "depthwise": "depthwise_int8", "pool": "global_avg_pool_int8",
    **dict.fromkeys(("expand", "project", "head", "linear"), "pointwise_int8"),
}  # fmt: skip
BLOCK = "inverted_residual_int8"
ZERO = -7  # the zero point of every input
SCALES = (0.7, 0.6, 1.5)  # of every sum
CUDNN_ERROR = 2e-3  # allowed for cuDNN: a code of 73, the mean, is off by one in one of a thousand


@functools.lru_cache(maxsize=2)
def _bytes(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, size).astype(np.int8)


def drawn(seed: int, shape: Sequence[int]) -> Any:
    """Random int8 numbers (N, C, H, W) on the device, in NHWC, determined by the seed."""
    return cuda.to_layout(cuda.asarray(_bytes(seed, int(np.prod(shape))).reshape(shape)), "NHWC")


def convolution(seed: int, shape: Sequence[int]) -> dict[str, Any]:
    """{weight, bias, multiplier} of a convolution with weights of that shape whose outputs fill int8, on the device."""
    weight = drawn(seed, shape)
    random = np.random.default_rng(seed)
    bias = int8.fold_zero_point(cuda.asnumpy(weight), random.integers(-1000, 1000, shape[0]).astype(np.int32), ZERO)
    spread = 73 * 73 * np.sqrt(np.prod(shape[1:]))
    multiplier = (50 / spread * random.uniform(0.5, 1.5, shape[0])).astype(np.float32)
    return {"weight": weight, "bias": cuda.asarray(bias), "multiplier": cuda.asarray(multiplier)}


def _first(array: Any) -> np.ndarray:
    return cuda.asnumpy(array[:CHECKED])


def _setup(given: dict[str, Any], want: np.ndarray, k: int, **peers: Callable[[], Any]) -> Setup:
    given["out"] = cuda.to_layout(cuda.empty((len(given["x"]), *want.shape[1:]), np.int8), "NHWC")
    return Setup("NHWC", given, float64(cuda.asarray(want)), k, peers)


# ---- Steps


def network(steps: Sequence[Step], batch: int) -> Iterator[Problem]:
    """Yield MobileNetV2's distinct steps at a batch size."""
    for operator in operators(list(steps)):
        step = steps[operator.index]
        yield Problem(
            operator.kind, operator.shape, operator.count, batch, "int8", work_of(step, 1),
            (COMPUTED_BY[operator.kind],), functools.partial(_step, step, operator, batch),
        )  # fmt: skip


def _step(step: Step, operator: Operator, batch: int) -> Iterator[Setup]:
    layer = step.layer
    shape = (batch, *layer.input_shapes[0][1:])
    where: dict[str, Any] = {}
    if operator.kind == "pool":
        x = drawn(0, shape)
        scale: dict[str, Any] = {"multiplier": 2.0, "input_zero_point": ZERO, "zero_point": ZERO}
        yield _setup({"x": x, **scale}, int8.global_avg_pool(_first(x), **scale), shape[2] * shape[3])
        return
    if operator.kind == "linear":
        x = drawn(0, (batch, layer.in_features, 1, 1))
        made = convolution(1, (layer.out_features, layer.in_features, 1, 1))
    else:
        assert isinstance(layer, Conv2d)
        x, made = drawn(0, shape), convolution(1, layer.parameter_shapes[layer.weight])
        where = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation, "groups": layer.groups}
    rest: dict[str, Any] = {
        "zero_point": ZERO,
        "bounds": (ZERO, int8.HIGH) if step.activation else (int8.LOW, int8.HIGH),
    }
    weight, bias, multiplier = (cuda.asnumpy(made[name]) for name in ("weight", "bias", "multiplier"))
    window = where | {"input_zero_point": ZERO}
    want = int8.conv2d(_first(x), weight, bias, multiplier, **window, **rest)
    more: dict[str, Any] = {"residual": None, "residual_scales": None}
    if step.residual:
        more = {"residual": drawn(2, (batch, *want.shape[1:])), "residual_scales": SCALES}
        last = more | {"residual": _first(more["residual"])}
        want = int8.conv2d(_first(x), weight, bias, multiplier, **window, **rest, **last)
    setup = _setup({"x": x, **made, **window, **rest, **more}, want, weight[0].size)
    if weight.shape[2:] == (1, 1) and not step.residual and not cudnn.missing():
        with contextlib.suppress(cudnn.Unsupported):
            setup.peers = {"cudnn": cudnn.pointwise_int8(x, **made, **rest, out=setup.given["out"])}
            setup.peers_allowed = CUDNN_ERROR
    yield setup


def additions(steps: Sequence[Step], batch: int) -> Iterator[Problem]:
    """Yield the residual additions with distinct shapes."""
    shapes = Counter(tuple(step.layers[-1].output_shape[1:]) for step in steps if step.residual is not None)
    for (c, h, w), count in shapes.items():
        shape = (batch, c, h, w)
        setups = functools.partial(_addition, shape)
        yield Problem("add", f"{h}×{w} {c}", count, batch, "int8", add_work(shape, 1), ("add_int8",), setups)


def _addition(shape: tuple[int, ...]) -> Iterator[Setup]:
    a, b = drawn(0, shape), drawn(2, shape)
    yield _setup({"x": a, "a": a, "b": b, "scales": SCALES}, int8.add(_first(a), _first(b), SCALES), 1)


# ---- Blocks


def blocks(steps: Sequence[Step], batch: int) -> Iterator[Problem]:
    """Yield the inverted-residual blocks with distinct shapes: fused, beside the three kernels one after the other."""
    found: dict[str, tuple[int, list[Step]]] = {}
    kinds = [kind_of(step) for step in steps]
    for i, (kind, following) in enumerate(itertools.pairwise(kinds)):
        if (kind, following) == ("depthwise", "project"):
            parts = list(steps[i - (kinds[i - 1] == "expand") : i + 2])
            convs = [step.layer for step in parts if isinstance(step.layer, Conv2d)]
            _, c, h, w = convs[0].input_shapes[0]
            shape = f"{h}×{w} {c}>{convs[-2].out_channels}>{convs[-1].out_channels} stride {convs[-2].stride[0]}"
            shape += " +residual" if parts[-1].residual else ""
            found[shape] = found.get(shape, (0, parts))[0] + 1, parts
    for shape, (count, parts) in found.items():
        work = sum((work_of(step, 1) for step in parts), Work(0, 0))
        hidden = [2 * int(np.prod(step.layers[-1].output_shape[1:])) * batch for step in parts[:-1]]
        fused = Work(work.bytes - sum(hidden), work.flops)  # hidden activations are neither written nor read
        yield Problem(
            "block", shape, count, batch, "int8", fused, (BLOCK,), functools.partial(_block, parts, batch)
        )  # fmt: skip


def _block(parts: Sequence[Step], batch: int) -> Iterator[Setup]:
    convs = [step.layer for step in parts if isinstance(step.layer, Conv2d)]
    x = drawn(0, (batch, *convs[0].input_shapes[0][1:]))
    made = [
        Int8Convolution(**convolution(i + 1, conv.parameter_shapes[conv.weight]), zero_point=ZERO,
                        bounds=(ZERO, int8.HIGH) if step.activation else (int8.LOW, int8.HIGH))
        for i, (step, conv) in enumerate(zip(parts, convs, strict=True))
    ]  # fmt: skip
    more: dict[str, Any] = {"residual": x, "residual_scales": SCALES} if parts[-1].residual else {}
    want, stride = _first(x), convs[-2].stride[0]
    for conv, part in zip(convs, made, strict=True):
        window: dict[str, Any] = {
            "stride": conv.stride,
            "padding": conv.padding,
            "groups": conv.groups,
            "input_zero_point": ZERO,
        }
        last = more | {"residual": _first(x)} if more and part is made[-1] else {}
        weight, bias, multiplier = map(cuda.asnumpy, (part.weight, part.bias, part.multiplier))
        to: dict[str, Any] = {"zero_point": part.zero_point, "bounds": part.bounds}
        want = int8.conv2d(want, weight, bias, multiplier, **to, **window, **last)
    setup = _setup({"x": x}, want, convs[-1].in_channels)
    expand = made[0] if len(made) == 3 else None
    given = {"stride": stride, "input_zero_point": ZERO, "out": setup.given["out"], **more}
    fused = functools.partial(inverted_residual_int8, x, expand, *made[-2:], **given)
    setup.peers = {"fused": fused, "separate": functools.partial(_separate, x, convs, made, more, setup.given["out"])}
    yield setup


def _separate(x: Any, convs: Sequence[Conv2d], made: Sequence[Int8Convolution], more: dict[str, Any], out: Any) -> None:
    """The convolutions one after the other, each by the rung that is the fastest for it."""
    for conv, part in zip(convs, made, strict=True):
        product = (part.weight, part.bias, part.multiplier)
        end = {"zero_point": part.zero_point, "bounds": part.bounds}
        if conv.groups > 1:
            x = kernels.depthwise_int8(x, *product, conv.stride, conv.padding, input_zero_point=ZERO, **end)
        else:
            last = more | {"out": out} if part is made[-1] else {}
            x = kernels.pointwise_int8(x, *product, **end, **last)
