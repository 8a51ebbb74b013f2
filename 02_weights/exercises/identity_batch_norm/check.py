import numpy as np

from common.check import expect, require


def check(identity_batch_norm):
    random = np.random.default_rng()

    def compare(mean, var, eps, hints, case):
        got = identity_batch_norm(mean, var, eps)
        want = (np.sqrt(var + eps), mean)
        if not isinstance(got, tuple) or len(got) != 2:
            expect(got, want, what="identity_batch_norm(…)", hint="give back (gamma, beta)")
        for name, one, other, hint in zip(("gamma", "beta"), got, want, hints, strict=True):
            expect(one, other, what=f"{name} with {case}", hint=hint, rtol=1e-9)
        gamma, beta = got
        y = random.normal(size=(4, len(mean))) * 3
        back = (y - mean) / np.sqrt(var + eps) * gamma + beta
        require(bool(np.allclose(back, y)), what="the batch-norm changes its input", hint="try it with eps 0")

    mean, var = random.normal(size=6) * 2 + 1, random.uniform(0.1, 9, 6)
    gamma_hint = "the input is divided by √(var + eps): what has to be multiplied with to undo that?"
    compare(np.zeros(6), var, 0.0, (gamma_hint, "with mean 0 nothing is taken off"), "mean 0")
    beta_hint = "the mean was taken off: beta has to put it back, after the scale"
    compare(mean, np.ones(6), 0.0, ("with var 1 and eps 0 nothing is divided", beta_hint), "var 1")
    compare(mean, var, 0.5, ("eps is part of what the input is divided by", beta_hint), "a large eps")
    compare(mean, var * 1e-6, 1e-5, ("eps is part of what the input is divided by", beta_hint), "small var")
