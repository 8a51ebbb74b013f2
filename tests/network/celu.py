"""An operator from outside: CELU, which the course does not have, in one file; register(…) makes it known."""

from dataclasses import dataclass

import numpy as np
import torch

from common import cuda
from common.cuda.layout import flat
from common.network.registry import Operator
from common.topology.layers import Layer
from common.topology.operators.helpers import decimal
from common.topology.writer import node

SOURCE = """extern "C" __global__ void celu(const float* x, float* out, float alpha, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] < 0 ? alpha * expm1f(x[i] / alpha) : x[i];
}"""


@dataclass(frozen=True, kw_only=True)
class CELU(Layer):
    """out = in, or alpha · (exp(in / alpha) − 1) where in is negative"""

    alpha: float = 1.0

    @property
    def _arguments(self):
        return (f"{self.alpha:g}",)


def read(state, onnx_node):
    alpha = decimal(onnx_node.number("alpha", 1.0))
    return state.pointwise(CELU, onnx_node, state.activation(onnx_node), alpha=alpha)


class CELUOperator(Operator):
    layer = CELU
    in_place = True
    onnx = {"Celu": read}  # noqa: RUF012
    kernel = cuda.RawKernel(SOURCE, "celu")

    def write(self, layer, opset):
        yield node(layer, "Celu", alpha=layer.alpha)

    def kernels(self, run, step, arrays):
        x, out, n = flat(arrays.x), flat(arrays.out), arrays.x.size
        return run.launch("celu", self.kernel, (-(-n // 256),), (256,), (x, out, np.float32(step.layer.alpha), n))

    def torch(self, layer, inputs, parameters):
        return torch.nn.functional.celu(inputs[0], layer.alpha)
