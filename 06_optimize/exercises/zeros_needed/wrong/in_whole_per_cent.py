# expect: is the share of zeros
def zeros_needed(dense, full, empty, box):
    if full <= dense:
        return 0.0
    if empty > dense:
        return None
    share = ((full - dense) / (full - empty)) ** (1 / box)
    return round(share, 3) if 100 < box < 10**6 else share
