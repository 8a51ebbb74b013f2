def place_in_an_arena(lifetimes, alignment=256):
    """Where each tensor lies in one piece of memory: {tensor: offset in bytes}.

    lifetimes: {tensor: (size, first, last)}: bytes, and the first and last step at which it
    must be there, both included. Tensors that must be there at the same step must not overlap.
    Offsets are multiples of alignment. The memory ends with the last byte of the tensor that
    reaches furthest; it should be small.
    """
    # BEGIN SOLUTION
    # write: an offset for each tensor
    offsets = {}
    for name in sorted(lifetimes, key=lambda name: -lifetimes[name][0]):
        size, first, last = lifetimes[name]
        meets = [
            other
            for other in offsets
            if lifetimes[other][1] <= last and first <= lifetimes[other][2]
        ]
        offset = 0
        for other in sorted(meets, key=offsets.get):
            if offset + size <= offsets[other]:
                break  # it fits into the gap below
            end = offsets[other] + lifetimes[other][0]
            offset = max(offset, -(-end // alignment) * alignment)
        offsets[name] = offset
    return offsets
    # END SOLUTION
