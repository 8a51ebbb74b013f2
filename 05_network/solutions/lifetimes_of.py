def lifetimes_of(steps, input, output):
    """How long each tensor must be in memory: {tensor: (first, last)}, numbers of steps, both
    included.

    steps: tuples (reads, writes) of tuples of names, in the order in which they run; the first
    is step 0. A tensor must be there from the step that writes it to the last one that reads
    it; if nobody reads it, at the step that writes it. The network runs again and again, and
    its caller looks at the ends: the input lives from step 0 to the end, the output from the
    step that writes it to the end. The end is len(steps), after the last step.
    """
    # BEGIN SOLUTION
    # write: the first and the last step of each tensor
    end = len(steps)
    lives = {input: (0, end)}
    for i, (reads, writes) in enumerate(steps):
        for name in reads:
            first, last = lives[name]
            lives[name] = first, max(last, i)
        for name in writes:
            lives[name] = i, i
    lives[output] = lives[output][0], end
    return lives
    # END SOLUTION
