"""The depthwise kernels for PyTorch training, as torch.library operators for autograd and torch.compile.

    from common.kernels.training import DepthwiseConv2d, depthwise_conv2d, replace_depthwise

    y = depthwise_conv2d(x, weight, bias, stride=2, padding=1)       torch.nn.functional.conv2d(..., groups=C)
    model = replace_depthwise(model)                                 runs its depthwise layers on these kernels

CUDA tensors are computed on the GPU, CPU tensors on the simulator. NCHW and channels_last; float32, float16, float64.

The three operators are closed under differentiation: each is linear in each of its first two arguments, and the
gradient w.r.t. either is another of the three, so second derivatives need no further kernel (v: the gradient w.r.t. the
operator's result):

                                  w.r.t. the first             w.r.t. the second
    y  = forward(x, w)            backward_input(v, w)         backward_weight(v, x)
    dx = backward_input(g, w)     forward(v, w)                backward_weight(g, v)
    dw = backward_weight(g, x)    forward(x, v)                backward_input(g, v)
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..cuda import checks
from .depthwise import depthwise
from .depthwise_backward_input import depthwise_backward_input
from .depthwise_backward_weight import depthwise_backward_weight

# ---- Memory


def _memory_format(tensor: Tensor) -> torch.memory_format:
    """The tensor's memory format; contiguous if it fits both, as with a single channel."""
    last = tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()
    return torch.channels_last if last else torch.contiguous_format


def _dense(tensor: Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> Tensor:
    """A dense copy if needed, detached: gradients may be expanded, such as that of y.sum()."""
    return tensor.detach().contiguous(memory_format=memory_format)


def _empty(like: Tensor, shape: Sequence[int], memory_format: torch.memory_format) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=memory_format)


@contextlib.contextmanager
def _scratch_of_torch(tensor: Tensor) -> Iterator[None]:
    """Inside, CuPy allocates from PyTorch's allocator, so that PyTorch's CUDA graphs own the kernels' scratch."""
    if not tensor.is_cuda:
        yield
        return
    import cupy

    def allocate(size: int, device: int) -> int:
        return torch.cuda.caching_allocator_alloc(size, device, torch.cuda.current_stream(device))

    def free(address: int, device: int) -> None:
        torch.cuda.caching_allocator_delete(address)

    with cupy.cuda.using_allocator(cupy.cuda.PythonFunctionAllocator(allocate, free).malloc):
        yield


# ---- The operators. stride, dilation: (height, width); padding: (top, bottom, left, right)


def _pads(padding: Sequence[int]) -> checks.Pads:
    top, bottom, left, right = padding
    return (top, bottom), (left, right)


@torch.library.custom_op("course::depthwise", mutates_args=())
def forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:  # fmt: skip
    """y (N, C, oH, oW) in the memory format of x (N, C, H, W); weight (C, 1, kH, kW), bias (C,) or None."""
    sizes = tuple(x.shape), tuple(weight.shape)
    *_, shape = checks.convolution(*sizes, tuple(stride), _pads(padding), tuple(dilation), x.shape[1])
    memory_format = _memory_format(x)
    out = _empty(x, shape, memory_format)
    with _scratch_of_torch(x):
        depthwise(
            _dense(x, memory_format), _dense(weight), None if bias is None else _dense(bias), tuple(stride),
            _pads(padding), tuple(dilation), out=out,
        )  # fmt: skip
    return out


@forward.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:  # fmt: skip
    n, c, *size = x.shape
    reach = [dilation[i] * (weight.shape[2 + i] - 1) + 1 for i in range(2)]
    out = [(size[i] + padding[2 * i] + padding[2 * i + 1] - reach[i]) // stride[i] + 1 for i in range(2)]
    return _empty(x, (n, c, *out), _memory_format(x))


@torch.library.custom_op("course::depthwise_backward_input", mutates_args=())
def backward_input(
    grad: Tensor, weight: Tensor, input_shape: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], channels_last: bool,
) -> Tensor:  # fmt: skip
    """dx of shape input_shape (N, C, H, W) from grad (N, C, oH, oW) and weight (C, 1, kH, kW)."""
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    out = _empty(grad, tuple(input_shape), memory_format)
    with _scratch_of_torch(grad):
        depthwise_backward_input(
            _dense(grad, memory_format), _dense(weight), tuple(input_shape), tuple(stride), _pads(padding),
            tuple(dilation), out=out,
        )  # fmt: skip
    return out


@backward_input.register_fake
def _(
    grad: Tensor, weight: Tensor, input_shape: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], channels_last: bool,
) -> Tensor:  # fmt: skip
    return _empty(grad, input_shape, torch.channels_last if channels_last else torch.contiguous_format)


@torch.library.custom_op("course::depthwise_backward_weight", mutates_args=())
def backward_weight(
    grad: Tensor, x: Tensor, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:  # fmt: skip
    """dw (C, 1, kH, kW) from grad (N, C, oH, oW) and x (N, C, H, W)."""
    memory_format = _memory_format(x)
    out = _empty(x, (x.shape[1], 1, *kernel_size), torch.contiguous_format)
    with _scratch_of_torch(x):
        depthwise_backward_weight(
            _dense(grad, memory_format), _dense(x, memory_format), tuple(kernel_size), tuple(stride), _pads(padding),
            tuple(dilation), out=out,
        )  # fmt: skip
    return out


@backward_weight.register_fake
def _(
    grad: Tensor, x: Tensor, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:  # fmt: skip
    return _empty(x, (x.shape[1], 1, *kernel_size), torch.contiguous_format)


# ---- Their gradients: the table above


def _of_forward(ctx: Any, v: Tensor) -> tuple:
    x, weight = ctx.saved_tensors
    to_x, to_weight, to_bias, *_ = ctx.needs_input_grad
    return (
        backward_input(v, weight, x.shape, *ctx.geometry, ctx.channels_last) if to_x else None,
        backward_weight(v, x, weight.shape[2:], *ctx.geometry) if to_weight else None,
        v.sum((0, 2, 3)) if to_bias else None,
        None, None, None,
    )  # fmt: skip


def _keep_forward(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, weight, _, *ctx.geometry = inputs
    ctx.save_for_backward(x, weight)
    ctx.channels_last = _memory_format(x) is torch.channels_last


def _of_backward_input(ctx: Any, v: Tensor) -> tuple:
    grad, weight = ctx.saved_tensors
    to_grad, to_weight, *_ = ctx.needs_input_grad
    return (
        forward(v, weight, None, *ctx.geometry) if to_grad else None,
        backward_weight(grad, v, weight.shape[2:], *ctx.geometry) if to_weight else None,
        None, None, None, None, None,
    )  # fmt: skip


def _keep_backward_input(ctx: Any, inputs: tuple, output: Tensor) -> None:
    grad, weight, _, *ctx.geometry, _ = inputs
    ctx.save_for_backward(grad, weight)


def _of_backward_weight(ctx: Any, v: Tensor) -> tuple:
    grad, x = ctx.saved_tensors
    to_grad, to_x, *_ = ctx.needs_input_grad
    return (
        forward(x, v, None, *ctx.geometry) if to_grad else None,
        backward_input(grad, v, x.shape, *ctx.geometry, ctx.channels_last) if to_x else None,
        None, None, None, None,
    )  # fmt: skip


def _keep_backward_weight(ctx: Any, inputs: tuple, output: Tensor) -> None:
    grad, x, _, *ctx.geometry = inputs
    ctx.save_for_backward(grad, x)
    ctx.channels_last = _memory_format(x) is torch.channels_last


forward.register_autograd(_of_forward, setup_context=_keep_forward)
backward_input.register_autograd(_of_backward_input, setup_context=_keep_backward_input)
backward_weight.register_autograd(_of_backward_weight, setup_context=_keep_backward_weight)

# under autocast: float16 on a GPU; float32 on a CPU, as the kernels do not support bfloat16
torch.library.register_autocast("course::depthwise", "cuda", torch.float16)
torch.library.register_autocast("course::depthwise", "cpu", torch.float32)


# ---- The interface for models


def _pair(value: int | Sequence[int]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def depthwise_conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: Any = 0,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """torch.nn.functional.conv2d(x, weight, bias, stride, padding, dilation, groups=C) on the kernels of this course.

    x: (N, C, H, W), weight: (C, 1, kH, kW), bias: (C,) or None; all float32, float16 or float64. The result has the
    memory format of x. stride, dilation: an int or a pair (height, width); padding: an int, a pair, ((top, bottom),
    (left, right)), "valid" or "same". Supports double backward and torch.compile. Under autocast it computes in
    float16 on a GPU.
    Raises ValueError if a shape, stride, padding or dilation is invalid, TypeError for unsupported or mixed dtypes.
    """
    if x.dim() != 4 or weight.dim() != 4 or weight.shape[0] != x.shape[1] or weight.shape[1] != 1:
        raise ValueError(
            f"x and weight must have shapes (N, C, H, W) and (C, 1, kH, kW), got {tuple(x.shape)} and"
            f" {tuple(weight.shape)}"
        )
    step, reach = _pair(stride), _pair(dilation)
    if padding == "valid":
        padding = 0
    if padding == "same":
        if step != [1, 1]:
            raise ValueError(f"padding must be numbers where the stride is not 1, got 'same' with stride {stride}")
        around = [reach[i] * (weight.shape[2 + i] - 1) for i in range(2)]
        padding = [(total // 2, total - total // 2) for total in around]
    sides = [_pair(side) for side in _pair(padding)]
    return forward(x, weight, bias, step, [*sides[0], *sides[1]], reach)


class DepthwiseConv2d(nn.Conv2d):
    """nn.Conv2d(channels, channels, kernel_size, ..., groups=channels) on these kernels, with the same state dict."""

    def __init__(self, channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 bias: bool = True, **factory: Any) -> None:  # fmt: skip
        super().__init__(channels, channels, kernel_size, stride, padding, dilation, channels, bias, **factory)

    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return depthwise_conv2d(x, weight, bias, self.stride, self.padding, self.dilation)


def replace_depthwise(model: nn.Module) -> nn.Module:
    """Replace each zero-padding depthwise nn.Conv2d of a model by a DepthwiseConv2d, in place; returns the model.

    The parameter objects are reused, so existing optimizers remain valid.
    """
    for module in list(model.modules()):
        for name, layer in module.named_children():
            if not isinstance(layer, nn.Conv2d) or isinstance(layer, DepthwiseConv2d) or layer.padding_mode != "zeros":
                continue
            if not layer.groups == layer.in_channels == layer.out_channels:
                continue
            ours = DepthwiseConv2d(
                layer.in_channels, layer.kernel_size, layer.stride, layer.padding, layer.dilation,
                bias=layer.bias is not None, device="meta",
            )  # fmt: skip
            ours.weight, ours.bias = layer.weight, layer.bias
            ours.train(layer.training)
            setattr(module, name, ours)
    return model
