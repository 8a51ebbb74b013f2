"""The layers of a network: operators, shapes and order (chapter 01).

    table     the t, c, n, s table of the MobileNetV2 paper, and the list of layers that it describes
    layers    one frozen dataclass per kind of layer, with its shape rule, MACs and parameters
    grids     Grid: the real numbers that stored integers stand for
    graph     Graph, a list of layers: census, totals, listing
    fusion    which layers run as one kernel, and the bytes that the kernels move
    module    MobileNetV2 as a PyTorch module, and its export to ONNX
    resnet    ResNet-20 as a Graph, and (resnet_module) as a PyTorch module
    densenet  a small DenseNet as a Graph
    builder   Builder, with which table, resnet and densenet build their graphs
    reader    reads an ONNX file as a Graph, with its parameters
    writer    writes a Graph as an ONNX model

The reader's modules, in the order of processing: loading (bytes to a model), node (attributes, and a topological
order), constants (constant folding), translation (state of the translation), operators (one function per operator),
simplify (layers merged into others).

All names in `__all__` can be imported from here; PyTorch and onnx are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .densenet import densenet
from .errors import InvalidModel, UnsupportedModel
from .graph import Graph
from .grids import Grid
from .layers import (
    ELU,
    GELU,
    Add,
    AveragePool2d,
    BatchNorm2d,
    ChannelShuffle,
    Clip,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Dequantize,
    Div,
    Erf,
    GlobalAveragePool,
    GroupNorm,
    HardSigmoid,
    HardSwish,
    Layer,
    LayerNorm,
    LeakyReLU,
    Linear,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Permute,
    Quantize,
    ReLU,
    ReLU6,
    Reshape,
    ResidualAdd,
    Resize,
    Sigmoid,
    Slice,
    Softmax,
    Sqrt,
    Sub,
    Tanh,
)
from .resnet import resnet20
from .table import TABLE, build, make_divisible

if TYPE_CHECKING:
    from .loading import load_model
    from .module import MobileNetV2, export_onnx
    from .reader import read_onnx, read_onnx_with_parameters
    from .resnet_module import ResNet20
    from .writer import write_onnx

__all__ = [
    "ELU",
    "GELU",
    "TABLE",
    "Add",
    "AveragePool2d",
    "BatchNorm2d",
    "ChannelShuffle",
    "Clip",
    "Concat",
    "Conv2d",
    "ConvTranspose2d",
    "Dequantize",
    "Div",
    "Erf",
    "GlobalAveragePool",
    "Graph",
    "Grid",
    "GroupNorm",
    "HardSigmoid",
    "HardSwish",
    "InvalidModel",
    "Layer",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "Maximum",
    "Mean",
    "Minimum",
    "MobileNetV2",
    "Mul",
    "Pad",
    "Permute",
    "Quantize",
    "ReLU",
    "ReLU6",
    "ResNet20",
    "Reshape",
    "ResidualAdd",
    "Resize",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Sqrt",
    "Sub",
    "Tanh",
    "UnsupportedModel",
    "build",
    "densenet",
    "export_onnx",
    "load_model",
    "make_divisible",
    "read_onnx",
    "read_onnx_with_parameters",
    "resnet20",
    "write_onnx",
]

# Names whose module needs PyTorch or onnx: imported on first use (PEP 562).
_LAZY = {
    "MobileNetV2": "module",
    "ResNet20": "resnet_module",
    "export_onnx": "module",
    "load_model": "loading",
    "read_onnx": "reader",
    "read_onnx_with_parameters": "reader",
    "write_onnx": "writer",
}


def __getattr__(name: str):
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
