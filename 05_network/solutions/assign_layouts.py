def assign_layouts(steps, changes):
    """The layout of each step of a chain, so that all times together are as short as possible.

    steps: for each step {layout: µs}, of the layouts in which a kernel computes it. changes:
    the µs that it takes to change the layout of each tensor: of the network's input, which
    step 0 reads, of what step 0 writes, and so on, of the network's output last. The input is
    in "NCHW", and the output has to be. A step reads and writes tensors in its own layout.
    """
    # BEGIN SOLUTION
    # write: a list with one layout per step
    best = {"NCHW": (0.0, [])}  # layout of the tensor so far → (µs, layouts of the steps)
    for step, change in zip([*steps, {"NCHW": 0.0}], changes, strict=True):
        best = {
            layout: min(
                (spent + (other != layout) * change + us, [*path, layout])
                for other, (spent, path) in best.items()
            )
            for layout, us in step.items()
        }
    _, path = best["NCHW"]
    return path[:-1]
    # END SOLUTION
