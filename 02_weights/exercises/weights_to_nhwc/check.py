import numpy as np

from common.check import expect, require
from common.check.trials import Slips, seeded

VIEWS_ALLOWED = ["weights_to_nhwc"]  # of a pointwise weight, whose memory needs no change


def reordered(weight, groups):
    if groups > 1 and weight.shape[1] == 1:
        return weight[:, 0].transpose(1, 2, 0)
    return weight.transpose(0, 2, 3, 1)


SLIPS = {
    "reshape gives the same numbers in a row a new shape: transpose moves them": lambda weight, groups: weight.reshape(
        reordered(weight, groups).shape
    ),
    "the order of kH and kW stays: they are not swapped": lambda weight, groups: reordered(
        weight.swapaxes(2, 3), groups
    ),
    "the output channel stays the first dimension of a weight that is not depthwise": lambda weight, groups: (
        weight.transpose(2, 3, 1, 0)
    ),
}


def check(weights_to_nhwc):
    random, seed = seeded()
    slips = Slips(SLIPS)

    def compare(shape, groups, hint, dtype=np.float32):
        weight = random.normal(size=shape).astype(dtype)
        want = reordered(weight, groups)
        what = f"weights_to_nhwc(weight of shape {shape}, groups={groups}) ({seed})"
        got = weights_to_nhwc(weight.copy(), groups)
        why = slips.hint(got, (weight, groups), hint)
        expect(got, want, what=what, hint=why, kind_hint=why)
        require(got.dtype == weight.dtype, what=f"{what} has dtype {got.dtype}", hint="the dtype stays")
        hint = "transpose changes only how the array is read: np.ascontiguousarray moves the numbers in memory"
        require(got.flags.c_contiguous, what=f"{what} is right, but its memory still has another order", hint=hint)

    dense = "(O, I, kH, kW) becomes (O, kH, kW, I): the input channel runs fastest"
    depthwise = "a depthwise weight becomes (kH, kW, O): the dimension of size 1 goes, the channel runs fastest"
    compare((5, 4, 3, 2), 1, dense)
    compare((6, 1, 3, 2), 6, depthwise)
    compare((8, 4, 1, 1), 1, dense)
    one = "with groups = 1 a weight is dense, even if there is one input channel only"
    compare((7, 1, 3, 2), 1, one)
    grouped = "with in_channels / groups > 1 a grouped weight is not depthwise"
    compare((6, 3, 2, 3), 2, grouped)
    more = "two outputs per input channel: groups is smaller than O, and each output still reads one input"
    compare((8, 1, 3, 2), 4, more)
    compare((6, 2, 3, 3), 3, grouped)
    compare((3, 4, 2, 2), 1, dense, np.float16)  # a float32 has its numbers, too: only the dtype tells
    for _ in range(6):
        o, i, high, wide = (int(n) for n in random.integers(1, 7, 4))
        groups = int(random.integers(1, 5))
        hint = depthwise if groups > 1 and i == 1 else dense
        dtype = random.choice([np.float16, np.float32, np.float64])
        compare((o * groups, i, high, wide), groups, hint, dtype)
