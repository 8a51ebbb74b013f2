# expect: only the last digits differ
def floor_and_bound(nbytes, flops, bytes_per_s, flops_per_s, launch_us):
    memory, arithmetic = nbytes / bytes_per_s * 1e6, flops / flops_per_s * 1e6
    times = [(float(f"{memory:.7g}"), "memory"), (float(f"{arithmetic:.7g}"), "arithmetic"), (launch_us, "launch")]
    return max(times)
