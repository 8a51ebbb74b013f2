def break_even(cpu_ms, gpu_ms, bytes_in, bytes_out, latency_us, gb_per_s):
    def copy(size):
        return latency_us * 1e-6 + size / (gb_per_s * 1e9)

    return 1e3 * (cpu_ms / 1e3 - (copy(bytes_in) + gpu_ms / 1e3 + copy(bytes_out)))
