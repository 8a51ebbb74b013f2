def blocks_per_sm(threads, registers, shared):
    """How many blocks an H200's SM holds at the same time.

    threads: per block, at most 1,024. registers: per thread, at least 1.
    shared: bytes of shared memory per block. 0 if not even one block fits.
    """
    # BEGIN SOLUTION
    # write: the smallest of the four limits
    warps = -(-threads // 32)
    each = -(-32 * registers // 256) * 256  # registers of a warp
    by_registers = 4 * (16_384 // each) // warps
    by_shared = 228 * 1024 // (-(-shared // 128) * 128 + 1024)
    return min(64 // warps, 32, by_registers, by_shared)
    # END SOLUTION
