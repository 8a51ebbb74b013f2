"""What the layers of a network are: which operators, on which shapes, in which order (chapter 01).

    table     the t, c, n, s table of the MobileNetV2 paper, and the list of layers it describes
    layers    one frozen dataclass a kind of layer, with its shape rule, MACs and parameters
    graph     the list of layers as a whole: census, totals, listing
    module    the same network as a PyTorch module, and its export to ONNX
    resnet    ResNet-20 as such a list of layers, and (resnet_module) as a PyTorch module
    builder   what table and resnet make their lists with
    reader    an ONNX file as such a list of layers, with its numbers
    writer    such a list of layers as an ONNX model

Behind the reader, in the order in which a file meets them: loading (bytes to a model), node (one node, and
the order of all), constants (what can be computed at once), translation (tensors so far), operators (one
function each), simplify (layers that others do on the side).

Everything named in `__all__` can be used from here; PyTorch and onnx are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .errors import InvalidModel, UnsupportedModel
from .graph import Graph
from .layers import (
    AveragePool2d,
    BatchNorm2d,
    Clip,
    Concat,
    Conv2d,
    GlobalAveragePool,
    HardSigmoid,
    HardSwish,
    Layer,
    Linear,
    MaxPool2d,
    Mul,
    Pad,
    Permute,
    ReLU,
    ReLU6,
    Reshape,
    ResidualAdd,
    Sigmoid,
    Softmax,
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
    "TABLE",
    "AveragePool2d",
    "BatchNorm2d",
    "Clip",
    "Concat",
    "Conv2d",
    "GlobalAveragePool",
    "Graph",
    "HardSigmoid",
    "HardSwish",
    "InvalidModel",
    "Layer",
    "Linear",
    "MaxPool2d",
    "MobileNetV2",
    "Mul",
    "Pad",
    "Permute",
    "ReLU",
    "ReLU6",
    "ResNet20",
    "Reshape",
    "ResidualAdd",
    "Sigmoid",
    "Softmax",
    "UnsupportedModel",
    "build",
    "export_onnx",
    "load_model",
    "make_divisible",
    "read_onnx",
    "read_onnx_with_parameters",
    "resnet20",
    "write_onnx",
]

# Names whose module needs PyTorch or onnx: imported when first asked for (PEP 562).
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
