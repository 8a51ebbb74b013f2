def floor_and_bound(nbytes, flops, bytes_per_s, flops_per_s, launch_us):
    """(µs, what binds): the least time of one step as a kernel of its own, and which of three
    things it is.

    A step moves nbytes and computes flops, both at the same time, on a card that does
    bytes_per_s and flops_per_s (numbers a second). No kernel in a row of kernels takes less
    than launch_us. What binds: "memory", "arithmetic" or "launch".
    """
    # BEGIN SOLUTION
    # write: the least time and what binds it
    times = {
        "memory": nbytes / bytes_per_s * 1e6,
        "arithmetic": flops / flops_per_s * 1e6,
        "launch": launch_us,
    }
    bound = max(times, key=times.get)
    return times[bound], bound
    # END SOLUTION
