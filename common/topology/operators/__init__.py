"""ONNX operators as layers: one function per operator.

A function takes the Translation and the Node, and returns the node's first output. It raises UnsupportedModel for what
the layers cannot express, and InvalidModel for a node that ONNX does not allow.

    windows     convolutions and pools
    matrices    matrix products and batch-norm
    pointwise   activations and arithmetic
    shapes      concatenation, padding, views, and nodes without a computation
"""

from collections.abc import Callable

import numpy as np

from ..node import Node
from ..translation import Activation, Translation
from .matrices import batch_normalization, gemm, matmul
from .pointwise import (
    arithmetic,
    clip_node,
    hard_sigmoid,
    hard_swish,
    minimum_maximum,
    relu,
    sigmoid,
    softmax,
)
from .shapes import (
    cast,
    concat,
    dropout,
    flatten,
    identity,
    pad,
    reshape,
    shape,
    squeeze,
    transpose,
    unsqueeze,
)
from .windows import average_pool, conv, global_average_pool, max_pool, reduce_mean

TRANSLATE: dict[str, Callable[[Translation, Node], Activation | np.ndarray]] = {
    "Add": arithmetic,
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Cast": cast,
    "CastLike": cast,
    "Clip": clip_node,
    "Concat": concat,
    "Conv": conv,
    "Div": arithmetic,
    "Dropout": dropout,
    "Flatten": flatten,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Identity": identity,
    "MatMul": matmul,
    "Max": minimum_maximum,
    "MaxPool": max_pool,
    "Min": minimum_maximum,
    "Mul": arithmetic,
    "Pad": pad,
    "ReduceMean": reduce_mean,
    "Relu": relu,
    "Reshape": reshape,
    "Shape": shape,
    "Sigmoid": sigmoid,
    "Softmax": softmax,
    "Squeeze": squeeze,
    "Sub": arithmetic,
    "Sum": arithmetic,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
