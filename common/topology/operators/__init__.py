"""ONNX operators as layers: one function per operator.

A function takes the Translation and the Node, and returns the node's first output. It raises UnsupportedModel for what
the layers cannot express, and InvalidModel for a node that ONNX does not allow.

    windows     convolutions, pools and means
    matrices    matrix products and batch-norm
    pointwise   activations and arithmetic
    norms       layer, group and instance norm
    resizing    images of another size
    grids       QuantizeLinear and DequantizeLinear
    shapes      concatenation, slices, padding, views, and nodes without a computation
"""

from collections.abc import Callable

import numpy as np

from ..node import Node
from ..translation import Activation, Translation
from .grids import dequantize_linear, quantize_linear
from .matrices import batch_normalization, gemm, matmul
from .norms import group_normalization, instance_normalization, layer_normalization
from .pointwise import (
    arithmetic,
    clip_node,
    elu,
    erf,
    gelu,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    minimum_maximum,
    power,
    relu,
    sigmoid,
    softmax,
    sqrt,
    tanh,
)
from .resizing import resize
from .shapes import (
    cast,
    concat,
    dropout,
    flatten,
    gather,
    identity,
    pad,
    reshape,
    shape,
    slice_,
    split,
    squeeze,
    transpose,
    unsqueeze,
)
from .windows import average_pool, conv, conv_transpose, global_average_pool, max_pool, reduce_mean

TRANSLATE: dict[str, Callable[[Translation, Node], Activation | np.ndarray]] = {
    "Add": arithmetic,
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Cast": cast,
    "CastLike": cast,
    "Clip": clip_node,
    "Concat": concat,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "DequantizeLinear": dequantize_linear,
    "Div": arithmetic,
    "Dropout": dropout,
    "Elu": elu,
    "Erf": erf,
    "Flatten": flatten,
    "Gather": gather,
    "Gelu": gelu,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "GroupNormalization": group_normalization,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Identity": identity,
    "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization,
    "LeakyRelu": leaky_relu,
    "MatMul": matmul,
    "Max": minimum_maximum,
    "MaxPool": max_pool,
    "Min": minimum_maximum,
    "Mul": arithmetic,
    "Pad": pad,
    "Pow": power,
    "QuantizeLinear": quantize_linear,
    "ReduceMean": reduce_mean,
    "Relu": relu,
    "Reshape": reshape,
    "Resize": resize,
    "Shape": shape,
    "Sigmoid": sigmoid,
    "Slice": slice_,
    "Softmax": softmax,
    "Split": split,
    "Sqrt": sqrt,
    "Squeeze": squeeze,
    "Sub": arithmetic,
    "Sum": arithmetic,
    "Tanh": tanh,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
    "Upsample": resize,
}
