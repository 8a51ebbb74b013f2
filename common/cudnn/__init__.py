"""Convolution, gemm, pooling, addition on NVIDIA's own libraries, cuDNN and cuBLAS: the opponent (chapter 03).

    y = cudnn.conv2d(x, weight, bias, padding=1, activation="relu6", tune=True)

Signatures are those of common.kernels, with two more arguments: `arithmetic` ("fp32" strict, "tf32", "fp16") and
`tune`, which times cuDNN's plans and keeps the fastest. Arrays may be NCHW or NHWC in memory; shapes are PyTorch's in
both. What is where:

    graphs     what cuDNN is asked for, as data, and the ways to ask for one thing; needs no GPU
    plans      cuDNN's plans for a graph, choosing one, timing them
    blas       cuBLAS, for matrix products and for 1×1 convolutions
    operators  the functions: check, choose, launch
    pooling    average pooling
    library    finding cuDNN; `missing()` says what is not there

There is no cuDNN without an NVIDIA GPU: everything imports, and a call says what is missing.
"""

from .graphs import ARITHMETICS, Convolution, Graph
from .library import missing, versions
from .operators import add, clamp, conv2d, conv2d_backward_input, conv2d_backward_weight, gemm, linear
from .plans import Unsupported, choose, clear, timed
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
    "timed",
    "versions",
]
