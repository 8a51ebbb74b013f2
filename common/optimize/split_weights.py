"""Weights of a fused block as pairs of halves, split once on the host, and the scales of its products.

words, scale = split_weights(project)            scale: the power of two that the weights are multiplied by
words, scale = split_weights(in_taps(expand))    of a stem
scales(block, 2.7, expand_scale, project_scale)  the five numbers of fused/scales.h
"""

from typing import Any

import numpy as np

from .. import cuda
from ..cuda.arrays import are_shapes_only
from ..kernels.pair_of_halves import scale_of, split
from .generate import Block

GROUP = 8  # neighbouring channels whose high halves are stored together, before their low ones


def split_weights(weight: Any) -> tuple[Any, float]:
    """(words, scale) of weights (O, C, 1, 1) float32 of the backend, C a multiple of GROUP.

    words: float32, of the weights' shape and size; each GROUP channels of an output are 8 high halves, then 8 low ones.
    scale: the power of two that they were multiplied by, so that the largest lies near the end of the halves' range.
    """
    if are_shapes_only():
        return cuda.empty(weight.shape, np.float32), 1.0  # of a plan
    values = cuda.asnumpy(weight).reshape(len(weight), -1)
    scale = scale_of(float(np.abs(values).max(initial=0)))
    parts = np.stack(split(values, scale)).reshape(2, len(values), -1, GROUP)  # high or low, o, group, channel
    words = np.ascontiguousarray(parts.transpose(1, 2, 0, 3)).view(np.float32).reshape(weight.shape)
    return cuda.asarray(words), scale


def in_taps(weight: Any) -> Any:
    """(O, 48, 1, 1) of a stem's weights (O, 3, 3, 3), as a fused block reads them.

    Of each row of taps they are 4 pixels of 4 channels, the first pixel and the last channel 0.
    """
    if are_shapes_only():
        return cuda.empty((len(weight), 48, 1, 1), np.float32)  # of a plan
    made = cuda.zeros((len(weight), 3, 4, 4), np.float32)
    made[:, :, 1:, :3] = weight.transpose(0, 2, 3, 1)  # output, row, column, channel
    return made.reshape(len(weight), -1, 1, 1)


def scales(block: Block, input_bound: float, expand_scale: float, project_scale: float) -> tuple[np.float32, ...]:
    """(x, x_back, hidden, dw, sums) of fused/arithmetic.h, all powers of two.

    input_bound: no element of x is larger in magnitude. dw is bounded by the block's own bounds. A stem measures its x,
    and has a bound of 0: its x is 1, its hidden that of the weights alone.
    """
    x, dw = scale_of(input_bound), scale_of(max(map(abs, block.bounds[1])))
    return tuple(map(np.float32, (x, 1 / x, 1 / (x * expand_scale), dw, 1 / (dw * project_scale))))
