def idle_us(slices):
    """µs between the first start and the last end in which nothing ran.

    slices: tuples (start_us, us), at least one, in any order. Several may run at once.
    """
    # BEGIN SOLUTION
    # write: the sum of all gaps
    ordered = sorted(slices)
    idle, until = 0.0, ordered[0][0]
    for start, us in ordered:
        idle += max(0.0, start - until)
        until = max(until, start + us)
    return idle
    # END SOLUTION
