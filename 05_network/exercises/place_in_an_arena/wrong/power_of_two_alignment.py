# expect: round up to the next multiple of alignment
def place_in_an_arena(lifetimes, alignment=256):
    offsets = {}
    for name in sorted(lifetimes, key=lambda name: -lifetimes[name][0]):
        size, first, last = lifetimes[name]
        meets = [other for other in offsets if lifetimes[other][1] <= last and first <= lifetimes[other][2]]
        offset = 0
        for other in sorted(meets, key=offsets.get):
            if offset + size <= offsets[other]:
                break
            end = offsets[other] + lifetimes[other][0]
            offset = max(offset, (end + alignment - 1) & ~(alignment - 1))
        offsets[name] = offset
    return offsets
