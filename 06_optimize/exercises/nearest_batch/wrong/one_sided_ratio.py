# expect: the larger of the two numbers over the smaller, whichever
def nearest_batch(searched, batch):
    """The batch whose tile is taken for `batch`, or None if nothing was searched.

    searched: the batches that a search was made for, in any order. The nearest is the one with the smallest ratio, the
    larger of the two numbers over the smaller; of two that are equally near the larger.
    """
    return min(searched, key=lambda n: (n / batch, -n), default=None)
