"""Optimizations of a complete network: fused blocks, a persistent kernel, sparse convolutions (chapter 06).

What is where:

    generate            blocks, tiles, and the source of a kernel for a block and a tile, with every size a constant
    fused/              an inverted-residual block on one multiprocessor, in CUDA C++: block.h, warpgroups.h with
                        Hopper's wgmma, alone.h for single warps, alone_pairs.h the same for floats; blocks.py launches
                        it. The ladder in common/kernels/inverted_residual leads to block.h in eight steps
    fragments           weights in the order in which the lanes of single warps read them
    split_weights       weights as pairs of halves, for a tile's arithmetic "halves"
    blocks_int8         the block in int8: inverted_residual_int8.cu, sliding_int8.cu, alone_int8.cu, stem_int8.cu,
                        warpgroups_int8.cu, bands_int8.cu and their launcher
    stage_int8          consecutive blocks in int8 as one kernel for few images, stage_int8.cu and its launcher
    head_int8           the end of a network in int8: head_int8.cu and the launchers
    few_rows            the linear layer of few images on tensor cores, few_rows.cu
    tiles_int8          the tile of a block in int8, as tiles; fusions_int8: what runs as one kernel in int8
    head.h              the head's 1×1 convolution with its pool, a linear layer of few rows; head.py launches them
    persistent          a network as one cooperative kernel
    cost                the predicted time of a tile, from counted instructions and bytes; candidates ranked by it
    tiles               the tile of a block: found by a search, shipped in tiles.json, or chosen by a rule
    search              times the best-ranked candidates on the card
    features            the features of the card that compositions use
    fusions             the patterns of layers that these kernels run, registered with common.network
    compositions        "latency" and "throughput": the fusions of a network and how its kernels are launched
    sparse              a convolution that skips zeros of its input; sparse_activations, sparse_layers and
                        sparse_choice: how many zeros there are, the shapes, and where skipping them pays
"""
