def break_even(cpu_ms, gpu_ms, bytes_in, bytes_out, latency_us, gb_per_s):
    """How many ms an inference takes less if one step moves to the GPU, all others staying on
    the CPU; below 0: more.

    cpu_ms, gpu_ms: the step's time on either side, in milliseconds. bytes_in, bytes_out: what
    it reads, in one tensor, and what it writes. A copy takes latency_us microseconds, whatever
    its size, and then moves gb_per_s gigabytes (10⁹ bytes) per second, in either direction.
    """
    # BEGIN SOLUTION
    # write: the ms saved per inference
    copies_us = 2 * latency_us + (bytes_in + bytes_out) / (gb_per_s * 1e3)
    return cpu_ms - gpu_ms - copies_us / 1e3
    # END SOLUTION
