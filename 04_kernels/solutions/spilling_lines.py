def spilling_lines(lines):
    """Bytes of local memory that each source line stores and loads, the largest first.

    lines: source line -> {instruction class: how many}. Stores to local memory are the
    classes STL.32, STL.64, STL.128, loads from it LDL.32, …; the number is the width in
    bits. Returns a list of (line, bytes) of the lines that have any.
    """
    # BEGIN SOLUTION
    # write: the list, the line with the most bytes first
    found = []
    for line, kinds in lines.items():
        spilled = [kind for kind in kinds if kind.startswith(("LDL.", "STL."))]
        total = sum(kinds[kind] * int(kind[4:]) // 8 for kind in spilled)
        if total:
            found.append((line, total))
    return sorted(found, key=lambda pair: -pair[1])
    # END SOLUTION
