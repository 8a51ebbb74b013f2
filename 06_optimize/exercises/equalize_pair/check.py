import numpy as np

from common.check import expect, require
from common.check.trials import numpy_random


def scales(w1, w2, greatest):
    r1, r2 = np.abs(w1).max(axis=1).astype(np.float64), np.abs(w2).max(axis=(1, 2)).astype(np.float64)
    return np.where(greatest < 6, np.maximum(np.sqrt(r1 / r2), greatest / 6), 1.0)


def wanted(w1, b1, w2, greatest):
    s = scales(w1, w2, greatest)
    return w1 / s[:, None], b1 / s, w2 * s[:, None, None]


def block(x, w1, b1, w2, bound=6):
    """relu6(w1 · x + b1), then the depthwise convolution, of pixels x (C, H, W)."""
    hidden = np.clip(np.einsum("oc,chw->ohw", w1, x) + b1[:, None, None], 0, bound)
    windows = np.lib.stride_tricks.sliding_window_view(hidden, (3, 3), axis=(1, 2))
    return np.einsum("ohwij,oij->ohw", windows, w2)


def compare(equalize_pair, arrays, what):
    w1, b1, w2, greatest, x = arrays
    got = equalize_pair(w1.copy(), b1.copy(), w2.copy(), greatest.copy())
    require(isinstance(got, tuple) and len(got) == 3, what=f"{what}: no three arrays", hint="return (w1, b1, w2)")
    for name, one, given in zip(("w1", "b1", "w2"), got, (w1, b1, w2), strict=True):
        hint = f"{name} keeps its shape, {given.shape}: s is a factor per channel between the two layers"
        require(np.shape(one) == given.shape, what=f"{what}: {name} has shape {np.shape(one)}", hint=hint)
    exact = block(x, *(a.astype(np.float64) for a in (w1, b1, w2)))
    same = np.allclose(block(x, *(np.asarray(a, np.float64) for a in got)), exact, rtol=1e-4, atol=1e-4)
    if not same:
        over = np.clip(np.einsum("oc,chw->ohw", w1, x) + b1[:, None, None], 0, None).max(axis=(1, 2))
        after = np.einsum("oc,chw->ohw", got[0], x) + np.asarray(got[1])[:, None, None]
        moved = (got[0][over >= 6] != w1[over >= 6]).any()
        consistent = np.allclose(  # without the bound the two layers would be the same
            block(x, *(np.asarray(a, np.float64) for a in got), 1e30), block(x, w1, b1, w2, 1e30), rtol=1e-4, atol=1e-4
        )
        if consistent and (moved or ((after > 6.01).any(axis=(1, 2)) & (over < 6)).any()):
            hint = (
                "ReLU6 ends at 6 whatever s is: a channel may not reach 6 that did not, and one that does keeps s = 1"
            )
        else:
            hint = (
                "what w1 and b1 are divided by, w2 is multiplied by, channel by channel: row c of w1, number c of b1,"
                " filter c of w2"
            )
        require(False, what=f"{what}: the two layers compute something else than before", hint=hint)
    hint = (
        "s = √(r1 / r2), with r1 and r2 the greatest |weight| of the channel in w1 and in w2, and at least greatest / 6"
    )
    for name, one, want in zip(("w1", "b1", "w2"), got, wanted(w1, b1, w2, greatest), strict=True):
        expect(
            np.asarray(one, np.float64), want, what=f"{what}: {name}", hint=hint, rtol=1e-5, atol=1e-12, nearly=False
        )


def drawn(random, channels, outputs, bound):
    spread = np.exp2(random.integers(-5, 2, outputs)).astype(np.float32)
    w1 = (random.standard_normal((outputs, channels)) * spread[:, None]).astype(np.float32)
    b1 = (random.standard_normal(outputs) * spread).astype(np.float32)
    w2 = (random.standard_normal((outputs, 3, 3)) * np.exp2(random.integers(-3, 4, (outputs, 1, 1)))).astype(np.float32)
    x = random.standard_normal((channels, 6, 6)).astype(np.float32)
    hidden = (np.einsum("oc,chw->ohw", w1, x) + b1[:, None, None]).max(axis=(1, 2))
    if not bound:  # no channel reaches 6
        down = np.where(hidden > 3, hidden / 3, 1).astype(np.float32)
        w1, b1, hidden = w1 / down[:, None], b1 / down, hidden / down
    greatest = np.clip(hidden * 1.0001, 0, 6).astype(np.float32)
    return w1, b1, w2, greatest, x


def check(equalize_pair):
    random = numpy_random()
    compare(equalize_pair, drawn(random, 3, 5, False), "no channel reaches 6")
    compare(equalize_pair, drawn(random, 4, 4, False), "4 channels before and 4 between")
    compare(equalize_pair, drawn(random, 3, 24, True), "some channels reach 6")
    for _ in range(6):
        channels, outputs = (int(n) for n in random.integers(1, 9, 2))
        compare(equalize_pair, drawn(random, channels, outputs, True), f"{outputs} channels between")
