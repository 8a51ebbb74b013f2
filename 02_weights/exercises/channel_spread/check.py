import numpy as np

from common.check import expect
from common.check.trials import Slips, seeded


def ranges_of(weight):
    """The largest absolute value of each channel, in float64, without channels of zeros."""
    return [largest for channel in weight if (largest := max(map(abs, channel.astype(np.float64).ravel().tolist())))]


def ratio(values):
    values = [float(value) for value in values if value]
    return max(values) / min(values) if values else 1.0


SLIPS = {
    "one range per output channel, which is dimension 0; here those of dimension 1 are compared": lambda weight: (
        ratio(ranges_of(weight.swapaxes(0, 1)))
    ),
    "one range per output channel, not one for all the weights: compare the channels' ranges": lambda weight: (
        ratio(np.abs(weight).ravel())
    ),
    "the range is the largest absolute value: negative weights count": lambda weight: (
        ratio(channel.max() for channel in weight)
    ),
    "the range is the largest absolute value, not the largest less the smallest": lambda weight: (
        ratio(channel.max() - channel.min() for channel in weight)
    ),
    "the range is the largest absolute value, not the standard deviation": lambda weight: (
        ratio(channel.std() for channel in weight)
    ),
    "the range is the largest absolute value, not the mean": lambda weight: (
        ratio(abs(channel).mean() for channel in weight)
    ),
    "the widest range over the narrowest: a ratio, not a difference": lambda weight: (
        max(ranges_of(weight)) - min(ranges_of(weight))
    ),
    "the widest over the narrowest; this is the other way round": lambda weight: 1 / ratio(ranges_of(weight)),
}  # fmt: skip


def check(channel_spread):
    random, seed = seeded()
    slips = Slips(SLIPS)

    def compare(weight, hint, case):
        got = channel_spread(weight.copy(order="K"))
        what = f"channel_spread of {case}, {weight.dtype} ({seed})"
        expect(got, ratio(ranges_of(weight)), what=what, hint=slips.hint(got, (weight,), hint), rtol=1e-6)

    def drawn(*shape):
        # each output channel with a range of its own
        scales = 2.0 ** (random.permutation(shape[0]) % 30)
        return random.uniform(0.5, 1, shape) * scales.reshape(-1, *[1] * (len(shape) - 1))

    hint = "per output channel, dimension 0, the largest absolute value; then the largest of those over the smallest"
    compare(drawn(5, 5, 1, 1), hint, "a pointwise weight (5, 5, 1, 1)")
    compare(drawn(6, 1, 3, 3), hint, "a depthwise weight (6, 1, 3, 3)")
    compare(drawn(4, 3, 3, 3), hint, "a weight (4, 3, 3, 3)")
    weight = drawn(5, 2, 3, 3)
    weight[:, 0, 1, 1] = -40.0 * np.arange(1, 6)
    compare(weight, "the range is the largest absolute value: negative weights count", "negative weights")
    weight = drawn(5, 1, 3, 3) * random.choice([-1, 1], (5, 1, 3, 3))
    compare(weight, "the range is the largest absolute value: negative weights count", "weights of both signs")
    weight = drawn(5, 1, 3, 3)
    weight[2] = 0
    compare(weight, "channels whose weights are all 0 are left out", "a weight with an empty channel")
    weight[3] *= -0.0
    compare(weight, "channels whose weights are all 0, or −0, are left out", "a weight with two empty channels")
    compare(np.zeros((3, 1, 3, 3)), "without any channel left the spread is 1.0", "a weight of zeros")
    compare(np.full((4, 2, 1, 1), 0.25), "equal ranges have the spread 1.0", "equal channels")
    compare(drawn(1, 7, 5, 1), "a channel alone is the widest and the narrowest", "a weight (1, 7, 5, 1)")

    for shape in ((96, 24, 1, 1), (1280, 3, 1, 1), (33, 1, 7, 5), (3, 500, 3, 3)):
        for dtype in (np.float32, np.float64):
            weight = drawn(*shape) * random.choice([-1, 1], shape)
            weight[random.random(shape[0]) < 0.3] = 0
            compare(weight.astype(dtype), hint, f"a weight {shape}")
    compare(np.asfortranarray(drawn(6, 5, 3, 3)), hint, "a weight (6, 5, 3, 3) in Fortran order")
    far = np.array([[1e-200, -3e-200], [5e-110, 0.0]]).reshape(2, 2, 1, 1)
    compare(
        far,
        "float64 holds far smaller numbers than float32: stay in the weights' own dtype",
        "[1e-200, …], [5e-110, …]",
    )
    one = np.float32([3e-20, 2e10, -1e-25]).reshape(3, 1, 1, 1)
    compare(one, "a small range counts: only a channel of zeros is left out", "channels of 3e-20, 2e10 and −1e-25")
