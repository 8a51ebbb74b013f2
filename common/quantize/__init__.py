"""Networks in 8-bit integers: quantized models run in integer steps, and post-training quantization (chapter 06).

    Network("quantized.onnx")                       runs a model with QuantizeLinear and DequantizeLinear in integers
    made = quantize(graph, parameters, x)           a network in float32 and calibration pictures → Quantized
    made.model()                                    as an ONNX model in QDQ form

What is where:

    rules         the fusions that turn quantized layers into integer steps, and the operators that the steps call
    backend       Integers, the backend of quantized models on a CPU, the reference for every bit
    kernels       IntegerKernels, the same on the int8 kernels: planned buffers, one CUDA graph
    ranges        the interval that a tensor's codes cover: min–max, percentile, entropy, mean squared error
    calibration   float32 runs over the calibration pictures, histograms
    equalization  channels between two convolutions scaled to comparable ranges
    quantizer     grids for activations, weights and biases; the network in QDQ form
    formats       fp16, int8 and e4m3 with one scale per tensor, for the study of fp8
    sensitivity   which layers should stay in float32
    files         the command `quantize`

All names in `__all__` can be imported from here; they are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .backend import Integers
    from .equalization import equalized
    from .kernels import IntegerKernels
    from .quantizer import Quantized, calibrated, quantize, with_grids
    from .ranges import METHODS
    from .rules import OPERATORS, RULES
    from .sensitivity import choose, sensitivities

__all__ = [
    "METHODS",
    "OPERATORS",
    "RULES",
    "IntegerKernels",
    "Integers",
    "Quantized",
    "calibrated",
    "choose",
    "equalized",
    "quantize",
    "sensitivities",
    "with_grids",
]

_LAZY = {
    "METHODS": "ranges",
    "OPERATORS": "rules",
    "RULES": "rules",
    "IntegerKernels": "kernels",
    "Integers": "backend",
    "Quantized": "quantizer",
    "calibrated": "quantizer",
    "choose": "sensitivity",
    "equalized": "equalization",
    "quantize": "quantizer",
    "sensitivities": "sensitivity",
    "with_grids": "quantizer",
}


def __getattr__(name: str):
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
