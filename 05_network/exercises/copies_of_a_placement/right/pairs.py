def copies_of_a_placement(steps, sizes, on_gpu):
    there = {("input", False)}
    copies = []

    def need(name, gpu):
        if (name, gpu) not in there:
            there.add((name, gpu))
            copies.append(sizes[name])

    for (reads, writes), gpu in zip(steps, on_gpu, strict=True):
        for name in reads:
            need(name, bool(gpu))
        there.add((writes, bool(gpu)))
    need(steps[-1][1], False)
    return len(copies), sum(copies)
