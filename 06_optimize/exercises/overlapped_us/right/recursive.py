def overlapped_us(kernels, boundary_us, handoff_us):
    def times(count):
        """When the body of kernel `count` begins and ends."""
        prologue_us, body_us, programmatic = kernels[count]
        if count == 0:
            return prologue_us, prologue_us + body_us
        before, done = times(count - 1)
        early = max(before + prologue_us, done + handoff_us)
        begin = early if programmatic else done + boundary_us + prologue_us
        return begin, begin + body_us

    return times(len(kernels) - 1)[1]
