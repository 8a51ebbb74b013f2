import numpy as np


def identity_batch_norm(mean, var, eps):
    return (var + eps) ** 0.5, np.array(mean)
