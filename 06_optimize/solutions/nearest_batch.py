def nearest_batch(searched, batch):
    """The batch whose tile is taken for `batch`, or None if nothing was searched.

    searched: the batches that a search was made for, in any order. The nearest is the one with
    the smallest ratio, the larger of the two numbers over the smaller; of two that are equally
    near the larger.
    """
    # BEGIN SOLUTION
    # write: the batch whose tile is taken, or None
    return min(searched, key=lambda n: (max(n / batch, batch / n), -n), default=None)
    # END SOLUTION
