def place_in_an_arena(lifetimes, alignment=256):
    def end_of(name):
        end = offsets[name] + lifetimes[name][0]
        return (end + alignment - 1) // alignment * alignment

    offsets = {}
    for name, (size, first, last) in sorted(lifetimes.items(), key=lambda item: item[1], reverse=True):
        alive = [o for o in offsets if not (lifetimes[o][2] < first or last < lifetimes[o][1])]
        for place in sorted({0, *map(end_of, alive)}):
            if all(place + size <= offsets[o] or offsets[o] + lifetimes[o][0] <= place for o in alive):
                offsets[name] = place
                break
    return offsets
