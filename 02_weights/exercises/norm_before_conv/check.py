import numpy as np

from common.check import expect
from common.check.trials import Slips, seeded


def folded(gamma, beta, mean, var, eps, weight, bias, how="", scale=None):
    scale = gamma / np.sqrt(var + eps) if scale is None else scale
    shift = beta - mean * scale
    own = 0 if bias is None else bias
    scaled = weight * scale[None, :, None, None]
    added = np.einsum("oikl,i->o", weight, shift)
    if how == "shift only":
        added = np.full(len(weight), shift.sum())
    if how == "scaled shift":
        added = np.einsum("oikl,i->o", scaled, shift)
    if how == "one position":
        added = np.einsum("oi,i->o", weight[:, :, weight.shape[2] // 2, weight.shape[3] // 2], shift)
    if how == "mean of positions":
        added = np.einsum("oi,i->o", weight.mean((2, 3)), shift)
    if how == "no own bias":
        own = 0
    if how == "no shift":
        added = np.zeros(len(weight))
    return scaled, own + added


SLIPS = {
    "eps is missing: it is added to var, under the root": lambda g, b, m, v, eps, w, own: folded(g, b, m, v, 0, w, own),
    "it is divided by the standard deviation, and var is its square": lambda g, b, m, v, eps, w, own: folded(
        g, b, m, v, eps, w, own, scale=g / (v + eps)
    ),
    "the shift passes through the convolution: each filter position multiplies it with its weight": lambda *a: folded(
        *a, "shift only"
    ),
    "the shift is multiplied with the weight as it was: the scale belongs to the input, and the shift comes after it": (
        lambda *a: folded(*a, "scaled shift")
    ),
    "every filter position reads a shifted number: sum over kH and kW, too": lambda *a: folded(*a, "one position"),
    "the filter positions are added up: a sum over kH and kW, not a mean": lambda *a: folded(*a, "mean of positions"),
    "the convolution's own bias stays": lambda *a: folded(*a, "no own bias"),
    "the batch-norm adds a constant to each input channel: it adds something to every output": lambda *a: folded(
        *a, "no shift"
    ),
}


def check(norm_before_conv):
    random, seed = seeded()
    slips = [Slips({hint: lambda *a, slip=slip, i=i: slip(*a)[i] for hint, slip in SLIPS.items()}) for i in (0, 1)]

    def positive(*shape):
        return random.uniform(0.3, 3, shape)

    def compare(norm, weight, bias, hints, case):
        arguments = (*norm, weight, bias)
        exact = [a.astype(np.float64) if isinstance(a, np.ndarray) else a for a in arguments]
        got, want = norm_before_conv(*[a.copy() if isinstance(a, np.ndarray) else a for a in arguments]), folded(*exact)
        if not (isinstance(got, tuple) and len(got) == 2):
            expect(got, want, what="norm_before_conv(…)", hint="give back (weight', bias')")
        rtol = 1e-5 if weight.dtype == np.float32 else 1e-9
        for name, one, other, hint, known in zip(("weight'", "bias'"), got, want, hints, slips, strict=True):
            hint = known.hint(one, exact, hint)
            expect(one, other, what=f"{name}, tried with {case} ({seed})", hint=hint, rtol=rtol)

    # as many channels in as out: a scale on the wrong dimension does not fail by its shape
    n = 4
    zero, one = np.zeros(n), np.ones(n)
    dense = random.normal(size=(n, n, 3, 3))
    hint = "the batch-norm's channels are the convolution's input channels: dimension 1 of the weight"
    compare(
        (positive(n) * 2, zero, zero, one, 0.0),
        dense,
        None,
        (hint, "without beta and mean there is no bias"),
        "gamma alone",
    )
    hint = "the scale is gamma / √(var + eps)"
    compare((one, zero, zero, positive(n) * 7, 0.1), dense, None, (hint, hint), "var and eps alone")
    hint = "beta is added to every number that the convolution reads: multiply it with the weights, and add up"
    compare((one, random.normal(size=n) + 2, zero, one, 0.0), dense, None, (hint, hint), "beta alone")
    hint = "the shift of an input channel is beta − mean · scale"
    compare((positive(n), random.normal(size=n), random.normal(size=n), one, 0.0), dense, None, (hint, hint), "a mean")
    hint = "the convolution's own bias is added after it, as before: neither scaled nor shifted"
    norm = (positive(n), random.normal(size=n), random.normal(size=n), positive(n), 0.01)
    compare(norm, dense, random.normal(size=n) * 3, (hint, hint), "a bias of its own")
    # 3 input channels and kW = 3: a scale without a reshape is broadcast along kW without an error
    norm = (-positive(3), random.normal(size=3), random.normal(size=3), positive(3), 1e-3)
    hint = "broadcast along dimension 1: shape (1, -1, 1, 1)"
    compare(norm, random.normal(size=(5, 3, 3, 3)), None, (hint, hint), "three channels")

    hint = "weight · scale per input channel, bias + the sum of weight · shift over all that an output reads"
    for shape in ((1, 1, 1, 1), (24, 8, 1, 1), (6, 12, 5, 1), (7, 30, 1, 2)):
        for dtype in (np.float32, np.float64):
            n = shape[1]
            gamma, beta, mean, var = (a.astype(dtype) for a in (positive(n), *random.normal(size=(2, n)), positive(n)))
            own = None if random.random() < 0.5 else random.normal(size=shape[0]).astype(dtype) * 10
            norm = (gamma, beta, mean, var, float(10.0 ** random.integers(-5, 0)))
            weight = random.uniform(0.1, 1, shape).astype(dtype)
            compare(norm, weight, own, (hint, hint), f"a {weight.dtype} weight {shape}")
