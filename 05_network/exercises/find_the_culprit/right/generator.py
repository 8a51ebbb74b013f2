def find_the_culprit(steps):
    return next((i for i, step in enumerate(steps) if not step[1] <= step[2]), None)
