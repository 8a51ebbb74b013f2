# expect: take the root
def identity_batch_norm(mean, var, eps):
    """(gamma, beta) with which a batch-norm gives back its input unchanged.

    mean, var: (channels,), the running statistics, which stay as they are. eps: a number.
    """
    return (var + eps), mean.copy()
