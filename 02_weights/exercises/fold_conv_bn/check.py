import numpy as np

from common.check import expect, require
from common.check.trials import Slips, seeded


def folded(weight, bias, gamma, beta, mean, var, eps, scale=None):
    scale = gamma / np.sqrt(var + eps) if scale is None else scale
    own_bias = 0 if bias is None else bias
    return weight * scale[:, None, None, None], (own_bias - mean) * scale + beta


SLIPS = {
    "it is divided by the standard deviation, and var is its square": lambda w, b, g, beta, m, v, eps: folded(
        w, b, g, beta, m, v, eps, g / (v + eps)
    ),
    "eps is added to var, under the root": lambda w, b, g, beta, m, v, eps: folded(
        w, b, g, beta, m, v, eps, g / (np.sqrt(v) + eps)
    ),
    "eps is missing: it is added to var, under the root": lambda w, b, g, beta, m, v, eps: folded(
        w, b, g, beta, m, v, 0
    ),
    "divided by the root, not multiplied with it": lambda w, b, g, beta, m, v, eps: folded(
        w, b, g, beta, m, v, eps, g * np.sqrt(v + eps)
    ),
    "gamma may be negative: its sign stays": lambda w, b, g, beta, m, v, eps: folded(w, b, abs(g), beta, m, v, eps),
    "the mean is taken off before the scale: it is added here": lambda w, b, g, beta, m, v, eps: folded(
        w, b, g, beta, -m, v, eps
    ),
    "the convolution's own bias goes through the batch-norm as well: (bias − mean) · scale + beta": (
        lambda w, b, g, beta, m, v, eps: folded(w, None, g, beta, m, v, eps)
    ),
}


def check(fold_conv_bn):
    random, seed = seeded()
    slips = [Slips({hint: lambda *a, slip=slip, i=i: slip(*a)[i] for hint, slip in SLIPS.items()}) for i in (0, 1)]

    def positive(*shape):
        return random.uniform(0.3, 3, shape)

    def compare(weight, bias, norm, hints, case):
        gamma, beta, mean, var, eps = norm
        arguments = weight, bias, gamma, beta, mean, var, eps
        exact = [a.astype(np.float64) if isinstance(a, np.ndarray) else a for a in arguments]
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        got = fold_conv_bn(*arguments)
        unchanged = all(np.array_equal(a, b) for a, b in zip(arguments, before, strict=True))
        require(unchanged, what="fold_conv_bn changes its arguments", hint="`*=` and `-=` write into the array")
        want = folded(*exact)
        is_pair = isinstance(got, tuple) and len(got) == 2
        if not is_pair:
            expect(got, want, what="fold_conv_bn(…)", hint="give back (weight', bias')")
        rtol = 1e-5 if weight.dtype == np.float32 else 1e-9
        for name, one, other, hint, known in zip(("weight'", "bias'"), got, want, hints, slips, strict=True):
            hint = known.hint(one, exact, hint)
            expect(one, other, what=f"{name}, tried with {case} ({seed})", hint=hint, rtol=rtol)

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

    hint = "weight · scale per output channel, (bias − mean) · scale + beta; scale = gamma / √(var + eps)"
    for shape in ((1, 1, 1, 1), (24, 8, 1, 1), (6, 2, 5, 1), (300, 1, 3, 3), (7, 300, 1, 2)):
        for dtype in (np.float32, np.float64):
            n = shape[0]
            own = None if random.random() < 0.5 else random.normal(size=n) * 1e3
            arrays = (
                random.normal(size=shape) * 10.0 ** random.integers(-3, 7),
                *random.normal(size=(3, n)) * 10.0 ** random.integers(-6, 6, (3, 1)),
            )
            weight, gamma, beta, mean = (array.astype(dtype) for array in arrays)
            var = (positive(n) * 10.0 ** random.integers(-12, 6, n)).astype(dtype)
            var[-1] = 0  # a channel that never changed
            own = own if own is None else own.astype(dtype)
            norm = (gamma, beta, mean, var, float(10.0 ** random.integers(-6, 1)))
            compare(weight, own, norm, (hint, hint), f"a {weight.dtype} weight {shape}")
