# expect: the index of the first step whose own error
def find_the_culprit(steps):
    for index, (_, own, allowed) in enumerate(steps):
        if not own <= allowed * (1 + 1e-9):
            return index
    return None
