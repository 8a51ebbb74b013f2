"""`out` that shares memory with an input: refused by name before a plan is made, so without a GPU as well."""

import numpy as np
import pytest

from common import cuda
from common.cudnn import operators, pooling

X, W, B = (1, 4, 6, 6), (4, 4, 3, 3), (4,)


def gradient(which, first, second, out):
    spec = operators.Convolution(X, W, padding=(1, 1), layout="NCHW", arithmetic="fp32")
    return operators.gradient_call(which, first, second, spec, out, False)


# the shapes of what is read, by argument; the shape of out; the call, with the arrays in that order
CALLS = {
    "conv2d": (
        {"x": X, "weight": W, "bias": B, "residual": X}, X,
        lambda x, w, b, r, out: operators.convolution(x, w, b, 1, 1, residual=r, out=out),
    ),
    "conv2d_backward_input": ({"dy": X, "weight": W}, X, lambda dy, w, out: gradient("input", dy, w, out)),
    "conv2d_backward_weight": ({"x": X, "dy": X}, W, lambda x, dy, out: gradient("weight", x, dy, out)),
    "gemm": (
        {"a": (4, 4), "b": (4, 4), "bias": B}, (4, 4),
        lambda a, b, bias, out: operators.gemm_call(a, b, bias, False, None, None, out),
    ),
    "gemm as a convolution": (
        {"a": (4, 4), "b": (4, 4), "bias": B}, (4, 4),
        lambda a, b, bias, out: operators.gemm_as_convolution_call(a, b, bias, True, None, None, False, out),
    ),
    "avg_pool2d": ({"x": X}, (1, 4, 3, 3), lambda x, out: pooling.pooling_call(x, 2, out=out)),
}  # fmt: skip
READS = [(name, argument) for name, (reads, *_) in CALLS.items() for argument in reads]


@pytest.mark.parametrize(("name", "argument"), READS)
def test_out_that_shares_memory_with_an_input_is_refused(name, argument):
    reads, shape, call = CALLS[name]
    memory = cuda.full(1000, 1.0, np.float32)

    def over(shape):
        return memory[: int(np.prod(shape))].reshape(shape)

    arrays = [over(reads[one]) if one == argument else cuda.full(reads[one], 1.0) for one in reads]
    with pytest.raises(ValueError, match=f"^out and {argument} share memory: the kernel reads one while"):
        call(*arrays, over(shape))
