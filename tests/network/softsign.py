"""An operator from outside, as a user's file has it: Softsign, which the course does not have."""

from dataclasses import dataclass

from common import cuda
from common.cuda.layout import flat
from common.network.registry import Operator
from common.topology.layers import Layer
from common.topology.writer import node

SOURCE = """extern "C" __global__ void softsign(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1 + fabsf(x[i]));
}"""


@dataclass(frozen=True, kw_only=True)
class Softsign(Layer):
    """out = in / (1 + |in|)"""


class SoftsignOperator(Operator):
    layer = Softsign
    in_place = True
    onnx = {"Softsign": lambda state, one: state.pointwise(Softsign, one, state.activation(one))}  # noqa: RUF012
    kernel = cuda.RawKernel(SOURCE, "softsign")

    def write(self, layer, opset):
        yield node(layer, "Softsign")

    def kernels(self, run, step, arrays):
        x, out, n = flat(arrays.x), flat(arrays.out), arrays.x.size
        return run.launch("softsign", self.kernel, (-(-n // 256),), (256,), (x, out, n))
