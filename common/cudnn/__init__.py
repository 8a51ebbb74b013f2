"""Convolution, gemm, pooling and addition with NVIDIA's libraries cuDNN and cuBLAS, the baseline (chapter 03).

    y = cudnn.conv2d(x, weight, bias, padding=1, activation="relu6", tune=True)

Signatures are those of common.kernels with two more arguments: `arithmetic` ("fp32" strict, "tf32", "fp16") and `tune`,
which times cuDNN's plans and uses the fastest. Arrays may be NCHW or NHWC in memory; shapes are PyTorch's in both.

    graphs     cuDNN graphs as data, and the alternative graphs for a convolution; needs no GPU
    plans      cuDNN's execution plans for a graph: listing, choosing, timing
    blas       cuBLAS, for matrix products and 1×1 convolutions
    operators  the public functions: check, choose, launch
    pointwise_int8  1×1 convolutions of int8 numbers, as a library to compare with
    pooling    average pooling
    library    loading cuDNN; `missing()` says why it is not available
    emulation  cuBLAS's product and cuDNN graphs on the CPU, to check arguments without a GPU
    recording  the calls that build a cuDNN graph, listed without a GPU

cuDNN needs an NVIDIA GPU. Without one the modules can be imported, and calls raise RuntimeError with the reason.
"""

from .graphs import ARITHMETICS, Convolution, Graph
from .library import missing, versions
from .operators import add, clamp, conv2d, conv2d_backward_input, conv2d_backward_weight, gemm, linear
from .plans import Unsupported, choose, clear, timed
from .pointwise_int8 import pointwise_int8
from .pooling import avg_pool2d, global_avg_pool

__all__ = [
    "ARITHMETICS",
    "Convolution",
    "Graph",
    "Unsupported",
    "add",
    "avg_pool2d",
    "choose",
    "clamp",
    "clear",
    "conv2d",
    "conv2d_backward_input",
    "conv2d_backward_weight",
    "gemm",
    "global_avg_pool",
    "linear",
    "missing",
    "pointwise_int8",
    "timed",
    "versions",
]
