def copies_of_a_placement(steps, sizes, on_gpu):
    """(copies, bytes): how many tensors one inference copies between CPU and GPU, and how many
    bytes that is.

    steps: (reads, writes) of each step in the order in which they run: the names of the
    tensors that it reads, and of the one that it writes. sizes: {name: bytes}. on_gpu: for
    each step whether it runs on the GPU; else it runs on the CPU. A step needs what it reads
    on its own side. The tensor "input" is on the CPU at the beginning; what the last step
    writes has to be there at the end. A tensor that has been copied is on both sides.
    """
    # BEGIN SOLUTION
    # write: the number of copies and their bytes
    here, there = {"input"}, set()
    copied = []
    for (reads, writes), gpu in zip(steps, on_gpu, strict=True):
        side = there if gpu else here
        for name in reads:
            if name not in side:
                copied.append(name)
                side.add(name)
        side.add(writes)
    result = steps[-1][1]
    if result not in here:
        copied.append(result)
    return len(copied), sum(sizes[name] for name in copied)
    # END SOLUTION
