def batch_starts(arrivals, window, most, busy):
    """[(start, pictures)] of each batch of a service with one worker.

    arrivals: when each picture arrives, ascending, in µs. The first picture of a batch opens a
    window of `window` µs when it arrives, also if the worker is busy, or if the batch before
    was full and left it over. The batch starts when the window ends, or as soon as `most`
    pictures wait; but not before the worker has finished the batch before. The batch takes the
    pictures that arrive before its start or at this moment, first come, first served, at most
    `most`. busy(n): µs for a batch of n pictures.
    """
    # BEGIN SOLUTION
    # write: when each batch starts, and which pictures it takes
    batches, first, free = [], 0, 0.0
    while first < len(arrivals):
        start = arrivals[first] + window
        if first + most <= len(arrivals):
            start = min(start, arrivals[first + most - 1])
        start = max(start, free)
        taken = sum(arrival <= start for arrival in arrivals[first : first + most])
        batches.append((start, taken))
        first, free = first + taken, start + busy(taken)
    return batches
    # END SOLUTION
