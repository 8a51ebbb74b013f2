# expect: never there at the same step may lie at the same place
def place_in_an_arena(lifetimes, alignment=256):
    """Where each tensor lies in one piece of memory: {tensor: offset in bytes}.

    lifetimes: {tensor: (size, first, last)}: bytes, and the first and last step at which it must be there, both
    included. Tensors that must be there at the same step must not overlap. Offsets are multiples of alignment.
    The memory ends with the last byte of the tensor that reaches furthest; it should be small.
    """
    offsets = {}
    for name in sorted(lifetimes, key=lambda name: -lifetimes[name][0]):
        size, _, _ = lifetimes[name]
        meets = list(offsets)
        offset = 0
        for other in sorted(meets, key=offsets.get):
            if offset + size <= offsets[other]:
                break  # it fits into the gap below
            end = offsets[other] + lifetimes[other][0]
            offset = max(offset, -(-end // alignment) * alignment)
        offsets[name] = offset
    return offsets
