def zeros_needed(dense, full, empty, box):
    """The share of zeros, 0.0 to 1.0, from which on a kernel that skips them is as fast as a
    dense one, or None.

    dense: µs of the dense kernel, whatever is zero. full: µs of the skipping one when nothing
    is zero. empty: µs when all is zero, reading x and testing it; below full.
    Between them its time falls with the share of boxes it skips, in a straight line. It skips
    a box of `box` numbers only if all of them are zero; each number is zero by itself,
    whatever its neighbours are. 0.0: skipping is never slower. None: it always is.
    """
    # BEGIN SOLUTION
    # write: the share of zeros at break-even, or None
    if full <= dense:
        return 0.0
    if empty > dense:
        return None
    boxes = (full - dense) / (full - empty)
    return boxes ** (1 / box)
    # END SOLUTION
