def find_the_culprit(steps):
    """The index of the first step that is wrong itself, or None if there is none.

    steps: a list of (error so far, own error, allowed), one tuple per step, in the order in
    which they run. allowed: the largest own error that is right. An error may be NaN.
    """
    # BEGIN SOLUTION
    # write: the index of the first wrong step, or None
    for index, (_, own, allowed) in enumerate(steps):
        if not own <= allowed:
            return index
    return None
    # END SOLUTION
