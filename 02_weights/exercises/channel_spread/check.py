import numpy as np

from common.check import expect


def check(channel_spread):
    random = np.random.default_rng()

    def compare(weight, hint, case):
        ranges = np.array([np.abs(channel).max() for channel in weight])
        ranges = ranges[ranges > 0]
        want = float(ranges.max() / ranges.min()) if len(ranges) else 1.0
        expect(channel_spread(weight), want, what=f"channel_spread of {case}", hint=hint, rtol=1e-6)

    def drawn(*shape):
        # each output channel with a range of its own
        return random.uniform(0.5, 1, shape) * 2.0 ** random.permutation(shape[0])[:, None, None, None]

    hint = "one range an output channel, which is dimension 0; then the largest over the smallest of them"
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
    compare(np.zeros((3, 1, 3, 3)), "without any channel left the spread is 1", "a weight of zeros")
    compare(np.full((4, 2, 1, 1), 0.25), "equal ranges have the spread 1", "equal channels")
