def wait_goes_on(count, events, parity):
    """Whether bar.wait(parity) goes on at once after these events.

    count: arrivals per phase. events: ("arrive", 0) is an arrival; ("expect", n) is one, too,
    and the phase also needs n more bytes; ("come", n): a copy has brought n bytes.
    """
    # BEGIN SOLUTION
    # write: the phase in progress after all events, and the answer
    phase, missing, byte_count = 0, count, 0
    for name, n in events:
        if name == "come":
            byte_count -= n
        else:
            missing -= 1
        if name == "expect":
            byte_count += n
        if missing == 0 and byte_count == 0:
            phase += 1
            missing = count
    return phase % 2 != parity
    # END SOLUTION
