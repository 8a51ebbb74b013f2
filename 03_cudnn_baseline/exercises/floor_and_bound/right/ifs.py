def floor_and_bound(nbytes, flops, bytes_per_s, flops_per_s, launch_us):
    memory = 1e6 * nbytes / bytes_per_s
    arithmetic = 1e6 * flops / flops_per_s
    if memory >= arithmetic and memory >= launch_us:
        return memory, "memory"
    if arithmetic >= launch_us:
        return arithmetic, "arithmetic"
    return launch_us, "launch"
