import numpy as np


def identity_batch_norm(mean, var, eps):
    """(gamma, beta) with which a batch-norm gives back its input unchanged.

    mean, var: (channels,), the running statistics, which stay as they are. eps: a number.
    """
    # BEGIN SOLUTION
    # write: the pair (gamma, beta)
    return np.sqrt(var + eps), mean.copy()
    # END SOLUTION
