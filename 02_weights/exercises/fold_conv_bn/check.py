import numpy as np

from common.check import expect, require


def check(fold_conv_bn):
    random = np.random.default_rng()

    def positive(*shape):
        return random.uniform(0.3, 3, shape)

    def compare(weight, bias, norm, hints, case):
        gamma, beta, mean, var, eps = norm
        arrays = [array for array in (weight, bias, gamma, beta, mean, var) if array is not None]
        before = [array.copy() for array in arrays]
        got = fold_conv_bn(weight, bias, gamma, beta, mean, var, eps)
        unchanged = all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
        require(unchanged, what="fold_conv_bn changes its arguments", hint="`*=` and `-=` write into the array")
        weight = before[0]
        scale = gamma / np.sqrt(var + eps)
        own_bias = 0 if bias is None else bias
        want = (weight * scale[:, None, None, None], (own_bias - mean) * scale + beta)
        is_pair = isinstance(got, tuple) and len(got) == 2
        if not is_pair:
            expect(got, want, what="fold_conv_bn(…)", hint="give back (weight', bias')")
        for name, one, other, hint in zip(("weight'", "bias'"), got, want, hints, strict=True):
            expect(one, other, what=f"{name} with {case}", hint=hint, rtol=1e-6)

    # as many channels in as out, so that a scale on the wrong axis does not fail by its shape
    n = 5
    zero, one = np.zeros(n), np.ones(n)
    dense = random.normal(size=(n, n, 3, 3))

    norm = (positive(n), zero, zero, one, 0.0)
    hint = "the scale belongs to the output channel, which is dimension 0 of the weight: shape (-1, 1, 1, 1)"
    compare(dense, None, norm, (hint, "with beta and mean 0 there is no bias"), "only gamma")
    norm = (one, zero, zero, positive(n) * 7, 0.0)
    hint = "it is divided by the standard deviation, and var is its square"
    compare(dense, None, norm, (hint, hint), "only var")
    norm = (positive(n), zero, zero, positive(n) * 1e-3, 0.01)
    hint = "eps is added to var, under the root: it counts where the variance is small"
    compare(dense, None, norm, (hint, hint), "small variances")

    norm = (positive(n), random.normal(size=n), random.normal(size=n) + 2, positive(n), 0.1)
    hint = "the mean is taken off before the scale, and beta is added after it"
    compare(dense, None, norm, (hint, hint), "mean and beta")
    hint = "the convolution's own bias goes through the batch-norm as well: (bias − mean) · scale + beta"
    compare(dense, random.normal(size=n) * 3, norm, (hint, hint), "a bias of its own")

    # three channels and 3 × 3: a scale without its three ones is broadcast along kW without an error
    norm = (positive(3), random.normal(size=3), random.normal(size=3), positive(3), 0.1)
    hint = "a depthwise weight is (channels, 1, 3, 3): broadcast the scale along dimension 0, not along kW"
    compare(random.normal(size=(3, 1, 3, 3)), None, norm, (hint, hint), "a depthwise weight")
    norm = (-positive(7), random.normal(size=7), random.normal(size=7), positive(7), 1e-3)
    hint = "gamma may be negative"
    compare(random.normal(size=(7, 2, 1, 1)), random.normal(size=7), norm, (hint, hint), "a negative gamma")
