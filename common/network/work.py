"""The work of a step: FLOPs, and the bytes of a step that reads and writes each array once."""

from ..measure.roofline import Work, conv2d_work, gemm_work, pool_work
from ..topology.layers import Conv2d, GlobalAveragePool
from .steps import Step


def work_of(step: Step, itemsize: int) -> Work:
    """Work of a step that reads and writes each array once."""
    layer = step.layer
    shape = layer.input_shapes[0]
    if isinstance(layer, Conv2d):
        return conv2d_work(
            shape, layer.parameter_shapes[layer.weight], layer.stride, layer.padding, layer.dilation, itemsize,
            layer.bias is not None, step.residual is not None,
        )  # fmt: skip
    if isinstance(layer, GlobalAveragePool):
        return pool_work(shape, itemsize)
    return gemm_work(shape[0], layer.out_features, layer.in_features, itemsize, layer.bias is not None)
