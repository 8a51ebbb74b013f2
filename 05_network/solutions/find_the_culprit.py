def find_the_culprit(steps):
    """The index of the first step that is wrong itself, or None if there is none.

    steps: a list of (error so far, own error, allowed), a tuple a step, in the order in which
    they run. Error so far: of the step's output, with what the steps before it did. Own error:
    of its output when it is given exact inputs. Allowed: how large the own error may be, at
    most. An error may be NaN.
    """
    # BEGIN SOLUTION
    # write: the index of the first wrong step, or None
    for index, (_, own, allowed) in enumerate(steps):
        if not own <= allowed:
            return index
    return None
    # END SOLUTION
