def copies_of_a_placement(steps, sizes, on_gpu):
    """(copies, bytes): how many tensors one inference copies between CPU and GPU, and how many bytes that is.

    steps: (reads, writes) of each step in the order in which they run: the names of the tensors that it reads, and of
    the one that it writes. sizes: {name: bytes}. on_gpu: for each step whether it runs on the GPU; else it runs on
    the CPU. A step needs what it reads on its own side. The tensor "input" is on the CPU at the beginning; what the
    last step writes has to be there at the end. A tensor that has been copied is on both sides.
    """
    ...  # your code
