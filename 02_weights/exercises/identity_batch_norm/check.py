import numpy as np

from common.check import expect
from common.check.trials import Slips, seeded

VIEWS_ALLOWED = ["identity_batch_norm"]  # beta may be `mean` itself

GAMMA_SLIPS = {
    "var is the square of the standard deviation: take the root": lambda mean, var, eps: var + eps,
    "the input is divided by √(var + eps): multiply with it, do not divide once more": lambda mean, var, eps: (
        1 / np.sqrt(var + eps)
    ),
    "gamma 1 leaves the input divided by √(var + eps)": lambda mean, var, eps: np.ones_like(var),
    "eps is part of what the input is divided by": lambda mean, var, eps: np.sqrt(var),
    "eps is added to var, under the root": lambda mean, var, eps: np.sqrt(var) + eps,
}
BETA_SLIPS = {
    "the mean was taken off: beta has to put it back, so it is not 0": lambda mean, var, eps: np.zeros_like(mean),
    "the mean was taken off: beta has to put it back, so it is not −mean": lambda mean, var, eps: -mean,
    "beta is added after the scale: it has to put back the mean itself, not a part of it": lambda mean, var, eps: (
        mean / np.sqrt(var + eps)
    ),
    "beta is added after the scale: it has to put back the mean itself, not a multiple": lambda mean, var, eps: (
        mean * np.sqrt(var + eps)
    ),
}


def check(identity_batch_norm):
    random, seed = seeded()
    known = Slips(GAMMA_SLIPS), Slips(BETA_SLIPS)

    def compare(mean, var, eps, hints, case):
        got = identity_batch_norm(mean.copy(), var.copy(), eps)
        exact = mean.astype(np.float64), var.astype(np.float64), eps
        want = (np.sqrt(exact[1] + eps), exact[0])
        what = f"with {case} ({seed})"
        if not isinstance(got, tuple) or len(got) != 2:
            expect(got, want, what=f"identity_batch_norm {what}", hint="give back (gamma, beta)")
        rtol = 1e-9 if mean.dtype == np.float64 else 1e-5
        for name, one, other, slips, hint in zip(("gamma", "beta"), got, want, known, hints, strict=True):
            expect(one, other, what=f"{name} {what}", hint=slips.hint(one, exact, hint), rtol=rtol)

    mean, var = random.normal(size=6) * 2 + 1, random.uniform(0.1, 9, 6)
    gamma_hint = "the input is divided by √(var + eps): what has to be multiplied with to undo that?"
    compare(np.zeros(6), var, 0.0, (gamma_hint, "with mean 0 nothing is taken off: beta is 0"), "mean 0")
    beta_hint = "the mean was taken off: beta has to put it back, after the scale"
    compare(mean, np.ones(6), 0.0, ("with var 1 and eps 0 nothing is divided: gamma is 1", beta_hint), "var 1")
    compare(mean, var, 0.5, ("eps is part of what the input is divided by", beta_hint), "a large eps")
    compare(mean, var * 1e-6, 1e-5, ("eps is part of what the input is divided by", beta_hint), "small var")
    hints = ("gamma undoes the division by √(var + eps)", "beta undoes the subtraction of the mean")
    for channels in (1, 2, 1280):
        for dtype in (np.float32, np.float64):
            mean = (random.normal(size=channels) * 10.0 ** random.integers(-9, 9)).astype(dtype)
            var = (random.uniform(0, 9, channels) * 10.0 ** random.integers(-9, 9)).astype(dtype)
            var[0] = 0  # a channel that never changed
            eps = float(10.0 ** random.integers(-8, 2))
            compare(mean, var, eps, hints, f"{channels} channels, {mean.dtype}, eps {eps:g}")
