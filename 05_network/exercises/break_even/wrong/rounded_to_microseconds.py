# expect: break_even(
def break_even(cpu_ms, gpu_ms, bytes_in, bytes_out, latency_us, gb_per_s):
    copies_us = 2 * latency_us + (bytes_in + bytes_out) / (gb_per_s * 1e3)
    return round(cpu_ms - gpu_ms - copies_us / 1e3, 6)
