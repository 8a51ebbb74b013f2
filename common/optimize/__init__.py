"""What makes the whole network fast (chapter 06).

What is where:

    generate            a block's shape, a tile, and the source of a kernel for both: every size a constant
    inverted_residual.h a whole inverted-residual block on one multiprocessor; blocks.py launches it
    head.h              the head's 1×1 convolution with its pool, a linear layer of few rows; head.py launches them
    persistent          the whole network as one cooperative kernel
    tune                what a tile costs, counted; the candidates, ranked by that
    search              the most promising ones timed on the card; the winner kept on disk, or shipped in tiles.json
    compositions        "latency" and "throughput": which blocks are one kernel, how kernels are launched
"""
