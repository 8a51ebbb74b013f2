"""Average pooling with cudnnPoolingForward of cuDNN's C API: graphs have no node for it."""

import ctypes
import weakref
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import checks
from ..cuda import layout as layouts
from . import library
from .operators import Call

CUDNN_DATA_FLOAT, CUDNN_DATA_HALF = 0, 2
AVERAGE_COUNT_INCLUDE_PADDING = 1
NOT_PROPAGATE_NAN, PROPAGATE_NAN = 0, 1


class _Descriptor:
    """A descriptor of cuDNN's C API, destroyed with this object."""

    def __init__(self, kind: str) -> None:
        self.value = ctypes.c_void_p()
        library.call(f"cudnnCreate{kind}Descriptor", ctypes.byref(self.value))
        weakref.finalize(self, library.call, f"cudnnDestroy{kind}Descriptor", self.value)


def _tensor(shape: tuple[int, ...], layout: str, dtype: Any) -> _Descriptor:
    descriptor = _Descriptor("Tensor")
    kind = CUDNN_DATA_HALF if np.dtype(dtype) == np.float16 else CUDNN_DATA_FLOAT
    library.call("cudnnSetTensor4dDescriptorEx", descriptor.value, kind, *shape, *layouts.strides(shape, layout))
    return descriptor


def pooling_call(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, out: Any = None) -> tuple[Call, Any]:
    """avg_pool2d with its arrays bound: (call, out). Arguments and errors as in avg_pool2d."""
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=layouts.LAYOUTS).shape
    kh, kw = checks.pair("kernel_size", kernel_size, 1)
    sh, sw = checks.pair("stride", kernel_size if stride is None else stride, 1)
    ph, pw = checks.pair("padding", padding, 0)
    if ph > kh // 2 or pw > kw // 2:
        raise ValueError(f"padding must be at most half of kernel_size ({kh}, {kw}), got ({ph}, {pw})")
    oh, ow = checks.windows(h, kh, sh, (ph, ph), 1), checks.windows(w, kw, sw, (pw, pw), 1)
    layout = layouts.shared_layout(x=x, out=out)
    out = checks.output(out, (n, c, oh, ow), like=x, layout=layout)
    checks.apart(out, x=x)
    window = _Descriptor("Pooling")
    library.call(
        "cudnnSetPooling2dDescriptor", window.value, AVERAGE_COUNT_INCLUDE_PADDING, PROPAGATE_NAN,
        kh, kw, ph, pw, sh, sw,
    )  # fmt: skip
    image, result = _tensor((n, c, h, w), layout, x.dtype), _tensor((n, c, oh, ow), layout, x.dtype)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def run(_: int) -> None:
        library.call(
            "cudnnPoolingForward", library.function_handle(), window.value, ctypes.byref(one), image.value,
            ctypes.c_void_p(x.data.ptr), ctypes.byref(zero), result.value, ctypes.c_void_p(out.data.ptr),
        )  # fmt: skip

    return Call(run, told="cudnnPoolingForward", arrays=[x, out]), out


@cuda.operator
def avg_pool2d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, *, out: Any = None) -> Any:
    """out = mean of each window, padding included: torch.nn.functional.avg_pool2d.

    x: (N, C, H, W), out: (N, C, oH, oW); NCHW or NHWC, float32 or float16. kernel_size, stride (kernel_size if None),
    padding: an int or a pair (height, width), at most half of kernel_size.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype; ValueError if a shape,
    layout or option is invalid; RuntimeError without a GPU or cuDNN.
    """
    library.require()
    call, out = pooling_call(x, kernel_size, stride, padding, out)
    call()
    return out


@cuda.operator
def global_avg_pool(x: Any, *, out: Any = None) -> Any:
    """out[n, c, 0, 0] = mean of x[n, c]: torch.nn.functional.adaptive_avg_pool2d(x, 1). Otherwise as avg_pool2d."""
    library.require()
    checks.array("x", x, (None,) * 4, allowed=layouts.LAYOUTS)
    call, out = pooling_call(x, tuple(x.shape[2:]), out=out)
    call()
    return out
