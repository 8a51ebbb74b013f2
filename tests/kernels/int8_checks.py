"""What the int8 operators' tests draw, and what "the same" means: every bit."""

import numpy as np

from common import cuda


def drawn(rng, *shape):
    """Random int8 numbers of the whole range; −128 is among many."""
    return rng.integers(-128, 128, shape).astype(np.int8)


def constants(rng, weight):
    """(zero point, bias, multiplier) for weights (O, …): outputs that fill int8, a tenth of them beyond its ends."""
    o, products = weight.shape[0], weight[0].size
    bias = rng.integers(-3000, 3000, o).astype(np.int32)
    spread = 128 * 73 * np.sqrt(products) / 1.7
    return int(rng.integers(-50, 50)), bias, (127 / spread * rng.uniform(0.3, 1.2, o)).astype(np.float32)


def nhwc(array):
    """An array (N, C, H, W) on the device, in NHWC."""
    return cuda.to_layout(cuda.asarray(array), "NHWC")


def poisoned(*shape):
    """An int8 output (N, C, H, W) in NHWC, full of a number that is not to be there."""
    return nhwc(np.full(shape, 99, np.int8))


def same(out, want):
    """Asserts that an array on the device is int8 and equals `want`."""
    got = cuda.asnumpy(out)
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, want)
