def sets_needed(bytes_of_one_set, l2_bytes):
    """How many sets of buffers to use in turn so that each has left the L2 cache before it is
    used again.

    Together they must be larger than twice the cache, and there are never fewer than 2: one
    set would not rotate.
    """
    # BEGIN SOLUTION
    # write: the number of sets
    return max(2, 2 * l2_bytes // bytes_of_one_set + 1)
    # END SOLUTION
