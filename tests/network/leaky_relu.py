"""An operator from outside: LeakyReLU, which the course does not have, in one file; register(…) makes it known."""

from dataclasses import dataclass

import numpy as np
import torch

from common import cuda
from common.cuda.layout import flat
from common.network.registry import Operator
from common.topology.layers import Layer
from common.topology.operators.helpers import decimal
from common.topology.writer import node

SOURCE = """extern "C" __global__ void leaky_relu(const float* x, float* out, float slope, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] < 0 ? slope * x[i] : x[i];
}"""


@dataclass(frozen=True, kw_only=True)
class LeakyReLU(Layer):
    """out = in, or slope · in where that is negative"""

    slope: float = 0.01

    @property
    def _arguments(self):
        return (f"{self.slope:g}",)


def read(state, onnx_node):
    slope = decimal(onnx_node.number("alpha", 0.01))
    return state.pointwise(LeakyReLU, onnx_node, state.activation(onnx_node), slope=slope)


class LeakyReLUOperator(Operator):
    layer = LeakyReLU
    in_place = True
    onnx = {"LeakyRelu": read}  # noqa: RUF012
    kernel = cuda.RawKernel(SOURCE, "leaky_relu")

    def write(self, layer, opset):
        yield node(layer, "LeakyRelu", alpha=layer.slope)

    def kernels(self, run, step, arrays):
        x, out, n = flat(arrays.x), flat(arrays.out), arrays.x.size
        return run.launch("leaky_relu", self.kernel, (-(-n // 256),), (256,), (x, out, np.float32(step.layer.slope), n))

    def torch(self, layer, inputs, parameters):
        return torch.nn.functional.leaky_relu(inputs[0], layer.slope)
