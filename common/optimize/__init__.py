"""What makes the whole network fast (chapter 06).

What is where:

    generate            a block's shape, a tile, and the source of a kernel for both: every size a constant
    inverted_residual.h a whole inverted-residual block on one multiprocessor; blocks.py launches it
    head.h              the head's 1×1 convolution with its pool, a linear layer of few rows; head.py launches them
    persistent          the whole network as one cooperative kernel
    cost                what a tile costs, counted; the candidates, ranked by that
    tiles               which tile computes a block: what a search found, what tiles.json ships, or a rule
    search              the most promising candidates, timed on the card
    features            what the card has of what compositions use
    fusions             the patterns of layers that these run, registered with common.network
    compositions        "latency" and "throughput": which fusions a network has, how kernels are launched
"""
