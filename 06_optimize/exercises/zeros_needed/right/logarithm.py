import math


def zeros_needed(dense, full, empty, box):
    if dense >= full:
        return 0.0
    if dense < empty:
        return None
    return math.exp(math.log((full - dense) / (full - empty)) / box)
